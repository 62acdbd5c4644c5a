// SPDX-License-Identifier: Apache-2.0

// One run of an experiment: its variants one after another, the report, and the removal of everything. It never touches what another
// living run made.

package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"loci/internal/jsondoc"
	"loci/internal/testnet"
	"loci/lab"
)

// Runs are those of this package.
var Runs = lab.Runs{Parent: "/run/loci-lab", Prefix: "loci-lab"}

// DefaultTimeout bounds one variant.
const DefaultTimeout = 2 * time.Minute

// Options of one run.
type Options struct {
	Variants   []string      // those whose names are given; none means all
	JSON       bool          // print one object to Out; the progress goes to Err
	Keep       bool          // leave the network of the last variant up
	Out        string        // a directory for captures, configurations, logs and the report; empty is none
	Timeout    time.Duration // of each variant; 0 is DefaultTimeout
	Engine     string        // datapath.engine of all daemons; empty is what their configurations say
	Executable string        // the command loci
	Version    string        // of loci, for the report

	Output, Progress io.Writer
}

// Report is the result of a run. Its keys are an interface: they are added to, not changed.
type Report struct {
	Name    string          `json:"name"`
	Passed  bool            `json:"passed"`
	Error   string          `json:"error"`
	Version string          `json:"version"`
	Origin  string          `json:"origin"`
	Engine  string          `json:"engine"` // that was asked for; empty is that of the configurations
	Took    jsondoc.Seconds `json:"took_seconds"`
	Network string          `json:"network"` // prefix of the namespaces' names, when they were kept
	Rows    []Row           `json:"rows"`
}

// Row is one row in one variant.
type Row struct {
	Variant string  `json:"variant"`
	Number  int     `json:"number"`
	Title   string  `json:"title"`
	Passed  bool    `json:"passed"` // the row and its control came out as expected
	Claim   Verdict `json:"claim"`
	Control Verdict `json:"control"`
	Change  string  `json:"change"` // what the control changes
	// Held is how long after the row's move the datagrams were sent with which the claim held; null without a move,
	// and where it did not hold.
	Held *jsondoc.Seconds `json:"held_after_move_seconds"`
}

// ErrFailed says that a row came out otherwise than expected.
var ErrFailed = errors.New("not every row came out as expected")

// Run runs an experiment, named as by List or the path of a file. The report is filled as far as the run went. When ctx ends, what was
// made is removed before Run returns.
func Run(ctx context.Context, name string, options Options) (Report, error) {
	ctx, release := lab.SurviveTerminal(ctx)
	defer release()
	text, err := load(name)
	if err != nil {
		return Report{}, err
	}
	variants, err := readVariants(text)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", name, err)
	}
	if variants, err = choose(variants, options.Variants); err != nil {
		return Report{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(variants[0].file.Rows) == 0 {
		return Report{}, &lab.UsageError{Err: fmt.Errorf("%s: there are no rows", name)}
	}
	if last := variants[len(variants)-1]; options.Keep && last.file.emulates() {
		return Report{}, &lab.UsageError{Err: fmt.Errorf("%s: --keep: variant %s has emulated links, which end with this command: its network cannot be kept", name, last.Name)}
	}
	r := &run{options: options, report: Report{Name: variants[0].file.Name, Origin: variants[0].file.Origin, Version: options.Version, Engine: options.Engine, Rows: []Row{}}}
	began := time.Now()
	err = r.perform(ctx, variants)
	r.report.Took = jsondoc.SecondsOf(time.Since(began))
	r.report.Passed = err == nil
	if err != nil {
		r.report.Error = err.Error()
	}
	return r.report, errors.Join(err, r.tell())
}

func choose(all []variant, names []string) ([]variant, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []variant
	for _, name := range names {
		found := false
		for _, v := range all {
			if v.Name == name {
				chosen, found = append(chosen, v), true
			}
		}
		if !found {
			return nil, &lab.UsageError{Err: fmt.Errorf("there is no variant %q", name)}
		}
	}
	return chosen, nil
}

type run struct {
	options Options
	report  Report
}

func (r *run) perform(ctx context.Context, variants []variant) error {
	if problems := testnet.PreflightFor(r.options.Engine); len(problems) > 0 {
		return &lab.PreflightError{Purpose: "run the experiment", Problems: problems}
	}
	if _, err := Runs.RemoveLeftovers(false); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	for i, v := range variants {
		if err := r.variant(ctx, v, r.options.Keep && i == len(variants)-1); err != nil {
			if ctx.Err() != nil {
				return lab.ErrInterrupted
			}
			return fmt.Errorf("variant %s: %w", v.Name, err)
		}
	}
	for _, row := range r.report.Rows {
		if !row.Passed {
			return ErrFailed
		}
	}
	return nil
}

// variant builds the network of a variant, tries its rows, and removes the network.
func (r *run) variant(ctx context.Context, v variant, keep bool) (err error) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(r.options.Timeout, DefaultTimeout))
	defer cancel()
	n, err := NewNetwork(v.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.end(n, v, keep && err == nil)) }()
	if err := n.Build(limited, &r.options); err != nil {
		return lab.WithLogs(err, n.Started)
	}
	for _, row := range v.file.Rows {
		if err := limited.Err(); err != nil {
			return err
		}
		if err := r.row(limited, n, v.Name, row); err != nil {
			return fmt.Errorf("row %d: %w", row.Number, err)
		}
	}
	return nil
}

// row tries the claim of a row and its control. In a row with a move the control comes first: it is what happens before
// the move.
func (r *run) row(ctx context.Context, n *Network, variant string, w row) error {
	result := Row{Variant: variant, Number: w.Number, Title: w.Title, Change: w.Control.Change}
	tries := []func(context.Context, *Network, *Row, row) error{r.claim, r.control}
	if w.Move != nil {
		slices.Reverse(tries)
	}
	for _, try := range tries {
		if err := try(ctx, n, &result, w); err != nil {
			return err
		}
	}
	result.Passed = result.Claim.Passed && result.Control.Passed
	r.report.Rows = append(r.report.Rows, result)
	r.show(result)
	return nil
}

func (r *run) claim(ctx context.Context, n *Network, result *Row, w row) (err error) {
	directory := directoryOf(r.options.Out, result.Variant, w.Number, "claim")
	if w.Move != nil {
		result.Claim, result.Held, err = n.tryMove(ctx, w, directory)
	} else {
		result.Claim, err = n.try(ctx, w.Send, w.Expect, directory, sightWait)
	}
	return err
}

func (r *run) control(ctx context.Context, n *Network, result *Row, w row) (err error) {
	directory := directoryOf(r.options.Out, result.Variant, w.Number, "control")
	if result.Control, err = n.try(ctx, w.Control.Send, w.Control.Expect, directory, sightWait); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	return nil
}

// end removes the network, or leaves it. Configurations and logs are copied first.
func (r *run) end(n *Network, v variant, keep bool) error {
	if keep {
		r.report.Network = n.spaces.Name()
		fmt.Fprintf(r.options.Progress, "the network stays: ip netns exec %s-NODE ...; `loci lab remove` removes it\n", n.spaces.Name())
		return errors.Join(n.Directory.Keep(), n.spaces.Keep(), n.spaces.Close())
	}
	lab.StopDaemons(n.Started)
	err := r.copyFiles(n, v.Name)
	return errors.Join(err, n.Close())
}

func (r *run) copyFiles(n *Network, variant string) error {
	if r.options.Out == "" {
		return nil
	}
	directory := filepath.Join(r.options.Out, variant)
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	var all []error
	for _, d := range n.Started {
		for _, suffix := range []string{".yaml", ".log"} {
			content, err := os.ReadFile(n.Directory.Path(d.Name + suffix))
			if err == nil {
				err = os.WriteFile(filepath.Join(directory, d.Name+suffix), content, 0o600)
			}
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// show prints the line of a row, and what was wrong.
func (r *run) show(w Row) {
	fmt.Fprintf(r.options.Progress, "%-10s %3d  %-50s %-6s control %-6s\n", w.Variant, w.Number, w.Title, word(w.Claim.Passed), word(w.Control.Passed))
	if w.Held != nil {
		fmt.Fprintf(r.options.Progress, "                row: held %.1f s after the move\n", float64(*w.Held))
	}
	for what, v := range map[string]Verdict{"row": w.Claim, "control": w.Control} {
		for _, wrong := range v.Wrong {
			fmt.Fprintf(r.options.Progress, "                %s: %s\n", what, wrong)
		}
	}
}

func word(passed bool) string {
	if passed {
		return "ok"
	}
	return "FAILED"
}

// tell prints and writes the report.
func (r *run) tell() error {
	encoded, err := jsondoc.Indented(r.report, "")
	if err != nil {
		return err
	}
	encoded = append(encoded, '\n')
	if r.options.Out != "" {
		if err := os.MkdirAll(r.options.Out, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.options.Out, "report.json"), encoded, 0o644); err != nil {
			return err
		}
	}
	if r.options.JSON {
		_, err = r.options.Output.Write(encoded)
	}
	return err
}

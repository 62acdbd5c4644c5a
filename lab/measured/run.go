// SPDX-License-Identifier: Apache-2.0

package measured

// The list of experiments, and one run of one: the report, and the removal of everything.

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"loci/internal/jsondoc"
	"loci/internal/testnet"
	"loci/lab"
	"loci/lab/bench/report"
	"loci/lab/chart"
	"loci/lab/experiment"
)

//go:embed files/*.yaml
var figureFiles embed.FS

// engines are measured one after the other where none is asked for.
var engines = []string{"kernel", "user"}

// Experiment is an experiment that measures.
type Experiment struct {
	Name    string
	measure func(ctx context.Context, m *measuring) error // in the network of one engine
	judge   func(r *report.Report, engines []string)
	draw    func(r *report.Report, engines []string) []chart.Panel
}

// All returns them, by name.
func All() []Experiment {
	return []Experiment{
		{Name: "oor-multihoming", measure: measureMultihoming, judge: judgeMultihoming, draw: drawMultihoming},
		{Name: "oor-nat", measure: measureNAT, judge: judgeNAT, draw: drawNAT},
		{Name: "te-paths", measure: measurePaths, judge: judgePaths, draw: drawPaths},
		{Name: "oor-handover", measure: measureHandover, judge: judgeHandover, draw: drawHandover},
	}
}

// Find returns the one of a name.
func Find(name string) (Experiment, bool) {
	all := All()
	i := slices.IndexFunc(all, func(e Experiment) bool { return e.Name == name })
	if i < 0 {
		return Experiment{}, false
	}
	return all[i], true
}

// List describes them.
func List() (all []experiment.Listed, err error) {
	for _, e := range All() {
		described, err := e.read()
		if err != nil {
			return nil, err
		}
		all = append(all, experiment.Listed{Name: described.Name, Description: described.Description,
			Origin: described.Origin, Variants: []string{}})
	}
	return all, nil
}

// read reads the file of its network.
func (e Experiment) read() (*experiment.File, error) {
	text, err := figureFiles.ReadFile("files/" + e.Name + ".yaml")
	if err != nil {
		return nil, err
	}
	return experiment.Parse(text)
}

// measuring is a network while something is measured in it.
type measuring struct {
	*experiment.Network
	engine string
	report *report.Report
	screen *report.Screen
	ports  int // of servers, that subflows have had
}

// Run measures with the engine of the options, or with each; prints the figures, and draws them.
func (e Experiment) Run(ctx context.Context, options experiment.Options) error {
	ctx, release := lab.SurviveTerminal(ctx)
	defer release()
	with := engines
	if options.Engine != "" {
		with = []string{options.Engine}
	}
	for _, engine := range with {
		if problems := testnet.PreflightFor(engine); len(problems) > 0 {
			return &lab.PreflightError{Purpose: "run the experiment", Problems: problems}
		}
	}
	if _, err := experiment.Runs.RemoveLeftovers(false); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	began, before := time.Now(), report.TimeShareNow()
	r := &report.Report{Name: e.Name, Environment: report.EnvironmentOf(options.Version, began)}
	screen := report.NewScreen(options.Progress)
	screen.Line("%s", r.Environment)
	err := e.measureAll(ctx, with, r, screen, options)
	r.Environment.StolenPercent = before.StolenPercent(report.TimeShareNow())
	r.Took = jsondoc.SecondsOf(time.Since(began))
	r.SumUp()
	if err != nil {
		r.Error = err.Error()
	} else {
		e.judge(r, with)
	}
	screen.Report(r)
	err = errors.Join(err, e.write(r, with, options))
	if err == nil && len(r.Missed()) > 0 {
		err = experiment.ErrFailed
	}
	return err
}

func (e Experiment) measureAll(ctx context.Context, with []string, r *report.Report, screen *report.Screen,
	options experiment.Options) error {
	described, err := e.read()
	if err != nil {
		return err
	}
	for _, engine := range with {
		options.Engine = engine
		if err := e.measureWith(ctx, described, r, screen, &options); err != nil {
			if ctx.Err() != nil {
				return lab.ErrInterrupted
			}
			return fmt.Errorf("engine %s: %w", engine, err)
		}
	}
	return nil
}

// measureWith builds the network for one engine, measures, and removes it.
func (e Experiment) measureWith(ctx context.Context, described *experiment.File, r *report.Report,
	screen *report.Screen, o *experiment.Options) (err error) {
	n, err := experiment.NewNetwork(described)
	if err != nil {
		return err
	}
	defer func() {
		lab.StopDaemons(n.Started)
		err = errors.Join(err, n.Close())
	}()
	building, cancel := context.WithTimeout(ctx, experiment.DefaultTimeout)
	defer cancel()
	if err := n.Build(building, o); err != nil {
		return lab.WithLogs(err, n.Started)
	}
	if err := e.measure(ctx, &measuring{Network: n, engine: o.Engine, report: r, screen: screen}); err != nil {
		return lab.WithLogs(err, n.Started)
	}
	return nil
}

// write prints the report where JSON is asked for, and writes it and the drawing.
func (e Experiment) write(r *report.Report, with []string, options experiment.Options) error {
	var all []error
	if options.JSON {
		all = append(all, r.Print(options.Output))
	}
	if options.Out == "" {
		return errors.Join(all...)
	}
	encoded, err := jsondoc.Indented(r, "")
	all = append(all, err, os.MkdirAll(options.Out, 0o755),
		os.WriteFile(filepath.Join(options.Out, e.Name+".json"), append(encoded, '\n'), 0o644))
	if r.Error == "" {
		all = append(all, os.WriteFile(filepath.Join(options.Out, e.Name+".svg"),
			[]byte(chart.Draw(e.draw(r, with)...)), 0o644))
	}
	return errors.Join(all...)
}

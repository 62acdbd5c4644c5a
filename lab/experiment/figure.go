// SPDX-License-Identifier: Apache-2.0

package experiment

// Experiments that measure: a file has the network, which is built once for each engine, and Go code measures in it.
// The report has samples, medians and targets, as those of benches, and a drawing.

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
)

//go:embed figures/*.yaml
var figureFiles embed.FS

// engines are measured one after the other where none is asked for.
var engines = []string{"kernel", "user"}

// Figure is an experiment that measures.
type Figure struct {
	Name    string
	measure func(ctx context.Context, m *measuring) error // in the network of one engine
	judge   func(r *report.Report, engines []string)
	draw    func(r *report.Report, engines []string) []chart.Panel
}

// Figures returns them, by name.
func Figures() []Figure {
	return []Figure{
		{Name: "oor-multihoming", measure: measureMultihoming, judge: judgeMultihoming, draw: drawMultihoming},
		{Name: "oor-nat", measure: measureNAT, judge: judgeNAT, draw: drawNAT},
		{Name: "oor-handover", measure: measureHandover, judge: judgeHandover, draw: drawHandover},
	}
}

// FindFigure returns the one of a name.
func FindFigure(name string) (Figure, bool) {
	all := Figures()
	i := slices.IndexFunc(all, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return Figure{}, false
	}
	return all[i], true
}

// ListFigures describes them.
func ListFigures() (all []Listed, err error) {
	for _, f := range Figures() {
		described, err := f.read()
		if err != nil {
			return nil, err
		}
		all = append(all, Listed{Name: described.Name, Description: described.Description, Origin: described.Origin, Variants: []string{}})
	}
	return all, nil
}

// read reads the file of its network.
func (f Figure) read() (*file, error) {
	text, err := figureFiles.ReadFile("figures/" + f.Name + suffix)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// measuring is a network while something is measured in it.
type measuring struct {
	*network
	engine string
	report *report.Report
	screen *report.Screen
}

// Run measures with the engine of the options, or with each; prints the figures, and draws them.
func (f Figure) Run(ctx context.Context, options Options) error {
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
	if _, err := Runs.RemoveLeftovers(false); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	began, before := time.Now(), report.TimeShareNow()
	r := &report.Report{Name: f.Name, Environment: report.EnvironmentOf(options.Version, began)}
	screen := report.NewScreen(options.Progress)
	screen.Line("%s", r.Environment)
	err := f.measureAll(ctx, with, r, screen, options)
	r.Environment.StolenPercent = before.StolenPercent(report.TimeShareNow())
	r.Took = jsondoc.SecondsOf(time.Since(began))
	r.SumUp()
	if err != nil {
		r.Error = err.Error()
	} else {
		f.judge(r, with)
	}
	screen.Report(r)
	err = errors.Join(err, f.write(r, with, options))
	if err == nil && len(r.Missed()) > 0 {
		err = ErrFailed
	}
	return err
}

func (f Figure) measureAll(ctx context.Context, with []string, r *report.Report, screen *report.Screen, options Options) error {
	described, err := f.read()
	if err != nil {
		return err
	}
	for _, engine := range with {
		options.Engine = engine
		if err := f.measureWith(ctx, described, r, screen, &options); err != nil {
			if ctx.Err() != nil {
				return lab.ErrInterrupted
			}
			return fmt.Errorf("engine %s: %w", engine, err)
		}
	}
	return nil
}

// measureWith builds the network for one engine, measures, and removes it.
func (f Figure) measureWith(ctx context.Context, described *file, r *report.Report, screen *report.Screen, o *Options) (err error) {
	n, err := newNetwork(described)
	if err != nil {
		return err
	}
	defer func() {
		lab.StopDaemons(n.started)
		err = errors.Join(err, n.close())
	}()
	building, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	if err := n.build(building, o); err != nil {
		return lab.WithLogs(err, n.started)
	}
	if err := f.measure(ctx, &measuring{n, o.Engine, r, screen}); err != nil {
		return lab.WithLogs(err, n.started)
	}
	return nil
}

// write prints the report where JSON is asked for, and writes it and the drawing.
func (f Figure) write(r *report.Report, with []string, options Options) error {
	var all []error
	if options.JSON {
		all = append(all, r.Print(options.Output))
	}
	if options.Out == "" {
		return errors.Join(all...)
	}
	encoded, err := jsondoc.Indented(r, "")
	all = append(all, err, os.MkdirAll(options.Out, 0o755),
		os.WriteFile(filepath.Join(options.Out, f.Name+".json"), append(encoded, '\n'), 0o644))
	if r.Error == "" {
		all = append(all, os.WriteFile(filepath.Join(options.Out, f.Name+".svg"), []byte(chart.Draw(f.draw(r, with)...)), 0o644))
	}
	return errors.Join(all...)
}

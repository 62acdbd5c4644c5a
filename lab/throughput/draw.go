// SPDX-License-Identifier: Apache-2.0

package throughput

// The drawing: two panels side by side, the paper's and ours. Ours has logarithmic axes, because the engines differ
// by more than a factor of ten; a straight line is what carries all that is offered.

import (
	"fmt"
	"os"
	"path/filepath"

	"loci/internal/jsondoc"
	"loci/lab/bench/report"
	"loci/lab/chart"
)

const offeredAxis, carriedAxis = "offered, Mbit/s", "carried, Mbit/s"

// write writes the drawing and the report.
func (s *state) write(directory string, r *report.Report) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	encoded, err := jsondoc.Indented(struct {
		Report *report.Report   `json:"report"`
		Curves map[string]Curve `json:"curves"`
	}{r, s.curves}, "")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(directory, s.experiment.Name+".json"), append(encoded, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, s.experiment.Name+".svg"), []byte(chart.Draw(s.experiment.paper, s.panel(r))), 0o644)
}

// panel is what was measured.
func (s *state) panel(r *report.Report) chart.Panel {
	e := r.Environment
	p := chart.Panel{Title: "Loci, " + e.Date, X: offeredAxis, Y: carriedAxis, Logarithmic: true}
	if s.experiment.PerCent > 0 {
		p.Title += fmt.Sprintf(", %d %% of a processor for each router", s.experiment.PerCent)
	}
	for _, engine := range s.engines {
		l := chart.Line{Name: engine.Name}
		for _, pair := range s.curves[engine.Name].Points {
			l.Points = append(l.Points, chart.Point{X: megabits(pair.Offered), Y: megabits(pair.Carried)})
		}
		p.Lines = append(p.Lines, l)
	}
	return p
}

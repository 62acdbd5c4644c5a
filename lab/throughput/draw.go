// SPDX-License-Identifier: Apache-2.0

package throughput

// The drawing: two panels side by side as SVG, the paper's and ours. Ours has logarithmic axes, because the engines differ by more than
// a factor of ten; a straight line is what carries all that is offered.

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"loci/internal/jsondoc"
	"loci/lab/bench/report"
)

// panel is one of the two.
type panel struct {
	title       string
	unit        string
	logarithmic bool
	lines       []line
	notes       []string // for what is no line
}

type line struct {
	name   string
	points []point
}

// point has both values in the panel's unit.
type point struct{ offered, carried float64 }

const (
	panelWidth, panelHeight = 460.0, 360.0
	left, right, top, below = 70.0, 20.0, 50.0, 60.0
	lineHeight              = 16.0
	ticksLinear             = 5
)

// colours are told apart by those who see few of them.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"}

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
	return os.WriteFile(filepath.Join(directory, s.experiment.Name+".svg"), []byte(draw(s.experiment.paper, s.panel(r))), 0o644)
}

// panel is what was measured.
func (s *state) panel(r *report.Report) panel {
	e := r.Environment
	p := panel{title: "Loci, " + e.Date, unit: "Mbit/s", logarithmic: true}
	if s.experiment.PerCent > 0 {
		p.title += fmt.Sprintf(", %d %% of a processor for each router", s.experiment.PerCent)
	}
	for _, engine := range s.engines {
		l := line{name: engine.Name}
		for _, pair := range s.curves[engine.Name].Points {
			l.points = append(l.points, point{megabits(pair.Offered), megabits(pair.Carried)})
		}
		p.lines = append(p.lines, l)
	}
	return p
}

// draw makes the whole drawing.
func draw(panels ...panel) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n",
		panelWidth*float64(len(panels)), panelHeight)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%g 0)">`+"\n", panelWidth*float64(i))
		p.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p *panel) draw(b *strings.Builder) {
	text(b, panelWidth/2, 20, "middle", p.title)
	if len(p.lines) > 0 {
		p.drawLines(b)
	}
	for i, note := range p.notes {
		text(b, left+12, top+90+lineHeight*float64(i), "start", note)
	}
}

func (p *panel) drawLines(b *strings.Builder) {
	a := p.axis()
	fmt.Fprintf(b, `<path d="M%g %gV%gH%g" fill="none" stroke="black"/>`+"\n", left, top, panelHeight-below, panelWidth-right)
	for _, tick := range a.ticks() {
		text(b, a.x(tick), panelHeight-below+18, "middle", report.Digits(tick))
		text(b, left-6, a.y(tick)+4, "end", report.Digits(tick))
		fmt.Fprintf(b, `<path d="M%.1f %gv5M%g %.1fh-5" stroke="black"/>`+"\n", a.x(tick), panelHeight-below, left, a.y(tick))
	}
	text(b, (left+panelWidth-right)/2, panelHeight-below+40, "middle", "offered, "+p.unit)
	fmt.Fprintf(b, `<text transform="translate(14 %g) rotate(-90)" text-anchor="middle">carried, %s</text>`+"\n", (top+panelHeight-below)/2, p.unit)
	for i, l := range p.lines {
		colour := colours[i%len(colours)]
		var places []string
		for _, q := range l.points {
			places = append(places, fmt.Sprintf("%.1f,%.1f", a.x(q.offered), a.y(q.carried)))
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(places, " "), colour)
		fmt.Fprintf(b, `<rect x="%g" y="%g" width="12" height="3" fill="%s"/>`+"\n", left+12, top+4+lineHeight*float64(i), colour)
		text(b, left+30, top+10+lineHeight*float64(i), "start", l.name)
	}
}

// axis is the scale of both axes.
type axis struct {
	from, to    float64
	logarithmic bool
}

func (p *panel) axis() axis {
	a := axis{from: math.Inf(1), logarithmic: p.logarithmic}
	for _, l := range p.lines {
		for _, q := range l.points {
			a.to, a.from = max(a.to, q.offered, q.carried), min(a.from, aboveZero(q.offered), aboveZero(q.carried))
		}
	}
	if !a.logarithmic {
		a.from = 0
		return a
	}
	a.from, a.to = math.Pow(10, math.Floor(math.Log10(a.from))), math.Pow(10, math.Ceil(math.Log10(a.to)))
	return a
}

// aboveZero is a value that a logarithmic axis has, or one that says nothing.
func aboveZero(v float64) float64 {
	if v > 0 {
		return v
	}
	return math.Inf(1)
}

// share is where a value lies between the ends.
func (a axis) share(v float64) float64 {
	if !a.logarithmic {
		return v / a.to
	}
	return math.Log(max(v, a.from)/a.from) / math.Log(a.to/a.from)
}

func (a axis) x(v float64) float64 { return left + a.share(v)*(panelWidth-left-right) }
func (a axis) y(v float64) float64 { return panelHeight - below - a.share(v)*(panelHeight-top-below) }

func (a axis) ticks() (all []float64) {
	if a.logarithmic {
		for v := a.from; v <= a.to*1.01; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	for i := range ticksLinear + 1 {
		all = append(all, a.to*float64(i)/ticksLinear)
	}
	return all
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;")

func text(b *strings.Builder, x, y float64, anchor, content string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, escape.Replace(content))
}

// SPDX-License-Identifier: Apache-2.0

// Package chart draws the figures of experiments: panels with lines, side by side as SVG. It knows nothing of what is
// measured.
package chart

import (
	"fmt"
	"math"
	"strings"

	"loci/lab/bench/report"
)

// Panel is one of those of a drawing. Both axes have one scale, unless the vertical one has an end of its own.
type Panel struct {
	Title       string
	X, Y        string // what the axes have, with the unit
	Logarithmic bool
	YTo         float64 // the end of the vertical axis, which begins at 0; 0: that of the other one
	Lines       []Line
	Notes       []string // for what is no line
}

// Line is the points of one arm, with straight lines between them.
type Line struct {
	Name   string
	Marks  bool // each point has a mark in place of the lines
	Points []Point
}

// Point has the values of both axes.
type Point struct{ X, Y float64 }

const (
	panelWidth, panelHeight = 460.0, 360.0
	left, right, top, below = 70.0, 20.0, 50.0, 60.0
	lineHeight              = 16.0
	ticksLinear             = 5
)

// colours are told apart by those who see few of them.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// Draw makes the whole drawing.
func Draw(panels ...Panel) string {
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

func (p *Panel) draw(b *strings.Builder) {
	text(b, panelWidth/2, 20, "middle", p.Title)
	if len(p.Lines) > 0 {
		p.drawLines(b)
	}
	for i, note := range p.Notes {
		text(b, left+12, top+90+lineHeight*float64(i), "start", note)
	}
}

func (p *Panel) drawLines(b *strings.Builder) {
	a := p.axis()
	up := a
	if p.YTo > 0 {
		up = axis{to: p.YTo}
	}
	fmt.Fprintf(b, `<path d="M%g %gV%gH%g" fill="none" stroke="black"/>`+"\n", left, top, panelHeight-below, panelWidth-right)
	for _, tick := range a.ticks() {
		text(b, a.x(tick), panelHeight-below+18, "middle", report.Digits(tick))
		fmt.Fprintf(b, `<path d="M%.1f %gv5" stroke="black"/>`+"\n", a.x(tick), panelHeight-below)
	}
	for _, tick := range up.ticks() {
		text(b, left-6, up.y(tick)+4, "end", report.Digits(tick))
		fmt.Fprintf(b, `<path d="M%g %.1fh-5" stroke="black"/>`+"\n", left, up.y(tick))
	}
	text(b, (left+panelWidth-right)/2, panelHeight-below+40, "middle", p.X)
	fmt.Fprintf(b, `<text transform="translate(14 %g) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+panelHeight-below)/2, escape.Replace(p.Y))
	for i, l := range p.Lines {
		colour := colours[i%len(colours)]
		l.draw(b, a, up, colour)
		fmt.Fprintf(b, `<rect x="%g" y="%g" width="12" height="3" fill="%s"/>`+"\n", left+12, top+4+lineHeight*float64(i), colour)
		text(b, left+30, top+10+lineHeight*float64(i), "start", l.Name)
	}
}

func (l *Line) draw(b *strings.Builder, a, up axis, colour string) {
	var places []string
	for _, q := range l.Points {
		if l.Marks {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", a.x(q.X), up.y(q.Y),
				colour)
		}
		places = append(places, fmt.Sprintf("%.1f,%.1f", a.x(q.X), up.y(q.Y)))
	}
	if !l.Marks {
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n",
			strings.Join(places, " "), colour)
	}
}

// axis is the scale of both axes.
type axis struct {
	from, to    float64
	logarithmic bool
}

func (p *Panel) axis() axis {
	a := axis{from: math.Inf(1), logarithmic: p.Logarithmic}
	for _, l := range p.Lines {
		for _, q := range l.Points {
			if p.YTo > 0 {
				q.Y = q.X
			}
			a.to, a.from = max(a.to, q.X, q.Y), min(a.from, aboveZero(q.X), aboveZero(q.Y))
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

// SPDX-License-Identifier: Apache-2.0

package temptcp

// Drawings of Figures 5 to 9 with a panel for each source, and of the sweep.

import (
	"fmt"
	"slices"
	"time"

	"loci/internal/jsondoc"
	"loci/lab/chart"
)

// drawings are all, by name.
func (d *Document) drawings(p *parameters) map[string][]chart.Panel {
	all := map[string][]chart.Panel{"sweep": {d.drawSweep(p)}}
	for _, s := range p.Sources {
		for name, panel := range map[string]chart.Panel{
			"figure5": d.drawByPaths(p, s, "loss, %", func(o of) (float64, bool) {
				loss, known := d.ofSubflows(o, 0, lossOf)
				return 100 * loss, known
			}),
			"figure6": d.drawCorrelation(p, s),
			"figure7": d.drawRTTs(s),
			"figure8": d.drawByPaths(p, s, "goodput, Mbit/s", d.goodput),
			"figure9": d.drawShares(s),
		} {
			all[name] = append(all[name], panel)
		}
	}
	return all
}

// goodput is the median of a mode, in Mbit/s.
func (d *Document) goodput(o of) (float64, bool) {
	var all []float64
	for _, t := range d.find(o) {
		all = append(all, t.Goodput/1e6)
	}
	return median(all)
}

func (d *Document) panel(s source, x, y string, lines []chart.Line) chart.Panel {
	panel := chart.Panel{Title: fmt.Sprintf("%s, %s", s.Site, d.Environment.Date), X: x, Y: y, YTo: 1}
	highest := 0.0
	for _, l := range lines {
		for _, q := range l.Points {
			highest = max(highest, q.Y)
		}
		if len(l.Points) > 0 {
			panel.Lines = append(panel.Lines, l)
		}
	}
	if highest > 0 {
		panel.YTo = 1.6 * highest // room for what the lines are called
	}
	return panel
}

// drawByPaths draws medians over the number of paths. SD, which has none, is a level line.
func (d *Document) drawByPaths(p *parameters, s source, y string, value func(of) (float64, bool)) chart.Panel {
	var lines []chart.Line
	for _, buffer := range p.ReceiveBuffers {
		if v, known := value(of{s.Site, modeDefault, buffer}); known {
			lines = append(lines, chart.Line{Name: "SD, " + bufferText(buffer),
				Points: []chart.Point{{X: 1, Y: v}, {X: mostPaths, Y: v}}})
		}
		for _, kind := range []string{modeStateless, modeStateful} {
			lines = append(lines, lineByPaths(s, kind, buffer, value))
		}
	}
	return d.panel(s, "paths", y, lines)
}

func lineByPaths(s source, kind string, buffer int, value func(of) (float64, bool)) chart.Line {
	l := chart.Line{Name: kind + ", " + bufferText(buffer)}
	for paths := 1; paths <= mostPaths; paths++ {
		if v, known := value(of{s.Site, mode{kind, paths}.String(), buffer}); known {
			l.Points = append(l.Points, chart.Point{X: float64(paths), Y: v})
		}
	}
	return l
}

// drawCorrelation draws a mark for each transfer with two subflows or more.
func (d *Document) drawCorrelation(p *parameters, s source) chart.Panel {
	var lines []chart.Line
	for _, buffer := range p.ReceiveBuffers {
		l := chart.Line{Name: bufferText(buffer), Marks: true}
		for i := range d.Transfers {
			t := &d.Transfers[i]
			if apart, known := t.differential(); known && t.Swept == nil && t.Source == s.Site &&
				t.Buffer == buffer {
				l.Points = append(l.Points, chart.Point{X: 1e3 * apart, Y: t.Goodput / 1e6})
			}
		}
		lines = append(lines, l)
	}
	return d.panel(s, "differential RTT, ms", "goodput, Mbit/s", lines)
}

// drawRTTs draws the distribution of the RTTs of each path.
func (d *Document) drawRTTs(s source) chart.Panel {
	var lines []chart.Line
	for i, by := range s.Paths {
		all := d.ofPath(func(t *Transfer) bool { return t.Swept == nil && t.Source == s.Site },
			func(o *Subflow) bool { return o.By == by }, rttOf)
		slices.Sort(all)
		l := chart.Line{Name: fmt.Sprintf("path %d, by %s", i+1, by)}
		for place, rtt := range all {
			step := 100 / float64(len(all))
			l.Points = append(l.Points, chart.Point{X: 1e3 * rtt, Y: step * float64(place)},
				chart.Point{X: 1e3 * rtt, Y: step * float64(place+1)})
		}
		lines = append(lines, l)
	}
	return d.panel(s, "RTT, ms", "transfers, %", lines)
}

// ofPath is a figure of all subflows that are meant, of all transfers that are.
func (d *Document) ofPath(transfers func(*Transfer) bool, subflows func(*Subflow) bool,
	figure func(*Subflow) float64) (all []float64) {
	for i := range d.Transfers {
		t := &d.Transfers[i]
		for k := range t.Subflows {
			if s := &t.Subflows[k]; transfers(t) && subflows(s) {
				all = append(all, figure(s))
			}
		}
	}
	return all
}

// drawShares draws what each path carries of two, three and four, with the receive buffers together.
func (d *Document) drawShares(s source) chart.Panel {
	var lines []chart.Line
	for _, kind := range []string{modeStateless, modeStateful} {
		for paths := 2; paths <= mostPaths; paths++ {
			lines = append(lines, d.lineOfShares(s, mode{kind, paths}))
		}
	}
	return d.panel(s, "path", "share, %", lines)
}

func (d *Document) lineOfShares(s source, m mode) chart.Line {
	l := chart.Line{Name: m.String()}
	for number := 1; number <= m.paths; number++ {
		share, known := median(d.ofPath(func(t *Transfer) bool {
			return t.Swept == nil && t.Source == s.Site && t.Mode == l.Name
		}, func(o *Subflow) bool { return o.Number == number }, shareOf))
		if known {
			l.Points = append(l.Points, chart.Point{X: float64(number), Y: 100 * share})
		}
	}
	return l
}

func (d *Document) drawSweep(p *parameters) chart.Panel {
	var lines []chart.Line
	for _, buffer := range p.ReceiveBuffers {
		l := chart.Line{Name: bufferText(buffer)}
		for _, difference := range p.Sweep.Differences {
			if v, known := median(d.swept(buffer, difference)); known {
				l.Points = append(l.Points,
					chart.Point{X: float64(difference.Milliseconds()), Y: v / 1e6})
			}
		}
		lines = append(lines, l)
	}
	return d.panel(source{Site: "sweep, " + p.Sweep.Source}, "RTT of the second path beyond the first, ms",
		"goodput, Mbit/s", lines)
}

// swept are the goodputs at one place of the sweep.
func (d *Document) swept(buffer int, difference time.Duration) (all []float64) {
	for _, t := range d.Transfers {
		if t.Swept != nil && t.Buffer == buffer && *t.Swept == jsondoc.SecondsOf(difference) {
			all = append(all, t.Goodput)
		}
	}
	return all
}

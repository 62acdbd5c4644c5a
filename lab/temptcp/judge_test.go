// SPDX-License-Identifier: Apache-2.0

package temptcp

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"loci/internal/jsondoc"
	"loci/lab/chart"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func parametersOf(t testing.TB) *parameters {
	t.Helper()
	p, err := readParameters(parametersFile)
	must(t, err)
	return p
}

// asInPaper is what a run finds in which all relations come out again. change has a last word about each transfer.
func asInPaper(p *parameters, change func(*Transfer)) *Document {
	d := &Document{}
	for round := 1; round <= 3; round++ {
		for _, buffer := range p.ReceiveBuffers {
			for _, s := range p.Sources {
				for _, m := range planOf(p, p.Default).Modes {
					d.Transfers = append(d.Transfers, transferAsInPaper(s.Site, m, buffer, round))
				}
			}
			for _, difference := range p.Sweep.Differences {
				swept := jsondoc.SecondsOf(difference)
				d.Transfers = append(d.Transfers, Transfer{Source: p.Sweep.Source, Mode: "SL2", Buffer: buffer, Round: round,
					Goodput: 20e6 - 10e6*float64(swept), Swept: &swept})
			}
		}
	}
	for i := range d.Transfers {
		change(&d.Transfers[i])
	}
	return d
}

func transferAsInPaper(site string, m mode, buffer, round int) Transfer {
	t := Transfer{Source: site, Mode: m.String(), Buffer: buffer, Round: round, Wanted: m.subflows()}
	loss, sourceLoss := 0.01, map[string]float64{siteNSS: 0.1}[site]
	gains := map[string][]float64{siteLIP6: {1, 1.2, 1.3, 1.1}, siteNSS: {1, 1, 1, 0.9}, siteRezopole: {1, 1.2, 1.2, 1.1}}
	gain := 0.99 // SD
	if m.paths > 0 {
		gain = gains[site][m.paths-1]
	} else {
		loss = 0.05
	}
	t.Goodput = gain * (20e6 + 1e5*float64(round))
	for i := range m.subflows() {
		rtt := []jsondoc.Seconds{0.110, 0.111, 0.113, 0.46}[i]
		rtt += jsondoc.Seconds(0.01*(1.3-gain)) * jsondoc.Seconds(i) // apart where goodput is low
		t.Subflows = append(t.Subflows, Subflow{Number: i + 1, RTT: rtt, Loss: loss + sourceLoss,
			Share: []float64{0.6, 0.25, 0.12, 0.03}[i]})
	}
	return t
}

// verdicts are those of a document, by the names of the relations.
func verdicts(p *parameters, d *Document) map[string]Verdict {
	all := map[string]Verdict{}
	for _, v := range p.judge(d) {
		all[v.Relation] = v
	}
	return all
}

// TestAllIsReproduced: what the paper found is reproduced.
func TestAllIsReproduced(t *testing.T) {
	p := parametersOf(t)
	for name, v := range verdicts(p, asInPaper(p, func(*Transfer) {})) {
		if v.Verdict != reproduced || v.Text != reproduced || v.Paper == "" {
			t.Errorf("%s: %s\n%+v", name, v.Text, v.Cases)
		}
	}
}

// TestVerdictsFlip: each thing that is not as in the paper changes the verdict of its relation, and says why.
func TestVerdictsFlip(t *testing.T) {
	times := func(mode string, factor float64) func(*Transfer) {
		return func(t *Transfer) {
			if strings.HasSuffix(t.Mode, mode) && t.Swept == nil {
				t.Goodput *= factor
			}
		}
	}
	share := func(number int, share float64) func(*Transfer) {
		return func(t *Transfer) {
			if len(t.Subflows) >= number {
				t.Subflows[number-1].Share = share
			}
		}
	}
	for _, c := range []struct {
		relation string
		change   func(*Transfer)
		verdict  string
		because  string
	}{
		{"two paths gain 10 to 25 % over SD", times("SD", 1.2), notFound, "two paths gain +1.0 %"},
		{"two paths gain 10 to 25 % over SD", times("SD", 0.9), notFound, "two paths gain +34"},
		{"more paths gain nothing for NSS", times("3", 1.1), notFound, "two to four paths gain is +11"},
		{"a third path helps LIP6 only", times("3", 0.9), depends, "the source"},
		{"a third path helps LIP6 only", times("3", 1.1), depends, "the source"},
		{"a fourth path lowers throughput", times("4", 1.4), notFound, "the fourth path changes throughput by +"},
		{"a fourth path lowers throughput", func(t *Transfer) {
			if strings.HasSuffix(t.Mode, "4") && t.Buffer == p8MiB {
				t.Goodput *= 1.4
			}
		}, depends, "the receive buffer: it holds in 6 of 12"},
		{"a fourth path lowers throughput", times("SF4", 1.4), depends, "the binding"},
		{"stateless and stateful are alike", times("SF3", 0.8), notFound, "-20.0 %"},
		{"stateless and stateful are alike", times("SF1", 1.2), notFound, "+20.0 %"},
		{"throughput is highest where the differential RTT is least", func(t *Transfer) {
			if t.Swept == nil {
				t.Goodput = 1e12 / t.Goodput
			}
		}, notFound, "the correlation is +"},
		{"the same, in the sweep", func(t *Transfer) {
			if t.Swept != nil {
				t.Goodput = 1e6 * (1 + float64(*t.Swept))
			}
		}, notFound, "the correlation is +1.00, over 12 transfers"},
		{"SD loses more than subflows on paths", func(t *Transfer) {
			for i := range t.Subflows {
				if t.Mode == modeDefault {
					t.Subflows[i].Loss = 0
				}
			}
		}, notFound, "SD loses 0.00 %"},
		{"NSS loses most", func(t *Transfer) {
			for i := range t.Subflows {
				if t.Source == siteLIP6 && strings.HasSuffix(t.Mode, "3") {
					t.Subflows[i].Loss = 0.2
				}
			}
		}, notFound, "3 it loses 11.00 %, lip6 20.00 %"},
		{"the fourth path has a much higher RTT", func(t *Transfer) {
			if len(t.Subflows) == mostPaths {
				t.Subflows[3].RTT = 0.15
			}
		}, notFound, "its RTT is 150 ms"},
		{"the third path of NSS has a slightly higher RTT", func(t *Transfer) {
			if len(t.Subflows) > 2 {
				t.Subflows[2].RTT = 0.1
			}
		}, notFound, "its RTT is 100 ms"},
		{"the fourth path carries about nothing", share(4, 0.2), notFound, "it carries 20.0 %"},
		{"the first subflow carries most", share(3, 0.7), notFound, "path 3 70 %"},
	} {
		p := parametersOf(t)
		v := verdicts(p, asInPaper(p, c.change))[c.relation]
		if v.Verdict != c.verdict || !strings.Contains(v.Text, c.because) {
			t.Errorf("%s: %s\nwant %s with %q", c.relation, v.Text, c.verdict, c.because)
		}
	}
}

const p8MiB = 8 << 20

// TestNothingIsReproducedByNothing: without a sample no relation holds, and it is said that nothing was measured.
func TestNothingIsReproducedByNothing(t *testing.T) {
	p := parametersOf(t)
	for name, v := range verdicts(p, &Document{}) {
		if v.Verdict != notFound || !strings.Contains(v.Text, notMeasured) {
			t.Errorf("%s: %s", name, v.Text)
		}
	}
}

// TestSpearman: ranks decide, equal values share theirs, and of too little nothing is said.
func TestSpearman(t *testing.T) {
	for _, c := range []struct {
		x, y  []float64
		want  float64
		known bool
	}{
		{[]float64{1, 2, 3}, []float64{10, 20, 400}, 1, true},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1, true},
		{[]float64{1, 1, 2, 2}, []float64{1, 1, 2, 2}, 1, true},
		{[]float64{1, 2, 3, 4}, []float64{2, 1, 4, 3}, 0.6, true},
		{[]float64{1, 1, 1}, []float64{1, 2, 3}, 0, false},
		{[]float64{1, 2}, []float64{1, 2}, 0, false},
	} {
		if found, known := spearman(c.x, c.y); known != c.known || found-c.want > 1e-9 || c.want-found > 1e-9 {
			t.Errorf("%v, %v: %v, %t", c.x, c.y, found, known)
		}
	}
}

// TestFiguresAreDrawn: a panel for each source, marks where each transfer stands, and a line for each sample.
func TestFiguresAreDrawn(t *testing.T) {
	p := parametersOf(t)
	d := asInPaper(p, func(*Transfer) {})
	for name, panels := range d.drawings(p) {
		drawn := chart.Draw(panels...)
		for decoder := xml.NewDecoder(strings.NewReader(drawn)); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		marks := strings.Count(drawn, "<circle")
		if want := map[bool]int{true: 3 * 3 * 2 * 7}[name == "figure6"]; marks != want || strings.Contains(drawn, "NaN") {
			t.Errorf("%s: %d marks, want %d", name, marks, want)
		}
		if name != "sweep" && len(panels) != len(p.Sources) {
			t.Errorf("%s: %d panels", name, len(panels))
		}
	}
	text, err := d.samples()
	must(t, err)
	lines, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	must(t, err)
	found := map[string]bool{}
	for _, line := range lines {
		found[fmt.Sprint(line)] = true
	}
	for _, want := range []string{"[lip6 SD 1048576 1  0 goodput bit/s 1.9899e+07]", "[nss SF4 8388608 3  4 share  0.03]",
		"[lip6 SL2 1048576 2 0.35 0 goodput bit/s 1.65e+07]"} {
		if !found[want] {
			t.Errorf("no line %s in\n%s", want, text[:2000])
		}
	}
}

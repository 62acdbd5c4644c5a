// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"

	"loci/lab/bench/report"
)

// Rates are judged by the echo server of the same round, whatever the machine's own speed is.
func TestRatesAreJudgedByTheFloorOfTheirRound(t *testing.T) {
	for _, one := range []struct {
		caseName     string
		rates, floor []float64
		met          bool
	}{
		{"request/proxied-apart", []float64{70, 140, 35}, []float64{200, 400, 100}, true},
		{"request/proxied-apart", []float64{68, 136, 34}, []float64{200, 400, 100}, false},
		{"request/forwarded", []float64{160, 320, 80}, []float64{200, 400, 100}, true},
		{"request/forwarded", []float64{158, 316, 79}, []float64{200, 400, 100}, false},
		{"register/1-record", []float64{20, 40, 10}, []float64{200, 400, 100}, true},
		{"register/20-records", []float64{3, 6, 1.5}, []float64{200, 400, 100}, true},
		{"register/20-records", []float64{2, 4, 1}, []float64{200, 400, 100}, false},
	} {
		r := &report.Report{}
		for i := range one.rates {
			r.Add(one.caseName, armEcho, []report.Sample{report.Figure(messagesOf(one.caseName), "messages/s", one.floor[i])})
			r.Add(one.caseName, armMapServer, []report.Sample{report.Figure(messagesOf(one.caseName), "messages/s", one.rates[i])})
		}
		r.SumUp()
		judgeControl(r)
		if len(r.Targets) != 1 || r.Targets[0].Met != one.met || !strings.HasPrefix(r.Targets[0].Name, one.caseName) {
			t.Errorf("%s, %v of %v: targets %+v", one.caseName, one.rates, one.floor, r.Targets)
		}
	}
}

// What is answered together is compared with the floor, but nothing is demanded of it.
func TestProxiedTogetherIsReportedAlone(t *testing.T) {
	r := &report.Report{}
	r.Add("request/proxied", armEcho, []report.Sample{report.Figure("answers", "messages/s", 200)})
	r.Add("request/proxied", armMapServer, []report.Sample{report.Figure("answers", "messages/s", 380)})
	r.SumUp()
	judgeControl(r)
	if len(r.Targets) != 0 || len(r.Ratios) != 1 || r.Ratios[0].Median != 1.9 {
		t.Errorf("targets %+v, ratios %+v", r.Targets, r.Ratios)
	}
}

// TestTheCommandIsJudged by each of its bars: at the bar it is met, above it is not.
func TestTheCommandIsJudged(t *testing.T) {
	for metric, bar := range map[string]float64{
		metricCommand(scaleEntries): 10, metricRatio: 1.5, metricFirstRow: 0.2, metricPeak: 64,
	} {
		for value, met := range map[float64]bool{bar: true, 1.01 * bar: false} {
			r := &report.Report{}
			r.Add(caseRegistrations, armScale, []report.Sample{report.Figure(metric, "", value)})
			r.SumUp()
			judgeScale(r)
			if len(r.Targets) != 1 || r.Targets[0].Met != met {
				t.Errorf("%s of %v: targets %+v", metric, value, r.Targets)
			}
		}
	}
	r := &report.Report{} // a bench that is short has fewer entries: its time does not count
	r.Add(caseRegistrations, armScale, []report.Sample{report.Figure(metricCommand(scaleEntriesShort), "s", 99)})
	r.SumUp()
	if judgeScale(r); len(r.Targets) != 0 {
		t.Errorf("of %d entries: targets %+v", scaleEntriesShort, r.Targets)
	}
}

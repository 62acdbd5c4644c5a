// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loci/internal/commandtest"
	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
	"loci/lab/bench/user"
	"loci/lab/chart"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An engine that breaks down beyond its knee misses its target; what happens far beyond it is not asked.
func TestFlat(t *testing.T) {
	for carried, met := range map[float64]bool{59: false, 61: true} {
		r := &report.Report{}
		wantFlat(r, map[string]Curve{"x": {Knee: 100, Points: []CurvePair{{50, 50}, {150, carried}, {250, 1}}}}, "x")
		if r.Targets[0].Met != met {
			t.Errorf("%g carried: %+v", carried, r.Targets)
		}
	}
}

// An engine that carries nothing is no measure: the target is neither met nor missed.
func TestFasterThanNothing(t *testing.T) {
	for knee, open := range map[float64]bool{0: true, 10: false} {
		r := &report.Report{}
		wantFaster(r, map[string]Curve{"x": {Knee: 100}, "y": {Knee: knee}}, "x", "y", 3)
		if target := r.Targets[0]; target.Met == open || (target.Open != "") != open {
			t.Errorf("knee %g: %+v", knee, target)
		}
	}
}

func TestRatesAreFromBelowTheSlowestKneeToBeyondTheFastest(t *testing.T) {
	s := &state{curves: map[string]Curve{"a": {Knee: 1000}, "b": {Knee: 400}}}
	all := s.rates()
	if len(all) != pointsOfCurve || all[0] != 100 || all[len(all)-1] < 1499 || all[len(all)-1] > 1501 {
		t.Errorf("%v", all)
	}
}

// The drawing of each experiment is well-formed XML with a line for each engine.
func TestDrawings(t *testing.T) {
	for _, e := range List() {
		s := &state{experiment: e, curves: map[string]Curve{}}
		for _, engine := range user.Engines() {
			s.engines = append(s.engines, engine)
			s.curves[engine.Name] = Curve{Knee: 5, Points: []CurvePair{{2000, 1900}, {90000, 0}}}
		}
		drawn := chart.Draw(e.paper, s.panel(&report.Report{}))
		decoder := xml.NewDecoder(strings.NewReader(drawn))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
		}
		if got, want := strings.Count(drawn, "<polyline"), len(e.paper.Lines)+len(s.engines); got != want || strings.Contains(drawn, "NaN") {
			t.Errorf("%s: %d lines, want %d:\n%s", e.Name, got, want, drawn)
		}
	}
}

// A whole run with one engine under a quota gives curves and a drawing, and leaves no control group.
func TestRunUnderQuota(t *testing.T) {
	testnet.RequireRoot(t)
	if _, err := processorGroups(); err != nil {
		t.Skip(err)
	}
	directory := t.TempDir()
	must(t, commandtest.Build(directory, "loci", "loci-lab"))
	e := Experiment{Name: "trial", Description: "a trial", PerCent: 40, arms: []string{user.ArmUser}, judge: func(*report.Report, map[string]Curve) {}}
	must(t, e.Run(t.Context(), Options{Directory: directory, Options: testbed.Options{
		Out: io.Discard, Err: io.Discard, Executable: filepath.Join(directory, "loci"), Self: filepath.Join(directory, "loci-lab"), Measure: 200 * time.Millisecond,
	}}))
	var found struct{ Curves map[string]Curve }
	content, err := os.ReadFile(filepath.Join(directory, "trial.json"))
	must(t, err)
	must(t, json.Unmarshal(content, &found))
	if c := found.Curves[user.ArmUser]; c.Knee == 0 || len(c.Points) != pointsOfCurve || c.Points[0].Carried == 0 {
		t.Errorf("%+v", found)
	}
	if _, err := os.Stat(filepath.Join(directory, "trial.svg")); err != nil {
		t.Error(err)
	}
	h, err := processorGroups()
	must(t, err)
	left, err := filepath.Glob(h.path + "/" + groupPrefix + "*")
	must(t, err)
	for _, group := range left {
		if strings.Contains(group, "-"+strings.TrimSpace(pidOf(t))+"-") {
			t.Errorf("left %s", group)
		}
	}
}

func pidOf(t *testing.T) string {
	t.Helper()
	pid, err := os.Readlink("/proc/self")
	must(t, err)
	return pid
}

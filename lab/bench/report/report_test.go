// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// exampleReport has two arms in one case, two rounds.
func exampleReport() *Report {
	r := &Report{Name: "example", Environment: Environment{CPU: "a CPU", Cores: 2, Date: "2026-01-02"}}
	for round := range 2 {
		r.Add("ipv4/1-flow", "loci tc", []Sample{Figure("rate", "packets/s", float64(300+100*round))})
		r.Add("ipv4/1-flow", "plain routing", []Sample{Figure("rate", "packets/s", 200)})
	}
	r.SumUp()
	r.Compare("rate", "loci tc", "plain routing")
	r.Compare("rate", "loci tc", "kernel VXLAN")
	r.WantRatio("rate", "loci tc", "plain routing", AtLeast(1.2))
	r.WantRatio("rate", "loci tc", "plain routing", AtMost(1.2))
	return r
}

func TestReportSumsUpComparesAndJudges(t *testing.T) {
	r := exampleReport()
	if r.Rounds != 2 || len(r.Results) != 2 || r.Results[0].Value != 350 {
		t.Errorf("rounds %d, results %+v", r.Rounds, r.Results)
	}
	if len(r.Ratios) != 1 || r.Ratios[0].Median != 1.75 || r.Ratios[0].Min != 1.5 || r.Ratios[0].Max != 2 {
		t.Errorf("ratios %+v; want one, of the arms that are there, round by round", r.Ratios)
	}
	if len(r.Targets) != 2 || !r.Targets[0].Met || r.Targets[1].Met || r.Targets[0].Target != "≥ 1.2" || r.Targets[1].Target != "≤ 1.2" {
		t.Errorf("targets %+v", r.Targets)
	}
	if missed := r.Missed(); len(missed) != 1 || missed[0].Target != "≤ 1.2" {
		t.Errorf("missed %+v", missed)
	}
}

// The keys of the object are an interface.
func TestReportAsJSON(t *testing.T) {
	for name, r := range map[string]*Report{"full": exampleReport(), "empty": {Name: "empty"}} {
		var out bytes.Buffer
		must(t, r.Print(&out))
		var object map[string]json.RawMessage
		must(t, json.Unmarshal(out.Bytes(), &object))
		for _, key := range []string{"name", "environment", "rounds", "took_seconds", "results", "ratios", "targets"} {
			if value, found := object[key]; !found || string(value) == "null" {
				t.Errorf("%s: key %s is %s", name, key, value)
			}
		}
	}
	var out bytes.Buffer
	must(t, exampleReport().Print(&out))
	var object struct {
		Environment map[string]any
		Results     []map[string]any
		Ratios      []map[string]any
		Targets     []map[string]any
	}
	must(t, json.Unmarshal(out.Bytes(), &object))
	wantKeys(t, "environment", object.Environment, "kernel", "cpu", "cores", "loci", "go", "load_at_start", "stolen_percent", "memory_octets", "architecture", "date")
	wantKeys(t, "result", object.Results[0], "case", "arm", "metric", "unit", "value", "min", "median", "max", "low", "high", "confidence", "samples")
	wantKeys(t, "ratio", object.Ratios[0], "case", "metric", "of", "to", "min", "median", "max", "low", "high", "confidence")
	wantKeys(t, "target", object.Targets[0], "name", "target", "measured", "met", "open")
}

func wantKeys(t *testing.T, what string, object map[string]any, want ...string) {
	t.Helper()
	for _, key := range want {
		if _, found := object[key]; !found {
			t.Errorf("%s has no key %s", what, key)
		}
	}
	if len(object) != len(want) {
		t.Errorf("%s has %d keys, want %d", what, len(object), len(want))
	}
}

func TestWriteDocumentReplacesWhatIsBetweenTheMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	must(t, os.WriteFile(path, []byte("before\n"+BeginMark+"\nold\n"+EndMark+"\nafter\n"), 0o600))
	for range 2 { // the second time, what the first one wrote is replaced
		must(t, WriteDocument(path, []*Report{exampleReport()}))
	}
	content, err := os.ReadFile(path)
	must(t, err)
	text := string(content)
	if !strings.HasPrefix(text, "before\n"+BeginMark) || !strings.HasSuffix(text, EndMark+"\nafter\n") || strings.Contains(text, "old") {
		t.Errorf("got:\n%s", text)
	}
	if strings.Count(text, "### example") != 1 {
		t.Errorf("got:\n%s", text)
	}
	for _, row := range []string{
		"| rate of loci tc / plain routing | ipv4/1-flow | ≥ 1.2 | 1.750 | 350.0 to 200.0 packets/s |",
		"| rate of loci tc / plain routing | ipv4/1-flow | ≤ 1.2 | 1.750, **missed** | 350.0 to 200.0 packets/s |",
	} {
		if !strings.Contains(text, row) {
			t.Errorf("no %s in:\n%s", row, text)
		}
	}
	must(t, os.WriteFile(path, []byte("no marks"), 0o600))
	if err := WriteDocument(path, nil); err == nil {
		t.Error("a document without marks is written")
	}
}

// One report replaces its own table alone, and names its machine once.
func TestUpdateDocumentLeavesOtherTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	must(t, os.WriteFile(path, []byte("before\n"+BeginMark+"\n"+EndMark+"\nafter\n"), 0o600))
	other, third := exampleReport(), exampleReport()
	other.Name, third.Name, third.Environment.CPU = "other", "third", "another CPU"
	must(t, WriteDocument(path, []*Report{exampleReport(), other}))
	for range 2 {
		must(t, UpdateDocument(path, exampleReport()))
		must(t, UpdateDocument(path, third))
	}
	content, err := os.ReadFile(path)
	must(t, err)
	text := string(content)
	for part, want := range map[string]int{"### example: ": 1, "### other: ": 1, "### third: ": 1, "Machine: another CPU": 1, "before\n" + BeginMark: 1, EndMark + "\nafter\n": 1} {
		if got := strings.Count(text, part); got != want {
			t.Errorf("%q is there %d times:\n%s", part, got, text)
		}
	}
}

// Cases that differ in nothing but their names share a row. Those without a target are left out where they are many.
func TestSummariesOfCases(t *testing.T) {
	judged := []string{"p50 of loci / floor", "3", "≤ 2.5", "1.000 … 3.000, **missed**", "2.000 … 6.000 to 2.000 ms"}
	seconds := []string{"seconds", "", "≤ 5", "3.000", ""}
	for cases, want := range map[string][][]string{
		"abcd":   {judged, {"p50 of loci / floor", "d", "", "4.000", "8.000 to 2.000 ms"}, seconds},
		"abcdef": {judged, seconds},
	} {
		r := &Report{}
		for i, name := range strings.Split(cases, "") {
			r.Add(name, "loci", []Sample{Figure("p50", "ms", float64(2*(i+1)))})
			r.Add(name, "floor", []Sample{Figure("p50", "ms", 2)})
		}
		r.SumUp()
		r.Compare("p50", "loci", "floor")
		for _, name := range []string{"a", "b", "c"} {
			r.WantRatioIn(name, "p50", "loci", "floor", AtMost(2.5))
		}
		r.Want("seconds", 3, AtMost(5))
		if got := slices.Concat(summaries(r)...); !slices.Equal(got, slices.Concat(want...)) {
			t.Errorf("%s: got  %q\nwant %q", cases, got, want)
		}
	}
}

func TestFigure(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 1234567: "1235000", 12.3456: "12.35", 0.73841: "0.7384", 999: "999.0", 1000: "1000"} {
		if got := Digits(value); got != want {
			t.Errorf("%v is shown as %s, want %s", value, got, want)
		}
	}
}

// A target that is not decided is neither met nor missed, and is shown with its reason.
func TestOpenTarget(t *testing.T) {
	r := &Report{}
	r.Want("rate", 20, AtLeast(20))
	r.LeaveOpen("held for 3 s of 20")
	shown := slices.Concat(tables(r)[2]...)
	if r.Targets[0].Met || len(r.Missed()) > 0 || !slices.Contains(shown, "open: held for 3 s of 20") {
		t.Errorf("%+v, shown as %q", r.Targets, shown)
	}
}

func TestStolenTime(t *testing.T) {
	before := timeShare{all: 1000, stolen: 10}
	for _, test := range []struct {
		now  timeShare
		want float64
	}{
		{timeShare{all: 1200, stolen: 20}, 5}, {timeShare{all: 1100, stolen: 10}, 0}, {before, 0}, {timeShare{}, 0},
	} {
		if got := before.StolenPercent(test.now); got != test.want {
			t.Errorf("%+v: %v %%, want %v", test.now, got, test.want)
		}
	}
	if now := TimeShareNow(); now.all <= 0 || now.stolen > now.all {
		t.Errorf("the processors had %+v", now)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

// What is known of the packages that run, and how it is told. It starts nothing and reads no clock but that of the events.

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// event is a line of `go test -json` (`go doc test2json`).
type event struct {
	Time       time.Time
	Action     string
	Package    string
	Test       string
	ImportPath string // of a package that is compiled
	Output     string
}

// progress follows the packages of one `go test`.
type progress struct {
	out     io.Writer
	total   int // packages, 0 for unknown
	began   time.Time
	running map[string]*packageRun
	done    int
	plain   []string // what `go test` prints without -json: the last line of each package
}

// packageRun is a package whose tests run.
type packageRun struct {
	began time.Time
	tests map[string]*testRun
	own   []string // output of no test
	last  string   // how the package ended, in the words of go test
}

// testRun is a test that has not passed.
type testRun struct {
	began  time.Time
	paused bool
	ended  bool // it failed
	output []string
}

func newProgress(out io.Writer, total int) *progress {
	return &progress{out: out, total: total, running: map[string]*packageRun{}}
}

func (p *progress) handle(e event) {
	if p.began.IsZero() {
		p.began = e.Time
	}
	if e.Action == "build-output" {
		fmt.Fprint(p.out, e.Output)
	}
	if e.Package == "" {
		return
	}
	r := p.running[e.Package]
	if r == nil {
		r = &packageRun{began: e.Time, tests: map[string]*testRun{}}
		p.running[e.Package] = r
	}
	if e.Test == "" {
		p.handlePackage(r, e)
		return
	}
	r.handleTest(e)
}

func (r *packageRun) handleTest(e event) {
	t := r.tests[e.Test]
	if t == nil {
		t = &testRun{began: e.Time}
		r.tests[e.Test] = t
	}
	switch e.Action {
	case "output":
		if !isChatter(e.Output) {
			t.output = append(t.output, e.Output)
		}
	case "pause":
		t.paused = true
	case "cont":
		t.paused, t.began = false, e.Time
	case "fail":
		t.ended = true
	case "pass", "skip", "bench":
		delete(r.tests, e.Test)
	}
}

// isChatter reports lines that `go test` prints with -v alone.
func isChatter(line string) bool {
	for _, word := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "} {
		if strings.HasPrefix(line, word) {
			return true
		}
	}
	return false
}

// isLast reports the line with which `go test` ends a package.
func isLast(line string) bool {
	for _, word := range []string{"ok  \t", "FAIL\t", "?   \t"} {
		if strings.HasPrefix(line, word) {
			return true
		}
	}
	return false
}

func (p *progress) handlePackage(r *packageRun, e event) {
	switch e.Action {
	case "output":
		if isLast(e.Output) {
			r.last = e.Output
		} else {
			r.own = append(r.own, e.Output)
		}
	case "pass", "skip", "fail":
		delete(p.running, e.Package)
		p.done++
		p.finish(r, e)
	}
}

// finish tells how a package ended, and what its failed tests said.
func (p *progress) finish(r *packageRun, e event) {
	last := cmp.Or(r.last, fmt.Sprintf("%s\t%s\n", strings.ToUpper(e.Action), e.Package))
	p.plain = append(p.plain, last)
	if e.Action == "fail" {
		fmt.Fprint(p.out, strings.Join(r.failures(), ""))
	}
	fmt.Fprintf(p.out, "%s\t[%s; %s]\n", strings.TrimSuffix(last, "\n"), p.count(), describeRunning(p.running, e.Time))
}

// failures is the output of the tests that failed, and of those that had not ended, in the order of their names: a test before its parts.
func (r *packageRun) failures() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.tests)) {
		all = append(all, r.tests[name].output...)
	}
	return append(all, r.own...)
}

func (p *progress) count() string {
	if p.total > 0 {
		return fmt.Sprintf("%d of %d packages", p.done, p.total)
	}
	return fmt.Sprintf("%d packages", p.done)
}

// tell says what runs.
func (p *progress) tell(now time.Time) {
	if p.began.IsZero() {
		fmt.Fprintln(p.out, "... compiling")
		return
	}
	fmt.Fprintf(p.out, "... %s: %s; %s\n", seconds(now.Sub(p.began)), p.count(), describeRunning(p.running, now))
}

// describeRunning names each package that runs, with the test that has run longest.
func describeRunning(running map[string]*packageRun, now time.Time) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(running)) {
		test, took := running[name].longest(now)
		if test == "" {
			test, took = "begins", now.Sub(running[name].began)
		}
		all = append(all, fmt.Sprintf("%s %s %s", name, test, seconds(took)))
	}
	if len(all) == 0 {
		return "nothing runs"
	}
	return "running " + strings.Join(all, ", ")
}

// longest is the test without parts that has run longest.
func (r *packageRun) longest(now time.Time) (name string, took time.Duration) {
	for _, candidate := range slices.Sorted(maps.Keys(r.tests)) {
		t := r.tests[candidate]
		inIt := strings.HasPrefix(candidate, name+"/")
		if t.ended || t.paused || name != "" && !inIt && now.Sub(t.began) <= took {
			continue
		}
		name, took = candidate, now.Sub(t.began)
	}
	return name, took
}

func seconds(d time.Duration) time.Duration { return max(d, 0).Round(time.Second) }

// end prints what `go test` prints at its end.
func (p *progress) end(now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(p.running)) { // `go test` itself was killed
		p.plain = append(p.plain, fmt.Sprintf("FAIL\t%s [not finished]\n", name))
		fmt.Fprint(p.out, strings.Join(p.running[name].failures(), ""))
	}
	fmt.Fprintf(p.out, "\n=== %s in %s\n%s", p.count(), seconds(now.Sub(p.began)), strings.Join(p.plain, ""))
	if slices.ContainsFunc(p.plain, func(line string) bool { return strings.HasPrefix(line, "FAIL") }) {
		fmt.Fprintln(p.out, "FAIL")
	}
}

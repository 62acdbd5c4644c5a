// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module writes a module with a package for each way to end, and returns its directory.
func module(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module m\n",
		"good/a_test.go":   "package good\nimport \"testing\"\nfunc TestGood(t *testing.T) { t.Log(\"chatter of a good test\") }\nfunc TestSkipped(t *testing.T) { t.Skip() }\n",
		"bad/a_test.go":    "package bad\nimport \"testing\"\nfunc TestGood(t *testing.T) { t.Log(\"chatter of a good test\") }\nfunc TestBad(t *testing.T) { t.Run(\"part\", func(t *testing.T) { t.Error(\"what is wrong\") }) }\n",
		"panics/a_test.go": "package panics\nimport \"testing\"\nfunc TestPanics(t *testing.T) { panic(\"the reason\") }\n",
		"broken/a_test.go": "package broken\nimport \"testing\"\nfunc TestBroken(t *testing.T) { undefinedName() }\n",
		"none/a.go":        "package none\n",
	} {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

// TestEndsOfPackages runs `go test`: each package has its line when it ends and at the end, failures have their output, and the exit
// status is that of `go test`.
func TestEndsOfPackages(t *testing.T) {
	t.Chdir(module(t))
	var out strings.Builder
	status, err := run([]string{"go", "test", "-vet=off", "./..."}, newProgress(&out, 5))
	if err != nil || status != 1 {
		t.Errorf("status %d, %v", status, err)
	}
	during, after, found := strings.Cut(out.String(), "\n=== 5 of 5 packages in ")
	if !found {
		t.Fatalf("no end in:\n%s", out.String())
	}
	for _, want := range []string{"what is wrong", "--- FAIL: TestBad/part", "panic: the reason", "undefinedName", "[1 of 5 packages; ", "[5 of 5 packages; nothing runs]"} {
		if !strings.Contains(during, want) {
			t.Errorf("no %q in:\n%s", want, during)
		}
	}
	if strings.Contains(during, "chatter") {
		t.Errorf("output of good tests in:\n%s", during)
	}
	for _, want := range []string{"\nok  \tm/good\t", "\nFAIL\tm/bad\t", "\nFAIL\tm/panics\t", "\nFAIL\tm/broken [build failed]\n", "\n?   \tm/none\t[no test files]\n"} {
		if strings.Count(after, want) != 1 {
			t.Errorf("%q is not there once in:\n%s", want, after)
		}
	}
	if !strings.HasSuffix(after, "\nFAIL\n") {
		t.Errorf("the end is:\n%s", after)
	}
}

func TestGoodEnd(t *testing.T) {
	t.Chdir(module(t))
	var out strings.Builder
	status, err := run([]string{"go", "test", "-vet=off", "./good"}, newProgress(&out, 0))
	if err != nil || status != 0 {
		t.Errorf("status %d, %v", status, err)
	}
	if text := out.String(); strings.Contains(text, "FAIL") || strings.Contains(text, "chatter") || strings.Count(text, "ok  \tm/good\t") != 2 {
		t.Errorf("printed:\n%s", text)
	}
}

// TestWhatRuns: of each package the test that has run longest is named, its innermost part, and none that waits for its turn.
func TestWhatRuns(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, 3)
	p.tell(time.Time{})
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range []struct {
		at               int
		action, of, test string
	}{
		{0, "start", "m/a", ""}, {0, "start", "m/b", ""}, {0, "run", "m/a", "TestPasses"}, {5, "pass", "m/a", "TestPasses"}, {5, "run", "m/a", "TestWaits"},
		{5, "pause", "m/a", "TestWaits"}, {10, "run", "m/a", "TestLong"}, {20, "run", "m/a", "TestLong/part"}, {25, "run", "m/a", "TestShort"},
		{26, "start", "m/c", ""}, {27, "output", "m/c", ""}, {28, "pass", "m/c", ""},
	} {
		p.handle(event{Time: start.Add(time.Duration(e.at) * time.Second), Action: e.action, Package: e.of, Test: e.test})
	}
	p.tell(start.Add(time.Minute))
	p.handle(event{Time: start.Add(time.Minute), Action: "cont", Package: "m/a", Test: "TestWaits"})
	p.handle(event{Time: start.Add(time.Minute), Action: "pass", Package: "m/a", Test: "TestLong/part"})
	p.handle(event{Time: start.Add(time.Minute), Action: "pass", Package: "m/a", Test: "TestLong"})
	p.tell(start.Add(65 * time.Second))
	p.end(start.Add(70 * time.Second)) // killed
	want := `... compiling
PASS	m/c	[1 of 3 packages; running m/a TestLong/part 8s, m/b begins 28s]
... 1m0s: 1 of 3 packages; running m/a TestLong/part 40s, m/b begins 1m0s
... 1m5s: 1 of 3 packages; running m/a TestShort 40s, m/b begins 1m5s

=== 1 of 3 packages in 1m10s
PASS	m/c
FAIL	m/a [not finished]
FAIL	m/b [not finished]
FAIL
`
	if out.String() != want {
		t.Errorf("printed:\n%s\nwant:\n%s", out.String(), want)
	}
}

// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"loci/internal/testnet"
)

// registerProgram is a Map-Server that gets a Map-Register, or two.
const registerProgram = "./testdata/mapregister"

// registerRuns are so many because idle work of the event loop falls into some of them.
const registerRuns = 3

var fileName = regexp.MustCompile("`([a-z0-9_/]+\\.go)`")

// TestRegisterWalk: the walk of a Map-Register in ARCHITECTURE.md names the files that one executes, and no other.
func TestRegisterWalk(t *testing.T) {
	testnet.RequireRoot(t)
	program := filepath.Join(t.TempDir(), "mapregister")
	build := exec.Command("go", "build", "-cover", "-covermode=count", "-coverpkg=loci/...", "-o", program, registerProgram)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	executed := map[string]int{}
	for range registerRuns {
		for file := range registerFiles(t, program) {
			executed[file]++
		}
	}
	_, walk, found := strings.Cut(read(t, "../ARCHITECTURE.md"), "### A Map-Register")
	walk, _, ends := strings.Cut(walk, "\n### ")
	if !found || !ends {
		t.Fatal("ARCHITECTURE.md has no walk of a Map-Register")
	}
	named, directory := map[string]bool{}, ""
	for _, match := range fileName.FindAllStringSubmatch(walk, -1) {
		if file := match[1]; strings.Contains(file, "/") { // the files after it are of the same directory
			directory = path.Dir(file)
		}
		named[path.Join(directory, path.Base(match[1]))] = true
	}
	for _, file := range slices.Sorted(maps.Keys(executed)) {
		if executed[file] == registerRuns && !named[file] {
			t.Errorf("a Map-Register executes %s, which its walk in ARCHITECTURE.md does not name", file)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(named)) {
		if executed[file] == 0 {
			t.Errorf("the walk of a Map-Register in ARCHITECTURE.md names %s, which none executes", file)
		}
	}
}

// registerFiles are those of which a run with a second Map-Register executes more.
func registerFiles(t *testing.T, program string) map[string]bool {
	t.Helper()
	one, two := executions(t, program), executions(t, program, "again")
	files := map[string]bool{}
	for block, count := range two {
		if file, _, _ := strings.Cut(block, ":"); count > one[block] && !strings.HasPrefix(file, "docs/") {
			files[file] = true
		}
	}
	return files
}

// executions are how often each block of the module ran in a run of the program, by file and place.
func executions(t *testing.T, program string, arguments ...string) map[string]int {
	t.Helper()
	counts := t.TempDir()
	ns, err := testnet.ForTest(t).Namespace("register")
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(program, arguments...)
	run.Env = append(run.Environ(), "GOCOVERDIR="+counts)
	var output strings.Builder
	run.Stdout, run.Stderr = &output, &output
	if err := ns.Start(run); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, output.String())
	}
	profile := filepath.Join(counts, "profile")
	if text, err := exec.Command("go", "tool", "covdata", "textfmt", "-i", counts, "-o", profile).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	blocks := map[string]int{}
	for line := range strings.Lines(read(t, profile)) { // loci/wire/auth.go:112.44,114.2 1 7
		words := strings.Fields(line)
		if len(words) != 3 {
			continue
		}
		n, err := strconv.Atoi(words[2])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		blocks[strings.TrimPrefix(words[0], "loci/")] += n
	}
	return blocks
}

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

// registerProgram is a Map-Server that gets a Map-Register, and others that renew it.
const registerProgram = "./testdata/mapregister"

// renewals are so many that what each executes can be told from what the event loop does meanwhile.
const renewals = 50

var fileName = regexp.MustCompile("`([a-z0-9_/]+\\.go)`")

// TestRegisterWalk: the walk of a Map-Register in ARCHITECTURE.md names the files that one executes, and no other.
func TestRegisterWalk(t *testing.T) {
	testnet.RequireRoot(t)
	program := filepath.Join(t.TempDir(), "mapregister")
	build := exec.Command("go", "build", "-cover", "-covermode=count", "-coverpkg=loci/...", "-o", program, registerProgram)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	once, often := executions(t, program, 0), executions(t, program, renewals)
	each, some := map[string]bool{}, map[string]bool{}
	for block, count := range often {
		file, _, _ := strings.Cut(block, ":")
		more := count - once[block]
		each[file] = each[file] || more >= renewals
		some[file] = some[file] || more > 0
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
	for _, file := range slices.Sorted(maps.Keys(each)) {
		if each[file] && !named[file] && !strings.HasPrefix(file, "docs/") {
			t.Errorf("a Map-Register executes %s, which its walk in ARCHITECTURE.md does not name", file)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(named)) {
		if !some[file] {
			t.Errorf("the walk of a Map-Register in ARCHITECTURE.md names %s, which none executes", file)
		}
	}
}

// executions are how often each block of the module ran, by file and place, while so many Map-Registers renewed one.
func executions(t *testing.T, program string, renewals int) map[string]int {
	t.Helper()
	counts := t.TempDir()
	ns, err := testnet.ForTest(t).Namespace("register")
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(program, strconv.Itoa(renewals))
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

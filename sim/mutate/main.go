// SPDX-License-Identifier: Apache-2.0

// Command mutate asks whether the simulator would notice: it breaks the protocol code in
// one small way at a time, builds itself with that (go build -overlay: no file of the
// tree is touched), and lets the simulator look for it in 200 seeds. A mutation that no
// seed finds is a hole in the invariants. The unmutated code must pass the same seeds.
//
// It runs in the root of the repository: go run ./sim/mutate [-only name] [-seeds n].
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"loci/sim"
)

type options struct {
	seeds   int
	first   uint64
	routers int
	only    string
	search  bool // look for a failing seed in this very build
	clean   bool // run the unmutated code too
	trace   int  // lines of trace that a search prints
	nat     bool // seeds of nodes behind NATs
}

func main() {
	var o options
	flag.IntVar(&o.seeds, "seeds", 200, "how many seeds each mutation gets")
	flag.Uint64Var(&o.first, "first", 1, "the first seed")
	flag.IntVar(&o.routers, "routers", 24, "routers in each run")
	flag.StringVar(&o.only, "only", "", "only mutations whose name contains this")
	flag.BoolVar(&o.clean, "clean", true, "let the unmutated code run all seeds first")
	flag.BoolVar(&o.search, "search", false, "run the seeds in this build and say what is found first")
	flag.IntVar(&o.trace, "trace", 0, "with -search: print that many events before the failure")
	flag.BoolVar(&o.nat, "nat", false, "with -search: seeds of nodes behind NATs")
	flag.Parse()
	if o.search {
		os.Exit(search(o))
	}
	if err := mutateAll(o); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// search runs seeds until one fails: exit status 1 then, and 0 when none does.
func search(o options) int {
	debug.SetGCPercent(400)
	status, done := 0, 0
	sim.RunMany(context.Background(), sim.Options{Seed: o.first, Routers: o.routers, NAT: o.nat}, o.seeds, func(r sim.Result) bool {
		done++
		if r.Violation == nil {
			return true
		}
		if o.trace > 0 {
			again := sim.Run(sim.Options{Seed: r.Seed, Routers: o.routers, NAT: o.nat, Trace: true, TraceLines: o.trace})
			fmt.Println(strings.Join(again.Trace, "\n"))
		}
		fmt.Printf("seed %d, the %d. run: %s\n", r.Seed, done, firstLine(r.Violation.Error()))
		status = 1
		return false
	})
	return status
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func mutateAll(o options) error {
	work, err := os.MkdirTemp("", "loci-mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	missed := 0
	if o.clean {
		for _, none := range []mutation{{name: "none"}, {name: natPrefix + "none"}} {
			if found, err := try(o, work, none); err != nil || found != "" {
				return errors.Join(err, fmt.Errorf("the unmutated code fails: %s", found))
			}
		}
	}
	for _, m := range mutations {
		if !strings.Contains(m.name, o.only) {
			continue
		}
		found, err := try(o, work, m)
		if err != nil {
			fmt.Println(err)
		}
		if found == "" {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d mutations were not found", missed)
	}
	return nil
}

// natPrefix is what the names of mutations begin with that are looked for in seeds of nodes behind NATs.
const natPrefix = "nat-"

// try builds a mutant and lets it search; it returns what was found.
func try(o options, work string, m mutation) (string, error) {
	start := time.Now()
	binary := filepath.Join(work, "mutant")
	overlay, err := m.overlay(work)
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-ldflags", "-s -w", "-o", binary, "./sim/mutate")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not build: %w\n%s", m.name, err, out)
	}
	search := exec.Command(binary, "-search", "-seeds", fmt.Sprint(o.seeds), "-first", fmt.Sprint(o.first), "-routers", fmt.Sprint(o.routers))
	if strings.HasPrefix(m.name, natPrefix) {
		search.Args = append(search.Args, "-nat")
	}
	out, err := search.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	found := strings.TrimSpace(string(out))
	verdict := found
	if found == "" {
		verdict = "nothing"
	}
	fmt.Printf("%-28s %4s  %s\n", m.name, time.Since(start).Round(time.Second), verdict)
	return found, nil
}

// overlay writes the mutated file and the description that go build wants.
func (m mutation) overlay(work string) (string, error) {
	replace := map[string]string{}
	if m.file != "" {
		text, err := os.ReadFile(m.file)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), m.old); n != 1 {
			return "", fmt.Errorf("%s: %s has %d places that read %q, want one: bring the mutation up to date", m.name, m.file, n, m.old)
		}
		original, err := filepath.Abs(m.file)
		if err != nil {
			return "", err
		}
		mutated := filepath.Join(work, "mutated.go")
		if err := os.WriteFile(mutated, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600); err != nil {
			return "", err
		}
		replace[original] = mutated
	}
	description, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(work, "overlay.json")
	return path, os.WriteFile(path, description, 0o600)
}

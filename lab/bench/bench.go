// SPDX-License-Identifier: Apache-2.0

// Package bench is `loci bench`: what LISP forwarding costs beside plain routing and VXLAN on the same machine,
// measured in network namespaces with Loci's own daemons, traffic generators and sinks.
//
// All arms of a bench are interleaved within one run, and compared round by round: a machine that slows down slows
// all of them. Every packet is verified where it arrives. Nothing outside the namespaces is touched, and nothing is
// left behind.
package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"loci/internal/testnet"
	"loci/lab"
	"loci/lab/bench/controlplane"
	"loci/lab/bench/fib"
	"loci/lab/bench/forwarding"
	"loci/lab/bench/lispnat"
	"loci/lab/bench/mappings"
	"loci/lab/bench/misses"
	"loci/lab/bench/relay"
	"loci/lab/bench/report"
	"loci/lab/bench/subflows"
	"loci/lab/bench/testbed"
	"loci/lab/bench/user"
)

// Forwarding names the bench that can have a full map-cache, LengthsInternet and LengthsHosts the lengths of its
// prefixes.
const (
	Forwarding      = forwarding.Name
	LengthsInternet = mappings.LengthsInternet
	LengthsHosts    = mappings.LengthsHosts
)

// Options of one run.
type Options = testbed.Options

// Report is the result of one bench.
type Report = report.Report

// WriteDocument puts the tables of some reports between the marks of a Markdown file.
func WriteDocument(path string, reports []*Report) error { return report.WriteDocument(path, reports) }

// UpdateDocument puts the table of one report in place of its last one.
func UpdateDocument(path string, r *Report) error { return report.UpdateDocument(path, r) }

// kinds in the order in which they are listed.
func kinds() []testbed.Bench {
	return []testbed.Bench{
		forwarding.Forwarding(), forwarding.Bound(), subflows.Bench(), forwarding.TCP(), forwarding.Latency(),
		relay.Bench(),
		fib.Bench(), misses.Miss(), misses.Flood(),
		controlplane.Mapsock(), controlplane.Control(), forwarding.Failover(), controlplane.Scale(), user.Bench(), lispnat.Bench(),
	}
}

// Title is one line about a bench; empty for an unknown one.
func Title(name string) string {
	for _, k := range kinds() {
		if k.Name == name {
			return strings.ToUpper(k.Title[:1]) + k.Title[1:]
		}
	}
	return ""
}

// Names lists the benches.
func Names() []string {
	var all []string
	for _, k := range kinds() {
		all = append(all, k.Name)
	}
	return all
}

// Cases lists the cases of a bench; of an unknown one, none.
func Cases(name string) []string {
	for _, k := range kinds() {
		if k.Name == name {
			return k.Cases
		}
	}
	return nil
}

// Lacks is an error where this machine lacks something for one of the benches, whichever is run first.
func Lacks(names []string) error {
	var problems []testnet.Problem
	for _, k := range kinds() {
		if slices.Contains(names, k.Name) {
			problems = append(problems, k.Problems()...)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.SortFunc(problems, func(a, b testnet.Problem) int { return strings.Compare(a.What, b.What) })
	return &lab.PreflightError{Purpose: "run these benches", Problems: slices.Compact(problems)}
}

// Run runs one bench. The report is filled as far as it went; with Options.JSON it is also printed. When ctx ends,
// what was made is removed before Run returns.
func Run(ctx context.Context, name string, options Options) (found *Report, err error) {
	k, label, err := choose(name, options)
	if err != nil {
		return nil, err
	}
	if options.Rounds > 0 {
		k.Rounds = options.Rounds
	}
	return testbed.Measure(ctx, k, label, options)
}

// choose is a bench with the cases and arms that are wanted, and how its report is named.
func choose(name string, options Options) (k testbed.Bench, label string, err error) {
	i := slices.IndexFunc(kinds(), func(k testbed.Bench) bool { return k.Name == name })
	if i < 0 {
		return k, "", misuse("there is no bench %q; there are %s", name, strings.Join(Names(), ", "))
	}
	if options.Rounds < 0 || options.Measure < 0 {
		return k, "", misuse("bench %s: rounds and seconds cannot be negative", name)
	}
	k, label = kinds()[i], name
	if options.Entries != 0 || options.Lengths != "" {
		if k, err = withEntries(k, options); err != nil {
			return k, "", misuse("bench %s: %w", name, err)
		}
		label = fmt.Sprintf("%s --entries %d", name, options.Entries)
		if options.Lengths != "" {
			label += " --lengths " + options.Lengths
		}
	}
	if k.Cases, err = chooseCases(k.Cases, options.Cases); err != nil {
		return k, "", misuse("bench %s: %w", name, err)
	}
	if k.Arms, err = chooseArms(k.Arms, options.Arms); err != nil {
		return k, "", misuse("bench %s: %w", name, err)
	}
	return k, label, nil
}

// misuse is an error about the arguments.
func misuse(format string, values ...any) error {
	return &lab.UsageError{Err: fmt.Errorf(format, values...)}
}

// withEntries is the bench with a map-cache of so many mappings.
func withEntries(k testbed.Bench, options Options) (testbed.Bench, error) {
	if k.Name != forwarding.Name {
		return testbed.Bench{}, fmt.Errorf("--entries is for the bench %s", forwarding.Name)
	}
	return forwarding.Entries(options.Entries, options.Lengths)
}

// chooseArms keeps the order of all.
func chooseArms(all []testbed.Arm, wanted []string) ([]testbed.Arm, error) {
	var names []string
	for _, a := range all {
		names = append(names, a.Name)
	}
	for _, want := range wanted {
		if !slices.Contains(names, want) {
			return nil, fmt.Errorf("there is no arm %q; there are: %s", want, strings.Join(names, "; "))
		}
	}
	if len(wanted) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(a testbed.Arm) bool { return !slices.Contains(wanted, a.Name) }), nil
}

// chooseCases keeps the order of all.
func chooseCases(all, wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		return all, nil
	}
	matches := func(name, want string) bool { return name == want || strings.HasPrefix(name, want+"/") }
	for _, want := range wanted {
		if !slices.ContainsFunc(all, func(name string) bool { return matches(name, want) }) {
			return nil, fmt.Errorf("there is no case %q; there are %s", want, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return !slices.ContainsFunc(wanted, func(want string) bool { return matches(name, want) })
	}), nil
}

// SPDX-License-Identifier: Apache-2.0

// `loci bench fib`: lookups in BPF and updates of the kernel engine's forwarding table, beside an LPM_TRIE and a HASH with the
// same prefixes. It sends no packet: a program asks for one address after the other (bpf/bench_fib.bpf.c). Lookups of all
// arms are counted and compared.

package fib

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"loci/dataplane/kernel"
	"loci/dataplane/kernel/pins"
	"loci/internal/testnet"
	"loci/lab/bench/mappings"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// Bench is the bench of the forwarding table.
func Bench() testbed.Bench {
	k := testbed.Bench{
		Name: "fib", Title: "lookups and updates of the forwarding table, beside an LPM_TRIE and a hash", Rounds: 7, Length: 8 * time.Second, Overrun: 3 * time.Minute,
		Whole: measureFIB, Judge: judgeFIB, BuiltIn: true,
	}
	for _, t := range fibTables {
		for _, c := range []string{destinationsRandom, destinationsZipf, destinationsSingle, updates} {
			k.Cases = append(k.Cases, t.name+"/"+c)
		}
	}
	return k
}

// measureFIB takes one table after the other, each in an engine of its own.
func measureFIB(ctx context.Context, b *testbed.Run) error {
	l, err := testbed.NewLine(b.Network, testbed.Arm{Name: armFIB, Key: "fib"})
	if err != nil {
		return err
	}
	b.Lines = append(b.Lines, l)
	for _, t := range fibTables {
		var chosen []string
		for _, c := range b.Bench.Cases {
			if table, what, _ := strings.Cut(c, "/"); table == t.name {
				chosen = append(chosen, what)
			}
		}
		if len(chosen) == 0 {
			continue
		}
		b.Screen.Line("%s: %s", t.name, strings.Join(chosen, ", "))
		if err := measureTable(ctx, b, l.Enc, t, chosen); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

func measureTable(ctx context.Context, b *testbed.Run, ns *testnet.Namespace, t fibTable, chosen []string) (err error) {
	options := kernel.Options{
		PinDirectory: filepath.Join(b.Instance.Pins(), ns.Role()), MappingLimit: max(t.entries, kernel.DefaultMappingLimit),
	}
	var engine *kernel.Engine
	if err := ns.Do(func() (err error) {
		engine, err = kernel.Open(options)
		return err
	}); err != nil {
		return err
	}
	defer func() {
		_ = engine.Close() // before, it may have been closed for a daemon
		err = errors.Join(err, ns.Do(func() error { return kernel.Remove(options) }))
	}()
	prefixes := mappings.BenchPrefixes(t.entries, t.v6)
	l, err := newLookups(filepath.Join(options.PinDirectory, pins.DefaultInstance, "maps"), t)
	if err != nil {
		return err
	}
	defer l.close()
	f := &fibFill{bench: b, table: t, engine: engine, lookups: l, prefixes: prefixes}
	for _, fill := range []func() error{f.fillEngine, f.fillTrie, f.fillHash, f.fillFloor} {
		if err := errors.Join(fill(), ctx.Err()); err != nil {
			return err
		}
	}
	for _, what := range chosen {
		if what == updates {
			continue
		}
		if err := measureLookups(ctx, b, l, t.name+"/"+what, drawDestinations(what, prefixes)); err != nil {
			return err
		}
	}
	if !slices.Contains(chosen, updates) {
		return nil
	}
	f.report()
	if t.entries < million {
		return nil
	}
	return f.measureDaemon(ctx, ns)
}

// measureLookups times the arms, interleaved.
func measureLookups(ctx context.Context, b *testbed.Run, l *lookups, caseName string, destinations []netip.Addr) error {
	if err := l.aim(destinations); err != nil {
		return err
	}
	slot := b.Options.Measure / time.Duration(len(b.Bench.Cases)*b.Bench.Rounds*len(l.arms))
	for round := range b.Bench.Rounds {
		var empty float64
		for i := range l.arms {
			// The loop comes first, because it is taken off the others.
			arm := l.arms[i]
			if i > 0 {
				arm = l.arms[1+(i+round)%(len(l.arms)-1)]
			}
			ns, err := l.time(arm, slot)
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			if i == 0 {
				empty = ns
				continue
			}
			b.Report.Add(caseName, arm.name, []report.Sample{report.Figure("lookup", "ns", max(ns-empty, 0.1)), report.Figure("loop", "packets", empty)})
		}
	}
	return l.compare()
}

func judgeFIB(r *report.Report) {
	for _, to := range []string{armArray, armTrie, armHash} {
		r.Compare("lookup", armFIB, to)
	}
	r.Compare("lookup", armCounted, armMapping)
	r.Compare("install", armFIB, armTrie)
	for _, w := range []struct {
		caseName, metric, of, to string
		limit                    float64
	}{
		{"ipv4-1m/random", "lookup", armFIB, armArray, 2.5},
		{"ipv6-200k/random", "lookup", armFIB, armArray, 4},
		{"ipv4-1m/random", "lookup", armFIB, armTrie, 1.0 / 15},
		{"ipv6-200k/random", "lookup", armFIB, armTrie, 1.0 / 12},
		{"ipv4-1k/single", "lookup", armCounted, armMapping, 1.15},
		{"ipv4-1m/update", "install", armFIB, armTrie, 1.25},
	} {
		r.WantRatioIn(w.caseName, w.metric, w.of, w.to, report.AtMost(w.limit))
	}
	const largest = "ipv4-1m/" + updates
	if x := r.Find(largest, armFIB, "kernel memory"); x != nil {
		r.Want(largest+": MB in the kernel, counters and mappings included", x.Median, report.AtMost(200))
	}
	if x := r.Find(largest, armFIB, "daemon resident"); x != nil {
		r.Want(largest+": MB that the daemon has resident", x.Median, report.AtMost(600))
	}
}

// SPDX-License-Identifier: Apache-2.0

// `loci bench fib`: lookups in BPF and updates of the kernel engine's forwarding table, beside an LPM_TRIE and a HASH with the
// same prefixes. It sends no packet: a program asks for one address after the other (bpf/bench_fib.bpf.c). Lookups of all
// arms are counted and compared.

package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"loci/dataplane/kernel"
	"loci/internal/testnet"
	"loci/lisp"
)

const (
	armFIB     = "loci fib"
	armMapping = "loci fib and mapping"
	armCounted = "loci fib, mapping and counters"

	// counterShare is what the counters of a mapping may cost of a packet, of which XDP takes shortestPacketNs at a router.
	counterShare     = 0.03
	shortestPacketNs = 200
	armTrie          = "LPM_TRIE"
	armHash          = "hash"

	destinationsRandom = "random"
	destinationsZipf   = "zipf"
	destinationsSingle = "single"
	// updates is the case of everything that is no lookup.
	updates = "update"

	// lookupAddresses is how many addresses are looked up before they repeat, lookupsPerRun how many a run of a program looks up
	// (bpf/bench_fib.bpf.c).
	lookupAddresses = 1 << 20
	lookupsPerRun   = 64

	million = 1000000
)

// fibTable is one content of the tables.
type fibTable struct {
	name    string
	entries int
	v6      bool
}

var fibTables = []fibTable{
	{"ipv4-1", 1, false}, {"ipv4-1k", 1000, false}, {"ipv4-100k", 100000, false}, {"ipv4-1m", million, false}, {"ipv6-200k", 200000, true},
}

func fibBench() kind {
	k := kind{
		name: "fib", title: "lookups and updates of the forwarding table, beside an LPM_TRIE and a hash", rounds: 7, length: 8 * time.Second,
		whole: measureFIB, judge: judgeFIB,
	}
	for _, t := range fibTables {
		for _, c := range []string{destinationsRandom, destinationsZipf, destinationsSingle, updates} {
			k.cases = append(k.cases, t.name+"/"+c)
		}
	}
	return k
}

// measureFIB takes one table after the other, each in an engine of its own.
func measureFIB(ctx context.Context, b *bench) error {
	l, err := newLine(b.network, arm{name: armFIB, key: "fib"})
	if err != nil {
		return err
	}
	b.lines = append(b.lines, l)
	for _, t := range fibTables {
		var chosen []string
		for _, c := range b.kind.cases {
			if table, what, _ := strings.Cut(c, "/"); table == t.name {
				chosen = append(chosen, what)
			}
		}
		if len(chosen) == 0 {
			continue
		}
		b.screen.line("%s: %s", t.name, strings.Join(chosen, ", "))
		if err := b.measureTable(ctx, l.enc, t, chosen); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

func (b *bench) measureTable(ctx context.Context, ns *testnet.Namespace, t fibTable, chosen []string) (err error) {
	options := kernel.Options{
		PinDirectory: filepath.Join(b.instance.Pins(), ns.Role()), MappingLimit: max(t.entries, kernel.DefaultMappingLimit),
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
	prefixes := benchPrefixes(t.entries, t.v6)
	l, err := newLookups(filepath.Join(options.PinDirectory, kernel.DefaultInstance, "maps"), t)
	if err != nil {
		return err
	}
	defer l.close()
	f := &fibFill{bench: b, table: t, engine: engine, lookups: l, prefixes: prefixes}
	for _, fill := range []func() error{f.fillEngine, f.fillTrie, f.fillHash} {
		if err := errors.Join(fill(), ctx.Err()); err != nil {
			return err
		}
	}
	for _, what := range chosen {
		if what == updates {
			continue
		}
		if err := b.measureLookups(ctx, l, t.name+"/"+what, drawDestinations(what, prefixes)); err != nil {
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

// measureLookups times the arms in turns.
func (b *bench) measureLookups(ctx context.Context, l *lookups, caseName string, destinations []netip.Addr) error {
	if err := l.aim(destinations); err != nil {
		return err
	}
	slot := b.options.Measure / time.Duration(len(b.kind.cases)*b.kind.rounds*len(l.arms))
	for round := range b.kind.rounds {
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
			b.report.add(caseName, arm.name, []sample{{"lookup", "ns", max(ns-empty, 0.1)}, {"loop", "packets", empty}})
		}
	}
	return l.compare()
}

func judgeFIB(r *Report) {
	r.compare("lookup", armFIB, armTrie)
	r.compare("lookup", armFIB, armHash)
	for _, c := range []struct {
		name  string
		limit float64
	}{{"ipv4-1m/random", 60}, {"ipv6-200k/random", 120}} {
		if x := r.find(c.name, armFIB, "lookup"); x != nil {
			r.want(c.name+": ns a lookup", x.Median, atMost(c.limit))
		}
	}
	for _, ratio := range r.Ratios {
		if ratio.Case == "ipv4-1m/random" && ratio.To == armTrie {
			r.want(ratio.Case+": lookup of loci fib / LPM_TRIE", ratio.Median, atMost(1.0/15))
		}
	}
	const warm = "ipv4-1k/" + destinationsSingle
	if counted, mapping := r.find(warm, armCounted, "lookup"), r.find(warm, armMapping, "lookup"); counted != nil && mapping != nil {
		added := spreadOf(differencesOf(counted.Samples, mapping.Samples)).Median
		r.want(warm+": ns that counters add", added, atMost(counterShare*shortestPacketNs))
	}
	const largest = "ipv4-1m/" + updates
	if x := r.find(largest, armFIB, "installs"); x != nil {
		r.want(largest+": installs/s", x.Median, atLeast(300000))
	}
	if x := r.find(largest, armFIB, "kernel memory"); x != nil {
		r.want(largest+": MB in the kernel, counters and mappings included", x.Median, atMost(200))
	}
	if x := r.find(largest, armFIB, "daemon resident"); x != nil {
		r.want(largest+": MB that the daemon has resident", x.Median, atMost(600))
	}
}

// siteRLOC is the locator of one of a thousand sites.
func siteRLOC(i int) lisp.RLOC {
	return lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{198, 18, byte(i % 1000 >> 8), byte(i % 1000)}))
}

// residentOctets is what a process has in memory, maps of the kernel that it has mapped included.
func residentOctets(pid int) (float64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(status))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of %d: %q", pid, status)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()), err
}

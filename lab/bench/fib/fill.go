// SPDX-License-Identifier: Apache-2.0

// Fills the tables of `loci bench fib` and measures what that takes: time, memory of the kernel, and of a daemon that
// takes the full tables over. The engine is filled as the daemon fills it, by Apply.

package fib

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel"
	"loci/internal/testnet"
	"loci/lab/bench/mappings"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
	"loci/lisp"
)

const (
	// churn is how many prefixes are taken out and put in again.
	churn = 50000
	// megaoctet is what memory is counted in.
	megaoctet = 1e6
)

// fibFill is one table of every arm.
type fibFill struct {
	bench    *testbed.Run
	table    fibTable
	engine   *kernel.Engine
	lookups  *lookups
	prefixes []netip.Prefix

	installNs, deleteNs, insertNs float64 // of the engine, each
	engineOctets                  uint64
	tableOctets                   uint64 // of it, what lookups walk
	trieNs, hashNs                float64
	trieOctets, hashOctets        uint64
}

func (f *fibFill) fillEngine() (err error) {
	now := time.Now()
	entryOf := func(i int) dataplane.Operation {
		set, _ := lisp.NewLocatorSet(lisp.Locator{RLOC: mappings.SiteRLOC(i), Priority: 1, Weight: 100, Reachable: true})
		prefix, _ := lisp.PrefixFromNetip(0, f.prefixes[i])
		return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour),
			Mapping: lisp.Mapping{Prefix: prefix, Locators: set, TTLMinutes: 1440}}}
	}
	if f.installNs, err = mappings.ApplyAll(f.engine, len(f.prefixes), entryOf); err != nil {
		return err
	}
	if f.engineOctets, err = f.lookups.engineOctets(); err != nil {
		return err
	}
	some := rand.New(rand.NewPCG(4, 343)).Perm(len(f.prefixes))
	some = some[:min(churn, len(some))]
	f.deleteNs, err = mappings.ApplyAll(f.engine, len(some), func(i int) dataplane.Operation {
		prefix, _ := lisp.PrefixFromNetip(0, f.prefixes[some[i]])
		return dataplane.DeleteMapping{Prefix: prefix}
	})
	if err == nil {
		f.insertNs, err = mappings.ApplyAll(f.engine, len(some), func(i int) dataplane.Operation { return entryOf(some[i]) })
	}
	return err
}

func (f *fibFill) fillTrie() (err error) {
	f.trieNs, f.trieOctets, err = f.lookups.fillTrie(f.prefixes)
	return err
}

func (f *fibFill) fillHash() (err error) {
	f.hashNs, f.hashOctets, err = f.lookups.fillHash(f.prefixes)
	return err
}

// fillFloor loads the floor with as much memory as the tables that lookups walk.
func (f *fibFill) fillFloor() error {
	var err error
	if f.tableOctets, err = f.lookups.tableOctets(); err != nil {
		return err
	}
	return f.lookups.loadFloor(f.tableOctets)
}

// report files what filling told.
func (f *fibFill) report() {
	name := f.table.name + "/" + updates
	f.bench.Report.Add(name, armFIB, []report.Sample{
		report.Figure("installs", "mappings/s", 1e9/f.installNs), report.Figure("install", "ns", f.installNs), report.Figure("delete when full", "ns", f.deleteNs),
		report.Figure("insert when full", "ns", f.insertNs), report.Figure("kernel memory", "MB", float64(f.engineOctets)/megaoctet),
		report.Figure("memory of the tables that lookups walk", "MB", float64(f.tableOctets)/megaoctet),
	})
	f.bench.Report.Add(name, armTrie, []report.Sample{report.Figure("install", "ns", f.trieNs), report.Figure("kernel memory", "MB", float64(f.trieOctets)/megaoctet)})
	f.bench.Report.Add(name, armHash, []report.Sample{report.Figure("install", "ns", f.hashNs), report.Figure("kernel memory", "MB", float64(f.hashOctets)/megaoctet)})
}

// daemonConfig is that of a daemon that takes the tables over.
const daemonConfig = `interfaces:
  site: [` + testbed.SiteLink + `]
  core: [` + testbed.CoreLink + `]
itr:
  map-cache: {limit: %d}
  map-resolvers: ["192.0.2.1"]
control:
`

// measureDaemon starts a daemon on the tables, which must know all mappings, and reads its size.
func (f *fibFill) measureDaemon(ctx context.Context, ns *testnet.Namespace) error {
	if err := f.engine.Close(); err != nil {
		return err
	}
	p, err := f.bench.StartDaemon(ctx, ns, fmt.Sprintf(daemonConfig, len(f.prefixes)))
	if err != nil {
		return err
	}
	defer f.bench.StopDaemons()
	octets, err := testbed.ResidentOctets(p.PID())
	if err != nil {
		return err
	}
	f.bench.Report.Add(f.table.name+"/"+updates, armFIB, []report.Sample{report.Figure("daemon resident", "MB", octets/megaoctet)})
	return nil
}

// checkSum is what arms must agree on.
type checkSum struct{ found, lengths uint64 }

func (c checkSum) String() string {
	return fmt.Sprintf("%d found, sum of lengths %d", c.found, c.lengths)
}

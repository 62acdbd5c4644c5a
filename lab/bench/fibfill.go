// SPDX-License-Identifier: Apache-2.0

// Fills the tables of `loci bench fib` and measures what that takes: time, memory of the kernel, and of a daemon that
// takes the full tables over. The engine is filled as the daemon fills it, by Apply.

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel"
	"loci/internal/testnet"
	"loci/lisp"
)

const (
	// applyBatch is how many operations the engine gets at a time.
	applyBatch = 256
	// churn is how many prefixes are taken out and put in again.
	churn = 50000
	// megaoctet is what memory is counted in.
	megaoctet = 1e6
)

// fibFill is one table of every arm.
type fibFill struct {
	bench    *bench
	table    fibTable
	engine   *kernel.Engine
	lookups  *lookups
	prefixes []netip.Prefix

	installNs, deleteNs, insertNs float64 // of the engine, each
	engineOctets                  uint64
	trieNs, hashNs                float64
	trieOctets, hashOctets        uint64
}

func (f *fibFill) fillEngine() (err error) {
	now := time.Now()
	entryOf := func(i int) dataplane.Operation {
		set, _ := lisp.NewLocatorSet(lisp.Locator{RLOC: siteRLOC(i), Priority: 1, Weight: 100, Reachable: true})
		prefix, _ := lisp.PrefixFromNetip(0, f.prefixes[i])
		return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour),
			Mapping: lisp.Mapping{Prefix: prefix, Locators: set, TTLMinutes: 1440}}}
	}
	if f.installNs, err = f.apply(len(f.prefixes), entryOf); err != nil {
		return err
	}
	if f.engineOctets, err = f.lookups.engineOctets(); err != nil {
		return err
	}
	some := rand.New(rand.NewPCG(4, 343)).Perm(len(f.prefixes))
	some = some[:min(churn, len(some))]
	f.deleteNs, err = f.apply(len(some), func(i int) dataplane.Operation {
		prefix, _ := lisp.PrefixFromNetip(0, f.prefixes[some[i]])
		return dataplane.DeleteMapping{Prefix: prefix}
	})
	if err == nil {
		f.insertNs, err = f.apply(len(some), func(i int) dataplane.Operation { return entryOf(some[i]) })
	}
	return err
}

// apply carries out operations in batches and returns the time for each; making them is not in it.
func (f *fibFill) apply(count int, operation func(i int) dataplane.Operation) (nsEach float64, err error) {
	var spent time.Duration
	batch := make([]dataplane.Operation, 0, applyBatch)
	for i := range count {
		batch = append(batch, operation(i))
		if len(batch) < applyBatch && i+1 < count {
			continue
		}
		began := time.Now()
		errs := f.engine.Apply(batch...)
		spent += time.Since(began)
		for _, err := range errs {
			if err != nil {
				return 0, err
			}
		}
		batch = batch[:0]
	}
	return float64(spent.Nanoseconds()) / float64(count), nil
}

func (f *fibFill) fillTrie() (err error) {
	f.trieNs, f.trieOctets, err = f.lookups.fillTrie(f.prefixes)
	return err
}

func (f *fibFill) fillHash() (err error) {
	f.hashNs, f.hashOctets, err = f.lookups.fillHash(f.prefixes)
	return err
}

// report files what filling told.
func (f *fibFill) report() {
	name := f.table.name + "/" + updates
	f.bench.report.add(name, armFIB, []sample{
		{"installs", "mappings/s", 1e9 / f.installNs}, {"install", "ns", f.installNs}, {"delete when full", "ns", f.deleteNs},
		{"insert when full", "ns", f.insertNs}, {"kernel memory", "MB", float64(f.engineOctets) / megaoctet},
	})
	f.bench.report.add(name, armTrie, []sample{{"insert, batches", "ns", f.trieNs}, {"kernel memory", "MB", float64(f.trieOctets) / megaoctet}})
	f.bench.report.add(name, armHash, []sample{{"insert, batches", "ns", f.hashNs}, {"kernel memory", "MB", float64(f.hashOctets) / megaoctet}})
}

// daemonConfig is that of a daemon that takes the tables over.
const daemonConfig = `interfaces:
  site: [` + siteLink + `]
  core: [` + coreLink + `]
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
	p, err := f.bench.startDaemon(ctx, ns, fmt.Sprintf(daemonConfig, len(f.prefixes)))
	if err != nil {
		return err
	}
	defer f.bench.stopDaemons()
	octets, err := residentOctets(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	f.bench.report.add(f.table.name+"/"+updates, armFIB, []sample{{"daemon resident", "MB", octets / megaoctet}})
	return nil
}

// checkSum is what arms must agree on.
type checkSum struct{ found, lengths uint64 }

func (c checkSum) String() string {
	return fmt.Sprintf("%d found, sum of lengths %d", c.found, c.lengths)
}

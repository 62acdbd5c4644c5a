// SPDX-License-Identifier: Apache-2.0

// Fills the tables of a router with many mappings, as a daemon that learnt them would have left them.

package mappings

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel"
	"loci/lab/bench/testbed"
	"loci/lisp"
)

const (
	// OtherMappings are in the map-cache beside the entries.
	OtherMappings = 64
	// applyBatch is how many operations the engine gets at a time.
	applyBatch = 256
)

// EntrySet is the part of a pair in all entries of a line.
type EntrySet struct {
	Pair     testbed.Pair
	Mix      entryMix
	First    int // place of its first destination among those of all sets
	Prefixes []netip.Prefix
}

// CountOf is how many entries there are in all sets.
func CountOf(sets []EntrySet) (count int) {
	for _, s := range sets {
		count += len(s.Prefixes)
	}
	return count
}

// DrawEntries divides the entries among the pairs that are measured.
func DrawEntries(mix entryMix, cases []string, count int) []EntrySet {
	var sets []EntrySet
	for _, p := range testbed.Pairs {
		for _, name := range cases {
			if strings.HasPrefix(name, p.Name+"/") {
				sets = append(sets, EntrySet{Pair: p, Mix: mix})
			}
		}
	}
	random := rand.New(rand.NewPCG(4, 344))
	for i, first := 0, 0; i < len(sets); i++ {
		s := &sets[i]
		s.First = first
		s.draw(random, count/len(sets))
		first += len(s.Prefixes)
	}
	return sets
}

// draw takes different prefixes.
func (s *EntrySet) draw(random *rand.Rand, count int) {
	known := make(map[netip.Prefix]struct{}, count)
	for len(s.Prefixes) < count {
		p := s.Mix.draw(random, s.Pair)
		if _, twice := known[p]; twice {
			continue
		}
		known[p] = struct{}{}
		s.Prefixes = append(s.Prefixes, p)
	}
}

// Destinations are an address of each entry in the order in which packets go to them, which is another one than that in which they are
// installed: what stands side by side in the tables is not asked for one after the other.
func (s *EntrySet) Destinations() []uint64 {
	random := rand.New(rand.NewPCG(4, 345))
	all := make([]uint64, len(s.Prefixes))
	for i, from := range random.Perm(len(all)) {
		all[i] = s.Mix.addressIn(random, s.Prefixes[from])
	}
	return all
}

// FillEntries puts the entries into tables that stay when their engine is closed.
func FillEntries(ctx context.Context, b *testbed.Run, l *testbed.Line, entries []EntrySet) (err error) {
	var engine *kernel.Engine
	options := kernel.Options{
		PinDirectory: filepath.Join(b.Instance.Pins(), l.Enc.Role()),
		MappingLimit: max(CountOf(entries)+OtherMappings, kernel.DefaultMappingLimit),
	}
	if err := l.Enc.Do(func() (err error) {
		engine, err = kernel.Open(options)
		return err
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	settings := dataplane.Settings{LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(testbed.Core4Enc.Addr()), lisp.RLOCFromAddr(testbed.Core6Enc.Addr())}}
	if err := errors.Join(engine.Apply(dataplane.SetSettings{Settings: settings})...); err != nil {
		return err
	}
	now := time.Now()
	for i := range entries {
		s := &entries[i]
		_, err := ApplyAll(engine, len(s.Prefixes), func(i int) dataplane.Operation { return entryOperation(s, i, now) })
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// entryOperation installs an entry of one of a thousand sites: all are behind Dec, each with a backup of its own.
func entryOperation(s *EntrySet, i int, now time.Time) dataplane.Operation {
	set, _ := lisp.NewLocatorSet(
		lisp.Locator{RLOC: lisp.RLOCFromAddr(s.Pair.DecCore.Addr()), Priority: 1, Weight: 100, Reachable: true},
		lisp.Locator{RLOC: SiteRLOC(i), Priority: 2, Weight: 100, Reachable: true})
	prefix, _ := lisp.PrefixFromNetip(0, s.Prefixes[i])
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour),
		Mapping: lisp.Mapping{Prefix: prefix, Locators: set, TTLMinutes: 1440}}}
}

// ApplyAll carries out operations in batches and returns the time for each; making them is not in it.
func ApplyAll(engine *kernel.Engine, count int, operation func(i int) dataplane.Operation) (nsEach float64, err error) {
	var spent time.Duration
	batch := make([]dataplane.Operation, 0, applyBatch)
	for i := range count {
		batch = append(batch, operation(i))
		if len(batch) < applyBatch && i+1 < count {
			continue
		}
		began := time.Now()
		errs := engine.Apply(batch...)
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

// SiteRLOC is the locator of one of a thousand sites.
func SiteRLOC(i int) lisp.RLOC {
	return lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{198, 18, byte(i % 1000 >> 8), byte(i % 1000)}))
}

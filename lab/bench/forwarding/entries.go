// SPDX-License-Identifier: Apache-2.0

// `loci bench forwarding --entries N`: Loci's arms with N mappings in the map-cache of Enc and packets to all of them at
// random, beside the same arms with a handful of mappings and packets to one. The tables are filled as by a daemon that
// learnt them and was then started anew: the next one takes them over (docs/operation.md).

package forwarding

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/mappings"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	armTCFull  = "loci tc, full map-cache"
	armXDPFull = "loci XDP, full map-cache"

	// maxEntries is twice what the map-cache holds by default.
	maxEntries = 2 << 20
	// entriesMeasure is short: most of the time goes to filling.
	entriesMeasure = 15 * time.Second
)

// Entries is the bench of forwarding with so many mappings in the map-cache of Enc, of prefixes with these lengths.
func Entries(count int, lengths string) (testbed.Bench, error) {
	if count < len(testbed.Pairs) || count > maxEntries {
		return testbed.Bench{}, fmt.Errorf("%d entries: from %d to %d are possible", count, len(testbed.Pairs), maxEntries)
	}
	mix, err := mappings.MixOf(lengths)
	if err != nil {
		return testbed.Bench{}, err
	}
	f := &forwardingState{bursts: testbed.Lossless{}, entries: map[string][]mappings.EntrySet{}}
	k := f.bench()
	full := func(a testbed.Arm, name, key, hook string) testbed.Arm {
		a.Name, a.Key = name, key
		a.Build = func(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
			f.entries[name] = mappings.DrawEntries(mix, b.Bench.Cases, count)
			return buildFull(ctx, b, l, f.entries[name], hook)
		}
		return a
	}
	k.Title = fmt.Sprintf("%s; %d mappings at Enc, %s, destinations at random", k.Title, count, mix.Title)
	k.Rounds, k.Length = 5, entriesMeasure
	k.Arms = []testbed.Arm{testbed.LociTC, full(testbed.LociTC, armTCFull, "full", "hook: tc"), testbed.LociXDP, full(testbed.LociXDP, armXDPFull, "lxfull", "hook: xdp")}
	k.Attach = func(l *testbed.Line) error { return l.AttachFor(testbed.TrafficSizes{Destinations: uint32(count)}) }
	k.Judge = judgeEntries
	k.Cases = nil
	for _, p := range testbed.Pairs {
		k.Cases = append(k.Cases, p.Name+"/"+flowCounts[0].name)
	}
	return k, nil
}

// judgeEntries demands nothing: memory bounds what packets to many destinations can have of the rate to one, and a ratio to
// one that is served from the flow cache says little about a version.
func judgeEntries(r *report.Report) {
	r.Compare("rate", armTCFull, testbed.ArmTC)
	r.Compare("rate", armXDPFull, testbed.ArmXDP)
}

// buildFull fills the tables of Enc, then runs daemons like those of buildLociAt.
func buildFull(ctx context.Context, b *testbed.Run, l *testbed.Line, entries []mappings.EntrySet, keys string) error {
	if err := scatter(l.Traffic, entries); err != nil {
		return err
	}
	b.Screen.Line("%s: filling the map-cache", l.Arm.Name)
	if err := mappings.FillEntries(ctx, b, l, entries); err != nil {
		return err
	}
	interfaces := fmt.Sprintf("interfaces:\n  site: [{interface: %s, %s}]\n  core: [{interface: %s, %s}]\n", testbed.SiteLink, keys, testbed.CoreLink, keys)
	encSide := testbed.SiteConfig(testbed.SourcesOf, testbed.DestinationsOf, func(p testbed.Pair) (own, remote netip.Prefix) { return p.EncCore, p.DecCore })
	encSide = strings.Replace(encSide, "map-cache:\n", fmt.Sprintf("map-cache:\n    limit: %d\n", mappings.CountOf(entries)+mappings.OtherMappings), 1)
	// Without a Map-Resolver nothing could have been learnt, and the daemon would take the entries for another's.
	encSide = strings.Replace(encSide, "itr:\n", "itr:\n  map-resolvers: [\"192.0.2.1\"]\n", 1)
	decSide := testbed.SiteConfig(testbed.DestinationsOf, testbed.SourcesOf, func(p testbed.Pair) (own, remote netip.Prefix) { return p.DecCore, p.EncCore })
	for _, at := range entries[0].Mix.Bases() {
		rlocs := fmt.Sprintf("[{address: %q}, {address: %q}]", testbed.Core4Dec.Addr(), testbed.Core6Dec.Addr())
		decSide = strings.Replace(decSide, "local-eids:\n", fmt.Sprintf("local-eids:\n    - {eid: %q, rlocs: %s}\n", at, rlocs), 1)
		if err := l.Dec.AddRoute(testnet.Route{Destination: at, Via: mappings.DestinationOf(at.Addr().Is4())}); err != nil {
			return err
		}
	}
	if _, err := b.StartDaemon(ctx, l.Enc, interfaces+encSide); err != nil {
		return err
	}
	_, err := b.StartDaemon(ctx, l.Dec, interfaces+decSide)
	return err
}

// entriesOf is the set of a pair, nil where the arm has none.
func (f *forwardingState) entriesOf(arm string, p testbed.Pair) *mappings.EntrySet {
	for i := range f.entries[arm] {
		if f.entries[arm][i].Pair.Name == p.Name {
			return &f.entries[arm][i]
		}
	}
	return nil
}

// aim sends a stream to one destination, or to all entries of a pair where the arm has some.
func (f *forwardingState) aim(l *testbed.Line, s testbed.Stream) error {
	set := f.entriesOf(l.Arm.Name, s.Pair)
	if set == nil {
		return l.Aim(s)
	}
	s.Destinations, s.Upper = uint32(len(set.Prefixes)), set.Mix.Upper
	if err := l.AimAt(s, set.Prefixes[0].Addr()); err != nil {
		return err
	}
	l.Traffic.Settings.Listed, l.Traffic.Settings.FirstAddress = 1, uint32(set.First)
	return nil
}

// scatter says where the destinations of all sets are.
func scatter(t *testbed.Traffic, sets []mappings.EntrySet) error {
	for _, s := range sets {
		if err := t.SetDestinations(s.First, s.Destinations()); err != nil {
			return fmt.Errorf("destinations of %s: %w", s.Pair.Name, err)
		}
	}
	return nil
}

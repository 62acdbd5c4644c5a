// SPDX-License-Identifier: Apache-2.0

// `loci bench forwarding --entries N`: Loci's arms with N mappings in the map-cache of Enc and packets to all of them at
// random, beside the same arms with a handful of mappings and packets to one. The tables are filled as by a daemon that
// learnt them and was then started anew: the next one takes them over (docs/operation.md).

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel"
	"loci/internal/testnet"
	"loci/lisp"
)

const (
	armTCFull  = "loci tc, full map-cache"
	armXDPFull = "loci XDP, full map-cache"

	// maxEntries is twice what the map-cache holds by default.
	maxEntries = 2 << 20
	// entriesMeasure is short: most of the time goes to filling.
	entriesMeasure = 15 * time.Second
	// otherMappings are in the map-cache beside the entries.
	otherMappings = 64
)

// entrySet is the part of a pair in all entries of a line.
type entrySet struct {
	pair     pair
	mix      entryMix
	first    int // place of its first destination among those of all sets
	prefixes []netip.Prefix
}

func entriesBench(count int, lengths string) (kind, error) {
	if count < len(pairs) || count > maxEntries {
		return kind{}, fmt.Errorf("%d entries: from %d to %d are possible", count, len(pairs), maxEntries)
	}
	mix, err := mixOf(lengths)
	if err != nil {
		return kind{}, err
	}
	full := func(a arm, name, key, hook string) arm {
		a.name, a.key = name, key
		a.build = func(ctx context.Context, b *bench, l *line) error {
			return buildFull(ctx, b, l, drawEntries(mix, b.kind.cases, count), hook)
		}
		return a
	}
	k := forwardingBench()
	k.title = fmt.Sprintf("%s; %d mappings at Enc, %s, destinations at random", k.title, count, mix.title)
	k.rounds, k.length = 5, entriesMeasure
	k.arms = []arm{lociTC, full(lociTC, armTCFull, "full", "hook: tc"), lociXDP, full(lociXDP, armXDPFull, "lxfull", "hook: xdp")}
	k.attach = func(l *line) error { return l.attachFor(trafficSizes{destinations: uint32(count)}) }
	k.judge = judgeEntries
	k.cases = nil
	for _, p := range pairs {
		k.cases = append(k.cases, p.name+"/"+flowCounts[0].name)
	}
	return k, nil
}

func judgeEntries(r *Report) {
	r.compare("rate", armTCFull, armTC)
	r.compare("rate", armXDPFull, armXDP)
	r.wantRatio("rate", armTCFull, armTC, atLeast(0.7))
	r.wantRatio("rate", armXDPFull, armXDP, atLeast(0.7))
}

// drawEntries divides the entries among the pairs that are measured.
func drawEntries(mix entryMix, cases []string, count int) []entrySet {
	var sets []entrySet
	for _, p := range pairs {
		for _, name := range cases {
			if strings.HasPrefix(name, p.name+"/") {
				sets = append(sets, entrySet{pair: p, mix: mix})
			}
		}
	}
	random := rand.New(rand.NewPCG(4, 344))
	for i, first := 0, 0; i < len(sets); i++ {
		s := &sets[i]
		s.first = first
		s.draw(random, count/len(sets))
		first += len(s.prefixes)
	}
	return sets
}

// draw takes different prefixes.
func (s *entrySet) draw(random *rand.Rand, count int) {
	known := make(map[netip.Prefix]struct{}, count)
	for len(s.prefixes) < count {
		p := s.mix.draw(random, s.pair)
		if _, twice := known[p]; twice {
			continue
		}
		known[p] = struct{}{}
		s.prefixes = append(s.prefixes, p)
	}
}

// destinations are an address of each entry in the order in which packets go to them, which is another one than that in which they are
// installed: what stands side by side in the tables is not asked for one after the other.
func (s *entrySet) destinations() []uint64 {
	random := rand.New(rand.NewPCG(4, 345))
	all := make([]uint64, len(s.prefixes))
	for i, from := range random.Perm(len(all)) {
		all[i] = s.mix.addressIn(random, s.prefixes[from])
	}
	return all
}

// buildFull fills the tables of Enc, then runs daemons like those of buildLociAt.
func buildFull(ctx context.Context, b *bench, l *line, entries []entrySet, keys string) error {
	l.entries = entries
	count := 0
	for _, s := range entries {
		count += len(s.prefixes)
	}
	if err := l.traffic.scatter(l.entries); err != nil {
		return err
	}
	b.screen.line("%s: filling the map-cache", l.arm.name)
	if err := b.fillEntries(ctx, l, count); err != nil {
		return err
	}
	interfaces := fmt.Sprintf("interfaces:\n  site: [{interface: %s, %s}]\n  core: [{interface: %s, %s}]\n", siteLink, keys, coreLink, keys)
	encSide := siteConfig(sourcesOf, destinationsOf, func(p pair) (own, remote netip.Prefix) { return p.encCore, p.decCore })
	encSide = strings.Replace(encSide, "map-cache:\n", fmt.Sprintf("map-cache:\n    limit: %d\n", count+otherMappings), 1)
	// Without a Map-Resolver nothing could have been learnt, and the daemon would take the entries for another's.
	encSide = strings.Replace(encSide, "itr:\n", "itr:\n  map-resolvers: [\"192.0.2.1\"]\n", 1)
	decSide := siteConfig(destinationsOf, sourcesOf, func(p pair) (own, remote netip.Prefix) { return p.decCore, p.encCore })
	for _, at := range entries[0].mix.bases() {
		rlocs := fmt.Sprintf("[{address: %q}, {address: %q}]", core4Dec.Addr(), core6Dec.Addr())
		decSide = strings.Replace(decSide, "local-eids:\n", fmt.Sprintf("local-eids:\n    - {eid: %q, rlocs: %s}\n", at, rlocs), 1)
		if err := l.dec.AddRoute(testnet.Route{Destination: at, Via: destinationOf(at.Addr().Is4())}); err != nil {
			return err
		}
	}
	if _, err := b.startDaemon(ctx, l.enc, interfaces+encSide); err != nil {
		return err
	}
	_, err := b.startDaemon(ctx, l.dec, interfaces+decSide)
	return err
}

// fillEntries puts the entries into tables that stay when their engine is closed.
func (b *bench) fillEntries(ctx context.Context, l *line, count int) (err error) {
	var engine *kernel.Engine
	options := kernel.Options{
		PinDirectory: filepath.Join(b.instance.Pins(), l.enc.Role()),
		MappingLimit: max(count+otherMappings, kernel.DefaultMappingLimit),
	}
	if err := l.enc.Do(func() (err error) {
		engine, err = kernel.Open(options)
		return err
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	settings := dataplane.Settings{LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(core4Enc.Addr()), lisp.RLOCFromAddr(core6Enc.Addr())}}
	if err := errors.Join(engine.Apply(dataplane.SetSettings{Settings: settings})...); err != nil {
		return err
	}
	now := time.Now()
	for i := range l.entries {
		s := &l.entries[i]
		f := &fibFill{engine: engine}
		_, err := f.apply(len(s.prefixes), func(i int) dataplane.Operation { return entryOperation(s, i, now) })
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// entryOperation installs an entry of one of a thousand sites: all are behind Dec, each with a backup of its own.
func entryOperation(s *entrySet, i int, now time.Time) dataplane.Operation {
	set, _ := lisp.NewLocatorSet(
		lisp.Locator{RLOC: lisp.RLOCFromAddr(s.pair.decCore.Addr()), Priority: 1, Weight: 100, Reachable: true},
		lisp.Locator{RLOC: siteRLOC(i), Priority: 2, Weight: 100, Reachable: true})
	prefix, _ := lisp.PrefixFromNetip(0, s.prefixes[i])
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour),
		Mapping: lisp.Mapping{Prefix: prefix, Locators: set, TTLMinutes: 1440}}}
}

// entriesOf is the set of a pair, nil where the line has none.
func (l *line) entriesOf(p pair) *entrySet {
	for i := range l.entries {
		if l.entries[i].pair.name == p.name {
			return &l.entries[i]
		}
	}
	return nil
}

// aimForwarding is aim, at all entries of a pair where the line has some.
func (l *line) aimForwarding(s stream) error {
	set := l.entriesOf(s.pair)
	if set == nil {
		return l.aim(s)
	}
	s.destinations, s.upper = uint32(len(set.prefixes)), set.mix.upper
	if err := l.aimAt(s, set.prefixes[0].Addr()); err != nil {
		return err
	}
	l.traffic.settings.Scattered, l.traffic.settings.FirstAddress = 1, uint32(set.first)
	return nil
}

// scatter says where the destinations of all sets are.
func (t *traffic) scatter(sets []entrySet) error {
	for _, s := range sets {
		keys := make([]uint32, len(s.prefixes))
		for i := range keys {
			keys[i] = uint32(s.first + i)
		}
		if _, err := t.objects.Addresses.BatchUpdate(keys, s.destinations(), nil); err != nil {
			return fmt.Errorf("destinations of %s: %w", s.pair.name, err)
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package flows

// A binding chooses among the usable locators of the packet's mapping, and where it cannot, the flow hash does.

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/lisp"
)

// bound are the flows that are bound, by their flows.
func (b *bench) bound() map[lisp.Flow]dataplane.FlowEntry {
	b.Helper()
	all := map[lisp.Flow]dataplane.FlowEntry{}
	for entry := range b.plane.Flows() {
		if _, twice := all[entry.Flow]; twice {
			b.Errorf("%s is bound twice", entry.Flow)
		}
		all[entry.Flow] = entry
	}
	return all
}

// expectBound demands that these flows are bound, and no others.
func (b *bench) expectBound(want ...dataplane.PutFlow) {
	b.Helper()
	all := b.bound()
	for _, w := range want {
		got, ok := all[w.Flow]
		if off := time.Since(got.CreatedAt).Abs(); !ok || got.Path != w.Path || off > time.Minute {
			b.Errorf("%s by %s, bound: %t, %s ago; want %s", w.Flow, got.Path, ok, off, w.Path)
		}
	}
	if len(all) != len(want) {
		b.Errorf("%d flows are bound, want %d: %v", len(all), len(want), slices.Collect(maps.Keys(all)))
	}
}

func readBack(b *bench) {
	other := dataplane.PutFlow{Flow: from4("10.2.0.1").tcp(flagACK).lispFlow(), Path: pathTo("192.0.2.3")}
	other.Flow.Instance = lisp.MaxInstanceID
	six := bind(from6("2001:db8:2::1"), pathTo("192.0.2.2", "[2001:db8:ff00::2]:40001", "192.0.2.3"))
	first := bind(from4("10.2.0.1"), pathTo("192.0.2.2"))
	b.apply(b.mapping("10.2.0.0/24", locator("192.0.2.2", 1)), first, six, other)
	b.expectBound(first, six, other)
	created := b.bound()[first.Flow].CreatedAt
	if used := b.bound()[first.Flow].LastUsedAt; !used.IsZero() {
		b.Errorf("used at %s, and no packet went by", used)
	}
	first.Path = pathTo("2001:db8:ff00::3")
	b.apply(first)
	b.expectBound(first, six, other)
	if again := b.bound()[first.Flow].CreatedAt; again.Sub(created).Abs() > time.Second {
		b.Errorf("bound at %s, after another path was set at %s", created, again)
	}
	end := dataplane.DeleteFlow{Flow: first.Flow}
	b.apply(end)
	if results := b.plane.Apply(end); len(results) != 1 || !errors.Is(results[0], dataplane.ErrNotFound) {
		b.Errorf("ended twice: %v, want %v", results, dataplane.ErrNotFound)
	}
	b.apply(dataplane.Flush{MapCache: true, Database: true})
	b.expectBound(six, other)
	b.apply(b.mapping("10.2.0.0/24", locator("192.0.2.2", 1)), b.database(siteDatabase[0]),
		dataplane.Flush{Flows: true})
	b.expectBound()
	if _, ok := b.plane.Mapping(lisp.MustParsePrefix("10.2.0.0/24")); !ok {
		b.Error("a Flush of flows emptied the map-cache")
	}
	b.apply(first, dataplane.Flush{MapCache: true, Database: true, Flows: true})
	b.expectBound()
	if entries := slices.Collect(b.plane.Mappings()); len(entries) > 0 {
		b.Errorf("%d mappings after Flush", len(entries))
	}
}

func refused(b *bench) {
	kept := bind(from4("10.2.0.1"), pathTo("192.0.2.2"))
	b.apply(kept)
	for what, change := range map[string]func(*dataplane.PutFlow){
		"two families":  func(o *dataplane.PutFlow) { o.Flow.Source = lisp.EIDFromAddr(conformance.SiteHosts[1]) },
		"no source":     func(o *dataplane.PutFlow) { o.Flow.Source = lisp.EID{} },
		"no IP address": func(o *dataplane.PutFlow) { o.Flow.Destination = lisp.MustParsePrefix(`"name"`).EID() },
		"Instance-ID":   func(o *dataplane.PutFlow) { o.Flow.Instance = lisp.MaxInstanceID + 1 },
		"no path":       func(o *dataplane.PutFlow) { o.Path = lisp.Path{} },
		"a hop twice": func(o *dataplane.PutFlow) {
			o.Path = pathTo("192.0.2.2", "192.0.2.3",
				"192.0.2.2")
		},
		"a hop that is no one": func(o *dataplane.PutFlow) { o.Path = pathTo("127.0.0.1") },
	} {
		wrong := kept
		change(&wrong)
		if results := b.plane.Apply(wrong); len(results) != 1 || !errors.Is(results[0], dataplane.ErrInvalid) {
			b.Errorf("%s: %v, want %v", what, results, dataplane.ErrInvalid)
		}
	}
	b.expectBound(kept)
}

// limited, in all and for each source: one that is bound can be bound elsewhere when the table is full.
func limited(b *bench) {
	flow := func(i int) dataplane.Operation {
		p := between(fmt.Sprintf("10.%d.0.1", 100+i/dataplane.MaxFlowsOfSource), "10.2.0.1")
		return bind(p.flow(uint16(1000+i%dataplane.MaxFlowsOfSource)), pathTo("192.0.2.2"))
	}
	const piece = 1024
	for i := 0; i < dataplane.MaxFlows; i += piece {
		operations := make([]dataplane.Operation, piece)
		for k := range operations {
			operations[k] = flow(i + k)
		}
		b.apply(operations...)
		if i+piece == dataplane.MaxFlowsOfSource {
			b.limitedOfSource(flow(0).(dataplane.PutFlow))
		}
	}
	again := flow(7).(dataplane.PutFlow)
	again.Path = pathTo("192.0.2.3")
	results := b.plane.Apply(flow(dataplane.MaxFlows), again)
	if len(results) != 2 || !errors.Is(results[0], dataplane.ErrFull) || results[1] != nil {
		b.Errorf("results %v, want the table full for a new flow, not for another path", results)
	}
	b.apply(dataplane.DeleteFlow{Flow: flow(8).(dataplane.PutFlow).Flow}, flow(dataplane.MaxFlows))
	if n := len(b.bound()); n != dataplane.MaxFlows {
		b.Errorf("%d flows are bound, want %d", n, dataplane.MaxFlows)
	}
	b.apply(dataplane.Flush{Flows: true})
	b.expectBound()
}

// limitedOfSource: a source that has its share gets no other flow until one ends. In another Instance-ID it is another
// source.
func (b *bench) limitedOfSource(bound dataplane.PutFlow) {
	b.Helper()
	more, elsewhere := bound, bound
	more.Flow.SourcePort, elsewhere.Flow.Instance = 999, 7
	if results := b.plane.Apply(more); len(results) != 1 || !errors.Is(results[0], dataplane.ErrFull) {
		b.Errorf("results %v, want the share of a source full", results)
	}
	b.apply(elsewhere, dataplane.DeleteFlow{Flow: elsewhere.Flow})
	b.apply(dataplane.DeleteFlow{Flow: bound.Flow}, more, dataplane.DeleteFlow{Flow: more.Flow}, bound)
}

// twoPackets are of both families, with the prefixes of their destinations.
func twoPackets() map[string]packet {
	return map[string]packet{"10.2.0.0/24": from4("10.2.0.1"), "2001:db8:2::/64": from6("2001:db8:2::1")}
}

// takeTheirPath: each locator of a set, in all family pairs, while the next flow stays where it was.
func takeTheirPath(b *bench) {
	rlocs := []string{"192.0.2.2", "192.0.2.3", "2001:db8:ff00::2"}
	for prefix, p := range twoPackets() {
		b.apply(b.mapping(prefix, locator(rlocs[0], 1), locator(rlocs[1], 1), locator(rlocs[2], 1)))
		next := p.flow(p.port + 1)
		before, beside := b.tookBy(p), b.tookBy(next)
		for i, rloc := range rlocs {
			b.apply(bind(p, pathTo(rloc)))
			b.expectTo(rloc, p.numbered(i))
			b.expectTo(rloc, p.numbered(10+i))
			b.expectTo(beside, next.numbered(i))
		}
		b.apply(dataplane.DeleteFlow{Flow: p.lispFlow()})
		b.expectTo(before, p)
		tcp := p.tcp(flagACK)
		for _, rloc := range rlocs {
			b.apply(bind(tcp, pathTo(rloc)))
			b.expectTo(rloc, tcp)
		}
		b.expectTo(before, p)
	}
}

// takeExplicitPaths: a path is known by all of its hops.
func takeExplicitPaths(b *bench) {
	first, second := pathTo("192.0.2.2", "2001:db8:ff00::3"), pathTo("192.0.2.3", "2001:db8:ff00::3")
	for prefix, p := range twoPackets() {
		b.apply(b.mapping(prefix, by(first, 1), by(second, 1), by(pathTo("2001:db8:ff00::2"), 1)))
		before := b.tookBy(p)
		for path, rloc := range map[lisp.Path]string{
			first: "192.0.2.2", second: "192.0.2.3", pathTo("2001:db8:ff00::2"): "2001:db8:ff00::2",
			pathTo("192.0.2.2"): before, pathTo("192.0.2.2", "192.0.2.3"): before,
			pathTo("192.0.2.2:40001", "2001:db8:ff00::3"): before,
		} {
			b.apply(bind(p, path))
			b.expectTo(rloc, p)
		}
	}
}

// leaveAPathThatIsDown, and come back with it. No other state moves them.
func leaveAPathThatIsDown(b *bench) {
	const first, second = "192.0.2.2", "192.0.2.3"
	for prefix, p := range twoPackets() {
		b.apply(b.mapping(prefix, locator(first, 1), locator(second, 2)), bind(p, pathTo(second)))
		for _, step := range []struct {
			state dataplane.LocatorState
			to    string
		}{
			{dataplane.LocatorUp, second}, {dataplane.LocatorDown, first},
			{dataplane.LocatorUnconfirmed, second},
			{dataplane.LocatorDown, first}, {dataplane.LocatorHeard, second}, {dataplane.LocatorUp, second},
		} {
			b.apply(state(second, step.state))
			b.expectTo(step.to, p)
			b.expectTo(step.to, p.numbered(1))
		}
	}
}

// otherLocators: what the mapping has not, or never for packets, no binding chooses.
func otherLocators(b *bench) {
	const first, other = "192.0.2.2", "192.0.2.3"
	for prefix, p := range twoPackets() {
		b.apply(b.mapping(prefix, locator(first, 1)), bind(p, pathTo(other)))
		b.expectTo(first, p)
		b.apply(b.mapping(prefix, locator(first, 1), locator(other, lisp.PriorityUnused)))
		b.expectTo(first, p)
		b.apply(b.mapping(prefix, locator(first, 1), locator(other, 7)))
		b.expectTo(other, p)
		b.apply(b.mapping(prefix, locator(first, 1)))
		b.expectTo(first, p)
		b.apply(b.mapping(prefix, locator(other, 1), locator("2001:db8:ff00::2", 1)))
		b.expectTo(other, p)
	}
}

// worsePriorities are for bound flows alone.
func worsePriorities(b *bench) {
	const best, worse = "192.0.2.2", "192.0.2.3"
	for prefix, p := range twoPackets() {
		b.apply(b.mapping(prefix, locator(best, 1), locator(worse, 2)), bind(p, pathTo(worse)))
		b.expectTo(worse, p)
		for i := range 100 {
			b.expectTo(best, p.flow(uint16(2000+i)))
		}
	}
}

// toldApart: by everything that a flow has.
func toldApart(b *bench) {
	const hash, bound = "192.0.2.2", "192.0.2.3"
	for prefix, p := range twoPackets() {
		b.apply(b.mapping(prefix, locator(hash, 1), locator(bound, 2)))
		its := p.lispFlow()
		for what, change := range map[string]func(*lisp.Flow){
			"Instance-ID":      func(f *lisp.Flow) { f.Instance = 7 },
			"protocol":         func(f *lisp.Flow) { f.Protocol = 6 },
			"source port":      func(f *lisp.Flow) { f.SourcePort++ },
			"destination port": func(f *lisp.Flow) { f.DestinationPort++ },
			"source":           func(f *lisp.Flow) { f.Source = lisp.EIDFromAddr(p.from.Next()) },
			"destination":      func(f *lisp.Flow) { f.Destination = lisp.EIDFromAddr(p.to.Next()) },
			"direction":        func(f *lisp.Flow) { *f = f.Reverse() },
		} {
			other := its
			change(&other)
			b.apply(dataplane.PutFlow{Flow: other, Path: pathTo(bound)})
			if took := b.tookBy(p); took != hash {
				b.Errorf("%s takes %s: another %s is bound", its, took, what)
			}
		}
		b.apply(dataplane.PutFlow{Flow: its, Path: pathTo(bound)})
		b.expectTo(bound, p)
	}
}

// useIsNoted, whatever chose their locators, so that who is silent can be told. A SYN that is not answered is no use.
func useIsNoted(b *bench) {
	b.tellSubflows(true)
	for prefix, p := range twoPackets() {
		silent, elsewhere := bind(p.flow(7), pathTo("192.0.2.2")), bind(p.flow(8), pathTo("192.0.2.9"))
		used := bind(p, pathTo("192.0.2.2"))
		b.apply(b.mapping(prefix, locator("192.0.2.2", 1)), used, silent, elsewhere)
		b.expectTo("192.0.2.2", p)
		b.expectTo("192.0.2.2", p.flow(8))
		lastUsed := func(o dataplane.PutFlow) time.Time { return b.bound()[o.Flow].LastUsedAt }
		b.eventually("both flows are used", func() bool {
			return !lastUsed(used).IsZero() && !lastUsed(elsewhere).IsZero()
		})
		before := lastUsed(used)
		if off := time.Since(before).Abs(); off > time.Minute || !lastUsed(silent).IsZero() {
			b.Errorf("used %s ago; the silent one at %s, want never", off, lastUsed(silent))
		}
		b.Pass(1100 * time.Millisecond)
		b.eventually("the flow is used again", func() bool {
			b.expectTo("192.0.2.2", p)
			return lastUsed(used).After(before)
		})
		b.synIsNoUse(prefix, p)
	}
}

// synIsNoUse of a flow, where its binding chooses the locator and where the hash does, by packets that caches do not
// know and by one that they may.
func (b *bench) synIsNoUse(prefix string, p packet) {
	b.Helper()
	data := p.tcp(flagACK)
	chosen, elsewhere := bind(data.flow(9), pathTo("192.0.2.2")), bind(data.flow(10), pathTo("192.0.2.9"))
	b.apply(b.mapping(prefix, locator("192.0.2.2", 1)), chosen, elsewhere)
	lastUsed := func(o dataplane.PutFlow) time.Time { return b.bound()[o.Flow].LastUsedAt }
	for _, flags := range []uint8{flagSYN, flagSYN, flagSYN | flagACK} {
		b.expectTo("192.0.2.2", p.flow(9).tcp(flags))
		b.expectTo("192.0.2.2", p.flow(10).tcp(flags, multipath...))
	}
	b.Pass(1100 * time.Millisecond) // engines that note late have noted
	if !lastUsed(chosen).IsZero() || !lastUsed(elsewhere).IsZero() {
		b.Errorf("used at %s and %s by SYNs alone, want never", lastUsed(chosen), lastUsed(elsewhere))
	}
	b.expectTo("192.0.2.2", data.flow(9))
	b.expectTo("192.0.2.2", data.flow(10))
	b.eventually("both flows are used", func() bool {
		return !lastUsed(chosen).IsZero() && !lastUsed(elsewhere).IsZero()
	})
	before := lastUsed(chosen)
	b.Pass(2100 * time.Millisecond)
	b.expectTo("192.0.2.2", p.flow(9).tcp(flagSYN))
	b.Pass(1100 * time.Millisecond)
	if again := lastUsed(chosen); again.Sub(before).Abs() > time.Second {
		b.Errorf("used at %s, and at %s by a SYN", before, again)
	}
}

// relay has the router relay what is for the remote EIDs, in two Instance-IDs.
func (b *bench) relay() {
	b.Helper()
	b.settings(func(s *dataplane.Settings) {
		for _, instance := range []lisp.InstanceID{0, 7} {
			s.Roles = append(s.Roles, dataplane.RolePolicy{Role: dataplane.RoleRTR, Instance: instance,
				EIDs: []netip.Prefix{
					netip.MustParsePrefix("10.2.0.0/24"), netip.MustParsePrefix("2001:db8:2::/64"),
				}})
		}
	})
}

// relaysObeyBindings, each in the Instance-ID of the packet.
func relaysObeyBindings(b *bench) {
	const hash, bound = "192.0.2.2", "192.0.2.3"
	b.relay()
	for prefix, p := range map[string]packet{
		"10.2.0.0/24":     between("10.9.0.1", "10.2.0.1"),
		"2001:db8:2::/64": between("2001:db8:9::1", "2001:db8:2::1"),
	} {
		for instance, name := range map[lisp.InstanceID]string{0: "", 7: "[7]"} {
			b.apply(b.mapping(name+prefix, locator(hash, 1), locator(bound, 2)))
			b.expectRelayed(hash, instance, p)
			its := bind(p, pathTo(bound))
			its.Flow.Instance = instance
			b.apply(its)
			b.expectRelayed(bound, instance, p.numbered(1))
			b.apply(state(bound, dataplane.LocatorDown))
			b.expectRelayed(hash, instance, p)
			b.apply(state(bound, dataplane.LocatorUp))
			b.expectRelayed(bound, instance, p)
		}
	}
}

// outliveTheProcess where the tables do, and hold without anyone's doing.
func outliveTheProcess(b *bench) {
	h, ok := b.Harness.(Reopening)
	if !ok {
		b.Skip("this engine's tables end with its process")
	}
	p := from4("10.2.0.1")
	first, six := bind(p, pathTo("192.0.2.3")), bind(from6("2001:db8:2::1"), pathTo("192.0.2.2", "192.0.2.3"))
	b.apply(b.mapping("10.2.0.0/24", locator("192.0.2.2", 1), locator("192.0.2.3", 2)), first, six)
	b.expectTo("192.0.2.3", p)
	before := b.bound()
	h.Reopen(b)
	b.plane = b.Plane()
	b.expectBound(first, six)
	for flow, was := range before {
		is := b.bound()[flow]
		if is.CreatedAt.Sub(was.CreatedAt).Abs() > time.Second ||
			is.LastUsedAt.Before(was.LastUsedAt.Add(-time.Second)) {
			b.Errorf("%s was %+v before, and is %+v", flow, was, is)
		}
	}
	b.expectTo("192.0.2.3", p)
	b.apply(dataplane.DeleteFlow{Flow: first.Flow})
	b.expectTo("192.0.2.2", p)
}

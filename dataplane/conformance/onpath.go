// SPDX-License-Identifier: Apache-2.0

package conformance

// RTRs that stand on several paths of a mapping (dataplane/pathidentification.go).

import (
	"net/netip"

	"loci/dataplane"
	"loci/lisp"
)

// ends of the packets that are relayed, and the two peers on either side of the router, for each family.
var onPathKinds = []struct {
	prefix, from, to, end string
	own                   netip.Addr
	peers                 [2]netip.Addr
}{
	{"10.3.0.0/24", "10.2.0.1", "10.3.0.1", "192.0.2.99", OwnRLOC4, [2]netip.Addr(PeerRLOCs[:2])},
	{"2001:db8:3::/64", "2001:db8:2::1", "2001:db8:3::1", "2001:db8:ff00::99", OwnRLOC6, [2]netip.Addr(PeerRLOCs[2:4])},
}

// crossing are two paths by this router, each from the peer that the other one goes to, and on to another hop.
func crossing(kind int) (paths [2]lisp.Path) {
	k := &onPathKinds[kind]
	for i := range paths {
		paths[i] = pathTo(k.peers[i].String(), k.own.String(), k.peers[1-i].String(), k.end)
	}
	return paths
}

// identifies puts a way of telling paths in force, at an RTR for all EIDs.
func (b *bench) identifies(by dataplane.PathIdentification) {
	b.Helper()
	b.settings(func(s *dataplane.Settings) {
		s.PathIdentification = by
		s.Roles = []dataplane.RolePolicy{policy(dataplane.RoleRTR, "10.2.0.0/24", "2001:db8:2::/64")}
	})
}

// eventuallyUnidentified waits until the paths of so many packets could not be told.
func (b *bench) eventuallyUnidentified(packets uint64) {
	b.Helper()
	const name = "path_unidentified"
	b.eventually(name, func() bool { return b.plane.Counters().Other[name] >= packets })
	if got := b.plane.Counters().Other[name]; got != packets {
		b.Errorf("%s is %d, want %d", name, got, packets)
	}
}

// pathsByNumber: an RTR sends each packet by the path that its number names, and writes that number, until the last hop;
// packets of one flow by two paths, too. What names no path that it can take goes as a packet that names none.
func pathsByNumber(b *bench) {
	b.identifies(dataplane.PathsByNumber)
	unidentified := uint64(0)
	for kind, k := range onPathKinds {
		paths := crossing(kind)
		p := between(k.from, k.to)
		first, second := k.peers[1].String(), k.peers[0].String()
		b.apply(b.mapping(k.prefix, by(paths[0], 2, 1), by(paths[1], 2, 2)))
		for i := range 8 { // the caches know the flow by then
			b.through(k.peers[0], 1, p.numbered(i))
			b.expectRelayed(first, 1, p.numbered(i))
			b.through(k.peers[0], 2, p.numbered(i))
			b.expectRelayed(second, 2, p.numbered(i))
		}
		for _, number := range []uint32{0, 3, lisp.MaxLocators} {
			for range 3 {
				b.through(k.peers[1], number, p)
				b.expectRelayed(first, 1, p)
			}
			unidentified += 3
		}
		b.eventuallyUnidentified(unidentified)
		b.through(k.peers[0], lisp.MaxLocators+1, p)
		b.through(k.peers[0], 1, packet{port: 3000}.withPeer(kind))
		b.eventuallyDropped("eid-not-in-database", uint64(2*kind+2))

		b.apply(dataplane.PutLocatorState{RLOC: paths[1].RLOC, Behind: paths[1].Behind, State: dataplane.LocatorDown})
		b.through(k.peers[0], 2, p)
		b.expectRelayed(first, 1, p)
		b.apply(b.mapping(k.prefix, by(paths[0], 2, 1), by(paths[1], 2, lisp.PriorityUnused)))
		b.apply(dataplane.PutLocatorState{RLOC: paths[1].RLOC, Behind: paths[1].Behind, State: dataplane.LocatorUp})
		b.through(k.peers[0], 2, p)
		b.expectRelayed(first, 1, p)
		unidentified += 2
		short := pathTo(k.peers[1].String(), k.own.String(), k.peers[0].String())
		b.apply(b.mapping(k.prefix, by(paths[0], 2, 1), by(short, 2, 1)))
		b.through(k.peers[0], 2, p)
		b.expectRelayed(second, 0, p) // the last hop
		b.apply(b.to(k.prefix, second))
		b.through(k.peers[0], 1, p) // of a set before
		b.expectRelayed(second, 0, p)
		unidentified++
		b.eventuallyUnidentified(unidentified)
	}
}

// withPeer makes the packet one from a remote EID to a host of the site.
func (p packet) withPeer(kind int) packet {
	p.from, p.to = netip.MustParseAddr(onPathKinds[kind].from), SiteHosts[kind]
	return p
}

// pathsBySource: an RTR sends each packet by the path that has its outer source before the router; from a source that is
// on none, by the path that begins here.
func pathsBySource(b *bench) {
	b.identifies(dataplane.PathsBySource)
	unidentified := uint64(0)
	for kind, k := range onPathKinds {
		paths := crossing(kind)
		begins := pathTo(k.own.String(), k.peers[0].String(), k.end)
		p := between(k.from, k.to)
		b.apply(b.mapping(k.prefix, by(paths[0], 2, 1), by(paths[1], 2, 2)))
		for i := range 8 {
			b.through(k.peers[0], 0, p.numbered(i))
			b.expectRelayed(k.peers[1].String(), 0, p.numbered(i))
			b.through(k.peers[1], 0, p.numbered(i))
			b.expectRelayed(k.peers[0].String(), 0, p.numbered(i))
		}
		b.apply(dataplane.PutLocatorState{RLOC: paths[1].RLOC, Behind: paths[1].Behind, State: dataplane.LocatorDown})
		b.through(k.peers[1], 0, p)
		b.expectRelayed(k.peers[1].String(), 0, p)
		b.apply(b.mapping(k.prefix, by(paths[0], 2, 1), by(begins, 1, 2)))
		for range 3 {
			b.through(k.peers[1], 0, p)
			b.expectRelayed(k.peers[0].String(), 0, p)
			b.through(k.peers[0], 0, p)
			b.expectRelayed(k.peers[1].String(), 0, p)
		}
		b.apply(b.mapping(k.prefix, by(paths[0], 2, 1)))
		b.through(k.peers[1], 0, p)
		b.expectRelayed(k.peers[1].String(), 0, p)
		unidentified += 2
		b.eventuallyUnidentified(unidentified)
	}
}

// pathsAreNumbered by an ITR, from the site; what comes from the core is never read so.
func pathsAreNumbered(b *bench) {
	for kind, k := range onPathKinds {
		far, near := pathTo(k.peers[0].String(), k.peers[1].String()), pathTo(k.peers[1].String(), k.peers[0].String())
		p := packet{from: SiteHosts[kind], to: netip.MustParseAddr(k.to), port: 3000}
		expect := func(by1 dataplane.PathIdentification, next uint8, rloc netip.Addr, instance uint32) {
			b.settings(func(s *dataplane.Settings) { s.PathIdentification = by1 })
			b.apply(b.mapping(k.prefix, by(far, 0, 2), by(near, next, 1)))
			for range 3 {
				if s := b.expectTo(rloc.String(), p); s.instance != instance {
					b.Errorf("%s, hop %d: Instance-ID %d, want %d", by1, next, s.instance, instance)
				}
			}
		}
		expect(dataplane.PathsUnidentified, 0, k.peers[1], 0)
		expect(dataplane.PathsBySource, 0, k.peers[1], 0)
		expect(dataplane.PathsByNumber, 0, k.peers[1], 2)
		expect(dataplane.PathsNumbered, 0, k.peers[1], 2)
		expect(dataplane.PathsNumbered, 1, k.peers[0], 0)
		b.through(k.peers[0], 1, packet{port: 3000}.withPeer(kind))
		b.eventuallyDropped("eid-not-in-database", uint64(kind+1))
	}
}

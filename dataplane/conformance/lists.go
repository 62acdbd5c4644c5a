// SPDX-License-Identifier: Apache-2.0

package conformance

// Deny and allow lists through settings. Every kind of them is in the golden packets.

import (
	"net/netip"
	"reflect"

	"loci/dataplane"
	"loci/lisp"
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// lists puts lists in force, in place of those before.
func (b *bench) lists(lists ...dataplane.AccessList) {
	b.Helper()
	b.settings(func(s *dataplane.Settings) { s.Lists = lists })
	if got := b.plane.Settings().Lists; len(got)+len(lists) > 0 && !reflect.DeepEqual(got, lists) {
		b.Errorf("read back as %+v, want %+v", got, lists)
	}
}

func listsDeny(b *bench) {
	destinations := dataplane.AccessList{Address: dataplane.ListInnerDestination, Deny: prefixes("10.2.0.0/24")}
	sources := dataplane.AccessList{Packets: dataplane.ListDecapsulated, Allow: prefixes("10.9.0.0/16")}
	rlocs := dataplane.AccessList{Address: dataplane.ListOuterDestination, Deny: prefixes(PeerRLOCs[0].String() + "/32")}
	b.lists(destinations)
	b.apply(b.to("10.2.0.0/16", PeerRLOCs[0].String()))
	b.send(from4("10.2.0.1"))
	b.eventuallyDropped("denied-destination", 1)
	b.expectTo(PeerRLOCs[0].String(), from4("10.2.1.1"))
	b.lists(destinations, sources)
	b.SendFromCore(b, fromPeer(PeerRLOCs[0], 0, toHost(SiteHosts[0]).bytes()))
	b.eventuallyDropped("denied-source", 1)
	b.lists(rlocs)
	b.send(from4("10.2.0.1"))
	b.eventuallyDropped("denied-outer-destination", 1)
	b.lists()
	b.expectTo(PeerRLOCs[0].String(), from4("10.2.0.1"))
	b.SendFromCore(b, fromPeer(PeerRLOCs[0], 0, toHost(SiteHosts[0]).bytes()))
	b.receiveAtSite()
	wrong := b.plane.Settings()
	wrong.Lists = []dataplane.AccessList{destinations, destinations}
	if errs := b.plane.Apply(dataplane.SetSettings{Settings: wrong}); errs == nil {
		b.Error("two lists for one thing are taken")
	}
	b.expectTo(PeerRLOCs[0].String(), from4("10.2.0.1"))
}

// listsDenyRelayed: a packet that an RTR relays is one from the core, and then one towards the core: the lists of both are for it. Each
// list applies alone; a packet that it does not name is relayed beside it.
func listsDenyRelayed(b *bench) {
	b.roles(policy(dataplane.RoleRTR, "10.2.0.0/16", "2001:db8:2::/48"))
	drops := map[string]uint64{}
	for _, c := range []struct {
		denied, other packet
		peer, to      netip.Addr
		own           netip.Addr
	}{
		{between("10.2.0.1", "10.3.0.1"), between("10.2.9.1", "10.3.9.1"), PeerRLOCs[0], PeerRLOCs[1], OwnRLOC4},
		{between("2001:db8:2::1", "2001:db8:3::1"), between("2001:db8:2:9::1", "2001:db8:3:9::1"), PeerRLOCs[2], PeerRLOCs[3], OwnRLOC6},
	} {
		b.apply(b.to(host(c.denied.to).String(), c.to.String()), b.to(host(c.other.to).String(), PeerRLOCs[1].String()))
		for _, l := range []struct {
			packets dataplane.ListPackets
			address dataplane.ListAddress
			deny    netip.Addr
			reason  string
		}{
			{dataplane.ListDecapsulated, dataplane.ListOuterSource, c.peer, "denied-outer-source"},
			{dataplane.ListDecapsulated, dataplane.ListOuterDestination, c.own, "denied-outer-destination"},
			{dataplane.ListDecapsulated, dataplane.ListInnerSource, c.denied.from, "denied-source"},
			{dataplane.ListDecapsulated, dataplane.ListInnerDestination, c.denied.to, "denied-destination"},
			{dataplane.ListEncapsulated, dataplane.ListInnerSource, c.denied.from, "denied-source"},
			{dataplane.ListEncapsulated, dataplane.ListInnerDestination, c.denied.to, "denied-destination"},
			{dataplane.ListEncapsulated, dataplane.ListOuterSource, ownLike(c.to), "denied-outer-source"},
			{dataplane.ListEncapsulated, dataplane.ListOuterDestination, c.to, "denied-outer-destination"},
		} {
			b.lists(dataplane.AccessList{Packets: l.packets, Address: l.address, Deny: []netip.Prefix{host(l.deny)}})
			b.through(c.peer, 0, c.denied)
			drops[l.reason]++
			b.eventuallyDropped(l.reason, drops[l.reason])
			if l.address == dataplane.ListInnerSource || l.address == dataplane.ListInnerDestination {
				b.through(c.peer, 0, c.other)
				b.expectRelayed(PeerRLOCs[1].String(), 0, c.other)
			}
		}
		b.lists()
		b.through(c.peer, 0, c.denied)
		b.expectRelayed(c.to.String(), 0, c.denied)
	}
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// ownLike is the router's RLOC of an address's family.
func ownLike(a netip.Addr) netip.Addr {
	if a.Is4() {
		return OwnRLOC4
	}
	return OwnRLOC6
}

// listsOfProxies: lists towards the core are for what a PITR encapsulates, those from the core for what a PETR forwards; what is native
// on the other side is none of theirs.
func listsOfProxies(b *bench) {
	b.roles(policy(dataplane.RolePITR, "10.2.0.0/24"), policy(dataplane.RolePETR, "10.2.0.0/24"))
	b.apply(b.to("10.2.0.0/24", PeerRLOCs[1].String()))
	out, in := between("198.51.100.7", "10.2.0.1"), between("10.2.0.1", "198.51.100.7")
	both := func(packets dataplane.ListPackets) {
		b.lists(dataplane.AccessList{Packets: packets, Address: dataplane.ListInnerSource, Deny: prefixes("10.2.0.0/24", "198.51.100.0/24")})
	}
	both(dataplane.ListEncapsulated)
	b.send(out)
	b.eventuallyDropped("denied-source", 1)
	b.through(PeerRLOCs[0], 0, in.numbered(1))
	b.expectOutside("198.51.100.7", 1)
	both(dataplane.ListDecapsulated)
	b.expectTo(PeerRLOCs[1].String(), out)
	b.through(PeerRLOCs[0], 0, in)
	b.eventuallyDropped("denied-source", 2)
	b.lists(dataplane.AccessList{Address: dataplane.ListOuterDestination, Deny: prefixes(PeerRLOCs[1].String() + "/32")})
	b.send(out)
	b.eventuallyDropped("denied-outer-destination", 1)
	b.expectNative(between("198.51.100.7", "203.0.113.9")) // of no policy
}

// listsAndPaths: of a path, the outer destination is the hop that packets are sent to, and no other one.
func listsAndPaths(b *bench) {
	b.roles(policy(dataplane.RoleRTR, "10.2.0.0/24"))
	p, err := lisp.NewPath(lisp.RLOCFromAddr(PeerRLOCs[0]), lisp.RLOCFromAddr(OwnRLOC4), lisp.RLOCFromAddr(PeerRLOCs[1]))
	if err != nil {
		b.Fatal(err)
	}
	b.apply(b.mapping("10.3.0.0/24", lisp.Locator{RLOC: p.RLOC, Behind: p.Behind, Next: 2, Priority: 1, Weight: 100, Reachable: true}))
	deny := func(a netip.Addr) {
		b.lists(dataplane.AccessList{Address: dataplane.ListOuterDestination, Deny: prefixes(a.String() + "/32")})
	}
	relayed := between("10.2.0.1", "10.3.0.1")
	deny(PeerRLOCs[0])
	b.through(PeerRLOCs[0], 0, relayed)
	b.expectRelayed(PeerRLOCs[1].String(), 0, relayed)
	deny(PeerRLOCs[1])
	b.through(PeerRLOCs[0], 0, relayed)
	b.eventuallyDropped("denied-outer-destination", 1)
	b.send(from4("10.3.0.1"))
	b.eventuallyDropped("denied-outer-destination", 2)
}

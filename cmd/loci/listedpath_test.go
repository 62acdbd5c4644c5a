// SPDX-License-Identifier: Apache-2.0

package main_test

// Explicit Locator Paths within AFI-Lists, as lispers.net registers them: packets follow the path, whatever stands
// beside it.

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"loci/lisp"
	"loci/wire"
)

// listedPath is an AFI-List of an address and a path by rtr1 to site 2.
func listedPath(beside wire.Address, ipv6 bool) *wire.AFIListLCAF {
	path := &wire.ExplicitLocatorPathLCAF{}
	for _, router := range []string{"rtr1", "xtr2"} {
		path.Hops = append(path.Hops, wire.PathHop{Address: rlocAddress(router, ipv6)})
	}
	return &wire.AFIListLCAF{Addresses: []wire.Address{beside, path}}
}

func rlocAddress(router string, ipv6 bool) wire.Address {
	return wire.RLOCAddress(lisp.RLOCFromAddr(netip.MustParseAddr(rlocOf(router, ipv6))))
}

func hostPrefix(eid netip.Addr) lisp.Prefix { return lisp.HostPrefix(0, lisp.EIDFromAddr(eid)) }

// listedPathRegister has a mapping for each of these EIDs. The Map-Server answers for the ETR.
func (n *lispNetwork) listedPathRegister(lists map[netip.Addr]wire.Address) []byte {
	n.t.Helper()
	m := &wire.MapRegister{
		ProxyReply: true, WantMapNotify: true, Nonce: 1000, AlgorithmID: wire.AlgorithmHMACSHA256HKDF,
		Authentication: make([]byte, wire.FullMACOctets(wire.AlgorithmHMACSHA256HKDF)),
	}
	for eid, list := range lists {
		record := wire.RecordOf(lisp.Mapping{Prefix: hostPrefix(eid), TTLMinutes: 60})
		locator := wire.LocatorRecord{Priority: 1, Weight: 100, Local: true, Reachable: true, Address: list}
		record.Locators = []wire.LocatorRecord{locator}
		m.Records = append(m.Records, record)
	}
	b, err := wire.AppendSigned(nil, m, []byte(siteKey(2)))
	n.must(err)
	return b
}

// TestPathsInAFIListsAreFollowed: a stand-in for lispers.net registers the EIDs of site 2, each with a path by rtr1 in
// an AFI-List, behind AFI 0 and behind the site's RLOC, in both families. All packets of site 1 to them go to rtr1, and
// come to their EID.
func TestPathsInAFIListsAreFollowed(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newRelayNetwork(t, "rtr1")
	one, two := testSite{1}, testSite{2}
	lists := map[netip.Addr]wire.Address{
		two.host4():   listedPath(wire.NoAddress{}, false),
		two.router4(): listedPath(rlocAddress("xtr2", false), false),
		two.host6():   listedPath(wire.NoAddress{}, true),
		two.router6(): listedPath(rlocAddress("xtr2", true), true),
	}
	var eids []string
	for eid := range lists {
		eids = append(eids, "{eid: '"+hostPrefix(eid).String()+"'}")
	}
	site2 := "{eid: " + two.eid4() + "}, {eid: '" + two.eid6() + "'}"
	n.run("ms", strings.Replace(n.mappingSystem(), site2, strings.Join(eids, ", "), 1))
	if !n.acknowledged("core", "172.16.9.2:4342", n.listedPathRegister(lists)) {
		t.Fatal("no Map-Notify")
	}
	n.run("rtr1", n.rtr("rtr1", two.eid4(), two.eid6()))
	n.run("xtr1", n.xtr(1))
	n.run("xtr2", "interfaces: {site: [site0], core: [core0]}\nitr: {map-resolvers: [172.16.9.2]}\n"+
		"etr: {local-eids: [{eid: "+two.eid4()+"}, {eid: '"+two.eid6()+"'}]}\n"+n.common("xtr2"))
	n.awaitRegistrations(2 + len(lists))

	const pings = 5
	itr, relay := n.watchCore("xtr1"), n.watchCore("rtr1")
	for eid := range lists {
		source := one.host4()
		if eid.Is6() {
			source = one.host6()
		}
		n.ping("host1", source, eid, pings)
	}
	for _, ipv6 := range []bool{false, true} {
		hop, etr := rlocOf("rtr1", ipv6), rlocOf("xtr2", ipv6)
		n.await("the core saw packets to "+hop+" and from it to "+etr, func(context.Context) bool {
			toRelay, _, _ := itr.to(hop)
			relayed, _, _ := relay.to(etr)
			return toRelay >= 2*pings && relayed >= 2*pings
		})
		if past, _, _ := itr.to(etr); past != 0 {
			t.Errorf("%d packets went straight to %s", past, etr)
		}
	}
	path := "packets of the path 172.16.31.2 -> 172.16.2.2 are sent to its hop 172.16.31.2"
	n.expectWords("xtr1", "explain 10.2.0.10", path)
}

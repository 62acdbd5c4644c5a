// SPDX-License-Identifier: Apache-2.0

// Lines with a relay: Src – Enc – Rel – Dec – Dst. Between Rel and Dec is a link with addresses of its own.

package testbed

import (
	"errors"
	"net/netip"

	"loci/internal/testnet"
)

// OnwardLink is that of Rel towards Dec; CoreLink leads it towards Enc.
const OnwardLink = "onward"

// Addresses of a line with a relay. Enc has those of every line. The RLOC of Rel is that towards Enc.
var (
	Core4Rel   = netip.MustParsePrefix("172.16.0.3/24")
	Core6Rel   = netip.MustParsePrefix("2001:db8:c::3/64")
	Onward4Rel = netip.MustParsePrefix("172.16.1.3/24")
	Onward6Rel = netip.MustParsePrefix("2001:db8:c:1::3/64")
	Onward4Dec = netip.MustParsePrefix("172.16.1.2/24")
	Onward6Dec = netip.MustParsePrefix("2001:db8:c:1::2/64")
)

// Hop names the addresses of a link between two routers, of one family.
type Hop struct{ Near, Far netip.Prefix }

// CoreHops are the two links from Enc to Dec, of the family of the RLOCs, or of the EIDs, of a pair.
func (p Pair) CoreHops(outer bool) [2]Hop {
	if outer && p.Outer4() || !outer && p.Inner4() {
		return [2]Hop{{Core4Enc, Core4Rel}, {Onward4Rel, Onward4Dec}}
	}
	return [2]Hop{{Core6Enc, Core6Rel}, {Onward6Rel, Onward6Dec}}
}

// RouteCore gives Enc and Dec routes to the links that they are not at.
func (l *Line) RouteCore() error {
	var all []error
	for _, p := range []Pair{Pairs[0], Pairs[3]} {
		hops := p.CoreHops(true)
		all = append(all,
			l.Enc.AddRoute(testnet.Route{Destination: hops[1].Near.Masked(), Via: hops[0].Far.Addr()}),
			l.Dec.AddRoute(testnet.Route{Destination: hops[0].Far.Masked(), Via: hops[1].Near.Addr()}))
	}
	return errors.Join(all...)
}

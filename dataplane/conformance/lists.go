// SPDX-License-Identifier: Apache-2.0

package conformance

// Deny and allow lists through settings. Every kind of them is in the golden packets.

import (
	"net/netip"
	"reflect"

	"loci/dataplane"
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

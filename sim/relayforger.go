// SPDX-License-Identifier: Apache-2.0

package sim

// The attacker and relays: packets from whatever address, in the name of any host, that relays may not or may forward.

import (
	"net/netip"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/packets"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
	"loci/wire"
)

// relayForgedGap is the mean time between the attacker's packets to relays.
const relayForgedGap = 500 * time.Millisecond

// relayForger is the attacker of relays.
type relayForger struct {
	w        *world.World
	attacker *attacker
}

func (f *relayForger) start() {
	if f.w.Flavour.Relays {
		f.w.After(firstFault, f.act)
	}
}

func (f *relayForger) act() {
	w := f.w
	if w.Now >= w.Options.FaultsEnd() {
		return
	}
	w.After(w.Relaying.Between(relayForgedGap/4, relayForgedGap*7/4), f.act)
	r := w.Router(pickRelay(w))
	source, destination, p := f.flow()
	w.Stats.PacketsHostile++
	if r.Relay.Is(control.RolePITR) && w.Relaying.Chance(0.5) {
		if r.Plane != nil {
			w.IntoProxy(r, p, source, destination, true)
		}
		return
	}
	l := virtual.Pick(w.Relaying, r.Station.Links)
	sendHostile(w, f.attacker.address(l.Addr.Is4()), l.Addr, lisp.InstanceID(p.Instance), p.Packet(source, destination))
}

// flow is a packet between two hosts of one family, each of some site or of none, in the Instance-ID of one of them.
func (f *relayForger) flow() (source, destination netip.Addr, p packets.Payload) {
	c, w := f.w.Relaying, f.w
	from, to := virtual.Pick(c, virtual.Pick(c, w.Sites).Prefixes), virtual.Pick(c, virtual.Pick(c, w.Sites).Prefixes)
	v4 := to.Prefix.Kind() == lisp.EIDIPv4
	host := func(of *sites.SitePrefix) (netip.Addr, bool) {
		if len(of.Hosts) == 0 || c.Chance(0.3) || (of.Prefix.Kind() == lisp.EIDIPv4) != v4 {
			return packets.Outsider(v4, c.Chance(0.5), 1+c.IntN(100)), false
		}
		return virtual.Pick(c, of.Hosts), true
	}
	p = packets.Payload{Number: w.NextPacket(), Instance: uint32(to.Prefix.Instance()), Site: packets.NoSite}
	source, _ = host(from)
	destination, _ = host(to)
	if owner, ok := w.Owners.Longest(lisp.HostPrefix(to.Prefix.Instance(), lisp.EIDFromAddr(destination))); ok {
		p.Site = uint32(owner.Site.Index)
	}
	return source, destination, p
}

// sendHostile sends an encapsulated packet from whatever address.
func sendHostile(w *world.World, from, to netip.Addr, instance lisp.InstanceID, packet []byte) {
	w.Network.Carry(nil, &world.Mail{
		From: netip.AddrPortFrom(from, wire.DataPort), To: netip.AddrPortFrom(to, wire.DataPort),
		Payload: packets.Encapsulated(from, to, instance, packet), Data: true, Hostile: true,
	})
}

// sendRound sends a packet with that TTL into a loop.
func sendRound(w *world.World, first *sites.Router, p lisp.Prefix, ttl int) {
	l := first.Station.Links[0]
	a := attacker{w: w}
	into := packets.Payload{Number: w.NextPacket(), Site: packets.NoSite, TTL: uint8(ttl)}
	sendHostile(w, a.address(l.Addr.Is4()), l.Addr, p.Instance(), into.Packet(packets.Outsider(true, true, 1), packets.Offset(p.Netip().Addr(), 9)))
}

// SPDX-License-Identifier: Apache-2.0

package world

// The core between the routers: delay, jitter, loss, duplication, reordering, cut links
// and partitions. It carries control messages and encapsulated packets alike, and gives
// each to the router that has the address when it arrives.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/sim/internal/packets"
	"loci/sim/internal/report"
	"loci/wire"
)

// maxMailQueued bounds what may be under way for each router: a network that fills up
// by itself is a message storm.
const maxMailQueued = 400

// newMail is mail that says nothing yet.
func (n *network) newMail() *Mail {
	if last := len(n.spare) - 1; last >= 0 {
		m := n.spare[last]
		n.spare = n.spare[:last]
		return m
	}
	return &Mail{room: new(wire.Room)}
}

// read takes mail back that is not needed any more, unless a copy of it has yet to arrive.
func (n *network) read(m *Mail) {
	if m.copies == 0 && m.room != nil { // those of other senders than Nodes have none
		*m = Mail{room: m.room}
		n.spare = append(n.spare, m)
	}
}

// Attach makes the router's addresses its own.
func (n *network) Attach(r *Router) {
	for _, l := range r.Links {
		n.SetOwner(l.Addr, r)
	}
}

// Leave notes that an address goes from a router to one of another site.
func (n *network) Leave(a netip.Addr, r *Router) {
	n.former = append(n.former, formerOwner{addr: a, site: r.Site, until: n.w.Now})
}

// wasOf reports whether the site had that address, so lately that a mapping may still say
// so. When its EIDs are within those of the router that has the address now, that one cannot know
// that a packet is not for it: its own EID-Prefix has the EID.
func (n *network) wasOf(a netip.Addr, s *Site) bool {
	return slices.ContainsFunc(n.former, func(f formerOwner) bool {
		return f.addr == a && f.site == s && n.w.Now-f.until < report.ConvergenceBound
	})
}

// send carries out the effect SendPacket.
func (r *Router) send(p control.SendPacket) {
	from := r.source(p)
	r.W.count(p.Payload)
	m := r.W.Network.newMail()
	m.From, m.To, m.Payload = from, p.Remote, p.Payload
	r.W.watch(r, m)
	r.W.Trace.Note(r.W.Now, r.Index, p.Payload, func() string {
		return fmt.Sprintf("%s sends %s to %s", r.Name, packets.Describe(p.Payload), p.Remote)
	})
	if !from.IsValid() {
		return // no address of that family
	}
	if !r.isInside(from.Addr()) {
		r.W.scenario.Overhear(from, p.Remote, p.Payload)
	}
	r.W.Network.Carry(r, m)
}

// source fills in what the Node left to the system.
func (r *Router) source(p control.SendPacket) netip.AddrPort {
	port := p.Local.Port()
	if port == 0 {
		port = wire.ControlPort
	}
	if a := p.Local.Addr(); a.IsValid() && r.has(a) {
		return netip.AddrPortFrom(a, port)
	}
	for _, rloc := range r.config.LocalRLOCs {
		if rloc.Is4() == p.Remote.Addr().Is4() {
			return netip.AddrPortFrom(rloc.Addr(), port)
		}
	}
	for _, l := range r.Links {
		if l.Addr.Is4() == p.Remote.Addr().Is4() {
			return netip.AddrPortFrom(l.Addr, port)
		}
	}
	return netip.AddrPort{}
}

func (r *Router) has(a netip.Addr) bool { return r.linkOf(a) != nil }

func (r *Router) linkOf(a netip.Addr) *Link {
	for i := range r.Links {
		if r.Links[i].Addr == a {
			return &r.Links[i]
		}
	}
	if r.isInside(a) {
		return &r.Sibling.Link
	}
	return nil
}

// Carry brings mail from a router, or from an attacker when it is nil, on its way. Nothing is known of it afterwards.
func (n *network) Carry(from *Router, m *Mail) {
	n.dispatch(from, m)
	n.read(m)
}

// dispatch puts the copies of mail that come through into the queue.
func (n *network) dispatch(from *Router, m *Mail) {
	to := n.Owner(m.To.Addr())
	if to == nil || from != nil && from.isCut(m.From.Addr()) {
		n.lose(m)
		return
	}
	if to.isInside(m.To.Addr()) {
		n.carryInside(from, to, m)
		return
	}
	r := n.w.Random
	copies := 1
	if r.Chance(n.duplicate) {
		copies = 2
	}
	for range copies {
		if r.Chance(n.loss) || n.LostHeavy > 0 && r.Chance(0.7) {
			n.lose(m)
			continue
		}
		n.underWay++
		m.copies++
		n.w.queue.Push(n.w.Now+n.delay(from, to), event{kind: eventArrival, router: to, mail: m})
	}
	if limit := maxMailQueued * (len(n.w.Routers) + 10); n.underWay > limit {
		n.w.Fail(from, invariantLimits, "%d messages and packets are under way", n.underWay)
	}
}

// delay depends on the two routers, with jitter; what is reordered comes much later.
func (n *network) delay(from, to *Router) time.Duration {
	sender := uint64(1 << 20)
	if from != nil {
		sender = uint64(from.Index)
	}
	pair := (sender + 1) * uint64(to.Index+1) * 0x9e3779b97f4a7c15
	delay := time.Millisecond + time.Duration(pair>>20)%n.w.Flavour.maxDelay
	if n.jitter > 0 {
		delay += n.w.Random.Between(0, n.jitter)
	}
	if n.w.Random.Chance(n.reorder) {
		delay += n.w.Random.Between(0, 300*time.Millisecond)
	}
	return delay
}

func (n *network) lose(m *Mail) {
	if !m.Data {
		n.w.Stats.MessagesLost++
		return
	}
	n.w.lostPacket(nil, m, "no router has that address, or its link is cut")
}

// isCut reports whether nothing leaves or reaches the router by that address.
func (r *Router) isCut(a netip.Addr) bool {
	l := r.linkOf(a)
	return l == nil || l.Cut > 0
}

// apart reports whether a partition lies between two routers. The attacker is on both
// sides.
func (n *network) apart(from netip.Addr, to *Router) bool {
	if n.Parted == 0 && len(n.severed) == 0 {
		return false
	}
	sender := n.Owner(from)
	return sender != nil && (n.Parted > 0 && n.side(sender) != n.side(to) || n.severed[pairOf(sender, to)] > 0)
}

// Sever cuts the path between two routers, whichever addresses they have, or mends it again.
func (n *network) Sever(a, b *Router, by int) {
	if n.severed == nil {
		n.severed = map[[2]int]int{}
	}
	n.severed[pairOf(a, b)] += by
}

func pairOf(a, b *Router) [2]int { return [2]int{min(a.Index, b.Index), max(a.Index, b.Index)} }

func (n *network) side(r *Router) bool { return n.Divide>>(uint(r.Index)%32)&1 == 1 }

// arrive is mail at a router. The address may have moved to another one meanwhile.
func (w *World) arrive(r *Router, m *Mail) {
	w.Network.underWay--
	m.copies--
	defer w.Network.read(m)
	at := r.linkOf(m.To.Addr())
	if at == nil {
		if r = w.Network.Owner(m.To.Addr()); r != nil {
			at = r.linkOf(m.To.Addr())
		}
	}
	if at == nil || at.Cut > 0 || !r.isInside(at.Addr) && w.Network.apart(m.From.Addr(), r) {
		w.Network.lose(m)
		return
	}
	if m.Data {
		w.arrivePacket(r, m)
		return
	}
	if r.Node == nil {
		w.Network.lose(m)
		return
	}
	w.Trace.Note(w.Now, r.Index, m.Payload, func() string {
		return fmt.Sprintf("%s receives %s from %s%s", r.Name, packets.Describe(m.Payload), m.From, origin(m))
	})
	if refusesWhole(w, r, m) {
		return
	}
	beforeMessage(w, r, m)
	r.Node.HandleParsed(r.time(), m.To, m.From, m.Payload, m.parsed())
	r.drain()
	afterMessage(w, r, m)
}

func origin(m *Mail) string {
	if m.Hostile {
		return " (the attacker)"
	}
	return ""
}

// count counts a control message by its type.
func (w *World) count(payload []byte) {
	w.Stats.Messages[packets.MessageType(payload)]++
}

// carryInside brings mail from one sibling to another. No other router is on that link.
func (n *network) carryInside(from, to *Router, m *Mail) {
	if from == nil || from.Site != to.Site {
		n.lose(m)
		return
	}
	n.underWay++
	m.copies++
	n.w.queue.Push(n.w.Now+insideDelay, event{kind: eventArrival, router: to, mail: m})
}

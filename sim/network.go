// SPDX-License-Identifier: Apache-2.0

package sim

// The core between the routers: delay, jitter, loss, duplication, reordering, cut links
// and partitions. It carries control messages and encapsulated packets alike, and gives
// each to whoever has the address when it arrives.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/wire"
)

// mail is a control message or an encapsulated packet under way.
type mail struct {
	from, to netip.AddrPort
	payload  []byte
	data     bool         // an IP packet for the data plane
	hostile  bool         // made by the stranger
	forged   bool         // and with authentication data that nobody with the key made
	message  wire.Message // the payload as it was parsed, which everybody shares; nil before and where it is none
	room     *wire.Room   // where it is
	copies   int          // under way
}

// parsed is the payload as a message, nil where it is none.
func (m *mail) parsed() wire.Message {
	if m.message == nil {
		m.message, _ = wire.Parser{}.ParseIn(m.room, m.payload)
	}
	return m.message
}

// conditions are how bad the network is.
type conditions struct {
	loss, duplicate, reorder float64
	jitter                   time.Duration
}

// maxMailQueued bounds what may be under way for each router: a network that fills up
// by itself is a message storm.
const maxMailQueued = 400

type network struct {
	w *world
	conditions
	owners    []owned // by the number of the address
	former    []formerOwner
	parted    int  // partitions in force
	divide    uint // how a partition divides
	underWay  int
	lostHeavy int // faults of heavy loss in force
	spare     []*mail
}

// newMail is mail that says nothing yet.
func (n *network) newMail() *mail {
	if last := len(n.spare) - 1; last >= 0 {
		m := n.spare[last]
		n.spare = n.spare[:last]
		return m
	}
	return &mail{room: new(wire.Room)}
}

// read takes mail back that nobody needs any more, unless a copy of it has yet to arrive.
func (n *network) read(m *mail) {
	if m.copies == 0 && m.room != nil { // those of strangers have none
		*m = mail{room: m.room}
		n.spare = append(n.spare, m)
	}
}

// attach makes the router's addresses its own.
func (n *network) attach(r *router) {
	for _, l := range r.links {
		n.setOwner(l.addr, r)
	}
}

// owned is an address with the router that has it, nil for none.
type owned struct {
	addr   netip.Addr
	router *router
}

// numberOf is the number that newAddress made an address from; false for one of nobody.
func numberOf(a netip.Addr) (number int, known bool) {
	b := a.As16()
	v4 := a.Is4()
	if v4 && b[12] != firstOctetV4 || !v4 && b[0] != firstOctetV6 {
		return 0, false
	}
	if v4 {
		b[12], b[13] = 0, b[13]-secondOctetV4
	}
	return int(binary.BigEndian.Uint32(b[12:])), true
}

func (n *network) setOwner(a netip.Addr, r *router) {
	if number, known := numberOf(a); known {
		n.owners = append(n.owners, make([]owned, max(0, number+1-len(n.owners)))...)
		n.owners[number] = owned{a, r}
	}
}

// owner is the router that has an address, nil for none.
func (n *network) owner(a netip.Addr) *router {
	if number, known := numberOf(a); known && number < len(n.owners) && n.owners[number].addr == a {
		return n.owners[number].router
	}
	return nil
}

// formerOwner is a site that had an address until it went to another one.
type formerOwner struct {
	addr  netip.Addr
	site  *site
	until time.Duration
}

// leave notes that an address goes from a router to one of another site.
func (n *network) leave(a netip.Addr, r *router) {
	n.former = append(n.former, formerOwner{addr: a, site: r.site, until: n.w.now})
}

// wasOf reports whether the site had that address, so lately that a mapping may still say
// so. When its EIDs are within those of whoever has the address now, that one cannot know
// that a packet is not for it: its own EID-Prefix has the EID.
func (n *network) wasOf(a netip.Addr, s *site) bool {
	return slices.ContainsFunc(n.former, func(f formerOwner) bool {
		return f.addr == a && f.site == s && n.w.now-f.until < ConvergenceBound
	})
}

// send carries out the effect SendPacket.
func (r *router) send(p control.SendPacket) {
	from := r.source(p)
	r.w.count(p.Payload)
	m := r.w.network.newMail()
	m.from, m.to, m.payload = from, p.Remote, p.Payload
	r.w.watch(r, m)
	r.w.trace.note(r.w.now, r.index, p.Payload, func() string {
		return fmt.Sprintf("%s sends %s to %s", r.name, describe(p.Payload), p.Remote)
	})
	if !from.IsValid() {
		return // no address of that family
	}
	if !r.isInside(from.Addr()) {
		r.w.stranger.overhear(from, p.Remote, p.Payload)
	}
	r.w.network.carry(r, m)
}

// source fills in what the Node left to the system.
func (r *router) source(p control.SendPacket) netip.AddrPort {
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
	for _, l := range r.links {
		if l.addr.Is4() == p.Remote.Addr().Is4() {
			return netip.AddrPortFrom(l.addr, port)
		}
	}
	return netip.AddrPort{}
}

func (r *router) has(a netip.Addr) bool { return r.linkOf(a) != nil }

func (r *router) linkOf(a netip.Addr) *link {
	for i := range r.links {
		if r.links[i].addr == a {
			return &r.links[i]
		}
	}
	if r.isInside(a) {
		return &r.sibling.link
	}
	return nil
}

// carry brings mail from a router, or from a stranger when it is nil, on its way. Nothing is known of it afterwards.
func (n *network) carry(from *router, m *mail) {
	n.dispatch(from, m)
	n.read(m)
}

// dispatch puts the copies of mail that come through into the queue.
func (n *network) dispatch(from *router, m *mail) {
	to := n.owner(m.to.Addr())
	if to == nil || from != nil && from.isCut(m.from.Addr()) {
		n.lose(m)
		return
	}
	if to.isInside(m.to.Addr()) {
		n.carryInside(from, to, m)
		return
	}
	r := n.w.random
	copies := 1
	if r.chance(n.duplicate) {
		copies = 2
	}
	for range copies {
		if r.chance(n.loss) || n.lostHeavy > 0 && r.chance(0.7) {
			n.lose(m)
			continue
		}
		n.underWay++
		m.copies++
		n.w.queue.push(event{at: n.w.now + n.delay(from, to), kind: eventArrival, router: to, mail: m})
	}
	if limit := maxMailQueued * (len(n.w.routers) + 10); n.underWay > limit {
		n.w.fail(from, invariantLimits, "%d messages and packets are under way", n.underWay)
	}
}

// delay depends on the two routers, with jitter; what is reordered comes much later.
func (n *network) delay(from, to *router) time.Duration {
	sender := uint64(1 << 20)
	if from != nil {
		sender = uint64(from.index)
	}
	pair := (sender + 1) * uint64(to.index+1) * 0x9e3779b97f4a7c15
	delay := time.Millisecond + time.Duration(pair>>20)%n.w.flavour.maxDelay
	if n.jitter > 0 {
		delay += n.w.random.between(0, n.jitter)
	}
	if n.w.random.chance(n.reorder) {
		delay += n.w.random.between(0, 300*time.Millisecond)
	}
	return delay
}

func (n *network) lose(m *mail) {
	if !m.data {
		n.w.stats.MessagesLost++
		return
	}
	n.w.lostPacket(nil, m, "nobody has that address, or its link is cut")
}

// isCut reports whether nothing leaves or reaches the router by that address.
func (r *router) isCut(a netip.Addr) bool {
	l := r.linkOf(a)
	return l == nil || l.cut > 0
}

// apart reports whether a partition lies between two routers. The stranger is on both
// sides.
func (n *network) apart(from netip.Addr, to *router) bool {
	if n.parted == 0 {
		return false
	}
	sender := n.owner(from)
	return sender != nil && n.side(sender) != n.side(to)
}

func (n *network) side(r *router) bool { return n.divide>>(uint(r.index)%32)&1 == 1 }

// arrive is mail at a router. The address may have moved to another one meanwhile.
func (w *world) arrive(r *router, m *mail) {
	w.network.underWay--
	m.copies--
	defer w.network.read(m)
	at := r.linkOf(m.to.Addr())
	if at == nil {
		if r = w.network.owner(m.to.Addr()); r != nil {
			at = r.linkOf(m.to.Addr())
		}
	}
	if at == nil || at.cut > 0 || !r.isInside(at.addr) && w.network.apart(m.from.Addr(), r) {
		w.network.lose(m)
		return
	}
	if m.data {
		w.arrivePacket(r, m)
		return
	}
	if r.node == nil {
		w.network.lose(m)
		return
	}
	w.trace.note(w.now, r.index, m.payload, func() string {
		return fmt.Sprintf("%s receives %s from %s%s", r.name, describe(m.payload), m.from, origin(m))
	})
	if w.refusesWhole(r, m) {
		return
	}
	w.beforeMessage(r, m)
	r.node.HandleParsed(r.time(), m.to, m.from, m.payload, m.parsed())
	r.drain()
	w.afterMessage(r, m)
}

func origin(m *mail) string {
	if m.hostile {
		return " (the stranger)"
	}
	return ""
}

// count counts a control message by its type.
func (w *world) count(payload []byte) {
	w.stats.Messages[messageType(payload)]++
}

func messageType(payload []byte) string {
	if len(payload) == 0 {
		return "empty"
	}
	return wire.MessageType(payload[0] >> 4).String()
}

// describe is a message in a few words.
func describe(payload []byte) string {
	m, err := wire.Parse(payload)
	if err != nil {
		return fmt.Sprintf("%d octets that are no message (%v)", len(payload), err)
	}
	switch m := m.(type) {
	case *wire.EncapsulatedControlMessage:
		return "an ECM with " + describe(m.Inner.Message)
	case *wire.MapRequest:
		return fmt.Sprintf("Map-Request %016x for %s%s", m.Nonce, describeAsked(m.Records), requestKind(m))
	case *wire.MapReply:
		return fmt.Sprintf("Map-Reply %016x %s", m.Nonce, describeRecords(m.Records))
	case *wire.MapRegister:
		return fmt.Sprintf("Map-Register %016x %s", m.Nonce, describeRecords(m.Records))
	case *wire.MapNotify:
		return fmt.Sprintf("Map-Notify %016x %s", m.Nonce, describeRecords(m.Records))
	}
	return m.Type().String()
}

func describeAsked(records []wire.RequestRecord) string {
	words := ""
	for i := range records {
		if p, err := records[i].Prefix(); err == nil {
			words += p.String()
		}
	}
	return words
}

func requestKind(m *wire.MapRequest) string {
	switch {
	case m.Probe:
		return " (RLOC-probe)"
	case m.SMR:
		return " (SMR)"
	}
	return ""
}

func describeRecords(records []wire.Record) string {
	words := ""
	for i := range records {
		if mapping, err := records[i].Mapping(); err == nil {
			words += fmt.Sprintf("[%s, TTL %d min] ", mapping, mapping.TTLMinutes)
		}
	}
	return words
}

// SPDX-License-Identifier: Apache-2.0

package nat

// The node: Info-Requests to its Map-Servers beside the first Map-Registers (s.5.1). Answers are believed by nonce and
// key only. Where none comes nothing changes.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// maxAsked bounds the Map-Servers that are asked.
	maxAsked = 16
	// An Info-Request that is not answered is sent again after a second, then after twice as long each time,
	// infoLongest at most, infoTries in all. After infoPause that begins anew: the Map-Server may be another one
	// by then. A Map-Server that acknowledges no Map-Register may be away, or its Map-Notifies end at the NAT: it
	// is asked on.
	infoFirst   = time.Second
	infoLongest = 8 * time.Second
	infoTries   = 6
	infoPause   = 10 * time.Minute
	// infoTTLMinutes is how long an answer counts.
	infoTTLMinutes = 10
	// infoNonces is how many of the last Info-Requests an Info-Reply may answer.
	infoNonces = 4
)

// inquiry is what one Map-Server is asked, and said.
type inquiry struct {
	peer   settings.MapServerPeer
	prefix lisp.Prefix
	local  lisp.RLOC
	up     bool // its locators said so, or there were none of it, when it was asked
	down   bool // its locators say so now
	nonces []uint64
	tries  int  // since the last answer
	away   bool // it acknowledged nothing when it was asked last

	answeredAt timing.Instant // 0 for never
	assumed    bool           // as long as it does not answer: behind a NAT, as at the RLOC before
	seen       netip.AddrPort
	rtrs       []offered
	nat64      netip.Prefix // of the NAT64 by which the Map-Server is reached; the zero one for none
}

// offered is an RTR that a Map-Server offers.
type offered struct {
	address netip.Addr // by which this node reaches it
	ipv4    netip.Addr // its own, where a NAT64 is on the way; else the zero one
}

// String is how it is reported.
func (o offered) String() string {
	if o.ipv4.IsValid() {
		return fmt.Sprintf("%s (%s by NAT64)", o.address, o.ipv4)
	}
	return o.address.String()
}

// offers reports whether a Map-Server offers the RTR of an address.
func (q *inquiry) offers(rtr netip.Addr) bool {
	return slices.ContainsFunc(q.rtrs, func(o offered) bool { return o.address == rtr })
}

// addresses are those of the RTRs, by which this node reaches them.
func (q *inquiry) addresses() (list []netip.Addr) {
	for _, o := range q.rtrs {
		list = append(list, o.address)
	}
	return list
}

// take takes over the RTRs of an Info-Reply. Where a NAT64 leads to the Map-Server, it leads to RTRs with IPv4 as well.
func (q *inquiry) take(m *message.InfoReply) {
	q.nat64, _ = lisp.NAT64Prefix(q.peer.Address.Addr(), m.MapServer)
	q.rtrs = nil
	for _, a := range m.RTRs {
		o := offered{address: a}
		if q.nat64.IsValid() && a.Is4() {
			o = offered{address: lisp.NAT64Address(q.nat64, a), ipv4: a}
		}
		q.rtrs = append(q.rtrs, o)
	}
}

// Node is the side of a node.
type Node struct {
	h       *system.System
	config  *settings.NATTraversal
	asked   []*inquiry
	Timers  timing.Deadlines // by number in asked
	unasked []lisp.RLOC      // own RLOCs beyond those that ask
	keepers []*keeper        // one for each RTR and own RLOC by which this node registers; none: directly
	Keepers timing.Deadlines
	XTRID   [16]byte // of a router without a configured one, zero until there is need for it
	byXTRID bool     // it registers, or registered, with that

	Changed   func()                      // other RTRs, or one of them is silent now, or answers again
	Confirmed func()                      // an RTR knows this node's address, for the first time
	Register  func(rtr, local netip.Addr) // Map-Registers are to be sent by that RTR at once

	// IsSilent reports whether a Map-Server acknowledges no Map-Register, though it is asked to.
	IsSilent func(settings.PeerID) bool
}

// New makes a Node that sends no Info-Requests.
func New(h *system.System) *Node { return &Node{h: h} }

// Configure takes over other Map-Servers and another Database. A Map-Server is asked again where it, or the RLOC that
// asks, is new or comes up.
func (n *Node) Configure(c *settings.NATTraversal, e *settings.ETRConfig) {
	before := n.config
	n.config = c
	var asked []*inquiry
	if n.unasked = nil; c != nil {
		asked = n.inquiries(e)
	}
	for i := range n.asked {
		n.Timers.Remove(uint32(i))
	}
	was := n.asked
	n.asked = asked
	for i, q := range asked {
		at := slices.IndexFunc(was, func(o *inquiry) bool {
			return o.peer.ID() == q.peer.ID() && o.local == q.local && o.prefix == q.prefix
		})
		if at >= 0 {
			n.goOn(uint32(i), was[at], q)
			continue
		}
		if o := n.inUse(q); o != nil {
			q.assumed, q.rtrs, q.nat64 = true, o.rtrs, o.nat64
		}
		n.ask(uint32(i))
	}
	if !n.evaluate() && before != nil && c != nil && before.Keepalive != c.Keepalive {
		for _, k := range n.keepers {
			k.reconfigure()
		}
		n.Changed() // the interval of Map-Registers follows from it
	}
}

// Expect takes over which own RLOCs are down by a Database that is about to be configured: its Map-Registers leave from
// the others.
func (n *Node) Expect(e *settings.ETRConfig) {
	for _, q := range n.asked {
		q.down = !isUp(e, q.local)
	}
}

// goOn keeps an inquiry in the place of one that equals it. What was asked while the link was away is lost.
func (n *Node) goOn(id uint32, q, fresh *inquiry) {
	cameUp := fresh.up && !q.up
	q.peer, q.up, q.down = fresh.peer, fresh.up, fresh.down
	n.asked[id] = q
	if cameUp {
		q.tries = 0
		n.ask(id)
		return
	}
	n.Timers.Set(id, n.nextAsk(q))
}

// isUp reports whether a locator of an own RLOC is reachable, or none of the Database has it.
func isUp(e *settings.ETRConfig, own lisp.RLOC) bool {
	known := false
	for _, d := range e.Database {
		if l, ok := d.Locators.Find(own); ok {
			if l.Reachable {
				return true
			}
			known = true
		}
	}
	return !known
}

// inquiries are one for each Map-Server's address that an EID-Prefix is registered with, and each own RLOC of its
// family (s.5.4).
func (n *Node) inquiries(e *settings.ETRConfig) (list []*inquiry) {
	for _, p := range e.MapServers {
		at := slices.IndexFunc(e.Database, func(d settings.DatabaseMapping) bool { return d.Site == p.Site })
		known := slices.ContainsFunc(list, func(q *inquiry) bool { return q.peer.Address == p.Address })
		isOwn := slices.Contains(n.h.RLOCs, lisp.RLOCFromAddr(p.Address.Addr()))
		if at < 0 || known || isOwn {
			continue
		}
		for _, local := range n.asking(e, p.Address.Addr().Is4()) {
			if len(list) == maxAsked {
				return list
			}
			if !hasRoom(list, local) {
				n.leaveUnasked(local)
				continue
			}
			up := isUp(e, local)
			list = append(list, &inquiry{
				peer: p, prefix: e.Database[at].Prefix, local: local, up: up, down: !up,
			})
		}
	}
	return list
}

// hasRoom reports whether an own RLOC may ask: an RTR keeps so many of a node.
func hasRoom(list []*inquiry, local lisp.RLOC) bool {
	var locals []lisp.RLOC
	for _, q := range list {
		if !slices.Contains(locals, q.local) {
			locals = append(locals, q.local)
		}
	}
	return len(locals) < settings.NATRLOCs || slices.Contains(locals, local)
}

func (n *Node) leaveUnasked(local lisp.RLOC) {
	if !slices.Contains(n.unasked, local) {
		n.unasked = append(n.unasked, local)
	}
}

// asking are the own RLOCs of a family that ask: the first one, and others that are locators.
func (n *Node) asking(e *settings.ETRConfig, v4 bool) (list []lisp.RLOC) {
	for _, r := range n.h.RLOCs {
		isLocator := func(d settings.DatabaseMapping) bool { _, found := d.Locators.Find(r); return found }
		if r.Is4() == v4 && (len(list) == 0 || slices.ContainsFunc(e.Database, isLocator)) {
			list = append(list, r)
		}
	}
	return list
}

// nextAsk is when a Map-Server is asked again that was asked before.
func (n *Node) nextAsk(q *inquiry) timing.Instant {
	if q.answeredAt != 0 && q.tries == 0 {
		return max(q.answeredAt+timing.Instant(infoTTLMinutes*time.Minute), n.h.Now)
	}
	return n.h.After(infoFirst)
}

// ask sends an Info-Request.
func (n *Node) ask(id uint32) {
	q := n.asked[id]
	silent := n.IsSilent(q.peer.ID())
	if q.away && !silent { // it is back
		q.tries = 0
	}
	if q.tries == infoTries {
		n.h.Notice(effect.Notice{Kind: effect.NoticeInfoRequestUnanswered, Remote: q.peer.Address, RLOC: q.local.String()})
	}
	if q.away = silent; q.tries >= infoTries && !silent {
		q.tries = 0
		n.Timers.Set(id, n.h.After(infoPause))
		return
	}
	q.tries++
	n.Timers.Set(id, n.h.After(min(infoFirst<<min(q.tries-1, infoTries), infoLongest)))
	key := q.peer.Key
	m := &wire.InfoRequest{
		Nonce: n.h.Nonce(),
		KeyID: key.ID, AlgorithmID: key.Algorithm, Authentication: make([]byte, key.MACOctets()),
		TTLMinutes: infoTTLMinutes, MaskLen: uint8(q.prefix.Bits()), EID: wire.AddressOf(q.prefix),
	}
	payload, err := wire.AppendSigned(n.h.Buffer(system.UsualSignedOctets+system.UsualRecordOctets), m, key.Secret)
	if err != nil {
		n.h.Count(counter.RefusedEncoding)
		return
	}
	if q.nonces = append(q.nonces, m.Nonce); len(q.nonces) > infoNonces {
		q.nonces = slices.Delete(q.nonces, 0, 1)
	}
	n.h.SendNAT(netip.AddrPortFrom(q.local.Addr(), n.h.ControlPort), q.peer.Address, n.h.Used(payload))
	n.h.Count(counter.InfoRequestSent)
	n.h.Notice(effect.Notice{Kind: effect.NoticeInfoRequestSent, Prefix: q.prefix, Remote: q.peer.Address, RLOC: q.local.String()})
}

// HandleTimeout asks a Map-Server again.
func (n *Node) HandleTimeout(id uint32) {
	if int(id) < len(n.asked) {
		n.ask(id)
	}
}

// HandleInfoReply takes what a Map-Server says about this node's address.
func (n *Node) HandleInfoReply(m *message.InfoReply) {
	at := slices.IndexFunc(n.asked, func(q *inquiry) bool {
		return q.peer.ID() == m.Peer && slices.Contains(q.nonces, m.Nonce)
	})
	isOwn := func(a netip.Addr) bool { return slices.Contains(n.h.RLOCs, lisp.RLOCFromAddr(a)) }
	if at < 0 || slices.ContainsFunc(m.RTRs, isOwn) {
		n.h.Count(counter.RefusedInfoReply)
		return
	}
	n.h.Count(counter.InfoReplyReceived)
	q := n.asked[at]
	moved := q.seen.IsValid() && q.seen.Addr() != m.Seen.Addr()
	wasBehind, before := n.isBehind(q) || q.assumed && !n.config.Always, q.seen
	q.nonces, q.tries, q.answeredAt, q.assumed = nil, 0, n.h.Now, false
	q.seen = m.Seen
	q.take(m)
	n.noticeReply(q, before, wasBehind)
	ttl := min(max(m.TTLMinutes, 1), infoTTLMinutes)
	n.Timers.Set(uint32(at), n.h.After(time.Duration(ttl)*time.Minute))
	if n.evaluate() || !moved {
		return
	}
	for _, k := range n.keepers {
		if k.from == q {
			n.Register(k.rtr, k.local)
		}
	}
}

// isBehind reports whether a NAT is between this node and a Map-Server.
func (n *Node) isBehind(q *inquiry) bool {
	return q.answeredAt != 0 && q.seen != netip.AddrPortFrom(q.local.Addr(), n.h.ControlPort)
}

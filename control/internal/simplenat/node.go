// SPDX-License-Identifier: Apache-2.0

package simplenat

// The node (s.3 to s.6): Info-Requests to its Map-Servers, which say how it looks from outside and which RTRs there
// are. Behind a NAT it registers the NAT's address with its own name, and the RTRs. Nothing of that is authenticated:
// an answer is believed from the address that was asked, by its nonce.

import (
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
	// autoAfter is how long the other protocol has for its answer before this one asks: a Map-Server limits its
	// answers, and many nodes may begin at once behind one address.
	autoAfter = 30 * time.Second
	// An Info-Request that is not answered is sent again after a second, then after twice as long each time,
	// askLongest at most. After askTries a pause follows, unless this protocol is the only one, or the Map-Server
	// acknowledges no Map-Register: it may be away, or its Map-Notifies end at the NAT.
	askFirst   = time.Second
	askLongest = 16 * time.Second
	askTries   = 3
	askPause   = 10 * time.Minute
	// askNonces is how many of the last Info-Requests an Info-Reply may answer.
	askNonces = 4
	// maxAsked bounds the Map-Servers that are asked.
	maxAsked = 16
)

// server is what one Map-Server is asked, and said.
type server struct {
	at     netip.AddrPort
	peer   settings.PeerID
	nonces []uint64
	tries  int // since the last answer

	answeredAt timing.Instant // 0 for never
	assumed    bool           // as long as it does not answer: behind a NAT, as at the RLOC before
	seen       netip.AddrPort
	rtrs       []netip.Addr
	changes    timing.Changes // of what it saw, while the own RLOC was the same
}

// Node is the side of a node.
type Node struct {
	h       *system.System
	config  *settings.NATTraversal // nil where this protocol is not spoken
	local   lisp.RLOC
	about   lisp.Prefix // that RLOC-probes ask about
	servers []*server
	Timers  timing.Deadlines // by number in servers, and keepTimer
	path    *settings.NamedPath
	fresh   bool // it was not acknowledged yet
	rtrs    []*nodeRTR

	Name       func() string              // of this host
	Changed    func()                     // the path is another one, or an RTR is silent now, or answers again
	IsAnswered func() bool                // whether the other protocol's Info-Requests are
	IsSilent   func(settings.PeerID) bool // whether a Map-Server acknowledges no Map-Register, though it is asked to
}

// keepTimer is the keepalives' row of Timers.
const keepTimer = maxAsked

// NewNode makes one that asks no one.
func NewNode(h *system.System) *Node { return &Node{h: h} }

// Configure takes over other Map-Servers and another Database.
func (n *Node) Configure(c *settings.NATTraversal, e *settings.ETRConfig) {
	if c != nil && c.Protocol == settings.NATErmagan {
		c = nil
	}
	n.config = c
	var servers []*server
	var local lisp.RLOC
	if c != nil && len(e.Database) > 0 {
		local, _ = n.h.RLOCOf(true)
		n.about, servers = e.Database[0].Prefix, n.serversOf(e, local)
	}
	same := func(a, b *server) bool { return a.at == b.at }
	if local != n.local || !slices.EqualFunc(servers, n.servers, same) {
		n.begin(servers, local)
	}
	n.Evaluate()
}

// serversOf are the Map-Servers with an IPv4 address, of which none is this router.
func (n *Node) serversOf(e *settings.ETRConfig, local lisp.RLOC) (list []*server) {
	for _, p := range e.MapServers {
		known := slices.ContainsFunc(list, func(s *server) bool { return s.at == p.Address })
		isOwn := slices.Contains(n.h.RLOCs, lisp.RLOCFromAddr(p.Address.Addr()))
		if !local.IsZero() && p.Address.Addr().Is4() && !known && !isOwn && len(list) < maxAsked {
			list = append(list, &server{at: p.Address, peer: p.ID()})
		}
	}
	return list
}

// begin asks all Map-Servers anew. What they said from another RLOC is used until they answer.
func (n *Node) begin(servers []*server, local lisp.RLOC) {
	for i := range n.servers {
		n.Timers.Remove(uint32(i))
	}
	for _, s := range servers {
		at := slices.IndexFunc(n.servers, func(o *server) bool { return o.at == s.at })
		switch {
		case at < 0:
		case local == n.local:
			*s = *n.servers[at]
		case n.needsRTR(n.servers[at]):
			s.assumed, s.seen, s.rtrs = true, n.servers[at].seen, n.servers[at].rtrs
		}
	}
	n.servers, n.local = servers, local
	for i, s := range servers {
		at := n.h.Now
		if n.config.Protocol == settings.NATAuto && !s.assumed {
			at = n.h.After(autoAfter)
		}
		n.Timers.Set(uint32(i), at)
	}
}

// HandleTimeout asks a Map-Server again, or keeps the bindings for data.
func (n *Node) HandleTimeout(id uint32) {
	switch {
	case id == keepTimer:
		n.keep()
	case int(id) < len(n.servers):
		n.ask(id)
	}
}

func (n *Node) ask(id uint32) {
	s := n.servers[id]
	if n.yields() {
		n.Timers.Set(id, n.h.After(askPause))
		n.Evaluate()
		return
	}
	if s.tries == askTries && n.config.Protocol == settings.NATSimple {
		n.h.Notice(effect.Notice{Kind: effect.NoticeInfoRequestUnanswered, Remote: s.at, RLOC: n.local.String()})
	}
	if s.tries >= askTries && s.answeredAt == 0 && n.config.Protocol == settings.NATAuto && !n.IsSilent(s.peer) {
		s.tries = 0
		n.Timers.Set(id, n.h.After(askPause))
		return
	}
	s.tries++
	n.Timers.Set(id, n.h.After(min(askFirst<<min(s.tries-1, 8), askLongest)))
	nonce := n.h.Nonce()
	if s.nonces = append(s.nonces, nonce); len(s.nonces) > askNonces {
		s.nonces = slices.Delete(s.nonces, 0, 1)
	}
	m := wire.InfoRequest{Nonce: nonce, EID: wire.NoAddress{}, HostName: wire.DistinguishedName(n.Name())}
	payload, err := m.AppendTo(n.h.Buffer(system.UsualECMOctets))
	if err != nil {
		n.h.Count(counter.RefusedEncoding)
		return
	}
	n.h.SendNAT(netip.AddrPortFrom(n.local.Addr(), n.h.ControlPort), s.at, n.h.Used(payload))
	n.h.Count(counter.InfoRequestSent)
	n.h.Notice(effect.Notice{Kind: effect.NoticeInfoRequestSent, Remote: s.at, RLOC: n.local.String()})
}

// HandleInfoReply takes what a Map-Server says about this node's address.
func (n *Node) HandleInfoReply(m *message.NamedInfoReply) {
	at := slices.IndexFunc(n.servers, func(s *server) bool { return s.at == m.From && slices.Contains(s.nonces, m.Nonce) })
	isOwn := func(a netip.Addr) bool { return slices.Contains(n.h.RLOCs, lisp.RLOCFromAddr(a)) }
	if at < 0 || !m.Seen.IsValid() || slices.ContainsFunc(m.RTRs, isOwn) {
		n.h.Count(counter.RefusedInfoReply)
		return
	}
	n.h.Count(counter.InfoReplyReceived)
	s := n.servers[at]
	before := *s
	s.nonces, s.tries, s.answeredAt, s.assumed = nil, 0, n.h.Now, false
	s.seen, s.rtrs = m.Seen, m.RTRs
	if before.answeredAt != 0 && before.seen != s.seen {
		s.changes.Note(n.h.Now)
	}
	n.noticeReply(s, &before)
	next := askPause
	if n.needsRTR(s) && n.config.Keepalive > 0 {
		next = n.config.Keepalive
	}
	n.Timers.Set(uint32(at), n.h.After(next))
	n.Evaluate()
}

// isBehind reports whether a NAT is between this node and a Map-Server.
func (n *Node) isBehind(s *server) bool {
	return s.answeredAt != 0 && s.seen != netip.AddrPortFrom(n.local.Addr(), n.h.ControlPort)
}

func (n *Node) needsRTR(s *server) bool {
	return s.assumed || n.isBehind(s) || s.answeredAt != 0 && n.config != nil && n.config.Always
}

// yields reports whether the other protocol is spoken instead.
func (n *Node) yields() bool {
	return n.config != nil && n.config.Protocol == settings.NATAuto && n.IsAnswered()
}

// wanted is how this node is reached by RTRs: as the first Map-Server sees it, by those that any of them offers.
func (n *Node) wanted() *settings.NamedPath {
	if n.config == nil || n.yields() {
		return nil
	}
	var path *settings.NamedPath
	for _, s := range n.servers {
		if !n.needsRTR(s) || len(s.rtrs) == 0 {
			continue
		}
		if path == nil {
			path = &settings.NamedPath{Local: n.local.Addr(), Seen: s.seen.Addr(), Name: n.Name()}
		}
		for _, a := range s.rtrs {
			if !slices.Contains(path.RTRs, a) && len(path.RTRs) < settings.MaxRTRs {
				path.RTRs = append(path.RTRs, a)
			}
		}
	}
	return path
}

// Evaluate finds how this node is reached, and applies that.
func (n *Node) Evaluate() {
	path := n.wanted()
	var all []netip.Addr
	if path != nil {
		all = path.RTRs
	}
	added, changed := n.setRTRs(all)
	if path != nil {
		path.RTRs = n.inUse()
	}
	if path != nil && len(path.RTRs) == 0 {
		path = nil
	}
	if !path.Equal(n.path) {
		n.path, n.fresh, changed = path, true, true
	}
	if added {
		n.keep()
	}
	if len(all) == 0 {
		n.Timers.Remove(keepTimer)
	}
	if changed {
		n.Changed()
	}
}

// Peers are the Map-Servers as they are registered with.
func (n *Node) Peers(all []settings.MapServerPeer) []settings.MapServerPeer {
	if !n.Registers() {
		return all
	}
	list := slices.Clone(all)
	for i := range list {
		if p := &list[i]; p.Address.Addr().Is4() {
			p.Named, p.WantMapNotify, p.ProxyReply = n.path, true, true
		}
	}
	return list
}

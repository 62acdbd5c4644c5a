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
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
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
	h      *system.System
	config *settings.NATTraversal // nil where this protocol is not spoken
	rlocs  []*ownRLOC             // by place
	paths  []settings.NamedPath
	Timers timing.Deadlines // rowsPerRLOC for each

	Name       func() string              // of this host
	Changed    func()                     // a path is another one, or an RTR is silent now, or answers again
	IsAnswered func() bool                // whether the other protocol's Info-Requests are
	IsSilent   func(settings.PeerID) bool // whether a Map-Server acknowledges no Map-Register, though it is asked to
}

// NewNode makes one that asks no one.
func NewNode(h *system.System) *Node { return &Node{h: h} }

// Configure takes over other Map-Servers and another Database.
func (n *Node) Configure(c *settings.NATTraversal, e *settings.ETRConfig) {
	if c != nil && c.Protocol == settings.NATErmagan {
		c = nil
	}
	n.config = c
	var locals []lisp.RLOC
	if c != nil && len(e.Database) > 0 && len(n.serversOf(e)) > 0 {
		locals = n.localsOf(e)
	}
	before := n.rlocs
	n.rlocs = nil
	for _, l := range locals {
		r := n.takeOver(before, locals, l)
		r.configure(n.serversOf(e), l, e.Database[0].Prefix)
	}
	for _, r := range before {
		if !slices.Contains(n.rlocs, r) {
			r.configure(nil, lisp.RLOC{}, lisp.Prefix{})
			r.setRTRs(nil)
			n.Timers.Remove(r.row(keepTimer))
		}
	}
	n.apply(false)
	n.Evaluate()
}

// localsOf are the own IPv4 RLOCs in the Database: those that are up, or all where none is.
func (n *Node) localsOf(e *settings.ETRConfig) []lisp.RLOC {
	var up, all []lisp.RLOC
	for _, r := range n.h.RLOCs {
		if !r.Is4() {
			continue
		}
		stands, isUp := standsIn(e.Database, r)
		if stands && len(all) < settings.NATRLOCs {
			all = append(all, r)
		}
		if isUp && len(up) < settings.NATRLOCs {
			up = append(up, r)
		}
	}
	if len(up) == 0 {
		return all
	}
	return up
}

// standsIn reports whether a Database has an RLOC, and whether as one that is up.
func standsIn(database []settings.DatabaseMapping, r lisp.RLOC) (stands, isUp bool) {
	for i := range database {
		for _, l := range database[i].Locators {
			stands = stands || l.RLOC == r
			isUp = isUp || l.RLOC == r && l.Reachable
		}
	}
	return stands, isUp
}

// takeOver gives an RLOC what it had, or the place of one that is there no more, or one of its own.
func (n *Node) takeOver(before []*ownRLOC, locals []lisp.RLOC, local lisp.RLOC) *ownRLOC {
	at := slices.IndexFunc(before, func(r *ownRLOC) bool { return r.local == local })
	if at < 0 {
		at = slices.IndexFunc(before, func(r *ownRLOC) bool {
			return !slices.Contains(locals, r.local) && !slices.Contains(n.rlocs, r)
		})
	}
	if at >= 0 {
		n.rlocs = append(n.rlocs, before[at])
		return before[at]
	}
	r := &ownRLOC{h: n.h, node: n}
	isTaken := func(o *ownRLOC) bool { return o.place == r.place }
	for slices.ContainsFunc(before, isTaken) || slices.ContainsFunc(n.rlocs, isTaken) {
		r.place++
	}
	n.rlocs = append(n.rlocs, r)
	return r
}

// serversOf are the Map-Servers with an IPv4 address, of which none is this router.
func (n *Node) serversOf(e *settings.ETRConfig) (list []*server) {
	for _, p := range e.MapServers {
		known := slices.ContainsFunc(list, func(s *server) bool { return s.at == p.Address })
		isOwn := slices.Contains(n.h.RLOCs, lisp.RLOCFromAddr(p.Address.Addr()))
		if p.Address.Addr().Is4() && !known && !isOwn && len(list) < maxAsked {
			list = append(list, &server{at: p.Address, peer: p.ID()})
		}
	}
	return list
}

// HandleTimeout asks a Map-Server again, or keeps the bindings for data.
func (n *Node) HandleTimeout(id uint32) {
	for _, r := range n.rlocs {
		if r.place == int(id)/rowsPerRLOC {
			r.handleTimeout(int(id) % rowsPerRLOC)
		}
	}
}

// HandleInfoReply takes what a Map-Server says about an address of this node.
func (n *Node) HandleInfoReply(m *message.NamedInfoReply) {
	isOwn := func(a netip.Addr) bool { return slices.Contains(n.h.RLOCs, lisp.RLOCFromAddr(a)) }
	at := slices.IndexFunc(n.rlocs, func(r *ownRLOC) bool { return r.asked(m) >= 0 })
	if at < 0 || !m.Seen.IsValid() || slices.ContainsFunc(m.RTRs, isOwn) {
		n.h.Count(counter.RefusedInfoReply)
		return
	}
	n.h.Count(counter.InfoReplyReceived)
	n.rlocs[at].handleInfoReply(n.rlocs[at].asked(m), m)
}

// yields reports whether the other protocol is spoken instead.
func (n *Node) yields() bool {
	return n.config != nil && n.config.Protocol == settings.NATAuto && n.IsAnswered()
}

// isSpoken reports whether a Map-Server has answered in this protocol.
func (n *Node) isSpoken() bool {
	return slices.ContainsFunc(n.rlocs, func(r *ownRLOC) bool {
		return slices.ContainsFunc(r.servers, func(s *server) bool { return s.answeredAt != 0 })
	})
}

// Evaluate finds how this node is reached, and applies that.
func (n *Node) Evaluate() {
	for _, r := range n.rlocs {
		r.evaluate()
	}
}

// apply takes over the paths as they are.
func (n *Node) apply(changed bool) {
	paths := n.pathsNow()
	same := func(a, b settings.NamedPath) bool { return a.Equal(&b) }
	if !slices.EqualFunc(paths, n.paths, same) {
		n.paths, changed = paths, true
	}
	if changed {
		n.Changed()
	}
}

// pathsNow are those of the RLOCs. One from which no RTR answers is not to be used while another one has one that does.
// Those come last: of two behind one address only the first is registered.
func (n *Node) pathsNow() (list []settings.NamedPath) {
	hasLive := slices.ContainsFunc(n.rlocs, func(r *ownRLOC) bool { return r.path != nil && r.isHeard() })
	for _, r := range n.rlocs {
		if r.path != nil {
			path := *r.path
			path.Unused = hasLive && r.isSilent()
			list = append(list, path)
		}
	}
	slices.SortStableFunc(list, func(a, b settings.NamedPath) int {
		switch {
		case a.Unused == b.Unused:
			return 0
		case b.Unused:
			return -1
		}
		return 1
	})
	return list
}

// Peers are the Map-Servers as they are registered with.
func (n *Node) Peers(all []settings.MapServerPeer) []settings.MapServerPeer {
	if !n.Registers() {
		return all
	}
	list := slices.Clone(all)
	for i := range list {
		if p := &list[i]; p.Address.Addr().Is4() {
			p.Named, p.WantMapNotify, p.ProxyReply = n.paths, true, true
		}
	}
	return list
}

// SPDX-License-Identifier: Apache-2.0

package simplenat

// One own RLOC of a node: how it looks from outside, and the RTRs that it is reached by.

import (
	"net/netip"
	"slices"
	"strconv"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/lisp"
	"loci/wire"
)

// ownRLOC is an own RLOC that Map-Servers are asked about.
type ownRLOC struct {
	h       *system.System
	node    *Node
	place   int // among those of the node: it has a name of its own, and rows of the node's Timers
	local   lisp.RLOC
	about   lisp.Prefix // that RLOC-probes ask about
	servers []*server
	path    *settings.NamedPath
	fresh   bool // it was not acknowledged yet
	rtrs    []*nodeRTR
}

// The rows of Timers of an RLOC: its Map-Servers, and the keepalives.
const (
	keepTimer   = maxAsked
	rowsPerRLOC = maxAsked + 1
)

func (n *ownRLOC) row(id int) uint32 { return uint32(n.place*rowsPerRLOC + id) }

// name is what this host is called there. Each RLOC has another one: they may be behind one address.
func (n *ownRLOC) name() string {
	if n.place == 0 {
		return n.node.Name()
	}
	return n.node.Name() + "-" + strconv.Itoa(n.place)
}

// configure takes over other Map-Servers, or another RLOC in its place.
func (n *ownRLOC) configure(servers []*server, local lisp.RLOC, about lisp.Prefix) {
	n.about = about
	same := func(a, b *server) bool { return a.at == b.at }
	if local != n.local || !slices.EqualFunc(servers, n.servers, same) {
		n.begin(servers, local)
	}
}

// begin asks all Map-Servers anew. What they said from another RLOC is used until they answer.
func (n *ownRLOC) begin(servers []*server, local lisp.RLOC) {
	for i := range n.servers {
		n.node.Timers.Remove(n.row(i))
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
		if n.node.config.Protocol == settings.NATAuto && !s.assumed && !n.node.isSpoken() {
			at = n.h.After(autoAfter)
		}
		n.node.Timers.Set(n.row(i), at)
	}
}

// handleTimeout asks a Map-Server again, or keeps the bindings for data.
func (n *ownRLOC) handleTimeout(id int) {
	switch {
	case id == keepTimer:
		n.keep()
	case id < len(n.servers):
		n.ask(id)
	}
}

func (n *ownRLOC) ask(id int) {
	s := n.servers[id]
	if n.node.yields() {
		n.node.Timers.Set(n.row(id), n.h.After(askPause))
		n.evaluate()
		return
	}
	if s.tries == askTries && n.node.config.Protocol == settings.NATSimple {
		n.h.Notice(effect.Notice{Kind: effect.NoticeInfoRequestUnanswered, Remote: s.at,
			RLOC: n.local.String()})
	}
	if s.tries >= askTries && s.answeredAt == 0 && n.node.config.Protocol == settings.NATAuto &&
		!n.node.IsSilent(s.peer) {
		s.tries = 0
		n.node.Timers.Set(n.row(id), n.h.After(askPause))
		return
	}
	s.tries++
	n.node.Timers.Set(n.row(id), n.h.After(min(askFirst<<min(s.tries-1, 8), askLongest)))
	nonce := n.h.Nonce()
	if s.nonces = append(s.nonces, nonce); len(s.nonces) > askNonces {
		s.nonces = slices.Delete(s.nonces, 0, 1)
	}
	m := wire.InfoRequest{Nonce: nonce, EID: wire.NoAddress{}, HostName: wire.DistinguishedName(n.name())}
	payload, err := m.AppendTo(n.h.Buffer(system.UsualECMOctets))
	if err != nil {
		n.h.Count(counter.RefusedEncoding)
		return
	}
	n.h.SendNAT(netip.AddrPortFrom(n.local.Addr(), n.h.ControlPort), s.at, n.h.Used(payload))
	n.h.Count(counter.InfoRequestSent)
	n.h.Notice(effect.Notice{Kind: effect.NoticeInfoRequestSent, Remote: s.at, RLOC: n.local.String()})
}

// asked is the row of the Map-Server that an Info-Reply answers, -1 for none.
func (n *ownRLOC) asked(m *message.NamedInfoReply) int {
	return slices.IndexFunc(n.servers,
		func(s *server) bool { return s.at == m.From && slices.Contains(s.nonces, m.Nonce) })
}

// handleInfoReply takes what a Map-Server says about this RLOC.
func (n *ownRLOC) handleInfoReply(at int, m *message.NamedInfoReply) {
	s := n.servers[at]
	before := *s
	s.nonces, s.tries, s.answeredAt, s.assumed = nil, 0, n.h.Now, false
	s.seen, s.rtrs = m.Seen, m.RTRs
	if before.answeredAt != 0 && before.seen != s.seen {
		s.changes.Note(n.h.Now)
	}
	n.noticeReply(s, &before)
	next := askPause
	if n.needsRTR(s) && n.node.config.Keepalive > 0 {
		next = n.node.config.Keepalive
	}
	n.node.Timers.Set(n.row(at), n.h.After(next))
	n.evaluate()
}

// isBehind reports whether a NAT is between this node and a Map-Server.
func (n *ownRLOC) isBehind(s *server) bool {
	return s.answeredAt != 0 && s.seen != netip.AddrPortFrom(n.local.Addr(), n.h.ControlPort)
}

func (n *ownRLOC) needsRTR(s *server) bool {
	return s.assumed || n.isBehind(s) || s.answeredAt != 0 && n.node.config != nil && n.node.config.Always
}

// wanted is how this node is reached by RTRs: as the first Map-Server sees it, by those that any of them offers.
func (n *ownRLOC) wanted() *settings.NamedPath {
	if n.node.config == nil || n.node.yields() {
		return nil
	}
	var path *settings.NamedPath
	for _, s := range n.servers {
		if !n.needsRTR(s) || len(s.rtrs) == 0 {
			continue
		}
		if path == nil {
			path = &settings.NamedPath{Local: n.local.Addr(), Seen: s.seen.Addr(), Name: n.name()}
		}
		for _, a := range s.rtrs {
			if !slices.Contains(path.RTRs, a) && len(path.RTRs) < settings.MaxRTRs {
				path.RTRs = append(path.RTRs, a)
			}
		}
	}
	return path
}

// evaluate finds how this RLOC is reached, and applies that.
func (n *ownRLOC) evaluate() {
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
		n.node.Timers.Remove(n.row(keepTimer))
	}
	n.node.apply(changed)
}

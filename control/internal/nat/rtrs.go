// SPDX-License-Identifier: Apache-2.0

package nat

// The RTRs by which a node registers: all that its Map-Servers offer. One that is silent stands among the locators no
// more, and gets no packets, as long as another one answers.

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/wire"
)

// inUse is the inquiry at another RLOC by which RTRs of the same Map-Server are in use.
func (n *Node) inUse(q *inquiry) *inquiry {
	for _, k := range n.keepers {
		if o := k.from; o.peer.ID() == q.peer.ID() && o.local.Is4() == q.local.Is4() {
			return o
		}
	}
	return nil
}

// needsRTR reports whether an RLOC is reached by RTRs, as far as one Map-Server says.
func (n *Node) needsRTR(q *inquiry) bool {
	if q.answeredAt == 0 {
		return q.assumed
	}
	return n.isBehind(q) || n.config.Always
}

// wanted are the RTRs to use: of the RLOC's address family, settings.MaxRTRs at most, one for each RLOC in turn.
func (n *Node) wanted() (list []*keeper) {
	for i := range settings.MaxRTRs {
		for _, q := range n.asked {
			if i >= len(q.rtrs) || !n.needsRTR(q) || len(list) == settings.MaxRTRs {
				continue
			}
			o := q.rtrs[i]
			known := slices.ContainsFunc(list, func(k *keeper) bool { return k.rtr == o.address && k.local == q.local.Addr() })
			if o.address.Is4() == q.local.Is4() && !known {
				list = append(list, &keeper{h: n.h, node: n, from: q, rtr: o.address, ipv4: o.ipv4, local: q.local.Addr()})
			}
		}
	}
	return list
}

// behind are the own RLOCs behind NATs, and those that may be.
func (n *Node) behind() (list []netip.Addr) {
	for _, q := range n.asked {
		if a := q.local.Addr(); n.needsRTR(q) && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for _, r := range n.unasked {
		list = append(list, r.Addr())
	}
	return list
}

// evaluate finds by which RTRs Map-Registers go, and reports whether they are others than before.
func (n *Node) evaluate() (changed bool) {
	before, list := n.keepers, n.wanted()
	var added, gone []*keeper
	for i, k := range list {
		at := slices.IndexFunc(before, func(o *keeper) bool { return o.rtr == k.rtr && o.local == k.local })
		if at < 0 {
			k.trusted = slices.ContainsFunc(before, func(o *keeper) bool { return o.rtr == k.rtr && o.trusted })
			added = append(added, k)
			continue
		}
		before[at].from, before[at].ipv4, list[i] = k.from, k.ipv4, before[at]
	}
	for _, k := range before {
		if !slices.Contains(list, k) {
			n.Keepers.Remove(k.id)
			gone = append(gone, k)
		}
	}
	n.keepers = list
	n.identity()
	if len(added)+len(gone) == 0 {
		return false
	}
	n.noticeRTRs(added, gone)
	for _, k := range added {
		k.id = n.freeID()
		k.begin()
	}
	n.Changed()
	return true
}

// freeID is the least number that no timer has.
func (n *Node) freeID() uint32 {
	for id := uint32(1); ; id++ {
		if !slices.ContainsFunc(n.keepers, func(k *keeper) bool { return k.id == id }) {
			return id
		}
	}
}

// identity makes the xTR-ID of a router that has none in its configuration, and registers by an RTR: chance, for it
// must say nothing and be another one at each router. Without RTRs later it replaces what it registered then.
func (n *Node) identity() {
	n.byXTRID = n.h.XTRID == [16]byte{} && (n.byXTRID || len(n.keepers) > 0)
	if n.byXTRID {
		n.Identity()
	}
}

// Identity is the xTR-ID of a router that has none in its configuration.
func (n *Node) Identity() []byte {
	for n.XTRID == [16]byte{} {
		binary.BigEndian.PutUint64(n.XTRID[:8], n.h.Nonce())
		binary.BigEndian.PutUint64(n.XTRID[8:], n.h.Nonce())
	}
	return n.XTRID[:]
}

// IsAnswered reports whether a Map-Server answers the Info-Requests of this protocol, or did at the RLOC before.
func (n *Node) IsAnswered() bool {
	return slices.ContainsFunc(n.asked, func(q *inquiry) bool { return q.answeredAt != 0 || q.assumed })
}

// Registers reports whether this node registers by RTRs.
func (n *Node) Registers() bool { return len(n.keepers) > 0 }

// Peers are the Map-Servers as they are registered with: by the RTRs of their address family where there are any. Their
// interval is one of keepalives, so that a Map-Register takes the place of every second or third of them.
func (n *Node) Peers(all []settings.MapServerPeer) []settings.MapServerPeer {
	list := slices.Clone(all)
	rtrs, behind := n.paths(func(*keeper) bool { return true }), n.behind()
	for i := range list {
		p := &list[i]
		if p.RTRs, p.BehindNATs = rtrs, behind; n.byXTRID {
			p.XTRID = n.XTRID
		}
		if p.ByRTRs = n.pathsTo(p); len(p.ByRTRs) == 0 {
			continue
		}
		p.WantMapNotify, p.ProxyReply = true, true
		if k := n.config.Keepalive; k > keeperLead && p.RegistrationInterval > k {
			p.RegistrationInterval = p.RegistrationInterval/k*k - keeperLead
		}
	}
	return list
}

// pathsTo are the RTRs by which a Map-Server is reached: those that it offers, or else others.
func (n *Node) pathsTo(p *settings.MapServerPeer) []settings.RTRPath {
	family := func(k *keeper) bool { return k.rtr.Is4() == p.Address.Addr().Is4() }
	if n.registersDirectly(p) {
		return nil
	}
	own := n.paths(func(k *keeper) bool {
		return family(k) && slices.ContainsFunc(n.asked, func(q *inquiry) bool {
			return q.peer.Address == p.Address && q.offers(k.rtr)
		})
	})
	if len(own) > 0 {
		return own
	}
	return n.paths(family)
}

// registersDirectly reports whether no RTR answers, and a Map-Server is reached from an RLOC without a NAT.
func (n *Node) registersDirectly(p *settings.MapServerPeer) bool {
	answers := slices.ContainsFunc(n.keepers, func(k *keeper) bool { return !k.silent })
	return !answers && slices.ContainsFunc(n.asked, func(q *inquiry) bool { return q.peer.Address == p.Address && n.isPublic(q) })
}

// isPublic reports whether an RLOC is known to be reached without a NAT.
func (n *Node) isPublic(q *inquiry) bool { return !q.down && q.answeredAt != 0 && !n.isBehind(q) }

// paths are some of the RTRs, those that are silent last; an RTR counts as silent for an RLOC that is down, too. Where
// there is nothing else none does.
func (n *Node) paths(which func(*keeper) bool) (list []settings.RTRPath) {
	silent := func(k *keeper) bool { return k.silent || k.from.down }
	alone := !slices.ContainsFunc(n.keepers, func(k *keeper) bool { return which(k) && !silent(k) }) &&
		!slices.ContainsFunc(n.asked, n.isPublic)
	for _, k := range n.keepers {
		if which(k) {
			list = append(list, settings.RTRPath{
				RTR: k.rtr, IPv4: k.ipv4, Local: k.local, Silent: silent(k) && !alone,
			})
		}
	}
	slices.SortStableFunc(list, func(a, b settings.RTRPath) int {
		switch {
		case a.Silent == b.Silent:
			return 0
		case a.Silent:
			return 1
		}
		return -1
	})
	return list
}

// Proxies are the RTRs that all packets go to: those that know this node's address and answer, or, where none answers,
// those that did.
func (n *Node) Proxies() (list []netip.Addr) {
	for _, p := range n.paths(func(k *keeper) bool { return k.trusted }) {
		if !p.Silent && !slices.Contains(list, p.RTR) {
			list = append(list, p.RTR)
		}
	}
	return list
}

// RTRs are the addresses of all RTRs in use.
func (n *Node) RTRs() (list []netip.Addr) {
	for _, k := range n.keepers {
		if !slices.Contains(list, k.rtr) {
			list = append(list, k.rtr)
		}
	}
	return list
}

// IsRTR reports whether an address is that of an RTR in use.
func (n *Node) IsRTR(a netip.Addr) bool {
	return slices.ContainsFunc(n.keepers, func(k *keeper) bool { return k.rtr == a })
}

// of is the keeper of an RTR and an own RLOC, nil for none.
func (n *Node) of(rtr, local netip.Addr) *keeper {
	for _, k := range n.keepers {
		if k.rtr == rtr && k.local == local {
			return k
		}
	}
	return nil
}

// HandleRegister is for a Map-Register that goes by an RTR.
func (n *Node) HandleRegister(by settings.RTRPath) {
	if k := n.of(by.RTR, by.Local); k != nil {
		k.noteRegister()
	}
}

// HandleNotified is for a Map-Notify that came by an RTR, and acknowledges a Map-Register that went by it.
func (n *Node) HandleNotified(by settings.RTRPath) {
	if k := n.of(by.RTR, by.Local); k != nil {
		k.notified()
	}
}

// HandleKeeper is for the timer of an RTR.
func (n *Node) HandleKeeper(id uint32) {
	for _, k := range n.keepers {
		if k.id == id {
			k.handleTimeout()
			return
		}
	}
}

// HandleProbeReply takes an RTR's answer to a keepalive; false where it answers none.
func (n *Node) HandleProbeReply(from netip.Addr, m *wire.MapReply) bool {
	for _, k := range n.keepers {
		if k.rtr == from && k.nonce != 0 && m.Nonce == k.nonce && m.Probe && len(m.Records) > 0 {
			k.handleProbeReply(m)
			return true
		}
	}
	return false
}

// Status is how this node looks from outside; nil where no Map-Server is asked.
func (n *Node) Status() *status.NAT {
	if n.config == nil || len(n.asked) == 0 {
		return nil
	}
	s := &status.NAT{Keepalive: n.config.Keepalive, SentLastHour: n.h.NATSent.Sum(n.h.Now), Unasked: slices.Clone(n.unasked)}
	for _, q := range n.asked {
		view := status.NATView{
			Protocol: n.config.Protocol, MapServer: q.peer.Address, Local: q.local, Prefix: q.prefix,
			Seen: q.seen, RTRs: q.addresses(), Behind: n.isBehind(q), NAT64: q.nat64,
		}
		if q.answeredAt != 0 {
			view.Protocol = settings.NATErmagan
			view.AnsweredAt = n.h.Time(q.answeredAt)
		}
		s.Views = append(s.Views, view)
	}
	for _, k := range n.keepers {
		s.RTRs = append(s.RTRs, k.status())
	}
	return s
}

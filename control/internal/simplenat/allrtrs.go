// SPDX-License-Identifier: Apache-2.0

package simplenat

// The RTRs of a node, of all its RLOCs: who they are, and what they say.

import (
	"net/netip"
	"slices"

	"loci/lisp"
	"loci/wire"
)

// each lists addresses of all RLOCs, each once.
func (n *Node) each(of func(*ownRLOC) []netip.Addr) (list []netip.Addr) {
	for _, r := range n.rlocs {
		for _, a := range of(r) {
			if !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list
}

// All are the RTRs that control messages in data packets are taken from.
func (n *Node) All() []netip.Addr {
	if n.yields() {
		return nil
	}
	return n.each(func(r *ownRLOC) []netip.Addr { return addresses(r.rtrs) })
}

// Proxies are the RTRs that all packets go to.
func (n *Node) Proxies() []netip.Addr {
	if !n.Registers() {
		return nil
	}
	return n.each(func(r *ownRLOC) []netip.Addr {
		if r.path == nil {
			return nil
		}
		return r.path.RTRs
	})
}

// Registers reports whether this node registers RTRs.
func (n *Node) Registers() bool { return len(n.paths) > 0 && !n.yields() }

// IsRTR reports whether an address is that of one of the RTRs.
func (n *Node) IsRTR(a netip.Addr) bool {
	return slices.ContainsFunc(n.rlocs, func(r *ownRLOC) bool { return slices.Contains(addresses(r.rtrs), a) })
}

// Registered is for a registration that is acknowledged.
func (n *Node) Registered() {
	for _, r := range n.rlocs {
		r.registered()
	}
}

// HandleProbeReply takes an RTR's answer; false where it answers nothing.
func (n *Node) HandleProbeReply(from netip.Addr, m *wire.MapReply) bool {
	return slices.ContainsFunc(n.rlocs, func(r *ownRLOC) bool { return r.handleProbeReply(from, m) })
}

// AnswerProbe answers an RLOC-probe of an RTR about an EID-Prefix of ours, that came to one of the own RLOCs.
func (n *Node) AnswerProbe(local netip.Addr, from netip.AddrPort, inner wire.InnerPacket, m *wire.MapRequest,
	asked lisp.Prefix) {
	for _, r := range n.rlocs {
		if r.local == lisp.RLOCFromAddr(local) {
			r.answerProbe(from, inner, m, asked)
		}
	}
}

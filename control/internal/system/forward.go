// SPDX-License-Identifier: Apache-2.0

package system

// Passing Map-Requests on through the mapping system: the Map-Resolver to a
// Map-Server, the Map-Server to an ETR (RFC 9301 s.5.8, s.8.3, s.8.4). The
// Map-Request is not altered, and neither are the addresses and ports around it,
// because the Map-Reply goes to them.

import (
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/lisp"
)

// UsualECMOctets is enough for most Map-Requests.
const UsualECMOctets = 160

// Forward sends the request in a new Encapsulated Control Message. A request that
// asks for several EID-Prefixes goes to each system once. The inner TTL counts the
// systems that it passed, so that Map-Resolvers that point at each other do not send
// it around for ever.
func (h *System) Forward(m *message.MapRequest, to netip.AddrPort, matched lisp.Prefix) {
	if slices.Contains(m.ForwardedTo, to) {
		return
	}
	if m.ECM.Inner.TTL <= 1 {
		h.Count(counter.RefusedHopLimit)
		return
	}
	ecm := *m.ECM
	ecm.Inner.TTL--
	payload, err := ecm.AppendTo(h.Buffer(UsualECMOctets))
	if err != nil {
		h.Count(counter.RefusedEncoding)
		return
	}
	if m.ForwardedTo == nil {
		m.ForwardedTo = m.UsualForwarded[:0]
	}
	m.ForwardedTo = append(m.ForwardedTo, to)
	h.Send(netip.AddrPort{}, to, h.Used(payload))
	h.Count(counter.MapRequestForwarded)
	if h.MayNotice() {
		h.Say(effect.Notice{Kind: effect.NoticeMapRequestForwarded, Prefix: matched, Remote: to, Detail: "from " + m.ReplyRLOCs[0].String()})
	}
}

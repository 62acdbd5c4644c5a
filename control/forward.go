// SPDX-License-Identifier: Apache-2.0

package control

// Passing Map-Requests on through the mapping system: the Map-Resolver to a
// Map-Server, the Map-Server to an ETR (RFC 9301 s.5.8, s.8.3, s.8.4). The
// Map-Request is not altered, and neither are the addresses and ports around it,
// because the Map-Reply goes to them.

import (
	"net/netip"
	"slices"

	"loci/lisp"
)

// usualECMOctets is enough for most Map-Requests.
const usualECMOctets = 160

// forward sends the request in a new Encapsulated Control Message. A request that
// asks for several EID-Prefixes goes to each system once. The inner TTL counts the
// systems that it passed, so that Map-Resolvers that point at each other do not send
// it around for ever.
func (h *host) forward(m *mapRequest, to netip.AddrPort, matched lisp.Prefix) {
	if slices.Contains(m.forwardedTo, to) {
		return
	}
	if m.ecm.Inner.TTL <= 1 {
		h.count(RefusedHopLimit)
		return
	}
	ecm := *m.ecm
	ecm.Inner.TTL--
	payload, err := ecm.AppendTo(h.room(usualECMOctets))
	if err != nil {
		h.count(RefusedEncoding)
		return
	}
	if m.forwardedTo == nil {
		m.forwardedTo = m.usualForwarded[:0]
	}
	m.forwardedTo = append(m.forwardedTo, to)
	h.send(netip.AddrPort{}, to, h.used(payload))
	h.count(MapRequestForwarded)
	if h.mayNotice() {
		h.say(Notice{Kind: NoticeMapRequestForwarded, Prefix: matched, Remote: to, Detail: "from " + m.itrRLOCs[0].String()})
	}
}

// SPDX-License-Identifier: Apache-2.0

package message

// The Info messages of simple-nat (draft-farinacci-lisp-lispers-net-nat s.4), in both their forms. They name their
// sender, and nothing in them is authenticated.

import (
	"net/netip"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// NamedInfoRequest is an Info-Request of simple-nat.
type NamedInfoRequest struct {
	Arrival
	Nonce      uint64
	TTLMinutes uint32
	Name       wire.DistinguishedName
	IsDraft    bool // in the draft's form, not in that of its author's code
}

// NamedInfoReply is an Info-Reply of simple-nat.
type NamedInfoReply struct {
	Arrival
	Nonce uint64
	Seen  netip.AddrPort // where the Info-Request came from; zero where the sender does not say so
	RTRs  []netip.Addr   // of IPv4: simple-nat has no other
}

// named reports whether Info messages with that head are those of simple-nat.
func named(m *wire.InfoRequest) bool {
	authenticated := m.KeyID != 0 || m.AlgorithmID != 0 || len(m.Authentication) > 0
	switch m.EID.(type) {
	case wire.NoAddress, wire.DistinguishedName:
		return !authenticated
	}
	return false
}

// namedOf lists the locators of mappings that have the names of their hosts.
func namedOf(records []wire.Record, mappings []lisp.Mapping) (list []NamedLocator) {
	for i := range mappings {
		for _, l := range records[i].Locators {
			name, is := wire.HostNameOf(l.Address)
			if r, ok := wire.RLOCOf(l.Address); is && ok && r.Is4() {
				list = append(list, NamedLocator{mappings[i].Prefix, r, string(name), l.Priority})
			}
		}
	}
	return list
}

// NamedInfoRequestOf reads an Info-Request of simple-nat; nil where it is none.
func NamedInfoRequestOf(at Arrival, m *wire.InfoRequest) *NamedInfoRequest {
	if !named(m) {
		return nil
	}
	request := &NamedInfoRequest{Arrival: at, Nonce: m.Nonce, TTLMinutes: m.TTLMinutes, Name: m.HostName}
	if name, is := m.EID.(wire.DistinguishedName); is {
		request.Name, request.IsDraft = name, true
	}
	return request
}

// InspectNATProbe reads the Info-Request that a node behind a NAT sends to its RTR's data port, in a data packet.
func InspectNATProbe(at Arrival, b []byte) (*NamedInfoRequest, *Refusal) {
	m, err := wire.Parse(b)
	if err != nil {
		return nil, parseRefused(err)
	}
	ask, is := m.(*wire.InfoRequest)
	if !is {
		return nil, Refuse(counter.RefusedControlInData, "no Info-Request")
	}
	request := NamedInfoRequestOf(at, ask)
	switch r := lisp.RLOCFromAddr(at.From.Addr()); {
	case request == nil || request.Name == "":
		return nil, Refuse(counter.RefusedNATHost, "an Info-Request without a host name")
	case !r.Is4():
		return nil, Refuse(counter.RefusedFamily, "an Info-Request of simple-nat from %s: it has IPv4 only", at.From)
	case r.Valid() != nil || isNowhere(r.Addr()) || at.From.Port() == 0:
		return nil, Refuse(counter.RefusedNATHost, "an Info-Request from %s", at.From)
	}
	return request, nil
}

func (k *Keyring) inspectNamedRequest(at Arrival, m *wire.InfoRequest) (any, *Refusal) {
	if !k.mapServer && !k.mapResolver {
		return nil, Refuse(counter.RefusedRole, "neither Map-Server nor Map-Resolver is on")
	}
	if !at.From.Addr().Is4() {
		return nil, Refuse(counter.RefusedFamily, "an Info-Request of simple-nat from %s: it has IPv4 only", at.From)
	}
	return NamedInfoRequestOf(at, m), nil
}

func (k *Keyring) inspectNamedReply(at Arrival, m *wire.InfoReply) (any, *Refusal) {
	if !k.etr {
		return nil, Refuse(counter.RefusedRole, "the ETR is off")
	}
	return NamedInfoReplyOf(at, m)
}

// NamedInfoReplyOf reads an Info-Reply of simple-nat.
func NamedInfoReplyOf(at Arrival, m *wire.InfoReply) (*NamedInfoReply, *Refusal) {
	nat, ok := m.NAT.(*wire.NATTraversalLCAF)
	if !ok || !named(&m.InfoRequest) {
		return nil, Refuse(counter.RefusedInfoReply, "Info-Reply without a NAT-Traversal LCAF")
	}
	reply := &NamedInfoReply{Arrival: at, Nonce: m.Nonce}
	switch seen, known := wire.RLOCOf(nat.GlobalETR); {
	case !known && nat.GlobalETR.AFI() == wire.AFINone:
	case !known || seen.Valid() != nil || isNowhere(seen.Addr()) || !seen.Is4() || nat.ETRPort == 0:
		return nil, Refuse(counter.RefusedInfoReply, "the Info-Request is said to have come from %s port %d", nat.GlobalETR, nat.ETRPort)
	default:
		reply.Seen = netip.AddrPortFrom(seen.Addr(), nat.ETRPort)
	}
	if len(nat.RTRs) > settings.MaxRTRs {
		return nil, Refuse(counter.RefusedInfoReply, "%d RTRs: want at most %d", len(nat.RTRs), settings.MaxRTRs)
	}
	for _, a := range nat.RTRs {
		r, ok := wire.RLOCOf(a)
		switch {
		case a.AFI() == wire.AFINone: // the code has one where there is no RTR
		case !ok || r.Valid() != nil || isNowhere(r.Addr()):
			return nil, Refuse(counter.RefusedInfoReply, "an RTR at %s", a)
		case r.Is4():
			reply.RTRs = append(reply.RTRs, r.Addr())
		}
	}
	return reply, nil
}

// SPDX-License-Identifier: Apache-2.0

package answers

// What NAT traversal has to do with packets to a destination: at a router behind a NAT they go to its RTR, and an RTR
// sends them to the address and port that the NAT of their router has.

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"loci/control"
	"loci/daemon/api"
	"loci/lisp"
)

// toRTRs are the RTRs that the map-cache entry leads to, where it is the default mapping to them.
func (x *explainer) toRTRs() (list []netip.Addr) {
	e := x.node.Entry
	if x.nat == nil || e.Mapping.Prefix.Bits() != 0 {
		return nil
	}
	for i := range e.Mapping.Locators {
		l := &e.Mapping.Locators[i]
		if isRTR := func(r control.NATRTR) bool { return r.Address == l.RLOC.Addr() }; l.SourcePort != dataPort ||
			!slices.ContainsFunc(x.nat.RTRs, isRTR) {
			return nil
		}
		list = append(list, l.RLOC.Addr())
	}
	return list
}

// byNAT reports whether the map-cache entry was made by NAT traversal.
func (x *explainer) byNAT() bool { return len(x.bindings) > 0 || len(x.toRTRs()) > 0 }

func (x *explainer) explainNAT() {
	rtrs := x.toRTRs()
	switch {
	case len(x.bindings) > 0:
		x.answer.NATProtocol = api.NATProtocolErmagan
		used := control.NATInUse(x.bindings)
		x.answer.Binding = &api.ExplainedBinding{EIDPrefix: x.bindings[0].Prefix, RLOCs: natRLOCs(used)}
		x.explainRLOCs(used)
		x.explainBindings()
	case len(rtrs) > 0:
		x.answer.RTRs, x.answer.NATProtocol = rtrs, x.protocolOf(rtrs[0])
		x.explainBehindNAT(rtrs)
		x.explainSilentRTRs(rtrs)
	case len(x.hosts) > 0:
		x.answer.NATProtocol = api.NATProtocolSimple
		x.explainHosts()
	}
}

// protocolOf is that by which this router registers by an RTR.
func (x *explainer) protocolOf(rtr netip.Addr) string {
	for _, r := range x.nat.RTRs {
		if r.Address == rtr {
			return r.Protocol.String()
		}
	}
	return ""
}

// explainHosts says to which hosts of simple-nat packets go.
func (x *explainer) explainHosts() {
	const known = "its router is behind a NAT, and has the name %q by simple-nat: "
	for _, h := range x.hosts {
		x.answer.NATHosts = append(x.answer.NATHosts, natHostDocument(h))
		if h.Seen.Port() == 0 {
			x.say(known+"this RTR has heard nothing of it from %s, and sends it no packets", h.Name,
				h.Seen.Addr())
			continue
		}
		x.say(known+"packets go to %s, where its last Info-Request came from, %s ago", h.Name, h.Seen,
			age(x.now, h.HeardAt))
	}
}

// explainBindings says who acknowledged what routers behind NATs registered, and which of these routers are silent.
func (x *explainer) explainBindings() {
	for _, b := range x.bindings {
		x.say("Map-Server %s acknowledged that %s ago", b.MapServer, age(x.now, b.VerifiedAt))
		if b.Silent {
			x.say("packets do not go to %s (%s): its router is silent, and another one is not", b.Seen,
				b.Private)
		}
	}
}

// explainRLOCs says to which RLOCs of a router behind NATs packets go.
func (x *explainer) explainRLOCs(used []control.NATRLOC) {
	const known = "its router is behind a NAT and registered by this RTR"
	if len(used) == 0 {
		x.say(known + ": none of its RLOCs may be used (priority 255)")
	}
	for i, w := range used {
		switch {
		case len(used) == 1:
			x.say("%s: packets go to %s, where the NAT sends them on to %s", known, w.Seen, w.Private)
		case i == 0:
			x.say("%s: packets go to %s, where the NAT sends them on to %s (weight %d)", known, w.Seen, w.Private, w.Weight)
		default:
			x.say("or to %s, for its RLOC %s (weight %d)", w.Seen, w.Private, w.Weight)
		}
	}
}

// explainBehindNAT says why there are RTRs.
func (x *explainer) explainBehindNAT(rtrs []netip.Addr) {
	for _, v := range x.nat.Views {
		if v.Behind && slices.ContainsFunc(v.RTRs, func(a netip.Addr) bool { return slices.Contains(rtrs, a) }) {
			box := "NAT"
			if v.NAT64.IsValid() {
				box = fmt.Sprintf("NAT64 (%s)", v.NAT64)
			}
			x.say("this router is behind a %s: Map-Server %s saw its RLOC %s as %s, by %s", box,
				v.MapServer, v.Local, v.Seen,
				api.NATProtocolName(v.Protocol.String()))
		}
	}
	names := make([]string, len(rtrs))
	for i, a := range rtrs {
		names[i] = x.nameOfRTR(a)
	}
	if len(rtrs) == 1 {
		x.say("it registers by RTR %s: packets to all EIDs, and to hosts outside LISP, go there", names[0])
		return
	}
	x.say("it registers by RTRs %s: packets to all EIDs, and to hosts outside LISP, go there, each flow to one of them",
		strings.Join(names, ", "))
}

// nameOfRTR is its address, and that by which others know it where a NAT64 leads to it.
func (x *explainer) nameOfRTR(a netip.Addr) string {
	name := lisp.RLOCFromAddr(a).String()
	for _, r := range x.nat.RTRs {
		if r.Address == a && r.IPv4.IsValid() {
			return fmt.Sprintf("%s (%s by NAT64)", name, r.IPv4)
		}
	}
	return name
}

// explainSilentRTRs names those that do not answer, and whether packets go to them.
func (x *explainer) explainSilentRTRs(rtrs []netip.Addr) {
	for _, r := range x.nat.RTRs {
		switch {
		case !r.Silent:
		case slices.Contains(rtrs, r.Address):
			x.say("RTR %s does not answer: packets may be lost (`loci show nat`)", r.Address)
		default:
			x.say("RTR %s does not answer, and gets no packets until it does (`loci show nat`)", r.Address)
		}
	}
}

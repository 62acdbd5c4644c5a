// SPDX-License-Identifier: Apache-2.0

package answers

// What NAT traversal has to do with packets to a destination: at a router behind a NAT they go to its RTR, and an RTR
// sends them to the address and port that the NAT of their router has.

import (
	"slices"

	"loci/daemon/api"
	"loci/lisp"
)

// toRTR reports whether the map-cache entry is the default mapping to the RTR.
func (x *explainer) toRTR() bool {
	e := x.node.Entry
	if x.nat == nil || !x.nat.RTR.IsValid() || e.Mapping.Prefix.Bits() != 0 || len(e.Mapping.Locators) == 0 {
		return false
	}
	l := &e.Mapping.Locators[0]
	return l.RLOC.Addr() == x.nat.RTR && l.SourcePort == dataPort
}

// byNAT reports whether the map-cache entry was made by NAT traversal.
func (x *explainer) byNAT() bool { return x.binding != nil || x.toRTR() }

func (x *explainer) explainNAT() {
	switch {
	case x.binding != nil:
		b := x.binding
		x.answer.Binding = &api.ExplainedBinding{EIDPrefix: b.Prefix, SeenAs: b.Seen.String(), Private: b.Private}
		x.say("its router is behind a NAT and registered by this RTR: packets go to %s, where the NAT sends them on to %s",
			b.Seen, b.Private)
		x.say("Map-Server %s acknowledged that %s ago", b.MapServer, age(x.now, b.VerifiedAt))
	case x.toRTR():
		rtr := x.nat.RTR
		x.answer.RTR = &rtr
		x.explainBehindNAT()
		if x.nat.Silent {
			x.say("the RTR does not answer: packets may be lost (`loci show nat`)")
		}
	}
}

// explainBehindNAT says why there is an RTR.
func (x *explainer) explainBehindNAT() {
	for _, v := range x.nat.Views {
		if v.Behind && slices.Contains(v.RTRs, x.nat.RTR) {
			x.say("this router is behind a NAT: Map-Server %s saw its RLOC %s as %s", v.MapServer, v.Local, v.Seen)
		}
	}
	x.say("it registers by RTR %s: packets to all EIDs, and to hosts outside LISP, go there", lisp.RLOCFromAddr(x.nat.RTR))
}

// SPDX-License-Identifier: Apache-2.0

package answers

// What `loci explain` tells of one locator beside its share: what the Node knows of it, and, of an explicit locator path, which hop
// its packets are sent to (RFC 8060 s.4.6).

import (
	"fmt"

	"loci/control"
	"loci/daemon/api"
	"loci/dataplane"
	"loci/lisp"
)

// notUsableTexts say why no packet can take a locator from here.
var notUsableTexts = map[control.LocatorReason]string{
	control.PathOwnNextHop:    "it ends at this router",
	control.PathAllHopsLookup: "every hop is an EID to be looked up",
	control.PathHopNotUsable:  "a strict hop is of a family without an RLOC of this router, or is an EID to be looked up, and packets get one layer (datapath.recursion-depth)",
	control.PathNoHopUsable:   "each of its hops is of a family without an RLOC of this router, or is an EID to be looked up, and packets get one layer (datapath.recursion-depth)",
	control.PathStrictHopDown: "a strict hop is down",
	control.PathAllHopsDown:   "all its hops are down",
}

func notUsableText(r control.LocatorReason) string {
	return fmt.Sprintf("no packet can take it: %s (%s)", notUsableTexts[r], r)
}

// skippedText says why a hop is left out: by rule, or as its own state says.
func skippedText(reason string) string {
	switch control.LocatorReason(reason) {
	case control.PathHopLookup:
		return "it is an EID to be looked up, and packets get one layer (datapath.recursion-depth)"
	case control.PathHopFamily:
		return "it is of a family without an RLOC of this router"
	}
	return reason
}

func addLocatorKnowledge(document *api.ExplainedLocator, known control.ExplainedLocator) {
	if known.Policy >= 0 {
		said := api.LocatorsOf(lisp.LocatorSet{known.Said})[0]
		document.Policy, document.Said = &known.Policy, &said
	}
	if known.NotUsable != "" {
		document.WhyNot = notUsableText(known.NotUsable)
	}
	if s := known.State; s != nil {
		if document.State == dataplane.LocatorUp.String() {
			document.State = string(s.State)
		}
		document.Reason, document.ChangedAt, document.RoundTrip = string(s.Reason), timeOrNil(s.ChangedAt), inMilliseconds(s.RoundTrip.Average)
	}
	for _, hop := range known.SkippedHops {
		document.SkippedHops = append(document.SkippedHops, api.SkippedLocator{Address: hop.RLOC.String(), Reason: string(hop.Reason)})
	}
}

// explainHops says where packets of a path are sent.
func (x *explainer) explainHops(l *api.ExplainedLocator) {
	if !l.Used || l.NextHop == nil {
		return
	}
	x.say("packets of the path %s are sent to its hop %s", l.Name(), l.NextHop)
	for _, hop := range l.SkippedHops {
		x.say("its hop %s is skipped: %s", hop.Address, skippedText(hop.Reason))
	}
}

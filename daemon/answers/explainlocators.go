// SPDX-License-Identifier: Apache-2.0

package answers

// What `loci explain` tells of one locator beside its share: what the Node knows of it, and, of an explicit locator path, which hop
// its packets are sent to (RFC 8060 s.4.6).

import (
	"fmt"
	"slices"

	"loci/control"
	"loci/daemon/api"
	"loci/dataplane"
	"loci/internal/jsondoc"
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
	control.LocatorPrivate:    "it is private, and does not answer RLOC-probes about this EID-Prefix: packets go to the RTRs",
	control.PathNotOnPath:     "this router relays, is none of its hops, and has locators that relayed packets can take",
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
		document.Reason, document.ChangedAt, document.RoundTrip = string(s.Reason), jsondoc.KnownTime(s.ChangedAt), jsondoc.Known(s.RoundTrip.Average)
	}
	document.SecondLayers = layersDocument(known.SecondLayers)
	if layer, dropped := droppedLayer(known.SecondLayers); dropped && document.WhyNot == "" {
		document.WhyNot = fmt.Sprintf("its RLOC is an EID, and packets get no second layer (%s)", layer.Problem)
	}
	for _, hop := range known.SkippedHops {
		document.SkippedHops = append(document.SkippedHops, api.SkippedLocator{Address: hop.RLOC.String(), Reason: string(hop.Reason)})
	}
}

// explainOffPath says of a path that takes packets that relayed ones cannot take it.
func (x *explainer) explainOffPath(l *lisp.Locator) {
	for _, known := range x.node.Locators {
		if known.OffPath && known.Locator.IsSame(l) {
			x.say("this router does not stand on the path %s: packets that it relays are dropped, and counted as %s", l.Path(), control.PathNotOnPath)
		}
	}
}

// explainOnPath says by what an RTR tells that a packet is on a path, and what packets by it carry; place is the
// locator's in its set.
func (x *explainer) explainOnPath(place int, l *lisp.Locator) {
	by, path := x.settings.PathIdentification, l.Path()
	if path.IsPlain() || !x.mayUse(l) {
		return
	}
	if numbered := by == dataplane.PathsNumbered || by == dataplane.PathsByNumber; numbered && !l.IsSentToLast() {
		x.say("packets by the path %s carry its number, %d, in place of the Instance-ID", path, place+1)
	}
	own := -1
	for i := int(l.Next) - 1; i >= 0; i-- {
		if slices.ContainsFunc(x.settings.LocalRLOCs,
			func(r lisp.RLOC) bool { return r.Addr() == path.Hop(i).Addr() }) {
			own = i
		}
	}
	switch {
	case own < 0:
	case by == dataplane.PathsByNumber:
		x.say("packets that are relayed take the path %s if they carry its number, %d", path, place+1)
	case by == dataplane.PathsBySource && own > 0:
		x.say("packets that are relayed take the path %s if they come from %s", path, path.Hop(own-1))
	case by == dataplane.PathsBySource:
		x.say("packets that are relayed take the path %s if they come from no hop before this router of another path", path)
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

// droppedLayer is the layer for which packets to an RLOC are dropped, where none of the locators behind it takes them.
func droppedLayer(layers []control.SecondLayer) (layer control.SecondLayer, dropped bool) {
	for _, l := range layers {
		if l.Problem == "" {
			return l, false
		}
	}
	if len(layers) == 0 {
		return layer, false
	}
	return layers[0], true
}

// explainLayers says what becomes of packets to an RLOC that is an EID itself.
func (x *explainer) explainLayers(layers []api.SecondLayer) {
	for _, l := range layers {
		text := fmt.Sprintf("RLOC %s is an EID: the mapping %s covers it, and leads to RLOC %s", l.RLOC, l.EIDPrefix, l.Through)
		switch control.LocatorReason(l.Problem) {
		case control.LayerMappingLoop:
			text += fmt.Sprintf(", which is back: packets are dropped, and counted as %s", l.Problem)
		case control.LayerRecursionDepth:
			text += fmt.Sprintf(", which is an EID too: packets would get a third layer, and are dropped, and counted as %s", l.Problem)
			if l.LeadsBack {
				text += "; the mappings behind it lead back"
			}
		default:
			text += ": packets get a second layer (datapath.recursion-depth)"
		}
		x.say("%s", text)
	}
}

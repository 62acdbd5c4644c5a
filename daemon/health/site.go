// SPDX-License-Identifier: Apache-2.0

package health

// What concerns this site: its RLOCs, its registration, its other xTRs.

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/internal/jsondoc"
)

// expiry is how long a Map-Server keeps a registration that is not refreshed, by default (RFC 9301 s.8.2).
const expiry = 3 * time.Minute

// remediesOfRLOC are what to do about an own RLOC, by its reason.
var remediesOfRLOC = map[string]string{
	"link-down":      "look at the interface and its cable: `ip -s link show dev %s`",
	"gateway-silent": "find out why no gateway answers: `ip neigh show dev %s`",
	"no-route":       "give the host a default route by it: `ip route show dev %s`",
	"address-gone":   "give an interface that address again, or reload with another one",
}

func (f Facts) ownRLOCs() (list []api.HealthProblem) {
	up := slices.ContainsFunc(f.Own, func(o api.OwnRLOC) bool { return o.State == string(control.LocatorUp) })
	for _, own := range f.Own {
		if own.State == string(control.LocatorUp) || f.Mobile && up { // one link is what a mobile node expects
			continue
		}
		at := own.Interface
		p := api.HealthProblem{Kind: "own-rloc-down", Urgency: api.UrgencyWarning, Subject: own.RLOC.String(), Since: jsondoc.KnownTime(own.ChangedAt)}
		p.What = fmt.Sprintf("own RLOC %s is down: %s", own.RLOC, own.Reason)
		if at != "" {
			p.What += " (" + at + ")"
		}
		switch {
		case up:
			p.Effect = "packets take the other RLOCs of this router"
		case f.Sibling.ForwardingSibling != "":
			p.Effect = "this router has no path to the core: " + f.Sibling.ForwardingSibling + " forwards for it"
		default:
			p.Urgency, p.Effect = api.UrgencyCritical, "this router has no path to the core: packets of its EIDs are lost"
		}
		if own.Reason == "held-down" {
			p.Kind, p.Remedy = "own-rloc-held-down", "nothing, if the link stays up: it is used again within a minute; a link that flaps needs repair"
		} else if p.Remedy = cmp.Or(remediesOfRLOC[own.Reason], "see `loci show interfaces`"); strings.Contains(p.Remedy, "%s") {
			p.Remedy = fmt.Sprintf(p.Remedy, at)
		}
		list = append(list, p)
	}
	return list
}

func (f Facts) registration() (list []api.HealthProblem) {
	for _, m := range f.Status.MapServers {
		switch {
		case m.LackingCount == 0:
		case m.State == string(control.MapServerWaiting):
			list = append(list, f.silentMapServer(m))
		default:
			list = append(list, lackingEIDs(m)...)
		}
	}
	return list
}

// silentMapServer is for one that acknowledges nothing.
func (f Facts) silentMapServer(m api.MapServer) api.HealthProblem {
	since := slices.MinFunc(m.Lacking, func(a, b api.UnacknowledgedEID) int { return a.Since.Compare(b.Since) }).Since
	p := api.HealthProblem{
		Kind: "map-server-silent", Urgency: api.UrgencyWarning, Subject: m.Address, Since: &since,
		What:   fmt.Sprintf("Map-Server %s has not acknowledged %d Map-Registers", m.Address, m.Unacknowledged),
		Remedy: "find out whether it runs, whether UDP port 4342 passes both ways, and whether key and EID-Prefixes agree: `loci netcheck`",
	}
	switch {
	case m.LastNotifyAt == nil: // what an earlier daemon registered expires, and is not known here
		p.Urgency, p.Effect = api.UrgencyCritical, "this site was never registered there since the daemon started: other sites cannot find its EIDs by it"
	case f.Now.Sub(*m.LastNotifyAt) >= expiry:
		p.Urgency, p.Effect = api.UrgencyCritical, "the registration has expired there, unless the Map-Server keeps it for longer: other sites cannot find the EIDs by it"
	default:
		p.Effect = "the registration expires there three minutes after the last Map-Notify, by default: then other sites cannot find the EIDs by it"
	}
	if f.registeredElsewhere(m) {
		p.Urgency, p.Effect = api.UrgencyWarning, "this site is registered at another Map-Server alone"
	}
	return p
}

func (f Facts) registeredElsewhere(m api.MapServer) bool {
	return slices.ContainsFunc(f.Status.MapServers, func(o api.MapServer) bool {
		return o.Site == m.Site && o.Address != m.Address && o.State == string(control.MapServerRegistered)
	})
}

// lackingEIDs are the EID-Prefixes that a Map-Server leaves out while it acknowledges others.
func lackingEIDs(m api.MapServer) (list []api.HealthProblem) {
	for _, l := range m.Lacking {
		since := l.Since
		list = append(list, api.HealthProblem{
			Kind: "eid-not-acknowledged", Urgency: api.UrgencyCritical, Subject: l.EIDPrefix.String(), Since: &since,
			What:   fmt.Sprintf("Map-Server %s does not acknowledge %s", m.Address, l.EIDPrefix),
			Effect: "other sites cannot find its EIDs; all other EID-Prefixes are registered",
			Remedy: "give the EID-Prefix to this site at the Map-Server, with `more-specifics-accepted: true` if it is a part of one, or take it out of etr.local-eids",
		})
	}
	if more := m.LackingCount - len(m.Lacking); more > 0 {
		list = append(list, api.HealthProblem{
			Kind: "eid-not-acknowledged", Urgency: api.UrgencyCritical, Subject: m.Address,
			What:   fmt.Sprintf("Map-Server %s does not acknowledge %d more EID-Prefixes", m.Address, more),
			Effect: "other sites cannot find their EIDs", Remedy: "compare etr.local-eids with the site's eid-prefixes at the Map-Server",
		})
	}
	return list
}

func (f Facts) siblings() (list []api.HealthProblem) {
	if s := f.Sibling; s.ForwardingSibling != "" {
		p := api.HealthProblem{
			Kind: "sibling-path", Urgency: api.UrgencyWarning, Subject: s.ForwardingSibling, Since: s.Since,
			What:   fmt.Sprintf("%s forwards this site's packets: %s", s.ForwardingSibling, s.Reason),
			Effect: "the site depends on that router alone", Remedy: "bring this router's path to the core back: `loci show interfaces`, `loci show locators`",
		}
		if s.Reason == string(control.SiblingPathUnproven) {
			p.Effect = "this router's RLOCs are up again, and the core has not answered from there yet: " +
				"until then that router forwards"
			p.Remedy = "nothing, if it passes within seconds; else see whether UDP port 4342 passes " +
				"in both directions: `loci netcheck`"
		}
		list = append(list, p)
	}
	if s := f.Sibling; s.ForwardingSibling == "" && s.UnansweredSince != nil && len(s.Siblings) > 0 {
		list = append(list, api.HealthProblem{
			Kind: "core-unanswered", Urgency: api.UrgencyWarning, Subject: "core", Since: s.UnansweredSince,
			What:   "no router in the core answers this one, and no sibling is known to get through",
			Effect: "this router keeps its packets: they may arrive, but nothing new is learnt",
			Remedy: "see whether UDP port 4342 passes in both directions: `loci netcheck`, `loci show locators`, `loci show siblings`",
		})
	}
	for _, s := range f.Sibling.Siblings {
		if s.Answers || s.HeardAt == nil && f.Now.Sub(f.Status.StartedAt) < siblingPatience {
			continue
		}
		since := s.HeardAt
		if since == nil {
			since = &f.Status.StartedAt
		}
		list = append(list, api.HealthProblem{
			Kind: "sibling-silent", Urgency: api.UrgencyWarning, Subject: s.Address.String(), Since: since,
			What:   fmt.Sprintf("%s, another xTR of this site, does not answer", s.Address),
			Effect: "its RLOCs are not registered by this router, and the site has no other path if this router fails",
			Remedy: "see whether `loci run` runs there, and whether the two reach each other at UDP port 4342",
		})
	}
	return list
}

// siblingPatience is how long a sibling may need to answer after a start.
const siblingPatience = 10 * time.Second

// nat is what keeps this router from being reached behind a NAT.
func (f Facts) nat() []api.HealthProblem {
	list := f.changingBindings()
	answers := slices.ContainsFunc(f.NAT.RTRs, func(r api.NATRTR) bool { return !r.Silent })
	for i := range f.NAT.RTRs {
		r := &f.NAT.RTRs[i]
		if r.Silent && !f.isDown(r.RLOC) { // what an RLOC that is down costs is a problem of its own
			list = append(list, silentRTR(r, answers))
		}
		if r.OftenChangedSince != nil {
			list = append(list, changingBinding(r))
		}
	}
	for _, v := range f.NAT.Views {
		of := slices.IndexFunc(f.NAT.RTRs, func(r api.NATRTR) bool { return r.RLOC == v.RLOC.Addr() })
		if v.OftenChangedSince != nil && of >= 0 {
			list = append(list, changingView(v, f.NAT.RTRs[of].KeepaliveSeconds))
		}
	}
	if len(f.NAT.RTRs) > 0 {
		return list
	}
	for _, v := range f.NAT.Views {
		if v.BehindNAT {
			return append(list, withoutRTR(v))
		}
	}
	return list
}

// isDown reports whether the state of an own RLOC is known, and is not up.
func (f Facts) isDown(rloc netip.Addr) bool {
	return slices.ContainsFunc(f.Own, func(o api.OwnRLOC) bool {
		return o.RLOC.Addr() == rloc && o.State != string(control.LocatorUp)
	})
}

// keepBindings is what helps against a NAT that changes bindings.
const keepBindings = "set a shorter etr.nat-traversal.keepalive, or have the NAT keep UDP bindings longer; " +
	"see docs/nat.md"

// changingBinding is about the NAT before this router.
func changingBinding(r *api.NATRTR) api.HealthProblem {
	return api.HealthProblem{
		Kind: "nat-binding-changes", Urgency: api.UrgencyWarning,
		Subject: r.Address.String(), Since: r.OftenChangedSince,
		What: fmt.Sprintf("the NAT before this router forgets its binding to RTR %s, "+
			"or gives it another address or port: five times within ten minutes", r.Address),
		Effect: "packets to this router are lost " + untilReached(r.KeepaliveSeconds),
		Remedy: keepBindings,
	}
}

// changingView is about the NAT before this router, by simple-nat: its RTRs do not say how they see it, a Map-Server
// does.
func changingView(v api.NATView, keepaliveSeconds float64) api.HealthProblem {
	return api.HealthProblem{
		Kind: "nat-binding-changes", Urgency: api.UrgencyWarning,
		Subject: v.RLOC.String() + " at " + v.MapServer, Since: v.OftenChangedSince,
		What: fmt.Sprintf("the NAT before this router forgets its binding to Map-Server %s, "+
			"or gives it another address or port: five times within ten minutes, %s at last", v.MapServer,
			v.SeenAs),
		Effect: "where it does so to the RTRs too, packets to this router are lost " +
			untilReached(keepaliveSeconds),
		Remedy: keepBindings,
	}
}

// untilReached is how long packets are lost when the NAT changes a binding. Without keepalives the router does not see
// it.
func untilReached(keepaliveSeconds float64) string {
	if keepaliveSeconds == 0 {
		return "until it registers again"
	}
	return fmt.Sprintf("until its next keepalive, for up to %gs each time", keepaliveSeconds)
}

// changingBindings are about the NATs before routers that this RTR forwards to.
func (f Facts) changingBindings() (list []api.HealthProblem) {
	for _, b := range f.Changing {
		since := b.OftenChangedSince
		list = append(list, api.HealthProblem{
			Kind: "nat-binding-changes", Urgency: api.UrgencyWarning, Subject: b.Prefix.String(), Since: &since,
			What: fmt.Sprintf("the NAT before the router of %s gave it another address or port "+
				"five times within ten minutes, %s at last", b.Prefix, b.Seen),
			Effect: "packets to that router are lost each time, until its next keepalive",
			Remedy: "set a shorter etr.nat-traversal.keepalive at that router, " +
				"or have its NAT keep UDP bindings longer; see docs/nat.md",
		})
	}
	for _, h := range f.ChangingHosts {
		since := h.OftenChangedSince
		list = append(list, api.HealthProblem{
			Kind: "nat-binding-changes", Urgency: api.UrgencyWarning, Subject: strconv.Quote(h.Name),
			Since: &since,
			What: fmt.Sprintf("the NAT before the router that has the name %q by simple-nat gave it another port "+
				"five times within ten minutes, %s at last", h.Name, h.Seen),
			Effect: "packets to that router are lost each time, until its next Info-Request",
			Remedy: "have that router send Info-Requests more often, or have its NAT keep UDP bindings longer; " +
				"where two routers have that name behind one address, give one of them another; see docs/nat.md",
		})
	}
	return list
}

// silentRTR is known from control messages only: packets may pass. Where another one answers that one is used.
func silentRTR(r *api.NATRTR, anotherAnswers bool) api.HealthProblem {
	p := api.HealthProblem{
		Kind: "rtr-silent", Urgency: api.UrgencyCritical,
		Subject: r.Address.String(), Since: cmp.Or(r.ConfirmedAt, r.Since),
		What:   fmt.Sprintf("RTR %s, by which this router registers, does not answer", r.Address),
		Effect: "this router may not be reached by its EIDs, and its packets may be lost",
		Remedy: "see whether the RTR runs, and whether UDP ports 4341 and 4342 pass " +
			"on the way there: `loci show nat`",
	}
	if anotherAnswers {
		p.Urgency, p.Effect = api.UrgencyWarning, "others are used; other sites may send packets to it until they are told"
	}
	return p
}

func withoutRTR(v api.NATView) api.HealthProblem {
	offers, wanted := "no RTR", "an RTR"
	switch { // of its own family it would use one
	case len(v.RTRs) == 0:
	case v.RLOC.Is4():
		offers, wanted = "RTRs with IPv6 addresses only", "an RTR with an IPv4 address"
	default:
		offers, wanted = "RTRs with IPv4 addresses only", "an RTR with an IPv6 address"
	}
	return api.HealthProblem{
		Kind: "nat-without-rtr", Urgency: api.UrgencyWarning, Subject: v.RLOC.String(), Since: v.AnsweredAt,
		What: fmt.Sprintf("a NAT lies between this router and Map-Server %s, which saw it as %s and offers %s",
			v.MapServer, v.SeenAs, offers),
		Effect: "other sites cannot send packets to this router, " +
			"unless the NAT forwards UDP ports 4341 and 4342 to it",
		Remedy: "have the Map-Server offer " + wanted + ": `rtrs: [{address: ADDRESS}]`; see docs/nat.md",
	}
}

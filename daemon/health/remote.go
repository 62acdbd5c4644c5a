// SPDX-License-Identifier: Apache-2.0

package health

// What concerns other sites and the mapping system: Map-Resolvers, locators, mappings, registrations.

import (
	"fmt"
	"slices"

	"loci/control"
	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
)

func (f Facts) resolution() (list []api.HealthProblem) {
	resolvers := f.Status.MapResolverStates
	others := slices.ContainsFunc(resolvers, func(r api.MapResolver) bool { return r.State != string(control.MapResolverSilent) })
	for _, r := range resolvers {
		if r.State != string(control.MapResolverSilent) {
			continue
		}
		p := api.HealthProblem{
			Kind: "map-resolver-silent", Urgency: api.UrgencyWarning, Subject: r.Address, Since: r.ChangedAt,
			What: "Map-Resolver " + r.Address + " does not answer", Effect: "another Map-Resolver is asked first",
			Remedy: "find out whether it runs, and whether UDP port 4342 passes both ways: `loci netcheck`",
		}
		if !others {
			p.Urgency, p.Effect = api.UrgencyCritical, "packets to EIDs that are not in the map-cache are lost"
		}
		list = append(list, p)
	}
	for _, r := range f.Unanswered {
		since := r.StartedAt
		p := api.HealthProblem{
			Kind: "map-request-unanswered", Urgency: api.UrgencyWarning, Subject: r.EIDPrefix.String(), Since: &since,
			What: "no Map-Request for " + r.EIDPrefix.String() + " is answered", Effect: "packets to it are lost, unless a mapping is in use still",
			Remedy: "the ETR of that EID is dead or cannot be reached, if the Map-Resolver answers for others: `loci ping`, `loci lig`",
		}
		list = append(list, p)
	}
	if f.MoreUnanswered > 0 {
		list = append(list, api.HealthProblem{
			Kind: "map-request-unanswered", Urgency: api.UrgencyWarning, Subject: "Map-Requests", What: fmt.Sprintf("Map-Requests for %d more EIDs are not answered", f.MoreUnanswered),
			Effect: "packets to them are lost", Remedy: "`loci show map-requests` lists all",
		})
	}
	list = slices.Concat(list, f.stale(), f.unreachable())
	for _, k := range f.Kept {
		since := k.Since
		list = append(list, api.HealthProblem{
			Kind: "mapping-kept", Urgency: api.UrgencyWarning, Subject: k.Prefix.String(), Since: &since,
			What:   k.Prefix.String() + " is not registered any more, but its locators answer or send packets",
			Effect: "packets still go there, until the mapping ends at " + f.clock(k.ExpiresAt),
			Remedy: "see why its site is not registered: `loci status` at its xTR; a Map-Server that has just come back learns it within a registration interval",
		})
	}
	return append(list, f.lost()...)
}

// lost are EID-Prefixes in use that had locators lately.
func (f Facts) lost() (list []api.HealthProblem) {
	const remedy = "see why its site is not registered any more: `loci status` at its xTR; it is asked for again every few seconds"
	for _, l := range f.Lost {
		since := l.Since
		effect := "packets to it are dropped"
		switch {
		case l.ByProxyETR:
			effect = "packets to it go to a proxy ETR"
		case l.Action == lisp.ActionNativelyForward:
			effect = "packets to it leave unencapsulated"
		}
		list = append(list, api.HealthProblem{
			Kind: "mapping-lost", Urgency: api.UrgencyCritical, Subject: l.Prefix.String(), Since: &since,
			What:   fmt.Sprintf("%s had locators until %s and is not registered now: the answer of %s is %s", l.Prefix, f.clock(l.HadUntil), l.From.Addr(), l.Action),
			Effect: effect, Remedy: remedy,
		})
	}
	if f.MoreLost > 0 {
		list = append(list, api.HealthProblem{
			Kind: "mapping-lost", Urgency: api.UrgencyCritical, Subject: "EID-Prefixes", What: fmt.Sprintf("%d more EID-Prefixes in use had locators within the last hour and are not registered now", f.MoreLost),
			Effect: "packets to them leave unencapsulated, go to a proxy ETR, or are dropped", Remedy: remedy,
		})
	}
	return list
}

// stale are the mappings that are used past their TTLs.
func (f Facts) stale() (list []api.HealthProblem) {
	const remedy = "the mapping system says nothing about it: see whether Map-Resolver and Map-Server run and can be reached: `loci netcheck`"
	for _, m := range f.Stale {
		since := m.Since
		list = append(list, api.HealthProblem{
			Kind: "mapping-stale", Urgency: api.UrgencyWarning, Subject: m.Prefix.String(), Since: &since,
			What:   "the mapping of " + m.Prefix.String() + " is used past its TTL: no Map-Reply about it comes",
			Effect: "packets still go there while a locator of it lives, until " + m.Until.Format("2006-01-02 15:04:05") + " at most", Remedy: remedy,
		})
	}
	if more := f.StaleCount - len(f.Stale); more > 0 {
		list = append(list, api.HealthProblem{
			Kind: "mapping-stale", Urgency: api.UrgencyWarning, Subject: "mappings", What: fmt.Sprintf("%d more mappings are used past their TTLs", more),
			Effect: "packets still go there, for a limited time", Remedy: remedy,
		})
	}
	return list
}

// unreachable are the mappings whose sites call no locator reachable.
func (f Facts) unreachable() (list []api.HealthProblem) {
	const remedy = "see why its site's routers have no link to the core: `loci status` there; the site reports its return"
	for _, m := range f.Unreachable {
		since, by := m.Since, ""
		if m.From.IsValid() { // an entry that an earlier run left does not say
			by = ", in a Map-Reply from " + m.From.Addr().String()
		}
		list = append(list, api.HealthProblem{
			Kind: "mapping-unreachable", Urgency: api.UrgencyCritical, Subject: m.Prefix.String(), Since: &since,
			What:   fmt.Sprintf("the site of %s calls all its locators unreachable (R bits 0)%s", m.Prefix, by),
			Effect: "packets to it are dropped", Remedy: remedy,
		})
	}
	if more := f.UnreachableCount - len(f.Unreachable); more > 0 {
		list = append(list, api.HealthProblem{
			Kind: "mapping-unreachable", Urgency: api.UrgencyCritical, Subject: "mappings",
			What:   fmt.Sprintf("the sites of %d more EID-Prefixes call all their locators unreachable", more),
			Effect: "packets to them are dropped", Remedy: remedy,
		})
	}
	return list
}

func (f Facts) locators() (list []api.HealthProblem) {
	for _, l := range f.Locators {
		prefixes := andMore("packets to "+l.EIDPrefix.String(), l.EIDPrefixes-1, "EID-Prefixes")
		p := api.HealthProblem{Urgency: api.UrgencyWarning, Subject: l.RLOC, Since: jsondoc.KnownTime(l.ChangedAt)}
		switch {
		case l.State == control.LocatorDown:
			p.Kind, p.What = "locator-down", fmt.Sprintf("locator %s is down: %s", l.RLOC, l.Reason)
			p.Effect, p.Remedy = prefixes+" take another locator", "see its site's router and its link; `loci explain` has the evidence"
			if !l.Others {
				p.Urgency, p.Effect = api.UrgencyCritical, prefixes+" are lost, or take locators that do not answer"
			}
		case l.Reason == string(control.LocatorReturning):
			list = append(list, f.returning(l, prefixes))
			continue
		default:
			p.Kind, p.What = "locator-unconfirmed", fmt.Sprintf("locator %s does not answer RLOC-probes: %s", l.RLOC, l.Reason)
			p.Effect = prefixes + " take another locator"
			if !l.Others {
				p.Effect = prefixes + " still go to it, because no locator of theirs answers"
			}
			p.Remedy = "its router's control plane is dead, or UDP port 4342 is filtered, or the path is cut: `loci ping` to one of its EIDs"
		}
		if !l.HeldUntil.IsZero() && l.HeldUntil.After(f.Now) {
			p.Remedy = "it flapped, and is used first again after " + f.clock(l.HeldUntil) + " if it answers"
		}
		list = append(list, p)
	}
	return slices.Concat(list,
		moreLocators(api.HealthProblem{Kind: "locator-down", What: "are down", Effect: "packets are lost where their mappings have no other locator"}, f.MoreDown),
		moreLocators(api.HealthProblem{Kind: "locator-unconfirmed", What: "do not answer RLOC-probes", Effect: "packets take other locators where there are any"}, f.MoreUnconfirmed))
}

// returning is about a locator that answers, and has not done so for long enough: nothing is wrong with it now.
func (f Facts) returning(l Locator, prefixes string) api.HealthProblem {
	p := api.HealthProblem{
		Kind: "locator-returning", Urgency: api.UrgencyNotice, Subject: l.RLOC, Since: jsondoc.KnownTime(l.ChangedAt),
		What: "locator " + l.RLOC + " answers RLOC-probes again", Effect: prefixes + " take another locator until it has answered several times",
		Remedy: "none is needed; if it comes and goes, see its site's link",
	}
	if l.HeldUntil.After(f.Now) {
		p.What += ", and flapped"
		p.Effect = prefixes + " take another locator until " + f.clock(l.HeldUntil)
	}
	if !l.Others {
		p.Effect = prefixes + " go to it, because no other locator of theirs answers"
	}
	return p
}

// moreLocators completes a problem of those that are not told one by one. Whether their mappings have others is not
// looked up.
func moreLocators(p api.HealthProblem, more int) []api.HealthProblem {
	if more == 0 {
		return nil
	}
	p.Urgency, p.Subject, p.What, p.Remedy = api.UrgencyWarning, "locators", fmt.Sprintf("%d more locators %s", more, p.What), "`loci show locators` lists all"
	return []api.HealthProblem{p}
}

// mapServer is what a Map-Server has to tell of its sites.
func (f Facts) mapServer() (list []api.HealthProblem) {
	list = append(f.refusals(), f.translated()...)
	for _, r := range f.Replaced {
		since := r.Since
		p := api.HealthProblem{
			Kind: "registration-replaced", Urgency: api.UrgencyWarning, Subject: r.EIDPrefix.String(), Since: &since,
			What:   fmt.Sprintf("%s of site %s is registered by %s and by %s", r.EIDPrefix, r.Site, r.InForce, r.ETR),
			Effect: fmt.Sprintf("that of %s is in force; that of %s stays until %s", r.InForce, r.ETR, f.clock(r.ExpiresAt)),
			Remedy: "none, if the router has returned with another address; a fixed lisp-router-id avoids it",
		}
		if r.Alternates {
			p.Kind, p.Urgency = "registrations-alternate", api.UrgencyCritical
			p.Effect = "the last one that registered is in force, so that other sites send to the one and to the other in turn"
			p.Remedy = "set merge-request at both, and a lisp-router-id at each, or give both the same locators (etr.siblings)"
		}
		list = append(list, p)
	}
	if f.MoreReplaced > 0 {
		list = append(list, api.HealthProblem{
			Kind: "registration-replaced", Urgency: api.UrgencyWarning, Subject: "registrations", What: fmt.Sprintf("%d more registrations are not in force", f.MoreReplaced),
			Effect: "others of the same EID-Prefixes are", Remedy: "`loci show registrations` lists all",
		})
	}
	if f.CompleteAt.After(f.Now) {
		list = append(list, api.HealthProblem{
			Kind: "map-server-starting", Urgency: api.UrgencyNotice, Subject: "this Map-Server", What: "this Map-Server has just started", Since: &f.Status.StartedAt,
			Effect: "Map-Requests for sites that have not registered yet are not answered before " + f.clock(f.CompleteAt), Remedy: "wait until then",
		})
	}
	return list
}

// differences are mappings that clients of the mapping socket have changed.
func (f Facts) differences() (list []api.HealthProblem) {
	const remedy = "`loci explain` has both; take out what a client has added by `loci map delete`, and see who may write to datapath.mapping-socket"
	for _, d := range f.Differing {
		since := d.Since
		p := api.HealthProblem{
			Kind: "data-plane-differs", Urgency: api.UrgencyWarning, Subject: d.EIDPrefix.String(), Since: &since,
			What:   fmt.Sprintf("a client of the mapping socket has set %s, which this control plane does not have", d.DataPlane),
			Effect: "packets go by that mapping, and no RLOC-probe watches over it", Remedy: remedy,
		}
		switch {
		case d.DataPlane == "":
			p.What = fmt.Sprintf("a client of the mapping socket has taken %s out of the data plane", d.ControlPlane)
			p.Effect = "packets to it miss, as if there was no mapping"
		case d.ControlPlane != "":
			p.What = fmt.Sprintf("a client of the mapping socket has set %s, and this control plane has %s", d.DataPlane, d.ControlPlane)
		}
		list = append(list, p)
	}
	for _, more := range []struct {
		urgency api.Urgency
		what    string
		count   uint64
	}{
		{api.UrgencyWarning, "%d more mappings are others than this control plane's", uint64(f.MoreDiffering)},
		{api.UrgencyNotice, "clients of the mapping socket have made %d more changes, which are not compared with what this control plane has", f.NotCompared},
	} {
		if more.count > 0 {
			list = append(list, api.HealthProblem{
				Kind: "data-plane-differs", Urgency: more.urgency, Subject: "map-cache", What: fmt.Sprintf(more.what, more.count),
				Effect: "packets go by what the data plane has", Remedy: remedy,
			})
		}
	}
	return list
}

// SPDX-License-Identifier: Apache-2.0

package answers

// What `loci status` judges (package health). Tables that may be long are read a page an iteration, and what is
// listed of each is bounded. Nothing is changed.

import (
	"context"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/daemon/health"
	"loci/daemon/hostnet"
	"loci/daemon/trouble"
	"loci/lisp"
)

// unansweredTries Map-Requests for an EID without an answer are a problem: the last of them went seven seconds after
// the first.
const unansweredTries = 4

// healthListed bounds the problems of one kind that are told one by one.
const healthListed = 20

// Health answers `loci status`.
func (a *Answers) Health(ctx context.Context) (api.Health, error) {
	status, err := a.Status(ctx)
	if err != nil {
		return api.Health{}, err
	}
	f := health.Facts{Now: time.Now(), Status: status, Troubles: a.judgedTroubles()}
	inForce := a.State.InForce()
	f.Waiting = inForce.WaitingBesides()
	site, others := inForce.MissingLinks()
	f.MissingSite, f.MissingOthers = missingLinks(site), missingLinks(others)
	f.Mobile = inForce.Config.MobileNode != nil
	interfaces, err := a.Interfaces(ctx)
	if err != nil {
		return api.Health{}, err
	}
	f.Own = interfaces.RLOCs
	a.addLostDataPaths(&f)
	if f.Sibling, err = a.Siblings(ctx); err != nil {
		return api.Health{}, err
	}
	if f.NAT, err = a.NATSummary(ctx); err != nil {
		return api.Health{}, err
	}
	for _, add := range []func(context.Context, *health.Facts) error{a.addBadLocators, a.addUnanswered, a.addNodeFacts, a.addReplaced, a.addForeign} {
		if err := add(ctx, &f); err != nil {
			return api.Health{}, err
		}
	}
	return health.Judge(f), nil
}

func missingLinks(links []hostnet.MissingLink) (list []health.MissingLink) {
	for _, l := range links {
		list = append(list, health.MissingLink(l))
	}
	return list
}

// urgencyOf is that of each kind of trouble with configuration and host; a warning where it is not listed.
var urgencyOf = map[trouble.Kind]api.Urgency{
	trouble.Configuration:    api.UrgencyNotice,
	trouble.FirewallBypassed: api.UrgencyNotice,
	trouble.PlaneRefused:     api.UrgencyCritical,
	trouble.PlaneLost:        api.UrgencyCritical,
}

func (a *Answers) judgedTroubles() (list []health.Trouble) {
	for _, t := range a.warnings() {
		judged := health.Trouble{Kind: string(t.Kind), Subject: t.Subject, What: t.What, Effect: t.Effect, Remedy: t.Remedy, Since: t.Since, Urgency: api.UrgencyWarning}
		if urgency, ok := urgencyOf[t.Kind]; ok {
			judged.Urgency = urgency
		}
		list = append(list, judged)
	}
	return list
}

// addBadLocators finds the locators that are not up, and whether their mappings have others.
func (a *Answers) addBadLocators(ctx context.Context, f *health.Facts) error {
	type page struct {
		bad  []health.Locator
		seen badCount // with those of the pages before
		next uint32
		rest bool
	}
	at := page{rest: true}
	for at.rest {
		from, seen := at.next, at.seen
		var err error
		at, err = eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) (p page) {
			var list []control.LocatorStatus
			list, p.next, p.rest = node.LocatorsPage(from, locatorsPage)
			p.seen = seen
			for _, l := range list {
				if p.seen.isListed(l) {
					p.bad = append(p.bad, badLocator(node, l))
				}
			}
			return p
		})
		if err != nil {
			return err
		}
		f.Locators = append(f.Locators, at.bad...)
	}
	f.MoreDown, f.MoreUnconfirmed = max(at.seen.down-healthListed, 0), max(at.seen.unconfirmed-healthListed, 0)
	slices.SortStableFunc(f.Locators, func(a, b health.Locator) int { return a.EIDPrefix.Compare(b.EIDPrefix) })
	return nil
}

// badCount is how many locators are not up.
type badCount struct{ down, unconfirmed int }

// isListed counts a locator; it is told by itself if it is bad, and one of the first of its kind.
func (c *badCount) isListed(l control.LocatorStatus) bool {
	switch {
	case l.Mappings == 0 || l.ProxyETR && l.ProbesAnswered == 0: // not all proxy ETRs answer RLOC-probes
		return false
	case l.State == control.LocatorDown:
		c.down++
		return c.down <= healthListed
	case l.State == control.LocatorUnconfirmed:
		c.unconfirmed++
		return c.unconfirmed <= healthListed
	}
	return false
}

// badLocator runs in the loop.
func badLocator(node *control.Node, l control.LocatorStatus) health.Locator {
	path := lisp.Path{RLOC: l.RLOC, Behind: l.Behind}
	bad := health.Locator{
		RLOC: path.String(), State: l.State, Reason: string(l.Reason), ChangedAt: l.ChangedAt, HeldUntil: l.HeldUntil, EIDPrefixes: l.Mappings, EIDPrefix: l.Prefix,
	}
	for _, other := range node.Explain(l.Prefix.Instance(), l.Prefix.EID()).Locators {
		usable := other.State != nil && other.NotUsable == "" && other.Locator.Reachable && other.Locator.Priority != lisp.PriorityUnused
		if usable && (other.State.State == control.LocatorUp || other.State.State == control.LocatorUnknown) {
			bad.Others = true
		}
	}
	return bad
}

func (a *Answers) addUnanswered(ctx context.Context, f *health.Facts) error {
	list, err := a.pendingRequests(ctx, api.ListQuery{})
	for _, r := range list {
		switch {
		case r.State != control.PendingHoldDown && (r.State != control.PendingWaiting || r.Tries < unansweredTries):
		case len(f.Unanswered) == healthListed:
			f.MoreUnanswered++
		default:
			f.Unanswered = append(f.Unanswered, mapRequestDocument(r))
		}
	}
	return err
}

// addNodeFacts adds what the Node lists by itself, bounded.
func (a *Answers) addNodeFacts(ctx context.Context, f *health.Facts) error {
	type facts struct {
		kept     []control.KeptMapping
		lost     []control.LostMapping
		count    int // of lost ones
		stale    []control.StaleMapping
		stales   int
		untold   []health.AmbiguousPaths
		no       []control.UnreachableMapping
		nos      int
		refused  []control.RefusedRegistration
		others   control.RefusedRegistration
		behind   []control.Registration
		double   []control.DuplicateEID
		changing []control.NATBinding
		hosts    []control.NATHost
		complete time.Time
	}
	node, err := eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) facts {
		f := facts{kept: node.KeptMappings(), behind: node.TranslatedRegistrations(), double: node.DuplicateEIDs(), complete: node.CompleteAt()}
		f.changing, f.hosts = node.ChangingNATBindings(), node.ChangingNATHosts()
		f.lost, f.count = node.LostMappings(healthListed)
		f.stale, f.stales = node.StaleMappings()
		if untold, since, ok := node.AmbiguousPaths(); ok {
			f.untold = []health.AmbiguousPaths{{EIDPrefix: untold, Since: since}}
		}
		f.no, f.nos = node.UnreachableMappings()
		f.refused, f.others = node.RefusedRegistrations()
		return f
	})
	f.Stale, f.StaleCount, f.AmbiguousPaths = node.stale, node.stales, node.untold
	f.Unreachable, f.UnreachableCount = node.no[:min(len(node.no), healthListed)], node.nos
	f.Duplicates = node.double[:min(len(node.double), healthListed)]
	f.MoreDuplicates = len(node.double) - len(f.Duplicates)
	f.Changing, f.ChangingHosts = node.changing, node.hosts
	f.Lost, f.MoreLost = node.lost, node.count-len(node.lost)
	f.Kept, f.Refused, f.RefusedOthers, f.Translated, f.CompleteAt = node.kept, node.refused, node.others, node.behind, node.complete
	return err
}

// addReplaced finds registrations that are not in force.
func (a *Answers) addReplaced(ctx context.Context, f *health.Facts) error {
	type found struct {
		some  [][]control.Registration
		count int
	}
	displaced, err := eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) (d found) {
		var prefixes []lisp.Prefix
		prefixes, d.count = node.DisplacedRegistrations()
		for _, p := range prefixes[:min(len(prefixes), healthListed)] {
			d.some = append(d.some, slices.Collect(node.RegistrationsOf(p)))
		}
		return d
	})
	for _, list := range displaced.some {
		f.Replaced = append(f.Replaced, replaced(list))
	}
	f.MoreReplaced = displaced.count - len(displaced.some)
	return err
}

// replaced is about the registrations of an EID-Prefix, of which one at least is not in force.
func replaced(list []control.Registration) (r health.Replaced) {
	old := slices.IndexFunc(list, func(r control.Registration) bool { return !r.InForce })
	now := slices.IndexFunc(list, func(r control.Registration) bool { return r.InForce })
	if old < 0 || now < 0 {
		return health.Replaced{}
	}
	return health.Replaced{
		EIDPrefix: list[old].Prefix, Site: list[old].Site, ETR: list[old].From.String(), InForce: list[now].From.String(),
		Since: list[now].FirstRegisteredAt, ExpiresAt: list[old].ExpiresAt, Alternates: list[old].LastRegisteredAt.After(list[now].FirstRegisteredAt),
	}
}

// SPDX-License-Identifier: Apache-2.0

package health

// From facts to a verdict.

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// Facts are what a daemon knows of itself.
type Facts struct {
	Now     time.Time
	Status  api.Status
	Waiting []string      // of Status, without what is about missing interfaces
	Own     []api.OwnRLOC // with their interfaces
	Sibling api.Siblings
	NAT     api.NAT

	Mobile                     bool          // a mobile node, which needs one of its links
	MissingSite, MissingOthers []MissingLink // interfaces that the host does not have

	Locators                  []Locator // of the map-cache, those that are not up
	MoreDown, MoreUnconfirmed int       // beyond these

	DataPaths     []DataPath // that lose packets
	MoreDataPaths int

	Unanswered     []api.PendingMapRequest // several times
	MoreUnanswered int
	Kept           []control.KeptMapping
	Duplicates     []control.DuplicateEID
	MoreDuplicates int
	Lost           []control.LostMapping
	MoreLost       int
	Stale          []control.StaleMapping // the first of StaleCount
	StaleCount     int

	AmbiguousPaths []AmbiguousPaths // mappings of which an RTR cannot tell which path a packet is on, one at most

	Unreachable      []control.UnreachableMapping // the first of UnreachableCount
	UnreachableCount int

	Replaced      []Replaced // registrations that are not in force
	MoreReplaced  int
	Refused       []control.RefusedRegistration // with a key that fits, or by an ETR that registered before
	RefusedOthers control.RefusedRegistration   // all others
	Translated    []control.Registration        // that came through a NAT
	Changing      []control.NATBinding          // of this RTR, that change often
	ChangingHosts []control.NATHost             // of this RTR by simple-nat, likewise
	CompleteAt    time.Time                     // when the Map-Server began to give negative answers; zero without one

	Differing     []Difference // mappings that others have changed in the data plane
	MoreDiffering int
	NotCompared   uint64 // changes of others beyond those that are remembered

	Troubles []Trouble // of configuration and host
}

// AmbiguousPaths is a mapping of which an RTR cannot tell which path a packet is on.
type AmbiguousPaths struct {
	EIDPrefix lisp.Prefix
	Since     time.Time
}

// MissingLink is an interface that the configuration names and the host does not have.
type MissingLink struct {
	Name  string
	Since time.Time
}

// Locator is a remote locator that is not up.
type Locator struct {
	RLOC        string
	State       control.LocatorState // down or unconfirmed
	Reason      string
	ChangedAt   time.Time
	HeldUntil   time.Time
	EIDPrefixes int         // mappings with it
	EIDPrefix   lisp.Prefix // one of these
	Others      bool        // that mapping has another locator, which is up
}

// Difference is a mapping of which the planes hold different things. A text is empty where a plane has none.
type Difference struct {
	EIDPrefix               lisp.Prefix
	DataPlane, ControlPlane string
	Since                   time.Time
}

// Replaced is a registration that is not in force, beside the one that is.
type Replaced struct {
	EIDPrefix    lisp.Prefix
	Site         string
	ETR, InForce string // addresses of the two xTRs
	Since        time.Time
	ExpiresAt    time.Time
	Alternates   bool // both still register
}

// Trouble is what is wrong with configuration or host, or could be better.
type Trouble struct {
	Kind, Subject, What, Effect, Remedy string
	Urgency                             api.Urgency
	Since                               time.Time
}

// Kinds are the kinds of problems that Judge makes itself; those of configuration and host are the daemon's.
var Kinds = []string{
	"not-ready", "waiting-for-host", "own-rloc-down", "own-rloc-held-down", "sibling-path", "sibling-silent", "core-unanswered", "hook", "kernel-feature-missing",
	"nat-without-rtr", "rtr-silent", "nat-binding-changes", "map-server-silent", "eid-not-acknowledged", "duplicate-eid", "map-resolver-silent", "map-request-unanswered", "mapping-kept", "mapping-lost", "mapping-stale", "mapping-unreachable", "locator-unconfirmed", "locator-returning", "locator-down", "paths-ambiguous", "data-path-lost", "path-mtu-black-hole",
	"registration-refused", "registration-behind-nat", "registration-replaced", "registrations-alternate", "map-server-starting", "data-plane-differs",
}

// urgencies are in their order.
var urgencies = []api.Urgency{api.UrgencyCritical, api.UrgencyWarning, api.UrgencyNotice}

// Judge makes a verdict of what is known.
func Judge(f Facts) api.Health {
	problems := slices.Concat(f.readiness(), f.ownRLOCs(), f.nat(), f.registration(), f.duplicates(), f.resolution(), f.locators(), f.ambiguousPaths(), f.dataPaths(), f.siblings(), f.mapServer(), f.differences(), f.troubles())
	slices.SortStableFunc(problems, func(a, b api.HealthProblem) int {
		return cmp.Compare(slices.Index(urgencies, a.Urgency), slices.Index(urgencies, b.Urgency))
	})
	h := api.Health{Verdict: api.VerdictHealthy, At: f.Now, Ready: f.Status.Ready, Roles: f.Status.Roles, Problems: problems}
	if h.Problems == nil {
		h.Problems = []api.HealthProblem{}
	}
	for _, p := range problems {
		switch p.Urgency {
		case api.UrgencyCritical:
			h.Critical++
		case api.UrgencyWarning:
			h.Warnings++
		default:
			h.Notices++
		}
	}
	if h.Critical+h.Warnings > 0 {
		h.Verdict = api.VerdictProblems
	}
	return h
}

func (f Facts) readiness() (list []api.HealthProblem) {
	urgency := api.UrgencyWarning
	if !f.Status.Ready {
		urgency = api.UrgencyCritical
		list = append(list, api.HealthProblem{
			Kind: "not-ready", Urgency: urgency, Subject: "this router", What: "this router has no RLOC yet", Since: &f.Status.StartedAt,
			Effect: "no packet is encapsulated or decapsulated", Remedy: "give a core interface an address; `loci show interfaces` has what is there",
		})
	}
	if f.Mobile && f.Status.Ready { // it has a link: the others come when they are there
		f.Waiting, f.MissingOthers = nil, nil
	}
	for _, w := range f.Waiting {
		list = append(list, api.HealthProblem{
			Kind: "waiting-for-host", Urgency: urgency, Subject: "this host", What: w,
			Effect: "what the configuration wants of it is not in force", Remedy: "bring it up: the daemon uses it when it comes",
		})
	}
	const remedy = "bring it up: the daemon uses it when it comes; `ip link show` has the names that there are"
	for _, missing := range f.MissingOthers {
		name, since := missing.Name, missing.Since
		list = append(list, api.HealthProblem{
			Kind: "waiting-for-host", Urgency: urgency, Subject: name, What: "interface " + name + " does not exist on this host",
			Since:  jsondoc.KnownTime(since),
			Effect: "what the configuration wants of it is not in force", Remedy: remedy,
		})
	}
	for _, missing := range f.MissingSite {
		name, since := missing.Name, missing.Since
		p := api.HealthProblem{
			Kind: "waiting-for-host", Urgency: urgency, Subject: name, What: "site interface " + name + " does not exist on this host",
			Since:  jsondoc.KnownTime(since),
			Effect: "packets of hosts that reach this router by another interface leave without encapsulation", Remedy: remedy,
		}
		if f.Now.Sub(since) >= interfacePatience {
			p.Urgency = api.UrgencyCritical
		}
		list = append(list, p)
	}
	return list
}

// interfacePatience is how long a host may need to make a site interface, after the daemon's start or after it
// vanished.
const interfacePatience = 30 * time.Second

// troubles are those of configuration and host, and what the kernel lacks.
func (f Facts) troubles() (list []api.HealthProblem) {
	for _, t := range f.Troubles {
		list = append(list, api.HealthProblem{
			Kind: t.Kind, Urgency: t.Urgency, Subject: t.Subject, What: t.What, Since: jsondoc.KnownTime(t.Since), Effect: t.Effect, Remedy: t.Remedy,
		})
	}
	for _, m := range f.Status.Missing {
		list = append(list, api.HealthProblem{Kind: "kernel-feature-missing", Urgency: api.UrgencyNotice, Subject: "this host", What: m,
			Since: &f.Status.StartedAt, Effect: "the data plane works without it", Remedy: "use a newer kernel if that matters; `loci show datapath` has details"})
	}
	for _, i := range f.Status.Interfaces {
		if i.HookWarning != "" {
			list = append(list, api.HealthProblem{Kind: "hook", Urgency: api.UrgencyNotice, Subject: i.Name, What: "interface " + i.Name + ": " + i.HookWarning,
				Effect: "packets may cost more than they could", Remedy: "see docs/xdp.md"})
		}
	}
	return list
}

// clock is a time of day, with its date unless that is today's.
func (f Facts) clock(at time.Time) string {
	at = at.In(f.Now.Location())
	if at.YearDay() != f.Now.YearDay() || at.Year() != f.Now.Year() {
		return at.Format(time.DateTime)
	}
	return at.Format(time.TimeOnly)
}

// andMore is a text about one of several.
func andMore(text string, more int, of string) string {
	if more <= 0 {
		return text
	}
	return fmt.Sprintf("%s and %d more %s", text, more, of)
}

// ambiguousPaths are of an RTR on several paths of a mapping.
func (f Facts) ambiguousPaths() (list []api.HealthProblem) {
	for _, untold := range f.AmbiguousPaths {
		prefix, since := untold.EIDPrefix, untold.Since
		list = append(list, api.HealthProblem{
			Kind: "paths-ambiguous", Urgency: api.UrgencyWarning, Subject: prefix.String(), Since: &since,
			What:   fmt.Sprintf("this RTR is on several paths of %s, with different next hops, and cannot tell which one a packet is on", prefix),
			Effect: "a hash chooses among them, whichever path the ITR chose",
			Remedy: "set rtr.path-identification at all RTRs of the paths",
		})
	}
	return list
}

// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/lisp"
)

var (
	now  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	then = now.Add(-time.Minute)
	p10  = lisp.MustParsePrefix("10.2.0.0/24")
	p6   = lisp.MustParsePrefix("2001:db8:2::/48")
)

func ready() Facts {
	return Facts{Now: now, Status: api.Status{Ready: true, StartedAt: then, Roles: []string{"itr"}}}
}

// TestEachFactIsAProblem: with its urgency, its time, what it costs and what to do.
var etr = netip.MustParseAddrPort("192.0.2.1:4342")

func TestEachFactIsAProblem(t *testing.T) {
	rloc := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))
	other := lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8::1"))
	own := func(reason string) api.OwnRLOC {
		return api.OwnRLOC{RLOC: rloc, Interface: "core0", State: "down", Reason: reason, ChangedAt: then}
	}
	heard, long := then, now.Add(-expiry)
	tried := map[string]bool{}
	lacking := []api.UnacknowledgedEID{{EIDPrefix: p10, Since: now.Add(-time.Second)}, {EIDPrefix: p6, Since: then}} // a reload has registered the first anew
	for name, c := range map[string]struct {
		with    func(*Facts)
		kind    string
		urgency api.Urgency
		words   string
	}{
		"not ready":                         {func(f *Facts) { f.Status.Ready = false }, "not-ready", api.UrgencyCritical, "no RLOC"},
		"waiting":                           {func(f *Facts) { f.Waiting = []string{"no interface has the address x"} }, "waiting-for-host", api.UrgencyWarning, "no interface has"},
		"core interface":                    {func(f *Facts) { f.MissingOthers = []MissingLink{{Name: "wan0", Since: then}} }, "waiting-for-host", api.UrgencyWarning, "interface wan0 does not exist"},
		"site interface":                    {func(f *Facts) { f.MissingSite = []MissingLink{{Name: "lan0", Since: now.Add(-30 * time.Second)}} }, "waiting-for-host", api.UrgencyCritical, "leave without encapsulation"},
		"site interface that just vanished": {func(f *Facts) { f.MissingSite = []MissingLink{{Name: "lan0", Since: now.Add(-29 * time.Second)}} }, "waiting-for-host", api.UrgencyWarning, "site interface lan0"},
		"own down":                          {func(f *Facts) { f.Own = []api.OwnRLOC{own("link-down")} }, "own-rloc-down", api.UrgencyCritical, "ip -s link show dev core0"},
		"own, beside":                       {func(f *Facts) { f.Own = []api.OwnRLOC{own("gateway-silent"), {RLOC: other, State: "up"}} }, "own-rloc-down", api.UrgencyWarning, "ip neigh show dev core0"},
		"own, of a mobile node without a link": {func(f *Facts) {
			f.Mobile, f.Own = true, []api.OwnRLOC{own("link-down")}
		}, "own-rloc-down", api.UrgencyCritical, "has no path to the core"},
		"own held": {func(f *Facts) { f.Own = []api.OwnRLOC{own("held-down"), {RLOC: other, State: "up"}} }, "own-rloc-held-down", api.UrgencyWarning, "flaps"},
		"own, by a sibling": {func(f *Facts) {
			f.Own, f.Sibling.ForwardingSibling, f.Sibling.Reason, f.Sibling.Since = []api.OwnRLOC{own("address-gone")}, "198.51.100.9", "own-rlocs-down", &heard
		}, "own-rloc-down", api.UrgencyWarning, "198.51.100.9 forwards for it"},
		"Map-Server silent": {func(f *Facts) {
			f.Status.MapServers = []api.MapServer{{Address: "192.0.2.9:4342", State: "waiting", LackingCount: 2, Unacknowledged: 3, LastNotifyAt: &heard, Lacking: lacking}}
		}, "map-server-silent", api.UrgencyWarning, "expires there"},
		"Map-Server silent for long": {func(f *Facts) {
			f.Status.MapServers = []api.MapServer{{Address: "192.0.2.9:4342", State: "waiting", LackingCount: 2, LastNotifyAt: &long, Lacking: lacking}}
		}, "map-server-silent", api.UrgencyCritical, "has expired"},
		"never registered": {func(f *Facts) {
			f.Status.MapServers = []api.MapServer{{Address: "192.0.2.9:4342", State: "waiting", LackingCount: 2, Lacking: lacking}}
		}, "map-server-silent", api.UrgencyCritical, "never registered"},
		"one of two Map-Servers": {func(f *Facts) {
			f.Status.MapServers = []api.MapServer{{Address: "192.0.2.9:4342", State: "waiting", LackingCount: 1, Lacking: []api.UnacknowledgedEID{{EIDPrefix: p10, Since: then}}}, {Address: "192.0.2.8:4342", State: "registered"}}
		}, "map-server-silent", api.UrgencyWarning, "at another Map-Server alone"},
		"EID": {func(f *Facts) {
			f.Status.MapServers = []api.MapServer{{Address: "192.0.2.9:4342", State: "partial", LackingCount: 1, Lacking: []api.UnacknowledgedEID{{EIDPrefix: p6, Since: then}}}}
		}, "eid-not-acknowledged", api.UrgencyCritical, "does not acknowledge 2001:db8:2::/48"},
		"Map-Resolver": {func(f *Facts) {
			f.Status.MapResolverStates = []api.MapResolver{{Address: "192.0.2.9:4342", State: "silent", ChangedAt: &heard}}
		}, "map-resolver-silent", api.UrgencyCritical, "not in the map-cache"},
		"one of two Map-Resolvers": {func(f *Facts) {
			f.Status.MapResolverStates = []api.MapResolver{{Address: "192.0.2.9:4342", State: "silent", ChangedAt: &heard}, {State: "answers"}}
		}, "map-resolver-silent", api.UrgencyWarning, "another Map-Resolver"},
		"unanswered": {func(f *Facts) { f.Unanswered = []api.PendingMapRequest{{EIDPrefix: p10, StartedAt: then}} }, "map-request-unanswered", api.UrgencyWarning, "10.2.0.0/24"},
		"kept":       {func(f *Facts) { f.Kept = []control.KeptMapping{{Prefix: p6, Since: then, ExpiresAt: now}} }, "mapping-kept", api.UrgencyWarning, "until the mapping ends at 03:04:05"},
		"lost": {func(f *Facts) {
			f.Lost = []control.LostMapping{{Prefix: p6, Since: then, HadUntil: then, From: netip.MustParseAddrPort("192.0.2.9:4342"), Action: lisp.ActionNativelyForward}}
			f.MoreLost = 3
		}, "mapping-lost", api.UrgencyCritical, "packets to it leave unencapsulated"},
		"lost, its answer": {func(f *Facts) {
			f.Lost = []control.LostMapping{{Prefix: p6, Since: then, HadUntil: then, From: netip.MustParseAddrPort("192.0.2.9:4342"), Action: lisp.ActionNativelyForward}}
		}, "mapping-lost", api.UrgencyCritical, "2001:db8:2::/48 had locators until 03:03:05 and is not registered now: the answer of 192.0.2.9 is natively-forward"},
		"lost, by a proxy ETR": {func(f *Facts) {
			f.Lost = []control.LostMapping{{Prefix: p10, Since: then, HadUntil: then, Action: lisp.ActionNativelyForward, ByProxyETR: true}}
		}, "mapping-lost", api.UrgencyCritical, "packets to it go to a proxy ETR"},
		"lost and dropped": {func(f *Facts) {
			f.Lost = []control.LostMapping{{Prefix: p10, Since: then, HadUntil: then, Action: lisp.ActionNoAction}}
		}, "mapping-lost", api.UrgencyCritical, "packets to it are dropped"},
		"stale": {func(f *Facts) {
			f.Stale, f.StaleCount = []control.StaleMapping{{Prefix: p6, Since: then, Until: now}}, 1
		}, "mapping-stale", api.UrgencyWarning, "used past its TTL"},
		"unreachable": {func(f *Facts) {
			f.Unreachable = []control.UnreachableMapping{{Prefix: p6, From: netip.MustParseAddrPort("192.0.2.9:4342"), Since: then}}
			f.UnreachableCount = 4
		}, "mapping-unreachable", api.UrgencyCritical, "the site of 2001:db8:2::/48 calls all its locators unreachable (R bits 0), in a Map-Reply from 192.0.2.9"},
		"unreachable since before a restart": {func(f *Facts) {
			f.Unreachable, f.UnreachableCount = []control.UnreachableMapping{{Prefix: p10, Since: then}}, 1
		}, "mapping-unreachable", api.UrgencyCritical, "the site of 10.2.0.0/24 calls all its locators unreachable (R bits 0)"},
		"unconfirmed": {func(f *Facts) {
			f.Locators = []Locator{{RLOC: "192.0.2.7", State: "unconfirmed", Reason: "probes-unanswered", ChangedAt: then, EIDPrefixes: 3, EIDPrefix: p10}}
		}, "locator-unconfirmed", api.UrgencyWarning, "10.2.0.0/24 and 2 more EID-Prefixes still go to it"},
		"returning": {func(f *Facts) {
			f.Locators = []Locator{{RLOC: "192.0.2.7", State: "unconfirmed", Reason: "returning", ChangedAt: then, EIDPrefix: p10, Others: true}}
		}, "locator-returning", api.UrgencyNotice, "take another locator until it has answered several times"},
		"flapped": {func(f *Facts) {
			f.Locators = []Locator{{RLOC: "192.0.2.7", State: "unconfirmed", Reason: "returning", ChangedAt: then, EIDPrefix: p10, Others: true, HeldUntil: now.Add(time.Minute)}}
		}, "locator-returning", api.UrgencyNotice, "take another locator until 03:05:05"},
		"returning, and no other": {func(f *Facts) {
			f.Locators = []Locator{{RLOC: "192.0.2.7", State: "unconfirmed", Reason: "returning", ChangedAt: then, EIDPrefix: p10, HeldUntil: now.Add(time.Minute)}}
		}, "locator-returning", api.UrgencyNotice, "go to it, because no other locator"},
		"down, alone": {func(f *Facts) {
			f.Locators = []Locator{{RLOC: "192.0.2.7", State: "down", Reason: "status-bit", ChangedAt: then, EIDPrefixes: 1, EIDPrefix: p10}}
		}, "locator-down", api.UrgencyCritical, "are lost"},
		"down": {func(f *Facts) {
			f.Locators = []Locator{{RLOC: "192.0.2.7", State: "down", ChangedAt: then, EIDPrefix: p10, Others: true}}
		}, "locator-down", api.UrgencyWarning, "take another locator"},
		"data path": {func(f *Facts) {
			f.DataPaths = []DataPath{{EIDPrefix: p10, RLOC: "192.0.2.7", Octets: 84, Since: then}}
		}, "data-path-lost", api.UrgencyCritical, "lost between this router and 192.0.2.7: checks of 84 octets stay unanswered; control messages pass"},
		"data path towards it": {func(f *Facts) {
			f.DataPaths = []DataPath{{EIDPrefix: p10, RLOC: "192.0.2.7", Octets: 84, Since: then, Towards: true}}
		}, "data-path-lost", api.UrgencyCritical, "lost towards 192.0.2.7 (its packets still come)"},
		"black hole": {func(f *Facts) {
			f.DataPaths = []DataPath{{EIDPrefix: p6, RLOC: "192.0.2.7", Octets: 1444, Since: then, Large: true}}
		}, "path-mtu-black-hole", api.UrgencyWarning, "packets of 1444 octets are lost between this router and 192.0.2.7; smaller packets and control messages pass"},
		"sibling": {func(f *Facts) {
			f.Sibling.Siblings = []api.Sibling{{Address: netip.MustParseAddr("192.0.2.3"), HeardAt: &heard}}
		}, "sibling-silent", api.UrgencyWarning, "192.0.2.3"},
		"refused record": {func(f *Facts) {
			f.Refused = []control.RefusedRegistration{{From: etr, Site: "site1", Prefix: p10, KeyFits: true, Reason: "more-specific", Since: then, Count: 3}}
		}, "registration-refused", api.UrgencyWarning, "more-specifics-accepted: true"},
		"refused prefix": {func(f *Facts) {
			f.Refused = []control.RefusedRegistration{{From: etr, Site: "site1", Prefix: p10, KeyFits: true, Reason: "prefix-outside-site", Since: then, Count: 3}}
		}, "registration-refused", api.UrgencyWarning, "site site1 registers"},
		"refused nonce": {func(f *Facts) {
			f.Refused = []control.RefusedRegistration{{From: etr, Site: "site1", Reason: "replay", Since: then, Count: 3}}
		}, "registration-refused", api.UrgencyWarning, "its clock went back"},
		"refused key": {func(f *Facts) {
			f.Refused = []control.RefusedRegistration{{From: etr, Reason: "authentication", Since: then, Count: 3}}
		}, "registration-refused", api.UrgencyWarning, "compare key"},
		"behind a NAT": {func(f *Facts) {
			f.Translated = []control.Registration{{From: etr, Site: "site1", Prefix: p10, FirstRegisteredAt: then}}
		}, "registration-behind-nat", api.UrgencyWarning, "a NAT is likely"},
		"refused unknown sender": {func(f *Facts) {
			f.RefusedOthers = control.RefusedRegistration{From: etr, Reason: "authentication", Since: then, Count: 3}
		}, "registration-refused", api.UrgencyNotice, "the last one from 192.0.2.1:4342"},
		"returned": {func(f *Facts) {
			f.Replaced = []Replaced{{EIDPrefix: p10, ETR: "192.0.2.1:1", InForce: "192.0.2.2:2", Since: then}}
		}, "registration-replaced", api.UrgencyWarning, "192.0.2.1:1 stays"},
		"alternate": {func(f *Facts) { f.Replaced = []Replaced{{EIDPrefix: p10, Since: then, Alternates: true}} }, "registrations-alternate", api.UrgencyCritical, "merge-request"},
		"by a sibling": {func(f *Facts) {
			f.Sibling.ForwardingSibling, f.Sibling.Reason, f.Sibling.Since = "198.51.100.9", "core-unanswered", &then
		}, "sibling-path", api.UrgencyWarning, "198.51.100.9 forwards this site's packets"},
		"sibling path, RLOCs up again": {func(f *Facts) {
			f.Sibling.ForwardingSibling, f.Sibling.Since = "198.51.100.9", &then
			f.Sibling.Reason = "own-rlocs-unproven"
		}, "sibling-path", api.UrgencyWarning, "RLOCs are up again"},
		"deaf": {func(f *Facts) {
			f.Sibling.UnansweredSince, f.Sibling.Siblings = &then, []api.Sibling{{Address: netip.MustParseAddr("198.51.100.9"), Answers: true}}
		}, "core-unanswered", api.UrgencyWarning, "no sibling is known to get through"},
		"RTR away": {func(f *Facts) {
			f.NAT.Views = []api.NATView{{BehindNAT: true, AnsweredAt: &then}}
			f.NAT.RTRs = []api.NATRTR{{Address: netip.MustParseAddr("198.51.100.9"), Silent: true, Since: &then}}
		}, "rtr-silent", api.UrgencyCritical, "RTR 198.51.100.9, by which this router registers"},
		"one of two RTRs away": {func(f *Facts) {
			then := now.Add(-time.Minute)
			f.NAT.RTRs = []api.NATRTR{
				{Address: netip.MustParseAddr("198.51.100.8")},
				{Address: netip.MustParseAddr("198.51.100.9"), Silent: true, Since: &then},
			}
		}, "rtr-silent", api.UrgencyWarning, "RTR 198.51.100.9, by which this router registers"},
		"NAT forgets": {func(f *Facts) {
			f.NAT.RTRs = []api.NATRTR{{Address: netip.MustParseAddr("198.51.100.9"), KeepaliveSeconds: 25, OftenChangedSince: &then}}
		}, "nat-binding-changes", api.UrgencyWarning, "for up to 25s each time"},
		"NAT forgets, by simple-nat": {func(f *Facts) {
			f.NAT.RTRs = []api.NATRTR{
				{Address: netip.MustParseAddr("198.51.100.9"), RLOC: rloc.Addr(), KeepaliveSeconds: 25},
				{Address: netip.MustParseAddr("198.51.100.9"), RLOC: other.Addr()},
			}
			f.NAT.Views = []api.NATView{
				{MapServer: "192.0.2.1:4342", RLOC: other, SeenAs: "198.51.100.9:5000", BehindNAT: true,
					OftenChangedSince: &then},
			}
		}, "nat-binding-changes", api.UrgencyWarning, "packets to this router are lost until it registers again"},
		"NAT of another forgets, by simple-nat": {func(f *Facts) {
			f.ChangingHosts = []control.NATHost{{Name: "home\x1b", Seen: etr, OftenChangedSince: then}}
		}, "nat-binding-changes", api.UrgencyWarning, "by simple-nat gave it another port five times within ten minutes, " + etr.String() + " at last"},
		"NAT of another forgets": {func(f *Facts) {
			f.Changing = []control.NATBinding{{Prefix: p10, Seen: etr, OftenChangedSince: then}}
		}, "nat-binding-changes", api.UrgencyWarning, "five times within ten minutes, " + etr.String() + " at last"},
		"no RTR": {func(f *Facts) {
			f.NAT.Views = []api.NATView{{}, {BehindNAT: true, AnsweredAt: &then, SeenAs: "198.51.100.9:5000", MapServer: "192.0.2.1:4342"}}
		}, "nat-without-rtr", api.UrgencyWarning, "192.0.2.1:4342, which saw it as 198.51.100.9:5000"},
		"behind a NAT, RTRs of the other family": {func(f *Facts) {
			f.NAT.Views = []api.NATView{{
				BehindNAT: true, AnsweredAt: &then, RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.168.7.2")),
				RTRs: []netip.Addr{netip.MustParseAddr("2001:db8::9")},
			}}
		}, "nat-without-rtr", api.UrgencyWarning, "offers RTRs with IPv6 addresses only"},
		"hook": {func(f *Facts) { f.Status.Interfaces = []api.Interface{{Name: "core0", HookWarning: "no offload"}} }, "hook", api.UrgencyNotice, "core0: no offload"},
		"others set": {func(f *Facts) {
			f.Differing = []Difference{{EIDPrefix: p10, DataPlane: "10.2.0.0/24 -> x", Since: then}}
		}, "data-plane-differs", api.UrgencyWarning, "which this control plane does not have"},
		"others changed": {func(f *Facts) {
			f.Differing = []Difference{{EIDPrefix: p10, DataPlane: "x", ControlPlane: "y", Since: then}}
		}, "data-plane-differs", api.UrgencyWarning, "has set x, and this control plane has y"},
		"others deleted":  {func(f *Facts) { f.Differing = []Difference{{EIDPrefix: p10, ControlPlane: "y", Since: then}} }, "data-plane-differs", api.UrgencyWarning, "has taken y out"},
		"ambiguous paths": {func(f *Facts) { f.AmbiguousPaths = []AmbiguousPaths{{EIDPrefix: p10, Since: then}} }, "paths-ambiguous", api.UrgencyWarning, "this RTR is on several paths of 10.2.0.0/24"},
		"EID of another": {func(f *Facts) {
			f.Duplicates = []control.DuplicateEID{{Prefix: p6, RLOC: other, From: etr, Since: then}}
		}, "duplicate-eid", api.UrgencyWarning, "another router has 2001:db8:2::/48 too: 192.0.2.1 answers with its RLOC 2001:db8::1"},
		"starting": {func(f *Facts) { f.CompleteAt = now.Add(time.Minute) }, "map-server-starting", api.UrgencyNotice, "03:05:05"},
		"trouble": {func(f *Facts) {
			f.Troubles = []Trouble{{Kind: "stale-default-route", What: "it is stale", Effect: "x", Remedy: "y", Urgency: api.UrgencyWarning, Since: then}}
		}, "stale-default-route", api.UrgencyWarning, "it is stale"},
		"kernel": {func(f *Facts) { f.Status.Missing = []string{"no XDP"} }, "kernel-feature-missing", api.UrgencyNotice, "no XDP"},
	} {
		tried[c.kind] = true
		t.Run(name, func(t *testing.T) {
			f := ready()
			c.with(&f)
			h := Judge(f)
			if len(h.Problems) == 0 || h.Problems[0].Kind != c.kind || h.Problems[0].Urgency != c.urgency {
				t.Fatalf("%+v", h.Problems)
			}
			p := h.Problems[0]
			if c.kind != "stale-default-route" && !slices.Contains(Kinds, c.kind) {
				t.Errorf("%s is no kind", c.kind)
			}
			if text, _ := json.Marshal(h); !strings.Contains(string(text), c.words) {
				t.Errorf("no %q in %s", c.words, text)
			}
			if p.What == "" || p.Effect == "" || p.Remedy == "" || p.Since == nil && c.kind != "waiting-for-host" && c.kind != "hook" {
				t.Errorf("incomplete: %+v", p)
			}
			if c.kind == "map-server-silent" && !p.Since.Equal(then) {
				t.Errorf("since %v, want the first Map-Register that was not acknowledged, at %v", p.Since, then)
			}
			if want := map[bool]string{true: api.VerdictHealthy, false: api.VerdictProblems}[c.urgency == api.UrgencyNotice]; h.Verdict != want {
				t.Errorf("the verdict is %s, want %s", h.Verdict, want)
			}
		})
	}
	for _, kind := range Kinds {
		if !tried[kind] {
			t.Errorf("no case is of kind %s", kind)
		}
	}
}

// TestTimesHaveTheirDate unless it is today's.
func TestTimesHaveTheirDate(t *testing.T) {
	f := ready()
	f.Kept = []control.KeptMapping{{Prefix: p6, Since: then, ExpiresAt: now.Add(time.Hour)}, {Prefix: p10, Since: then, ExpiresAt: now.Add(24 * time.Hour)}}
	f.Locators = []Locator{{RLOC: "192.0.2.7", State: "down", ChangedAt: then, EIDPrefix: p10, HeldUntil: now.Add(24 * time.Hour)}}
	f.Replaced = []Replaced{{EIDPrefix: p10, Since: then, ExpiresAt: now.Add(366 * 24 * time.Hour).In(time.FixedZone("", -3600))}}
	f.CompleteAt = now.Add(24 * time.Hour)
	text, err := json.Marshal(Judge(f))
	for _, words := range []string{"ends at 04:04:05", "ends at 2026-01-03 03:04:05", "again after 2026-01-03 03:04:05", "stays until 2027-01-03 03:04:05", "before 2026-01-03 03:04:05"} {
		if err != nil || !strings.Contains(string(text), words) {
			t.Errorf("no %q in %s, %v", words, text, err)
		}
	}
}

func TestHealthy(t *testing.T) {
	f := ready()
	f.Status.MapServers = []api.MapServer{{Address: "192.0.2.9:4342", State: "registered"}, {Address: "192.0.2.8:4342", State: "waiting", Unacknowledged: 1}}
	f.Status.MapResolverStates = []api.MapResolver{{State: "answers"}, {State: "unknown"}}
	f.Own = []api.OwnRLOC{{State: "up"}}
	f.Sibling.Siblings = []api.Sibling{{Answers: true}}
	f.CompleteAt = then
	h := Judge(f)
	if h.Verdict != api.VerdictHealthy || h.Problems == nil || len(h.Problems) != 0 {
		t.Errorf("%+v", h)
	}
}

// TestMostUrgentFirst, and what is of one urgency in the order of what concerns the site itself.
func TestMostUrgentFirst(t *testing.T) {
	f := ready()
	f.Status.Missing = []string{"no XDP"}
	f.Troubles = []Trouble{{Kind: "stale-default-route", Urgency: api.UrgencyWarning}, {Kind: "data-plane-refused", Urgency: api.UrgencyCritical}}
	f.Locators = []Locator{{State: "down"}}
	f.MoreDown, f.MoreUnconfirmed = 7, 9
	h := Judge(f)
	var kinds []string
	for _, p := range h.Problems {
		kinds = append(kinds, p.Kind)
	}
	if got := strings.Join(kinds, " "); got != "locator-down data-plane-refused locator-down locator-unconfirmed stale-default-route kernel-feature-missing" {
		t.Error(got)
	}
	if h.Critical != 2 || h.Warnings != 3 || h.Notices != 1 || !strings.Contains(h.Problems[2].What, "7 more") || !strings.Contains(h.Problems[3].What, "9 more") {
		t.Errorf("%+v", h)
	}
}

// TestNoProblemWithNATs: none where no NAT is, where no one answers, and where the RTR does its work.
func TestNoProblemWithNATs(t *testing.T) {
	for name, nat := range map[string]api.NAT{
		"no answer": {Views: []api.NATView{{MapServer: "192.0.2.1:4342"}}},
		"no NAT":    {Views: []api.NATView{{MapServer: "192.0.2.1:4342", SeenAs: "192.0.2.9:4342"}}},
		"an RTR":    {Views: []api.NATView{{BehindNAT: true}}, RTRs: []api.NATRTR{{Address: netip.MustParseAddr("198.51.100.9")}}},
	} {
		f := ready()
		f.NAT = nat
		if h := Judge(f); len(h.Problems) > 0 {
			t.Errorf("%s: %+v", name, h.Problems)
		}
	}
}

// TestMobileNodeNeedsOneLink: what its other links lack is no problem.
func TestMobileNodeNeedsOneLink(t *testing.T) {
	f := Facts{Mobile: true, Now: time.Now(), Status: api.Status{Ready: true}}
	f.Waiting, f.MissingOthers = []string{"interface wwan0 has no usable address"}, []MissingLink{{Name: "wwan1"}}
	f.Own = []api.OwnRLOC{
		{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")), State: "up"},
		{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("198.51.100.1")), State: "down", Reason: "link-down"},
	}
	f.NAT.RTRs = []api.NATRTR{
		{Address: netip.MustParseAddr("203.0.113.9"), RLOC: netip.MustParseAddr("192.0.2.1")},
		{Address: netip.MustParseAddr("203.0.113.9"), RLOC: netip.MustParseAddr("198.51.100.1"), Silent: true},
	}
	if problems := Judge(f).Problems; len(problems) > 0 {
		t.Errorf("problems: %+v", problems)
	}
	f.Mobile = false
	if problems := Judge(f).Problems; len(problems) != 3 {
		t.Errorf("problems of another router: %+v", problems)
	}
}

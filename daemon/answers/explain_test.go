// SPDX-License-Identifier: Apache-2.0

package answers

// Each way in which a destination may be reached, explained from a real Node and a data
// plane that was told by it.

import (
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/planeworker"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
)

func testLocators(t *testing.T, addresses ...string) lisp.LocatorSet {
	t.Helper()
	var list []lisp.Locator
	for i, a := range addresses {
		list = append(list, lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(a)), Priority: 1, Weight: uint8(10 + 5*i), MulticastPriority: 255, Reachable: true})
	}
	set, err := lisp.NewLocatorSet(list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// explained is a Node with one mapping of each kind, and its data plane.
type explained struct {
	t      *testing.T
	node   *control.Node
	plane  *model.Engine
	worker *planeworker.Worker
	cfg    control.Config
}

func newExplained(t *testing.T) *explained {
	own := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))
	priority := uint8(7)
	prefix := lisp.MustParsePrefix
	x := &explained{t: t, plane: model.New(model.Options{}), cfg: control.Config{
		LocalRLOCs: []lisp.RLOC{own},
		ITR: &control.ITRConfig{
			MapResolvers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.100:4342")},
			ProxyETRs:    testLocators(t, "203.0.113.99"),
			StaticMappings: []lisp.Mapping{
				{Prefix: prefix("10.2.0.0/16"), Locators: testLocators(t, "203.0.113.1", "203.0.113.2"), TTLMinutes: lisp.TTLUnlimited},
				{Prefix: prefix("10.0.0.0/8"), Action: lisp.ActionDrop},
				{Prefix: prefix("10.3.0.0/16"), Action: lisp.ActionNativelyForward},
				{Prefix: prefix("10.4.0.0/16"), Locators: testLocators(t, "2001:db8::4"), TTLMinutes: lisp.TTLUnlimited},
				{Prefix: prefix("[7]10.2.0.0/16"), Locators: testLocators(t, "203.0.113.3"), TTLMinutes: lisp.TTLUnlimited},
			},
			LocatorPolicies: []control.LocatorPolicy{{EIDs: prefix("[7]10.2.0.0/16"), Priority: &priority}},
		},
		ETR: &control.ETRConfig{Database: []control.DatabaseMapping{{Prefix: prefix("10.1.0.0/16"), Locators: testLocators(t, "192.0.2.1")}}},
	}}
	now := time.Now()
	node, err := control.New(x.cfg, now, func(b []byte) { b[0]++ })
	if err != nil {
		t.Fatal(err)
	}
	x.node, x.worker = node, planeworker.New(x.plane, slog.New(slog.DiscardHandler))
	x.plane.Apply(dataplane.SetSettings{Settings: dataplane.Settings{LocalRLOCs: x.cfg.LocalRLOCs}})
	x.drain()
	node.AdoptMapCache(now, []control.MapCacheEntry{{
		Mapping:   lisp.Mapping{Prefix: prefix("192.0.0.0/8"), Action: lisp.ActionNativelyForward, TTLMinutes: 15},
		CreatedAt: now, ExpiresAt: now.Add(10 * time.Minute),
	}})
	x.drain()
	return x
}

func (x *explained) drain() {
	for e, ok := x.node.Poll(); ok; e, ok = x.node.Poll() {
		x.worker.Change(e)
	}
	for x.worker.ApplyBatch() {
	}
}

func (x *explained) ask(query string) api.Explanation {
	x.t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		x.t.Fatal(err)
	}
	q, err := api.ParseExplainQuery(values)
	if err != nil {
		x.t.Fatal(err)
	}
	e := explainer{
		now: time.Now(), query: q, settings: x.plane.Settings(),
		states: map[lisp.Path]dataplane.LocatorState{}, families: map[bool]bool{},
	}
	e.askNode(x.node)
	e.look(x.plane)
	return e.explain()
}

func TestExplainEveryOutcome(t *testing.T) {
	x := newExplained(t)
	for query, want := range map[string]struct {
		outcome api.Outcome
		why     string
	}{
		"eid=10.1.0.7":               {api.OutcomeOwn, "10.1.0.0/16 is an EID-Prefix of this site"},
		"eid=10.2.0.7":               {api.OutcomeEncapsulate, "2 of 2 locators take them"},
		"eid=10.9.0.7":               {api.OutcomeDrop, "its action is drop"},
		"eid=10.3.0.7":               {api.OutcomeNative, "less specific entries also cover it"}, // and a static one goes to no proxy ETR
		"eid=10.4.0.7":               {api.OutcomeNoLocator, "none of its locators may be used"}, // no IPv6 RLOC here
		"eid=192.0.77.1":             {api.OutcomeProxyETR, "kept by the data plane through a restart"},
		"eid=172.16.0.1":             {api.OutcomeUnresolved, "sends a Map-Request"},
		"eid=10.2.0.7&instance_id=7": {api.OutcomeEncapsulate, "1 of 1 locators"},
		"eid=2001:db8:77::1":         {api.OutcomeUnresolved, "itr.miss-policy decides: queue"},
		"eid=10.2.0.7&from=10.1.0.1": {api.OutcomeEncapsulate, "the flow from 10.1.0.1 has hash"},
	} {
		got := x.ask(query)
		if got.Outcome != want.outcome || !strings.Contains(strings.Join(got.Why, "\n"), want.why) {
			t.Errorf("%s: %s\n%s\nwant %s, %q", query, got.Outcome, strings.Join(got.Why, "\n"), want.outcome, want.why)
		}
	}
}

func TestExplainLocators(t *testing.T) {
	x := newExplained(t)
	e := x.ask("eid=10.2.0.7&from=10.1.0.1&protocol=6&source_port=1000&destination_port=80")
	if len(e.Locators) != 2 || e.Locators[0].Share < 0.35 || e.Locators[0].Share > 0.45 || !e.Locators[1].Used {
		t.Errorf("locators %+v: want 40:60", e.Locators)
	}
	if e.Flow == nil || e.Flow.RLOC == nil || !slices.Contains([]string{"203.0.113.1", "203.0.113.2"}, e.Flow.RLOC.String()) {
		t.Errorf("flow %+v", e.Flow)
	}
	if e.Mapping.Source != "configuration (itr.map-cache.mappings)" || len(e.Mapping.Covering) != 1 || e.DataPlane == nil {
		t.Errorf("mapping %+v", e.Mapping)
	}
	policed := x.ask("eid=10.2.0.7&instance_id=7").Locators
	if len(policed) != 1 || policed[0].Priority != 7 || policed[0].Said == nil || policed[0].Said.Priority != 1 || *policed[0].Policy != 0 {
		t.Errorf("locators with a policy: %+v", policed)
	}
	x.node.HandleStatusBits(time.Now(), control.StatusBits{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), From: lisp.RLOCFromAddr(netip.MustParseAddr("203.0.113.1")), Bits: 0b10, Count: 32})
	x.drain()
	down := x.ask("eid=10.2.0.7").Locators
	if down[0].Used || down[0].WhyNot != "down: status-bit" || down[1].Share != 1 {
		t.Errorf("with a status bit of 0: %+v", down)
	}
}

func TestExplainTellsWhatIsOutOfStep(t *testing.T) {
	x := newExplained(t)
	x.plane.Apply(dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16")})
	if e := x.ask("eid=10.2.0.7"); e.Outcome != api.OutcomeOutOfStep {
		t.Errorf("%s: %v", e.Outcome, e.Why)
	}
}

func TestExplainTellsOfAMapRequestUnderWay(t *testing.T) {
	x := newExplained(t)
	eid, _ := lisp.ParseEID("172.16.0.1")
	x.node.HandleMiss(time.Now(), control.Miss{Destination: eid})
	x.drain()
	e := x.ask("eid=172.16.0.1")
	if e.Pending == nil || e.Pending.Tries != 1 || e.Pending.MapResolver != "192.0.2.100:4342" || len(e.MapResolvers) != 1 {
		t.Errorf("%+v %v", e.Pending, e.Why)
	}
}

// TestExplainTellsOfAnAnsweredMapRequest: it is under way no more, but kept for the rate limit's second.
func TestExplainTellsOfAnAnsweredMapRequest(t *testing.T) {
	for _, prefix := range []string{"10.2.0.1/32", "2001:db8::1/128"} {
		x := explainer{node: control.Explanation{Pending: &control.PendingRequest{Prefix: lisp.MustParsePrefix(prefix), State: control.PendingSettled}}}
		x.explainPending()
		if want := "a Map-Request for " + prefix + " was answered just now: none goes for a second"; len(x.answer.Why) != 1 || x.answer.Why[0] != want {
			t.Errorf("got %q, want %q", x.answer.Why, want)
		}
	}
}

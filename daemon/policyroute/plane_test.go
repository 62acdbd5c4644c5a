// SPDX-License-Identifier: Apache-2.0

package policyroute

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/config"
	"loci/config/mobile"
	"loci/daemon/hostnet"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/internal/wakeup"
	"loci/lisp"
)

// countingPlane counts changes, and how often its Database was listed.
type countingPlane struct {
	dataplane.Plane
	applied, operations, listed int
}

func (p *countingPlane) Apply(operations ...dataplane.Operation) []error {
	p.applied++
	p.operations += len(operations)
	return p.Plane.Apply(operations...)
}

func (p *countingPlane) Database() iter.Seq[dataplane.DatabaseEntry] {
	p.listed++
	return p.Plane.Database()
}

func mustPrefix(p netip.Prefix) lisp.Prefix { return lisp.MustParsePrefix(p.String()) }

func databaseOf(list []netip.Prefix) (operations []dataplane.Operation) {
	locators, _ := lisp.NewLocatorSet(lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")), Priority: 1, Weight: 100, Reachable: true})
	for _, p := range list {
		operations = append(operations, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: mustPrefix(p), Locators: locators}})
	}
	return operations
}

// withOwnRLOC is an engine that takes what databaseOf makes.
func withOwnRLOC(t *testing.T) *countingPlane {
	t.Helper()
	engine := model.New(model.Options{})
	own := []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))}
	if errs := engine.Apply(dataplane.SetSettings{Settings: dataplane.Settings{LocalRLOCs: own}}); errs != nil {
		t.Fatal(errs)
	}
	return &countingPlane{Plane: engine}
}

// TestChangesTogetherAreFollowedOnce: rules and routes are compared with the Database after many changes, not after each.
func TestChangesTogetherAreFollowedOnce(t *testing.T) {
	ns, routes := routedHost(t)
	plane := withOwnRLOC(t)
	routed := &Plane{Plane: plane, routes: routes, log: slog.New(slog.DiscardHandler), changed: wakeup.New()}
	for _, operation := range databaseOf(many(500)) {
		for _, err := range routed.Apply(operation) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(t, ns, func() error { routed.Settle(); return nil })
	if plane.listed != 1 {
		t.Errorf("rules and routes were compared with the Database %d times for %d changes", plane.listed, plane.applied)
	}
	if _, present := ownState(t, ns, routes); len(present) != 1002 {
		t.Errorf("%d routes for 1000 EID-Prefixes of two families", len(present))
	}
	apply(t, ns, func() error { routed.Settle(); return nil })
	if plane.listed != 1 {
		t.Error("compared again though nothing changed")
	}
	apply(t, ns, func() error { return routed.Detach(t.Context()) })
	routed.Apply(databaseOf(many(1))...)
	apply(t, ns, func() error { routed.Settle(); return nil })
	if rules, present := ownState(t, ns, routes); len(rules)+len(present) != 0 {
		t.Errorf("after the end: %v, %v", rules, present)
	}
}

// TestNoEngineIsOpen: rules and routes stay when an engine went and none came in its place, also when somebody asks them to follow.
func TestNoEngineIsOpen(t *testing.T) {
	ns, routes := routedHost(t)
	engine := withOwnRLOC(t)
	routed := &Plane{Plane: engine, routes: routes, log: slog.New(slog.DiscardHandler), changed: wakeup.New()}
	for _, err := range routed.Apply(databaseOf(many(1))...) {
		if err != nil {
			t.Fatal(err)
		}
	}
	apply(t, ns, func() error { routed.Settle(); return nil })
	var err error
	apply(t, ns, func() error {
		err = routed.Change(func() error {
			return errors.Join(errors.New("why"), engine.Detach(context.Background()), fmt.Errorf("%w: none came", dataplane.ErrClosed))
		})
		return nil
	})
	if !errors.Is(err, dataplane.ErrClosed) {
		t.Errorf("the change: %v", err)
	}
	rules, present := ownState(t, ns, routes)
	if len(rules) == 0 || len(present) < 4 {
		t.Errorf("rules %v and routes %v, want those of the EIDs", rules, present)
	}
	apply(t, ns, func() error { return routed.FollowHost(routes.sources.view) })
	routed.Apply(databaseOf(many(2))...)
	apply(t, ns, func() error { routed.Settle(); return nil })
	if after, still := ownState(t, ns, routes); !slices.Equal(after, rules) || !slices.Equal(still, present) {
		t.Errorf("rules were %v, are %v; routes were %v, are %v", rules, after, present, still)
	}
	apply(t, ns, func() error { return routed.Detach(t.Context()) })
	if rules, present := ownState(t, ns, routes); len(rules)+len(present) != 0 {
		t.Errorf("after the end: %v, %v", rules, present)
	}
}

// TestReconfigure follows a configuration that was read again: mobile node, core interfaces, siblings, interfaces to the
// site. One that fails changes nothing.
func TestReconfigure(t *testing.T) {
	ns, r := mobileHost(t)
	failing := false
	r.listRules = func(family int) ([]netlink.Rule, error) {
		if failing {
			return nil, errors.New("no rules today")
		}
		return hostnet.Rules(family)
	}
	c := &config.Config{
		ETR:        &config.ETR{LocalEIDs: []config.LocalEID{{EID: lisp.MustParsePrefix("10.7.0.8/32")}}},
		MobileNode: &mobile.Node{EIDPrefixes: []lisp.Prefix{lisp.MustParsePrefix("10.9.0.0/16")}},
	}
	routed := &Plane{Plane: withOwnRLOC(t), routes: r, log: slog.New(slog.DiscardHandler), changed: wakeup.New()}
	for _, err := range routed.Apply(databaseOf(r.prefixes)...) {
		if err != nil {
			t.Fatal(err)
		}
	}
	apply(t, ns, routed.sync)
	rules, _ := ownState(t, ns, r)
	failing = true
	var err error
	apply(t, ns, func() error { err = routed.Reconfigure(c, r.sources.view); return nil })
	if err == nil {
		t.Error("a failure is no error")
	}
	failing = false
	apply(t, ns, routed.sync)
	after, _ := ownState(t, ns, r)
	if at := standing(t, ns, r); !slices.Equal(after, rules) || len(at) != 2 || !at[netip.MustParseAddr("10.7.0.7")] {
		t.Errorf("rules were %v, are %v; addresses %v", rules, after, at)
	}
	apply(t, ns, func() error { return routed.Reconfigure(c, r.sources.view) })
	if at := standing(t, ns, r); len(at) != 1 || !at[netip.MustParseAddr("10.7.0.8")] {
		t.Errorf("another EID: addresses %v", at)
	}
	if after, _ := ownState(t, ns, r); slices.Equal(after, rules) {
		t.Errorf("rules stay %v", rules)
	}
}

// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"net/netip"
	"strings"
	"testing"

	"loci/control"
	"loci/daemon/api"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
)

// TestExplainedBinding: a flow goes by the path that the data plane has bound it to, while packets can take that.
func TestExplainedBinding(t *testing.T) {
	first, second := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.2")),
		lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.3"))
	etr := netip.MustParseAddr("192.0.2.9")
	unused := lisp.NewLocator(second)
	unused.Priority = lisp.PriorityUnused
	flow := lisp.Flow{
		Source:      lisp.EIDFromAddr(netip.MustParseAddr("10.1.0.1")),
		Destination: lisp.EIDFromAddr(netip.MustParseAddr("10.2.0.1")),
		Protocol:    6, SourcePort: 40000, DestinationPort: 443,
	}
	plane := model.New(model.Options{})
	if errs := plane.Apply(dataplane.PutFlow{Flow: flow, Path: lisp.PathTo(second)}); errs != nil {
		t.Fatal(errs)
	}
	for _, c := range []struct {
		what    string
		set     lisp.LocatorSet
		mayUse  bool
		subflow *api.Subflow
		bound   bool
		why     string
	}{
		{"a subflow", lisp.LocatorSet{lisp.NewLocator(first), lisp.NewLocator(second)}, true,
			&api.Subflow{RLOC: &second, Why: "first"}, true, "the best path"},
		{"of the ETR's choice", lisp.LocatorSet{lisp.NewLocator(first), lisp.NewLocator(second)}, true,
			&api.Subflow{RLOC: &second, Why: "answered", AnsweredBy: &etr}, true, "its ETR 192.0.2.9 chose it"},
		{"asked for again", lisp.LocatorSet{lisp.NewLocator(first), lisp.NewLocator(second)}, true,
			&api.Subflow{RLOC: &second, Why: "asked"}, true, "its ETR is asked for its path"},
		{"of another control plane", lisp.LocatorSet{lisp.NewLocator(first), lisp.NewLocator(second)}, true,
			nil, true, "another control plane"},
		{"not in the mapping", lisp.LocatorSet{lisp.NewLocator(first)}, true, &api.Subflow{RLOC: &second},
			false, "its hash chooses"},
		{"priority 255", lisp.LocatorSet{lisp.NewLocator(first), unused}, true, &api.Subflow{RLOC: &second},
			false, "its hash chooses"},
		{"down", lisp.LocatorSet{lisp.NewLocator(first), lisp.NewLocator(second)}, false,
			&api.Subflow{RLOC: &second}, false, "its hash chooses"},
	} {
		b := flowBinding{flow: flow, subflow: c.subflow}
		b.find(plane)
		l, bound := b.locator(c.set, func(*lisp.Locator) bool { return c.mayUse })
		if why := b.why(bound); bound != c.bound || bound && l.RLOC != second || !strings.Contains(why, c.why) {
			t.Errorf("%s: %s, %t, %q", c.what, l.RLOC, bound, why)
		}
	}
	for want, s := range map[string]api.Subflow{
		"has not answered": {Why: "asked"}, "answers no RLOC-probes": {Why: "answered", AnsweredBy: &etr},
	} {
		unbound := flowBinding{flow: flow.Reverse(), subflow: &s}
		if why := unbound.why(false); !strings.Contains(why, want) {
			t.Errorf("without a path: %q, want %q", why, want)
		}
	}
	other := flowBinding{flow: flow.Reverse()}
	if other.find(plane); !other.path.IsZero() || other.why(false) != "" {
		t.Errorf("the other direction is bound to %s: %q", other.path, other.why(false))
	}
	other.subflow = &api.Subflow{RLOC: &second}
	if why := other.why(false); !strings.Contains(why, "does not have it") {
		t.Errorf("refused by the data plane: %q", why)
	}
	other.subflow = &api.Subflow{}
	if why := other.why(false); !strings.Contains(why, "fewer than two usable paths") {
		t.Errorf("not bound: %q", why)
	}
}

// TestSubflowsInForce: a binding that the data plane does not have, as one that it refused, is not called in force.
func TestSubflowsInForce(t *testing.T) {
	second := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.2"))
	flow := lisp.Flow{
		Source: lisp.EIDFromAddr(netip.MustParseAddr("2001:db8:1::1")), Protocol: 6, SourcePort: 40000,
		Destination: lisp.EIDFromAddr(netip.MustParseAddr("2001:db8:2::1")), DestinationPort: 443,
	}
	refused, moved := flow, flow
	refused.SourcePort, moved.SourcePort = 40001, 40002
	plane := model.New(model.Options{})
	other := lisp.PathTo(lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")))
	if errs := plane.Apply(dataplane.PutFlow{Flow: flow, Path: lisp.PathTo(second)},
		dataplane.PutFlow{Flow: moved, Path: other}); errs != nil {
		t.Fatal(errs)
	}
	list := []control.SubflowStatus{
		{Flow: flow, Path: lisp.PathTo(second)}, {Flow: refused, Path: lisp.PathTo(second)},
		{Flow: moved, Path: lisp.PathTo(second)},
	}
	for i, document := range subflowDocuments(list, plane) {
		if want := i == 0; document.InForce != want {
			t.Errorf("port %d: in force %t, want %t", document.SourcePort, document.InForce, want)
		}
	}
}

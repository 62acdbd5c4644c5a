// SPDX-License-Identifier: Apache-2.0

package eventloop

import (
	"crypto/rand"
	"net/netip"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/planeworker"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
)

// TestSubflowsAreBoundInTheDataPlane: from its event to its table, and again where the data plane was away.
func TestSubflowsAreBoundInTheDataPlane(t *testing.T) {
	first, second := lisp.RLOCFromAddr(netip.MustParseAddr("203.0.113.3")),
		lisp.RLOCFromAddr(netip.MustParseAddr("203.0.113.4"))
	node, err := control.New(control.Config{
		LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))},
		ITR: &control.ITRConfig{BindSubflows: true, StaticMappings: []lisp.Mapping{{
			Prefix: lisp.MustParsePrefix("10.2.0.0/16"), Locators: lisp.LocatorSet{lisp.NewLocator(first),
				lisp.NewLocator(second)}, TTLMinutes: lisp.TTLUnlimited,
		}}},
	}, time.Now(), func(b []byte) { _, _ = rand.Read(b) })
	if err != nil {
		t.Fatal(err)
	}
	plane := model.New(model.Options{})
	p := partsOf(t)
	p.Node, p.Worker = node, planeworker.New(plane, p.Log)
	l := New(p)
	l.Settle()
	flow := lisp.Flow{
		Source:      lisp.EIDFromAddr(netip.MustParseAddr("10.1.0.1")),
		Destination: lisp.EIDFromAddr(netip.MustParseAddr("10.2.0.1")),
		Protocol:    6, SourcePort: 40000, DestinationPort: 443,
	}
	syn := make([]byte, 24)
	syn[12], syn[13] = 6<<4, 2
	copy(syn[20:], []byte{30, 4, 1, 1}) // MP_CAPABLE
	l.iterate(func(now time.Time) { l.planeEvent(now, dataplane.Subflow{Flow: flow, TCP: syn}) })
	want := func(count int) {
		t.Helper()
		for l.worker.ApplyBatch() {
		}
		n := 0
		for f := range plane.Flows() {
			if n++; f.Flow != flow || f.Path != lisp.PathTo(first) {
				t.Errorf("%s is bound to %s", f.Flow, f.Path)
			}
		}
		if n != count {
			t.Errorf("%d flows are bound, want %d", n, count)
		}
	}
	want(1)
	plane.Apply(dataplane.Flush{Flows: true})
	for told := (tablesQueued{}); !told.flows; {
		l.queuePage(&told)
	}
	want(1)
	l.iterate(func(now time.Time) { l.node.HandleTimeout(now.Add(time.Minute)) })
	want(0)
}

// SPDX-License-Identifier: Apache-2.0

package eventloop

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/planeworker"
	"loci/dataplane/model"
	"loci/lisp"
)

// A data plane that comes back is told all, in iterations that stay short.
func TestDataPlaneIsToldAgainAPageAnIteration(t *testing.T) {
	const count = 3*toldPage + 1
	c := control.Config{LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))}, ETR: &control.ETRConfig{}, ITR: &control.ITRConfig{
		MapResolvers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.100:4342")},
	}}
	locator := func(i int) lisp.LocatorSet {
		rloc := lisp.RLOCFromAddr(netip.MustParseAddr(fmt.Sprintf("198.51.%d.%d", i>>8, i&255)))
		return lisp.LocatorSet{{RLOC: rloc, Priority: 1, Weight: 1, Reachable: true}}
	}
	for i := range count {
		own, other := lisp.MustParsePrefix(fmt.Sprintf("10.1.%d.%d/32", i>>8, i&255)), lisp.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/48", i))
		c.ETR.Database = append(c.ETR.Database, control.DatabaseMapping{Prefix: own, Locators: locator(0), TTLMinutes: 60})
		c.ITR.StaticMappings = append(c.ITR.StaticMappings, lisp.Mapping{Prefix: other, Locators: locator(i), TTLMinutes: 60})
	}
	node, err := control.New(c, time.Now(), func(b []byte) { _, _ = rand.Read(b) })
	if err != nil {
		t.Fatal(err)
	}
	parts := partsOf(t)
	parts.Node, parts.Worker = node, planeworker.New(model.New(model.Options{}), parts.Log)
	l := New(parts)
	iterations := 0
	for told := (tablesQueued{}); !told.flows; iterations++ {
		before := l.worker.Waiting()
		l.queuePage(&told)
		if n := l.worker.Waiting() - before; n > toldPage {
			t.Fatalf("%d changes in one iteration", n)
		}
	}
	if got := l.worker.Waiting(); got != 3*count || iterations < 3*count/toldPage {
		t.Errorf("%d changes in %d iterations: want %d", got, iterations, 3*count)
	}
}

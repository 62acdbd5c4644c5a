// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"net/netip"
	"testing"
)

// TestStartOnPinsWithAnotherRLOC: a router dies, gets other RLOCs, and starts on the tables that the kernel kept. The other site hears of
// them by SMRs, long before an RLOC-probe goes unanswered; a start with the RLOCs of before sends none.
func TestStartOnPinsWithAnotherRLOC(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.engine = "kernel" // which keeps its tables
	n.runAll()
	one, two := testSite{1}, testSite{2}
	n.bothFamilies(func(source, destination netip.Addr) { n.ping("host1", source, destination, 3) })
	n.kill("xtr2")
	n.start("xtr2")
	n.await("site 2 is registered anew", func(ctx context.Context) bool { return n.counter("xtr2", "map_notify_received_total") >= 1 })
	n.ping("host1", one.host4(), two.host4(), 3)
	if sent := n.counter("xtr2", "smr_sent_total"); sent != 0 {
		t.Errorf("%d SMRs though nothing changed", sent)
	}
	before := n.counter("xtr1", "smr_received_total")
	n.kill("xtr2")
	n.renumber(2)
	n.start("xtr2")
	n.await("xtr1 has the new RLOCs", func(ctx context.Context) bool {
		list, err := n.client("xtr1").MapCache(ctx)
		return err == nil && len(list) == 2 && hasLocator(list[0], "172.16.102.2") && hasLocator(list[1], "2001:db8:102::2")
	})
	if n.counter("xtr1", "smr_received_total") == before {
		t.Error("no SMR told xtr1")
	}
	n.bothFamilies(func(source, destination netip.Addr) { n.ping("host1", source, destination, 3) })
}

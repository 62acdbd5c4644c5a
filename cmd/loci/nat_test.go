// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"strings"
	"testing"

	"loci/daemon/api"
)

// TestNATBetween: what a Map-Server and a router behind a NAT tell of it, and that others tell of none.
func TestNATBetween(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.xtr(1))
	n.awaitRegistrations(2)
	n.awaitHealthy("ms", "xtr1")
	if out, status := n.loci("xtr1", "netcheck", "--socket", n.socket("xtr1")); status != 0 || strings.Contains(out, "NAT") {
		t.Errorf("without a NAT: status %d\n%s", status, out)
	}
	if !n.acknowledged("xtr2", "172.16.9.2:4342", n.registerOf(9, true, "10.99.0.1")) {
		t.Fatal("no Map-Notify")
	}
	if p := n.awaitProblem("ms", "registration-behind-nat", testSite{1}.eid4()); p.Urgency != api.UrgencyWarning || !strings.Contains(p.What, "172.16.2.2") {
		t.Errorf("%+v", p)
	}
	out, _ := n.loci("ms", "show", "registrations", "--socket", n.socket("ms"))
	if heading, _, _ := strings.Cut(out, "\n"); !strings.Contains(heading, "SOURCE") || !strings.Contains(out, "10.99.0.1 1/100") || !strings.Contains(out, "172.16.2.2:") {
		t.Errorf("the source does not stand beside the RLOCs:\n%s", out)
	}
	two := testSite{2}
	n.run("xtr2", strings.NewReplacer("ms-address: 172.16.9.2", "ms-address: 203.0.113.9", // no answer comes from there
		"itr: {", "locator-sets: {own: [{interface: core0, address-family: ipv4}]}\nitr: {itr-rlocs: own, ",
		two.eid4()+"}", two.eid4()+", rlocs: own}", two.eid6()+"'}", two.eid6()+"', rlocs: own}").Replace(n.xtr(2)))
	n.awaitProblem("xtr2", "map-server-silent", "203.0.113.9:4342")
	if out, status := n.loci("xtr2", "netcheck", "--timeout", "300ms", "--socket", n.socket("xtr2")); status == 0 || !strings.Contains(out, "a NAT is likely") {
		t.Errorf("behind a NAT: status %d\n%s", status, out)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"strings"
	"testing"

	"loci/daemon/api"
	"loci/diagnosis"
)

// TestNATBetween: what a Map-Server and a router behind a NAT tell of it, and that others tell of none.
func TestNATBetween(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.xtr(1))
	n.awaitRegistrations(2)
	n.awaitHealthy("ms", "xtr1")
	if out, status := n.loci("xtr1", "netcheck", "--socket", n.socket("xtr1")); status != 0 || !strings.Contains(out, ": no NAT\n") || strings.Contains(out, "a NAT") {
		t.Errorf("without a NAT: status %d\n%s", status, out)
	}
	if !n.acknowledged("xtr2", "172.16.9.2:4342", n.registerOf(9, true, "10.99.0.1")) {
		t.Fatal("no Map-Notify")
	}
	if p := n.awaitProblem("ms", "registration-behind-nat", testSite{1}.eid4()); p.Urgency != api.UrgencyWarning || !strings.Contains(p.What, "172.16.2.2") {
		t.Errorf("%+v", p)
	}
	registrations, _ := n.loci("ms", "show", "registrations", "--socket", n.socket("ms"))
	heading, rows, _ := strings.Cut(registrations, "\n")
	if !strings.Contains(heading, "SOURCE") || !strings.Contains(rows, "10.99.0.1 1/") || !strings.Contains(rows, "172.16.2.2:") {
		t.Errorf("the source does not stand beside the RLOCs:\n%s", registrations)
	}
	two := testSite{2}
	// No answer comes from the first two, and the third one refuses the key.
	const keys = ", authentication-keys: [{auth-key-value: k}]}\n    - "
	servers := "- {ms-address: 203.0.113.9" + keys + "{ms-address: 172.16.9.3" + keys + "ms-address: 172.16.9.2"
	n.run("xtr2", strings.NewReplacer("- ms-address: 172.16.9.2", servers, siteKey(2), "quite-another-key",
		"itr: {", "locator-sets: {own: [{interface: core0, address-family: ipv4}]}\nitr: {itr-rlocs: own, ",
		two.eid4()+"}", two.eid4()+", rlocs: own}", two.eid6()+"'}", two.eid6()+"', rlocs: own}").Replace(n.xtr(2)))
	for _, server := range []string{"203.0.113.9", "172.16.9.3", "172.16.9.2"} {
		n.awaitProblem("xtr2", "map-server-silent", server+":4342")
	}
	out, status := n.loci("xtr2", "netcheck", "--timeout", "300ms", "--socket", n.socket("xtr2"))
	if status == 0 || !strings.Contains(out, "a NAT is likely") {
		t.Errorf("behind a NAT: status %d\n%s", status, out)
	}
	for _, s := range n.checked("xtr2").Steps {
		if s.Name != diagnosis.CheckMapServer {
			continue
		}
		public := s.Subject == "203.0.113.9:4342"
		if s.Outcome != diagnosis.OutcomeFailed || strings.Contains(s.Reason, "NAT") != public {
			t.Errorf("a NAT is likely only where the Map-Server's address is not private: %+v", s)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package main_test

// Packets without a mapping in the hands of the control plane (itr.hand-over), in one
// process and in two.

import (
	"os"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
)

// handingOver is a site's configuration with the policy hand-over, of its Instance-ID
// alone.
func handingOver(configuration, handOver string) string {
	return strings.Replace(configuration, "itr: {", "itr: {miss-policy: drop, miss-policies: [{instance-id: 0, miss-policy: hand-over}], hand-over: {"+handOver+"}, ", 1)
}

// expectHanded pings hosts that no router has asked for: every first packet arrives.
func (n *lispNetwork) expectHanded(sent uint64) {
	n.t.Helper()
	one, two := testSite{1}, testSite{2}
	// So close together that the Map-Reply comes after both: what leaves as one datagram of two segments arrives as one between
	// virtual interfaces.
	n.pingEvery(time.Microsecond, "host1", one.host4(), two.host4(), 2)
	n.pingEvery(time.Microsecond, "host1", one.host6(), two.host6(), 2)
	var c api.Counters
	n.show("xtr1", &c, "counters")
	aside := n.engine == "user" || c.DataPlane["put_aside"] >= sent // by programs: in user space there is one queue
	if c.Control["handed_packets_sent_total"] < sent || c.DataPlane["handed_over"] < sent || c.Drops["miss"] != 0 || !aside {
		n.t.Errorf("counters %v, data plane %v, drops %v", c.Control["handed_packets_sent_total"], c.DataPlane, c.Drops)
	}
}

func TestHandedPacketsArrive(t *testing.T) {
	t.Parallel() // it mostly waits
	t.Run("one process", func(t *testing.T) {
		n := newLISPNetwork(t)
		n.run("ms", n.mappingSystem())
		n.run("xtr1", handingOver(n.xtr(1), "to: mapping"))
		n.run("xtr2", n.xtr(2))
		n.awaitRegistrations(4)
		n.expectHanded(2)
	})
	t.Run("two processes", func(t *testing.T) {
		n := newLISPNetwork(t)
		n.run("ms", n.mappingSystem())
		n.must(os.WriteFile(n.file("xtr1"), []byte(handingOver(n.splitXTR(), "to: proxy, proxy: "+testSite{2}.rloc4())), 0o600))
		n.launch("data", "xtr1", "--planes", "data", "--detach")
		n.launch("control", "xtr1", "--planes", "control")
		n.awaitReady("xtr1")
		n.run("xtr2", n.xtr(2))
		n.awaitRegistrations(4)
		n.expectHanded(2)
	})
}

// SPDX-License-Identifier: Apache-2.0

package main_test

// A router behind a NAT by simple-nat (draft-farinacci-lisp-lispers-net-nat), with our RTR and Map-Server.

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/diagnosis"
	"loci/internal/testnet"
)

// TestSiteBehindNATBySimpleNAT: pings and TCP both ways by the RTR; after the NAT forgot, the site is reached again
// after the next keepalive, though only the other side sends.
func TestSiteBehindNATBySimpleNAT(t *testing.T) { overEngines(t, siteBehindNATBySimpleNAT) }

func siteBehindNATBySimpleNAT(t *testing.T, engine string) {
	n, boxes := natNetwork(t, engine, 1)
	one, two := testSite{1}, testSite{2}
	relay := fmt.Sprintf("rtr: {relay: [{eid-prefixes: [%s, '%s']}], nat-traversal: {simple-nat: true, ", one.eid4(), one.eid6())
	n.run("ms", strings.Replace(n.natServer(), "rtr: {nat-traversal: {", relay, 1))
	n.run("xtr1", strings.Replace(n.natXTR(1), "nat-traversal: {", "nat-traversal: {protocol: simple, ", 1))
	n.run("xtr2", n.xtr(2))
	n.awaitPing("host2", two.host4(), one.host4())
	n.ping("host1", one.host4(), two.host4(), 5)
	n.ping("host1", one.host6(), two.host6(), 5)
	n.ping("host2", two.host6(), one.host6(), 5)
	for _, tcp := range []testnet.TCP{
		{Client: n.at["host1"], Server: n.at["host2"], Source: one.host4(), Destination: two.host4()},
		{Client: n.at["host2"], Server: n.at["host1"], Source: two.host4(), Destination: one.host4()},
	} {
		tcp.Octets, tcp.Verify = 1<<20, true
		if _, err := tcp.Run(t.Context()); err != nil {
			t.Errorf("TCP from %s: %v", tcp.Source, err)
			n.tellDrops()
		}
	}
	var node, rtr api.NAT
	n.await("the RTR has answered", func(context.Context) bool {
		node = api.NAT{}
		n.show("xtr1", &node, "nat")
		return len(node.RTRs) == 1 && node.RTRs[0].ConfirmedAt != nil
	})
	n.show("ms", &rtr, "nat")
	if len(node.Views) != 1 || !node.Views[0].BehindNAT || node.Views[0].Protocol != "simple" ||
		node.RTRs[0].Protocol != "simple" {
		t.Errorf("the router shows %+v", node)
	}
	if len(rtr.Hosts) != 1 || !strings.HasPrefix(rtr.Hosts[0].SeenAs, "172.16.1.2:") || rtr.Hosts[0].Mappings != 2 || len(rtr.Bindings) != 0 {
		t.Errorf("the RTR shows %+v", rtr)
	}
	if s := natStepOf(n.checked("xtr1"), diagnosis.CheckNAT, "192.168.7.2"); s.Outcome != diagnosis.OutcomeOK ||
		!strings.Contains(s.Detail, ", by simple-nat") {
		t.Errorf("netcheck: %+v", s)
	}
	if kinds := n.problemKinds("ms", "xtr1", "xtr2"); len(kinds) > 0 {
		t.Errorf("problems: %v", kinds)
	}
	n.must(boxes[1].Forget())
	n.awaitWithin(natKeepalive+4*time.Second, "host1 is reached again", func(ctx context.Context) bool {
		result, err := testnet.Ping{Namespace: n.at["host2"], Source: two.host4(), Destination: one.host4(), Timeout: 200 * time.Millisecond}.Run(ctx)
		return err == nil && result.Received == 1
	})
}

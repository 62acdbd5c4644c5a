// SPDX-License-Identifier: Apache-2.0

package control

// Private RLOCs beside RTRs.

import (
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// besideRTR is a mapping with a private RLOC and an RTR, which an ITR learns, and who has the private address.
func besideRTR(t *testing.T, private, rtrs string, who Config) (n *testNetwork, itr, site *testNode) {
	t.Helper()
	n = newNetwork(t)
	n.add("server", natServerConfig(nil, "10.1.0.0/16", "10.2.0.0/16"), natServer, natServer6)
	set := locators(private)
	if rtrs != "" {
		rtr := lisp.NewLocator(rloc(rtrs))
		rtr.Priority = 254
		set, _ = lisp.NewLocatorSet(set[0], rtr)
	}
	other := xtrConfig(1, natServer, []string{"192.0.2.1"}, "10.1.0.0/16")
	other.ETR.MapServers[0].ProxyReply = true
	other.ETR.Database[0].Locators = set
	n.add("registers", other, "192.0.2.1")
	who.ETR.MapServers = nil
	site = n.add("site", who, private)
	c := xtrConfig(2, natServer, []string{"192.0.2.2"}, "10.2.0.0/16")
	c.LocalRLOCs = append(c.LocalRLOCs, rloc("fd00::2"))
	c.ITR.RLOCProbing = ProbingConfig{Interval: 10 * time.Second}
	itr = n.add("itr", c, "192.0.2.2", "fd00::2")
	n.run(time.Second)
	itr.miss("10.2.0.1", "10.1.0.1")
	n.run(100 * time.Millisecond)
	return n, itr, site
}

// TestPrivateRLOCBesideRTR is used while its ETR answers RLOC-probes about the EID-Prefix: unconfirmed at first, up
// after the first answer, and unconfirmed when none comes any more. Of both families.
func TestPrivateRLOCBesideRTR(t *testing.T) {
	for _, private := range []string{"192.168.1.1", "100.64.1.1", "fd00::1"} {
		n, itr, site := besideRTR(t, private, "192.0.2.50", xtrConfig(1, natServer, []string{private}, "10.1.0.0/16"))
		if state := itr.states[rloc(private)]; state != LocatorUnconfirmed {
			t.Errorf("%s: %s at first", private, state)
		}
		n.run(20 * time.Second)
		if state, is := itr.states[rloc(private)]; is && state != LocatorUp {
			t.Errorf("%s: %s while it answers", private, state)
		}
		n.lose = func(from *testNode, _ SendPacket) bool { return from == site }
		n.run(time.Minute)
		if state := itr.states[rloc(private)]; state != LocatorUnconfirmed {
			t.Errorf("%s: %s while it is silent", private, state)
		}
	}
}

// lastProbe is the last RLOC-probe that a node sent, nil for none.
func (d *testNode) lastProbe() (probe *wire.MapRequest) {
	for _, p := range d.sent {
		m, err := wire.Parse(p.Payload)
		if ask, is := m.(*wire.MapRequest); err == nil && is && ask.Probe {
			probe = ask
		}
	}
	return probe
}

// TestOtherAtAPrivateRLOC: another site's router that has the same address in our network gets no packets. Without an
// RTR in the mapping, and with public addresses, locators are used from the start.
func TestOtherAtAPrivateRLOC(t *testing.T) {
	n, itr, _ := besideRTR(t, "192.168.1.1", "192.0.2.50", xtrConfig(9, natServer, []string{"192.168.1.1"}, "10.9.0.0/16"))
	var probe *wire.MapRequest
	for i := 0; i < 100 && probe == nil; i++ {
		n.run(100 * time.Millisecond)
		probe = itr.lastProbe()
	}
	nothing := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), TTLMinutes: 1, Authoritative: true}
	answer, err := wire.AppendMapReply(nil, &wire.MapReply{Probe: true, Nonce: probe.Nonce}, []lisp.Mapping{nothing})
	if err != nil {
		t.Fatal(err)
	}
	itr.inject("192.0.2.2:4342", "192.168.1.1:4342", answer)
	if state := itr.states[rloc("192.168.1.1")]; state != LocatorUnconfirmed || itr.counter(counter.RefusedProbeReply) != 1 {
		t.Errorf("an answer that says nothing of the EID-Prefix: %s, %d refused", state, itr.counter(counter.RefusedProbeReply))
	}
	n.run(time.Minute)
	if state := itr.states[rloc("192.168.1.1")]; state != LocatorUnconfirmed {
		t.Errorf("another site's: %s", state)
	}
	for private, rtr := range map[string]string{"192.168.1.1": "", "203.0.113.1": "192.0.2.50"} {
		_, itr, _ := besideRTR(t, private, rtr, xtrConfig(1, natServer, []string{private}, "10.1.0.0/16"))
		if state, is := itr.states[rloc(private)]; is && state != LocatorUp {
			t.Errorf("%s beside %q: %s", private, rtr, state)
		}
	}
}

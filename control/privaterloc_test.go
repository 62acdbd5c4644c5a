// SPDX-License-Identifier: Apache-2.0

package control

// Private RLOCs beside RTRs.

import (
	"slices"
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
	n.add("server", natServerConfig(nil, "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"), natServer, natServer6)
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

// sendsTo reports whether the data plane got an RLOC to send packets of an EID-Prefix to, and which state it has.
func (d *testNode) sendsTo(prefix, r string) bool {
	d.net.t.Helper()
	set := d.cache[lisp.MustParsePrefix(prefix)].Mapping.Locators
	at := slices.IndexFunc(set, func(l lisp.Locator) bool { return l.RLOC == rloc(r) })
	if at < 0 {
		d.net.t.Fatalf("%s: %s has no locator %s: %v", d.name, prefix, r, set)
	}
	state, is := d.states[rloc(r)]
	return set[at].Usable() && (!is || state == LocatorUp)
}

// TestPrivateRLOCBesideRTR is used while its ETR answers RLOC-probes about the EID-Prefix: from the first answer on,
// until none comes any more, and not while RLOC-probing is off. Of both families.
func TestPrivateRLOCBesideRTR(t *testing.T) {
	for _, private := range []string{"192.168.1.1", "100.64.1.1", "fd00::1"} {
		n, itr, site := besideRTR(t, private, "192.0.2.50", xtrConfig(1, natServer, []string{private}, "10.1.0.0/16"))
		want := func(is bool, when string) {
			t.Helper()
			if itr.sendsTo("10.1.0.0/16", private) != is {
				t.Errorf("%s %s: %+v, %v", private, when, itr.cache[lisp.MustParsePrefix("10.1.0.0/16")].Mapping, itr.states)
			}
		}
		want(false, "at first")
		n.run(20 * time.Second)
		want(true, "while it answers")
		off := itr.config
		off.ITR.RLOCProbing.Off = true
		itr.configure(off)
		n.run(time.Second)
		want(false, "without RLOC-probing")
		off.ITR.RLOCProbing.Off = false
		itr.configure(off)
		n.run(20 * time.Second)
		want(true, "with RLOC-probing again")
		n.lose = func(from *testNode, _ SendPacket) bool { return from == site }
		n.run(time.Minute)
		want(false, "while it is silent")
		n.lose = nil
		n.run(3 * time.Minute)
		want(true, "when it is back")
	}
}

// TestOneSiteOfTwoAtAPrivateRLOC: two sites have the same private RLOC, and one of them is in our network. Its packets
// go there, those of the other one to its RTR, also after a restart of the ITR.
func TestOneSiteOfTwoAtAPrivateRLOC(t *testing.T) {
	const private = "192.168.1.1"
	n, itr, _ := besideRTR(t, private, "192.0.2.50", xtrConfig(3, natServer, []string{private}, "10.3.0.0/16"))
	other := xtrConfig(3, natServer, []string{"192.0.2.3"}, "10.3.0.0/16")
	other.ETR.MapServers[0].ProxyReply = true
	other.ETR.Database[0].Locators = n.nodes[1].config.ETR.Database[0].Locators
	n.add("registers the other", other, "192.0.2.3")
	n.run(20 * time.Second)
	want := func(prefix string, is bool) {
		t.Helper()
		if itr.sendsTo(prefix, private) != is {
			t.Errorf("%s: %+v, %v", prefix, itr.cache[lisp.MustParsePrefix(prefix)].Mapping, itr.states)
		}
	}
	want("10.1.0.0/16", false)
	itr.miss("10.2.0.1", "10.3.0.1")
	n.run(time.Minute) // the RLOC was unanswered until now
	want("10.3.0.0/16", true)
	for range 60 {
		want("10.1.0.0/16", false)
		want("10.3.0.0/16", true)
		n.run(3 * time.Second)
	}
	itr.adopt(itr.config) // the data plane kept both mappings
	want("10.1.0.0/16", false)
	want("10.3.0.0/16", false)
	n.run(30 * time.Second)
	want("10.1.0.0/16", false)
	want("10.3.0.0/16", true)
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
	if itr.sendsTo("10.1.0.0/16", "192.168.1.1") || itr.counter(counter.RefusedProbeReply) != 1 {
		t.Errorf("an answer that says nothing of the EID-Prefix: used, or %d refused", itr.counter(counter.RefusedProbeReply))
	}
	n.run(time.Minute)
	if itr.sendsTo("10.1.0.0/16", "192.168.1.1") {
		t.Error("another site's is used")
	}
	for private, rtr := range map[string]string{"192.168.1.1": "", "203.0.113.1": "192.0.2.50"} {
		_, itr, _ := besideRTR(t, private, rtr, xtrConfig(1, natServer, []string{private}, "10.1.0.0/16"))
		if !itr.sendsTo("10.1.0.0/16", private) {
			t.Errorf("%s beside %q is not used", private, rtr)
		}
	}
}

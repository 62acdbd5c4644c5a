// SPDX-License-Identifier: Apache-2.0

package main_test

// A site whose registration ends, and that comes back, while another one sends to it one way. Nothing of what it
// sends is answered, and nothing tells it of the return but what it asks.

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
)

// lostFoundWithin is how soon packets are encapsulated again: 8 s after the registration, and what a loaded machine
// takes.
const lostFoundWithin = 10 * time.Second

// lostSite is a network with short times in which xtr1 has had a mapping of site 2, and the registration of that is
// over.
type lostSite struct {
	*lispNetwork
	xtr2 string // its configuration
}

func newLostSite(t *testing.T, itr string) lostSite {
	n := newLISPNetwork(t)
	quick := func(number int) string {
		return strings.Replace(n.xtr(number), "- ms-address: 172.16.9.2\n", "- ms-address: 172.16.9.2\n      registration-interval: 1s\n", 1)
	}
	n.run("ms", strings.Replace(n.mappingSystem(), "map-server:\n", "map-server:\n  mapping-expiration-timeout: 4s\n", 1))
	n.run("xtr1", strings.Replace(quick(1), "itr: {", "itr: {"+itr, 1))
	n.run("xtr2", quick(2))
	n.awaitRegistrations(4)
	return lostSite{n, quick(2)}
}

// TestRegistrationExpires: the ETR dies, and the mapping has been idle for too long to be kept.
func TestRegistrationExpires(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLostSite(t, "map-cache: {idle-timeout: 2s}, ")
	n.sendDatagram("host1", testSite{2}.host4().String())
	n.sendDatagram("host1", testSite{2}.host6().String())
	n.awaitMapped()
	n.kill("xtr2")
	n.awaitRegistrations(2)
	n.await("xtr1 forgets both", func(ctx context.Context) bool {
		return n.entryOf(ctx, testSite{2}.eid4()) == nil && n.entryOf(ctx, testSite{2}.eid6()) == nil
	})
	receivers := n.startStreams(stream{1, 2})
	before := n.dataPlane("xtr1").DataPlane["native_packets_total"]
	n.expectLost(receivers, "packets to it leave unencapsulated")
	if after := n.dataPlane("xtr1").DataPlane["native_packets_total"]; after == before {
		t.Error("no packet left unencapsulated")
	}
	n.expectFound(receivers, func() { n.run("xtr2", n.xtr2) })
}

// TestEIDPrefixesAreGivenUp: by a reload that has another one in their place, and withdraws them; packets go to a
// proxy ETR meanwhile.
func TestEIDPrefixesAreGivenUp(t *testing.T) {
	t.Parallel() // it mostly waits
	const proxy = "172.16.9.2"
	n := newLostSite(t, "proxy-etrs: [{address: "+proxy+"}], ")
	receivers := n.startStreams(stream{1, 2})
	n.awaitMapped()
	core := n.watchCore("xtr1")
	given, _, _ := strings.Cut(n.xtr2, "  local-eids:")
	n.reconfigure("xtr2", given+"  local-eids: [{eid: 10.4.0.0/24}]\n"+n.common("xtr2"))
	n.awaitRegistrations(2)
	n.expectLost(receivers, "packets to it go to a proxy ETR")
	n.await("packets go to the proxy ETR", func(context.Context) bool { count, _, _ := core.to(proxy); return count > 0 })
	n.expectFound(receivers, func() { n.reconfigure("xtr2", n.xtr2) })
}

// awaitMapped waits until xtr1 has locators of both EID-Prefixes of site 2.
func (n lostSite) awaitMapped() {
	n.t.Helper()
	n.await("xtr1 has both mappings", func(ctx context.Context) bool {
		four, six := n.entryOf(ctx, testSite{2}.eid4()), n.entryOf(ctx, testSite{2}.eid6())
		return four != nil && six != nil && len(four.Locators) == 2 && len(six.Locators) == 2
	})
}

// entryOf is what xtr1's map-cache has of an EID-Prefix.
func (n lostSite) entryOf(ctx context.Context, prefix string) *api.MapCacheEntry {
	list, err := n.client("xtr1").MapCache(ctx)
	if at := slices.IndexFunc(list, func(e api.MapCacheEntry) bool { return e.EIDPrefix.String() == prefix }); err == nil && at >= 0 {
		return &list[at]
	}
	return nil
}

// expectLost waits until loci status says so of both EID-Prefixes of site 2, and of no others that packets are sent
// to as well.
func (n lostSite) expectLost(receivers []*net.UDPConn, effect string) {
	n.t.Helper()
	never := []string{"10.3.0.10", "fd00:3::10"}
	for _, to := range never {
		out, err := n.at["host1"].DialUDP(netip.AddrPort{}, netip.AddrPortFrom(netip.MustParseAddr(to), 4000))
		n.must(err)
		stop := make(chan struct{})
		n.t.Cleanup(func() { close(stop) })
		go sendUntil(stop, out)
	}
	for _, prefix := range []string{testSite{2}.eid4(), testSite{2}.eid6()} {
		p := n.awaitProblem("xtr1", "mapping-lost", prefix)
		if p.Urgency != api.UrgencyCritical || p.Effect != effect || !strings.Contains(p.What, "the answer of 172.16.9.2 is natively-forward") {
			n.t.Errorf("told as %+v, want the effect %q", p, effect)
		}
		n.expectExplained(prefix, true)
	}
	for _, to := range never {
		n.await("packets to "+to+" use a negative entry", func(context.Context) bool {
			var cache []api.MapCacheEntry
			n.show("xtr1", &cache, "map-cache", to)
			return len(cache) == 1 && cache[0].Action != nil && cache[0].Packets > 0
		})
		n.expectExplained(to, false)
	}
	h, text := n.status("xtr1")
	if lost := n.lostPrefixes(h); len(lost) != 2 {
		n.t.Errorf("%q are lost, want those of site 2 alone: %s", lost, text)
	}
	for _, in := range receivers { // what came before
		n.await("nothing arrives any more", func(context.Context) bool {
			n.must(in.SetReadDeadline(time.Now().Add(200 * time.Millisecond)))
			_, err := in.Read(make([]byte, 200))
			return err != nil
		})
	}
}

// expectExplained fails the test unless loci explain says of an EID whether its mapping was lost, as text and as
// JSON.
func (n lostSite) expectExplained(of string, lost bool) {
	n.t.Helper()
	eid, err := netip.ParseAddr(of)
	if err != nil {
		eid = netip.MustParsePrefix(of).Addr().Next()
	}
	words := []string{"explain", eid.String(), "--socket", n.socket("xtr1")}
	text, _ := n.loci("xtr1", words...)
	if strings.Contains(text, "it had locators until ") != lost || strings.Contains(text, ": it is asked for again in ") != lost {
		n.t.Errorf("loci explain %s says of a lost mapping, want %v:\n%s", eid, lost, text)
	}
	var e api.Explanation
	out, _ := n.loci("xtr1", append(words, "--json")...)
	n.must(json.Unmarshal([]byte(out), &e))
	switch l := e.Lost; {
	case (l != nil) != lost:
		n.t.Errorf("loci explain %s --json: lost is %+v, want %v", eid, l, lost)
	case lost && (l.EIDPrefix.String() != of || l.Since.Before(l.HadUntil) || l.NextRequestAt.Before(l.Since)):
		n.t.Errorf("loci explain %s --json: lost is %+v", eid, l)
	}
}

func (n lostSite) lostPrefixes(h api.Health) (list []string) {
	for _, p := range h.Problems {
		if p.Kind == "mapping-lost" {
			list = append(list, p.Subject)
		}
	}
	return list
}

// expectFound has site 2 come back: packets arrive soon after the registration, and all is well.
func (n lostSite) expectFound(receivers []*net.UDPConn, comeBack func()) {
	n.t.Helper()
	comeBack()
	n.awaitRegistrations(4)
	registered := time.Now()
	for _, in := range receivers {
		n.must(in.SetReadDeadline(registered.Add(lostFoundWithin)))
		if _, err := in.Read(make([]byte, 200)); err != nil {
			n.t.Fatalf("nothing arrives at %s %s after the registration", in.LocalAddr(), lostFoundWithin)
		}
		n.t.Logf("packets arrive at %s %s after the registration", in.LocalAddr(), time.Since(registered).Round(10*time.Millisecond))
	}
	n.awaitHealthy("xtr1")
}

// SPDX-License-Identifier: Apache-2.0

package main_test

// Which of several registrations of an EID-Prefix is in force, as loci show registrations tells it.

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loci/daemon/api"
	"loci/lisp"
	"loci/wire"
)

// registerOf is a Map-Register of site 1's EID-Prefixes with one locator, by a router with that xTR-ID.
func (n *lispNetwork) registerOf(xtrID byte, merge bool, rloc string) []byte {
	n.t.Helper()
	return n.registerWith(xtrID, merge, rloc, 1000)
}

// registerAgain is the next one of such a router.
func (n *lispNetwork) registerAgain(xtrID byte, rloc string) []byte {
	n.t.Helper()
	return n.registerWith(xtrID, false, rloc, 1001)
}

func (n *lispNetwork) registerWith(xtrID byte, merge bool, rloc string, nonce uint64) []byte {
	n.t.Helper()
	m := &wire.MapRegister{
		WantMapNotify: true, MergeRequest: merge, XTRIDPresent: true, XTRID: [16]byte{xtrID}, Nonce: nonce,
		AlgorithmID: wire.AlgorithmHMACSHA256HKDF, Authentication: make([]byte, wire.FullMACOctets(wire.AlgorithmHMACSHA256HKDF)),
	}
	set := lisp.LocatorSet{{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(rloc)), Priority: 1, Weight: 100, Local: true, Reachable: true}}
	for _, p := range []string{testSite{1}.eid4(), testSite{1}.eid6()} {
		m.Records = append(m.Records, wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix(p), TTLMinutes: 60, Locators: set}))
	}
	b, err := wire.AppendSigned(nil, m, []byte(siteKey(1)))
	n.must(err)
	return b
}

// TestWhichRegistrationIsInForce: one router registers, and another one, from another address with another xTR-ID. A restart
// of the Map-Server knows it too.
func TestWhichRegistrationIsInForce(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, over := range []struct{ name, mapServer, first, second string }{
		{"ipv4", "172.16.9.2:4342", "172.16.1.2", "172.16.2.2"},
		{"ipv6", "[" + msIPv6 + "]:4342", "2001:db8:1::2", "2001:db8:2::2"},
	} {
		for _, merge := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s merge %v", over.name, merge), func(t *testing.T) {
				n := newLISPNetwork(t)
				n.run("ms", fmt.Sprintf("%smap-server: {state-directory: %s, sites: [%s]}\n", n.common("ms"), filepath.Join(n.dir, "state"), siteText(1)))
				n.storeRegister("xtr1", over.mapServer, n.registerOf(1, merge, over.first))
				n.storeRegister("xtr2", over.mapServer, n.registerOf(2, merge, over.second))
				want, answered := map[string]bool{over.first: merge, over.second: true}, map[string]int{over.first: 1}
				if merge {
					answered = map[string]int{over.first: 2, over.second: 2}
				}
				n.expectInForce(want, answered)
				if merge {
					n.awaitHealthy("ms")
				} else {
					n.awaitProblem("ms", "registration-replaced", testSite{1}.eid4())
					n.awaitProblem("ms", "registration-replaced", testSite{1}.eid6())
				}
				n.kill("ms")
				n.start("ms")
				n.expectInForce(want, answered)
				if !merge { // the first one registers again, so that the two replace each other
					n.awaitProblem("ms", "registration-replaced", testSite{1}.eid4())
					n.storeRegister("xtr1", over.mapServer, n.registerAgain(1, over.first))
					n.awaitProblem("ms", "registrations-alternate", testSite{1}.eid4())
				}
			})
		}
	}
}

// storeRegister sends a Map-Register and waits until the Map-Server's journal has it.
func (n *lispNetwork) storeRegister(from, to string, payload []byte) {
	n.t.Helper()
	before := n.counter("ms", "journal_octets_total")
	if !n.acknowledged(from, to, payload) {
		n.t.Fatal("no Map-Notify")
	}
	n.await("the journal is written", func(context.Context) bool { return n.counter("ms", "journal_octets_total") > before })
}

// expectInForce compares what the Map-Server tells of who registered, by address, as JSON and as text: whether it is in force,
// and how many locators are answered where those are others.
func (n *lispNetwork) expectInForce(want map[string]bool, answered map[string]int) {
	n.t.Helper()
	var list []api.Registration
	n.show("ms", &list, "registrations")
	if len(list) != 2*len(want) {
		n.t.Fatalf("%d registrations", len(list))
	}
	text, _ := n.loci("ms", "show", "registrations", "--socket", n.socket("ms"))
	lines := strings.Split(text, "\n")
	column := strings.Index(lines[0], "IN FORCE")
	for _, r := range list {
		from := netip.MustParseAddrPort(r.ETR).Addr().String()
		if r.InForce != want[from] {
			n.t.Errorf("%s of %s: in force %v, want %v", r.EIDPrefix, from, r.InForce, want[from])
		}
		if len(r.Answered) != answered[from] {
			n.t.Errorf("%s of %s: answered %v, want %d locators", r.EIDPrefix, from, r.Answered, answered[from])
		}
		at := slices.IndexFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, r.EIDPrefix.String()+" ") && strings.Contains(l, netip.MustParseAddrPort(r.ETR).String())
		})
		if at < 0 || column < 0 || !strings.HasPrefix(lines[at][column:], map[bool]string{true: "yes", false: "no"}[want[from]]) {
			n.t.Errorf("%s of %s does not stand there as it should: %v", r.EIDPrefix, from, text)
		}
	}
}

// TestDeadSiteIsNoSilentMapResolver: the only ETR of a site is dead and registered yet. Who asks for its EIDs gets no answer, and
// does not blame the Map-Resolver.
func TestDeadSiteIsNoSilentMapResolver(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	n.kill("xtr1")
	var state string
	n.await("many Map-Requests are unanswered and the Map-Resolver is not", func(ctx context.Context) bool {
		n.sendDatagram("host2", testSite{1}.host4().String())
		n.sendDatagram("host2", testSite{1}.host6().String())
		s, err := n.client("xtr2").Status(ctx)
		if err != nil || n.counter("xtr2", "map_request_sent_total") < 8 {
			return false
		}
		state = s.MapResolverStates[0].State
		return state == "answers"
	})
	n.awaitProblem("xtr2", "map-request-unanswered", testSite{1}.host4().String()+"/32")
	n.awaitProblem("xtr2", "map-request-unanswered", testSite{1}.host6().String()+"/128")
	if h, _ := n.status("xtr2"); strings.Contains(fmt.Sprint(h.Problems), "map-resolver-silent") {
		t.Errorf("loci status blames the Map-Resolver: %+v", h.Problems)
	}
	if text, _ := n.loci("xtr2", "show", "status", "--socket", n.socket("xtr2")); strings.Contains(text, "silent") {
		t.Errorf("the Map-Resolver is %s: %s", state, text)
	}
}

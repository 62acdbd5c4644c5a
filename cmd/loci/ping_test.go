// SPDX-License-Identifier: Apache-2.0

package main_test

// loci ping and loci netcheck: each leg is broken by hand, and named.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/diagnosis"
	"loci/internal/testnet"
)

// nft runs a script of nftables in a namespace; the table of the script is replaced.
func (n *lispNetwork) nft(role, chains string) {
	n.t.Helper()
	script := "table inet loci_test\ndelete table inet loci_test\n"
	if chains != "" {
		script += "table inet loci_test {\n" + chains + "\n}\n"
	}
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	n.must(n.at[role].Start(cmd))
	if err := cmd.Wait(); err != nil {
		n.t.Fatalf("nft: %v: %s", err, out.String())
	}
}

// forwarded is a chain for what a router passes on.
func forwarded(rule string) string {
	return "chain passing { type filter hook forward priority 0; policy accept; " + rule + "; }"
}

// pinged runs `loci ping EID --json` at xtr1.
func (n *lispNetwork) pinged(arguments ...string) (r diagnosis.PingReport) {
	n.t.Helper()
	out, code := n.loci("xtr1", append([]string{"ping", "--json", "--timeout", "2s", "--count", "3", "--socket", n.socket("xtr1")}, arguments...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		n.t.Fatalf("loci ping %v: status %d, %s", arguments, code, out)
	}
	if want := map[string]int{"ok": 0, "failed": 1, "incomplete": 3}[r.Verdict]; code != want || (r.FailedLeg != "") != r.Failed() {
		n.t.Errorf("loci ping %v: status %d, verdict %s, and the leg that failed is %q", arguments, code, r.Verdict, r.FailedLeg)
	}
	return r
}

// stepOf finds a step of a report by its name.
func stepOf(r diagnosis.Report, name string) diagnosis.Step {
	for _, s := range r.Steps {
		if s.Name == name {
			return s
		}
	}
	return diagnosis.Step{}
}

// expectLeg fails the test unless a leg, and no other before it, failed for a reason with these words. An empty leg is success.
func (n *lispNetwork) expectLeg(when, leg, words string, eids ...netip.Addr) {
	n.t.Helper()
	for _, eid := range eids {
		r := n.pinged(eid.String())
		s := stepOf(r.Report, leg)
		if r.FailedLeg != leg || !strings.Contains(s.Reason, words) || leg != "" && s.Remedy == "" {
			n.t.Errorf("%s: ping %s fails at %q, want %q with %q: %+v", when, eid, r.FailedLeg, leg, words, r)
		}
		if leg == "" && (r.Echo.Received != 3 || r.Echo.RoundTripAverage == nil || r.EIDPrefix == "" || len(r.Locators) == 0) {
			n.t.Errorf("%s: ping %s: %+v", when, eid, r)
		}
	}
}

// TestPingNamesTheLeg that was cut, for both families.
func TestPingNamesTheLeg(t *testing.T) {
	t.Parallel() // it mostly waits
	testnet.RequireProgram(t, "nft")
	n := newLISPNetwork(t)
	n.runAll()
	two := testSite{2}
	both := []netip.Addr{two.host4(), two.host6()}
	n.awaitPing("xtr1", testSite{1}.router4(), two.host4())
	n.awaitPing("xtr1", testSite{1}.router6(), two.host6())
	n.expectLeg("all is well", "", "", both...)
	for _, eid := range both { // on a core of 1500 octets
		if s := stepOf(n.pinged(eid.String()).Report, "path-mtu"); s.Outcome != diagnosis.OutcomeOK || !strings.Contains(s.Detail, "packets of 1444 octets pass") {
			t.Errorf("full size to %s: %+v", eid, s)
		}
	}
	if text, code := n.loci("xtr1", "ping", two.host4().String(), "--socket", n.socket("xtr1")); code != 0 || strings.Count(text, "OK ") != 4 {
		t.Errorf("loci ping: status %d, %s", code, text)
	}

	n.nft("core", forwarded("udp dport 4341 drop"))
	n.expectLeg("4341 is filtered", "data-plane", "UDP port 4341 is filtered", both...)

	n.nft("core", forwarded(`oifname "to-xtr2" iifname "to-xtr1" udp dport 4342 drop`))
	n.expectLeg("4342 is filtered one way", "locator", "no answer", both...)
	if s := stepOf(n.pinged(two.host4().String()).Report, "data-plane"); s.Outcome != diagnosis.OutcomeOK {
		t.Errorf("the data plane works: %+v", s)
	}
	n.nft("core", "")

	n.keepAddresses("host2")
	n.must(n.at["host2"].SetUp("eth0", false))
	n.expectLeg("the host is down", "data-plane", "the other site's router", both...)
	n.must(n.at["host2"].SetUp("eth0", true))
	n.defaults("host2", "10.2.0.1", "fd00:2::1")
	n.awaitPing("xtr1", testSite{1}.router4(), two.host4())
	n.awaitPing("xtr1", testSite{1}.router6(), two.host6())

	n.must(n.at["core"].SetMTU("to-xtr2", 1380))
	n.nft("core", "chain own { type filter hook output priority 0; policy accept; icmp type destination-unreachable drop; icmpv6 type packet-too-big drop; }")
	n.expectLeg("a path MTU black hole", "path-mtu", "black hole", both...)
	n.nft("core", "")
	n.must(n.at["core"].SetMTU("to-xtr2", 1500))

	n.kill("xtr2")
	n.expectLeg("the ETR is dead", "mapping-system", "the ETR of the EID does not answer", both...)
	r := n.pinged(two.host4().String())
	if s := stepOf(r.Report, "locator"); s.Outcome != diagnosis.OutcomeFailed || !strings.Contains(s.Reason, "its control plane is dead") {
		t.Errorf("the control plane is dead: %+v", s)
	}
	if s := stepOf(r.Report, "data-plane"); s.Outcome != diagnosis.OutcomeOK {
		t.Errorf("its data plane is not: %+v", s)
	}
	n.run("xtr2", strings.Replace(n.xtr(2), siteKey(2), "quite-another-key", 1))
	n.kill("ms")
	n.expectLeg("the mapping system is dead", "mapping-system", "no Map-Resolver answers: 172.16.9.2:4342", both...)
	n.run("ms", strings.Replace(n.mappingSystem(), "map-server:\n", "map-server:\n  mapping-expiration-timeout: 3s\n", 1))
	n.await("the Map-Server says that the site is not registered", func(context.Context) bool {
		return strings.Contains(stepOf(n.pinged(two.host4().String()).Report, "mapping-system").Reason, "the EID is not registered")
	})
	n.expectLeg("a wrong key", "mapping-system", "the EID is not registered", both...)
	n.expectUnregistered("xtr2", testSite{1}.host4().String())
	if s := stepOf(n.checked("xtr1"), diagnosis.LegRegistration); s.Name != "" {
		t.Errorf("a site that is registered: %+v", s)
	}
}

// expectUnregistered fails the test unless ping and netcheck of a router say first that its site is not registered, and why.
func (n *lispNetwork) expectUnregistered(name, eid string) {
	n.t.Helper()
	n.await(name+" has waited for Map-Notifies", func(context.Context) bool { return stepOf(n.checked(name), diagnosis.LegRegistration).Name != "" })
	for _, words := range [][]string{{"ping", eid, "--count", "1"}, {"netcheck"}} {
		out, code := n.loci(name, append(words, "--socket", n.socket(name))...)
		lines := strings.Split(out, "\n")
		if code != 1 || len(lines) < 3 || !strings.HasPrefix(lines[1], "FAILED     registration") || !strings.Contains(lines[2], "this site is not registered") {
			n.t.Errorf("loci %v: status %d, %s", words, code, out)
		}
	}
	if s := stepOf(n.checked(name), diagnosis.CheckMapServer); !strings.Contains(s.Reason, "key, EID-Prefix or clock") {
		n.t.Errorf("the Map-Server: %+v", s)
	}
}

// TestPingWithoutEchoes: legs that cannot be tried are no failures, and without the data plane nothing is known to work.
func TestPingWithoutEchoes(t *testing.T) {
	n := newLISPNetwork(t)
	two := testSite{2}
	n.runWithInstance8()
	r := n.pinged("[7]" + two.host4().String())
	if r.FailedLeg != "mapping-system" || stepOf(r.Report, "data-plane").Outcome != diagnosis.OutcomeNotTried {
		t.Errorf("Instance-ID 7, which no site has: %+v", r)
	}
	if r := n.pinged(two.host4().String(), "--source", "192.0.2.1"); r.FailedLeg != "" || !strings.Contains(stepOf(r.Report, "data-plane").Reason, "no EID of this site") {
		t.Errorf("a source that is no EID: %+v", r)
	}
	if r := n.pinged(two.host4().String(), "--source", "192.0.2.1"); !r.Incomplete() {
		t.Errorf("a source that is no EID: %+v", r)
	}
	n.awaitPing("xtr1", testSite{1}.router4(), two.host4())
	n.awaitPing("xtr1", testSite{1}.router6(), two.host6())
	n.expectInstance8NotTried()
	for _, words := range [][]string{{"ping", two.host4().String()}, {"netcheck"}} {
		cmd := exec.Command("setpriv", slices.Concat([]string{"--bounding-set=-net_raw", "--inh-caps=-net_raw", binary}, words, []string{"--socket", n.socket("xtr1")})...)
		var out strings.Builder
		cmd.Stdout = &out
		n.must(n.at["xtr1"].Start(cmd))
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(out.String(), ": incomplete\n") {
			t.Errorf("loci %v without CAP_NET_RAW: status %d, %s", words, code, out.String())
		}
	}
	if r := n.pinged(testSite{1}.host4().String()); r.FailedLeg != "" || r.Echo.Received != 3 || stepOf(r.Report, "locator").Outcome != diagnosis.OutcomeNotTried {
		t.Errorf("an EID of the site itself: %+v", r)
	}
	for _, words := range [][]string{{"10.2.0.0/24"}, {"10.2.0.1", "--count", "0"}, {"10.2.0.1", "--interval", "1us"}, {"10.2.0.1", "--source", "fd00:1::1"}, {"ten"}} {
		if out, code := n.loci("xtr1", append([]string{"ping"}, words...)...); code != 2 {
			t.Errorf("loci ping %v: status %d, %s", words, code, out)
		}
	}
	if out, code := n.loci("ms", "ping", two.host4().String(), "--socket", n.socket("ms")); code != 2 || !strings.Contains(out, "no ITR") {
		t.Errorf("loci ping at a Map-Server: status %d, %s", code, out)
	}
	n.expectIncompleteWithoutOwnEID()
}

// runWithInstance8 starts all, with EID-Prefixes of site 2 in Instance-ID 8 too, for which xtr1 has static mappings.
func (n *lispNetwork) runWithInstance8() {
	n.t.Helper()
	two := testSite{2}
	first := "[{eid: " + two.eid4() + "}"
	more := fmt.Sprintf("[{eid: %s, instance-id: 8}, {eid: '%s', instance-id: 8}, {eid: %[1]s}",
		two.eid4(), two.eid6())
	n.run("ms", strings.Replace(n.mappingSystem(), first, more, 1))
	n.run("xtr2", strings.Replace(n.xtr(2), first, more, 1))
	static := fmt.Sprintf("{eid: %s, rlocs: %s, instance-id: 8}, {eid: '%s', rlocs: %[2]s, instance-id: 8}",
		two.eid4(), "[{address: "+two.rloc4()+"}]", two.eid6())
	n.run("xtr1", strings.Replace(n.xtr(1), "itr: {", "itr: {map-cache: {mappings: ["+static+"]}, ", 1))
	n.awaitRegistrations(6)
}

// expectInstance8NotTried: the data plane of another Instance-ID cannot be tried, which makes no command incomplete.
func (n *lispNetwork) expectInstance8NotTried() {
	n.t.Helper()
	for _, eid := range []netip.Addr{testSite{2}.host4(), testSite{2}.host6()} {
		r := n.pinged("[8]" + eid.String())
		for leg, want := range map[string]diagnosis.Outcome{
			"mapping-system": diagnosis.OutcomeOK, "locator": diagnosis.OutcomeOK,
			"data-plane": diagnosis.OutcomeNotTried, "path-mtu": diagnosis.OutcomeNotTried,
		} {
			if s := stepOf(r.Report, leg); s.Outcome != want || r.Verdict != string(diagnosis.OutcomeOK) {
				n.t.Errorf("Instance-ID 8: verdict %s, want ok, and %s of %+v", r.Verdict, want, s)
			}
		}
	}
	notTried := 0
	r := n.checked("xtr1")
	for _, s := range r.Steps {
		if s.Name != diagnosis.CheckData {
			continue
		}
		of8 := strings.HasPrefix(s.Subject, "[8]")
		if of8 {
			notTried++
		}
		if of8 != (s.Outcome == diagnosis.OutcomeNotTried) || !of8 && s.Outcome != diagnosis.OutcomeOK {
			n.t.Errorf("netcheck with mappings of Instance-ID 8: %+v", s)
		}
	}
	if notTried != 2 || r.Verdict != string(diagnosis.OutcomeOK) {
		n.t.Errorf("netcheck: verdict %s, %d steps of Instance-ID 8: %+v", r.Verdict, notTried, r.Steps)
	}
}

// expectIncompleteWithoutOwnEID takes the EIDs of xtr1 itself away.
func (n *lispNetwork) expectIncompleteWithoutOwnEID() {
	n.t.Helper()
	link, err := n.at["xtr1"].Netlink().LinkByName("site0")
	n.must(err)
	for _, own := range []string{testSite{1}.router4().String() + "/24", testSite{1}.router6().String() + "/64"} {
		address, err := netlink.ParseAddr(own)
		n.must(err)
		n.must(n.at["xtr1"].Netlink().AddrDel(link, address))
	}
	r, tried := n.checked("xtr1"), 0
	for _, s := range r.Steps {
		if s.Name == diagnosis.CheckData && !strings.HasPrefix(s.Subject, "[8]") {
			tried++
			if s.Outcome != diagnosis.OutcomeNotTried || !strings.Contains(s.Reason, "host has no EID") {
				n.t.Errorf("netcheck without an own EID: %+v", s)
			}
		}
	}
	if tried != 2 || !r.Incomplete() {
		n.t.Errorf("netcheck without an own EID of two mappings: the verdict is %s: %+v", r.Verdict, r.Steps)
	}
	out, code := n.loci("xtr1", "netcheck", "--socket", n.socket("xtr1"))
	if code != 3 || !strings.Contains(out, ": incomplete\n") {
		n.t.Errorf("netcheck without an own EID: status %d, %s", code, out)
	}
}

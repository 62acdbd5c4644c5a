// SPDX-License-Identifier: Apache-2.0

package main_test

// loci netcheck: what is in the way is made by hand, and named.

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"loci/diagnosis"
	"loci/internal/testnet"
)

// checked runs `loci netcheck --json` at a router.
func (n *lispNetwork) checked(name string) (r diagnosis.Report) {
	n.t.Helper()
	out, code := n.loci(name, "netcheck", "--json", "--timeout", "1s", "--socket", n.socket(name))
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		n.t.Fatalf("loci netcheck: status %d, %s", code, out)
	}
	if want := map[string]int{"ok": 0, "failed": 1, "incomplete": 3}[r.Verdict]; code != want {
		n.t.Errorf("loci netcheck: status %d, and the verdict is %s", code, r.Verdict)
	}
	return r
}

// expectChecks fails the test unless these checks fail, with these words, and no others. A check is named by its
// name, a space and its subject.
func (n *lispNetwork) expectChecks(when, name string, failed map[string]string) {
	n.t.Helper()
	r := n.checked(name)
	for _, s := range r.Steps {
		words, want := failed[s.Name+" "+s.Subject]
		delete(failed, s.Name+" "+s.Subject)
		if (s.Outcome == diagnosis.OutcomeFailed) != want || !strings.Contains(s.Reason, words) || want && s.Remedy == "" {
			n.t.Errorf("%s: %+v, want it to fail %t with %q", when, s, want, words)
		}
	}
	for check := range failed {
		n.t.Errorf("%s: %s is not checked: %+v", when, check, r.Steps)
	}
}

func TestNetcheckNamesWhatIsInTheWay(t *testing.T) {
	t.Parallel() // it mostly waits
	testnet.RequireProgram(t, "nft")
	n := newLISPNetwork(t)
	n.runAll()
	n.awaitPing("xtr1", testSite{1}.router4(), testSite{2}.host4())
	n.awaitPing("xtr1", testSite{1}.router6(), testSite{2}.host6())
	for _, rloc := range []string{testSite{2}.rloc4(), "2001:db8:2::2"} {
		n.awaitLocatorUp("xtr1", rloc)
	}
	const four, six = "172.16.1.2 > 172.16.2.2", "2001:db8:1::2 > 2001:db8:2::2"
	n.expectChecks("all is well", "xtr1", map[string]string{})
	for _, name := range []string{diagnosis.CheckClock, diagnosis.CheckChecksums, diagnosis.CheckMapResolver, diagnosis.CheckMapServer, diagnosis.CheckControl, diagnosis.CheckData, diagnosis.CheckMTU, diagnosis.CheckNAT, diagnosis.CheckNATControl} {
		if s := stepOf(n.checked("xtr1"), name); s.Name == "" || s.Outcome == diagnosis.OutcomeNotTried || s.Outcome == diagnosis.OutcomeUnknown {
			t.Errorf("%s is not checked: %+v", name, s)
		}
	}
	if s := stepOf(n.checked("xtr1"), diagnosis.CheckMapResolver); !strings.Contains(s.Detail, "reaches UDP port 4342 of this router") {
		t.Errorf("the way in: %+v", s)
	}
	if s := stepOf(n.checked("xtr1"), diagnosis.CheckNAT); s.Outcome != diagnosis.OutcomeOK || !strings.HasSuffix(s.Detail, ": no NAT") {
		t.Errorf("no NAT: %+v", s)
	}
	if s := stepOf(n.checked("ms"), diagnosis.CheckNAT); s.Name != "" {
		t.Errorf("a Map-Server registers nothing: %+v", s)
	}
	n.expectChecks("the Map-Server reaches its ETRs", "ms", map[string]string{})

	n.nft("core", forwarded("udp dport 4341 drop"))
	n.expectChecks("4341 is filtered", "xtr1", map[string]string{"udp-4341 10.2.0.0/24": "nothing comes back through the data plane", "udp-4341 fd00:2::/64": "nothing comes back"})

	n.nft("core", forwarded(`iifname "to-xtr1" oifname "to-xtr2" udp dport 4342 drop`))
	n.expectChecks("4342 is filtered on the way there", "xtr1", map[string]string{"udp-4342 " + four: "no answer", "udp-4342 " + six: "no answer"})

	n.nft("core", forwarded(`iifname "to-xtr2" oifname "to-xtr1" udp dport 4342 drop`))
	n.await("the daemon's own RLOC-probes are not answered", func(ctx context.Context) bool {
		return n.locator(ctx, "xtr1", testSite{2}.rloc4()).State == "unconfirmed" && n.locator(ctx, "xtr1", "2001:db8:2::2").State == "unconfirmed"
	})
	n.expectChecks("4342 is filtered on the way back", "xtr1", map[string]string{"udp-4342 " + four: "do not pass", "udp-4342 " + six: "do not pass"})
	n.nft("core", "")

	n.must(n.at["core"].SetMTU("to-xtr2", 1380))
	n.nft("core", "chain own { type filter hook output priority 0; policy accept; icmp type destination-unreachable drop; icmpv6 type packet-too-big drop; }")
	r := n.checked("xtr1")
	for _, s := range r.Steps {
		if s.Name == diagnosis.CheckMTU && (s.Outcome != diagnosis.OutcomeFailed || !strings.Contains(s.Reason, "black hole") || !strings.Contains(s.Detail, "up to 1380 octets")) {
			t.Errorf("a black hole: %+v", s)
		}
	}
	n.nft("core", "")
	n.must(n.at["core"].SetMTU("to-xtr2", 1500))

	n.kill("ms")
	n.await("the Map-Resolver is missed", func(context.Context) bool {
		s := stepOf(n.checked("xtr1"), diagnosis.CheckMapResolver)
		return s.Outcome == diagnosis.OutcomeFailed && strings.Contains(s.Reason, "nothing listens at UDP port 4342")
	})
	n.run("ms", strings.Replace(n.mappingSystem(), siteKey(1), "quite-another-key", 1))
	n.reconfigure("xtr1", strings.Replace(n.xtr(1), "local-eids: [", "local-eids: [{eid: 10.1.1.0/24}, ", 1))
	n.await("the key is blamed", func(context.Context) bool {
		s := stepOf(n.checked("xtr1"), diagnosis.CheckMapServer)
		return s.Outcome == diagnosis.OutcomeFailed && strings.Contains(s.Reason, "key, EID-Prefix or clock")
	})
}

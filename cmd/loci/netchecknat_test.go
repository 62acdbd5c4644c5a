// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"

	"loci/diagnosis"
	"loci/internal/testnet"
)

// natStepOf is the step of that name about an RLOC, or about an RLOC and a Map-Server or RTR.
func natStepOf(r diagnosis.Report, name, subject string) (found diagnosis.Step) {
	for _, s := range r.Steps {
		if s.Name == name && strings.HasPrefix(s.Subject, subject) {
			return s
		}
	}
	return found
}

// TestNetcheckBehindNAT: a symmetric NAT of both families, seen from three addresses of one server, and ports that
// its box does not let pass. LOCI_LONG_TESTS=1 filters port 4341 too.
func TestNetcheckBehindNAT(t *testing.T) {
	t.Parallel() // it mostly waits
	testnet.RequireProgram(t, "nft")
	n, _ := natNetwork(t, "user", 1)
	const other, four, six = "172.16.9.129", "192.168.7.2", "fd99::2"
	n.must(n.at["ms"].AddAddress("lo", netip.MustParsePrefix(other+"/32")))
	n.must(n.at["core"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix(other + "/32"), Via: netip.MustParseAddr("172.16.9.2")}))
	n.run("ms", n.natServer())
	n.nft("nat1", forwarded(`iifname "inside" udp sport 4342 drop`))
	const key = "\n      authentication-keys: [{auth-key-value: "
	server := func(address string) string { return "- ms-address: " + address + key + siteKey(1) + "}]\n    " }
	n.run("xtr1", strings.NewReplacer("etr:\n", "etr:\n  nat-traversal: {keepalive: 2s}\n",
		"- ms-address", server(other)+server("'2001:db8:9::2'")+"- ms-address").Replace(n.xtr(1)))

	type want struct {
		name, subject string
		outcome       diagnosis.Outcome
		words         string
	}
	awaitSteps := func(when string, wanted ...want) {
		t.Helper()
		n.await(when, func(context.Context) bool {
			r := n.checked("xtr1")
			for _, w := range wanted {
				s := natStepOf(r, w.name, w.subject)
				if s.Outcome != w.outcome || !strings.Contains(s.Detail+s.Reason, w.words) || (s.Remedy != "") != (w.outcome == diagnosis.OutcomeFailed) {
					t.Logf("%s: %s %s: %+v", when, w.name, w.subject, s)
					return false
				}
			}
			return true
		})
	}
	const ok, failed, unknown = diagnosis.OutcomeOK, diagnosis.OutcomeFailed, diagnosis.OutcomeUnknown
	awaitSteps("nothing leaves from port 4342",
		want{diagnosis.CheckNAT, four + " > 172.16.9.2:", failed, "registers by no RTR"},
		want{diagnosis.CheckNAT, six, failed, "is seen as [2001:db8:1::2]:"},
		want{diagnosis.CheckNATMapping, four, ok, "symmetric NAT: " + other + " sees 172.16.1.2:"},
		want{diagnosis.CheckNATMapping, six, unknown, "takes two"},
		want{diagnosis.CheckNATControl, four + " > 172.16.9.2:", failed, "is filtered"},
		want{diagnosis.CheckNATControl, four + " > " + other, failed, "is filtered"},
		want{diagnosis.CheckNATControl, six, failed, "is filtered"},
		want{diagnosis.CheckNATData, four, unknown, "has no RTR"})

	n.nft("nat1", "")
	awaitSteps("both ports pass",
		want{diagnosis.CheckMapResolver, "", diagnosis.OutcomeNotTried, "all packets go to RTR 172.16.9.2"},
		want{diagnosis.CheckMapServer, "172.16.9.2:", ok, "by RTR 172.16.9.2"},
		want{diagnosis.CheckNAT, four, ok, "registered by RTR 172.16.9.2"},
		want{diagnosis.CheckNAT, six, ok, "registered by RTR"},
		want{diagnosis.CheckNATControl, four, ok, "was answered"},
		want{diagnosis.CheckNATControl, six, ok, "was answered"},
		want{diagnosis.CheckNATData, four, ok, "the RTR answers"})

	if os.Getenv(longTests) != "1" { // the judgement by itself has a test in diagnosis
		return
	}
	n.nft("nat1", forwarded(`iifname "inside" udp sport 4341 drop`))
	awaitSteps("nothing leaves from port 4341", want{diagnosis.CheckNATData, four, failed, "not what leaves from UDP port 4341"})
}

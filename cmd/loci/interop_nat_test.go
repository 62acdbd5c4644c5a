// SPDX-License-Identifier: Apache-2.0

//go:build interop

package main_test

// NAT traversal beside OpenOverlayRouter: its xTR and its mobile node behind a NAT at our Map-Server and RTR, and ours
// at its.

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// starts is how often each arrangement begins anew: OpenOverlayRouter's own three parts find each other at some starts
// only.
func starts() int {
	if os.Getenv(longTests) == "1" {
		return 10
	}
	return 2
}

// runOORBehindNAT starts OpenOverlayRouter as site 2 behind its NAT. There it has one Map-Server and one EID-Prefix of
// IPv4.
func (n *lispNetwork) runOORBehindNAT() (stop func()) {
	n.t.Helper()
	return n.runOOR("xtr2", oorBehindNAT())
}

// oorBehindNAT is that configuration.
func oorBehindNAT() string {
	return fmt.Sprintf("operating-mode = xTR\nnat_traversal_support = on\nmap-resolver = {\n %[1]s\n}\n"+
		"map-server {\n address = %[1]s\n key-type = 1\n key = the-key-of-site-2\n proxy-reply = off\n}\n"+
		"database-mapping {\n eid-prefix = %[2]s\n iid = 0\n ttl = 10\n"+
		" rloc-iface {\n  interface = core0\n  ip_version = 4\n  priority = 1\n  weight = 100\n }\n}\n",
		"172.16.9.2", testSite{2}.eid4())
}

// TestInteropOpenOverlayRouterBehindNAT: its xTR registers by our RTR, and is reached.
func TestInteropOpenOverlayRouterBehindNAT(t *testing.T) {
	testnet.RequireProgram(t, "oor")
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			n, _ := natNetwork(t, engine, 2)
			key := strings.Replace(n.natServer(), "authentication-keys: [{auth-key-value: "+siteKey(2)+"}]",
				"accept-any-nonce: true\n      authentication-keys: [{"+oorKey+"}]", 1)
			n.run("ms", key)
			n.run("xtr1", n.xtr(1))
			one, two := testSite{1}, testSite{2}
			n.must(n.at["host1"].SetOffload("eth0", testnet.TxChecksum, false))
			for range starts() {
				stop := n.runOORBehindNAT()
				n.exchange("host1", "host2", one.host4(), two.host4())
				n.exchange("host2", "host1", two.host4(), one.host4())
				stop()
			}
		})
	}
}

// oorNATServers are OpenOverlayRouter's Map-Server, which is the Map-Resolver too, and its RTR.
func oorNATServers(draft string) (mapServer, rtr string) {
	mapServer = "operating-mode = MS\ncontrol-iface = core0\n"
	for number := 1; number <= 2; number++ {
		mapServer += fmt.Sprintf("lisp-site {\n eid-prefix = %s\n iid = 0\n key-type = 1\n key = the-key-of-site-%d\n"+
			" accept-more-specifics = true\n proxy-reply = false\n}\n",
			testSite{number}.eid4(), number)
	}
	mapServer += "ms-rtr-node {\n name = rtr\n address = " + rlocOf("rtr1", false) + "\n" +
		" key = between-map-server-and-rtr\n}\n" +
		"ms-rtrs-set {\n name = all\n ttl = 1\n rtrs = {\n  rtr\n }\n}\nms-advertised-rtrs-set = all\n"
	rtr = oorRTR("172.16.9.2", "ipv4") + "rtr-ms-node {\n address = 172.16.9.2\n" +
		" key = between-map-server-and-rtr\n draft-version = " + draft + "\n}\n"
	return mapServer, rtr
}

// TestInteropBehindNATAtOpenOverlayRouter: our router behind a NAT registers by its RTR, in both forms that RTR and
// Map-Server of its have between them, and is reached.
func TestInteropBehindNATAtOpenOverlayRouter(t *testing.T) {
	testnet.RequireProgram(t, "oor")
	for _, engine := range []string{"kernel", "user"} {
		for _, draft := range []string{"NEW", "OLD"} {
			t.Run(engine+"/"+draft, func(t *testing.T) {
				n, _ := natNetworkWith(t, engine, []string{"rtr1"}, 1)
				one, two := testSite{1}, testSite{2}
				for _, host := range []string{"host1", "host2"} {
					n.must(n.at[host].SetOffload("eth0", testnet.TxChecksum, false))
				}
				for range starts() {
					mapServer, rtr := oorNATServers(draft)
					stopMS, stopRTR := n.runOOR("ms", mapServer), n.runOOR("rtr1", rtr)
					n.run("xtr1", n.natSiteAtOOR(1))
					n.run("xtr2", n.natSiteAtOOR(2))
					n.exchange("host1", "host2", one.host4(), two.host4())
					n.exchange("host2", "host1", two.host4(), one.host4())
					var nat api.NAT
					n.show("xtr1", &nat, "nat")
					isBy := len(nat.RTRs) == 1 && nat.RTRs[0].ConfirmedAt != nil &&
						!nat.RTRs[0].Silent
					if !isBy || !nat.Views[0].BehindNAT {
						t.Errorf("the router behind the NAT shows %+v", nat)
					}
					n.end("xtr1")
					n.end("xtr2")
					stopRTR()
					stopMS()
				}
			})
		}
	}
}

// TestInteropOldFormBehindNAT: the form before draft-ermagan-lisp-nat-traversal-04, which has no ECM between RTR and
// Map-Server. Its xTR behind a NAT is reached by our RTR, and our router by its RTR, both at our Map-Server.
func TestInteropOldFormBehindNAT(t *testing.T) {
	testnet.RequireProgram(t, "oor")
	one, two := testSite{1}, testSite{2}
	exchange := func(n *lispNetwork) {
		n.exchange("host1", "host2", one.host4(), two.host4())
		n.exchange("host2", "host1", two.host4(), one.host4())
	}
	t.Run("our RTR", func(t *testing.T) {
		n, _ := natNetwork(t, "user", 2)
		n.run("ms", strings.NewReplacer(
			"{ms-address: 172.16.9.2,", "{ms-address: 172.16.9.2, draft-version: old,",
			"authentication-keys: [{auth-key-value: "+siteKey(2)+"}]",
			"accept-any-nonce: true\n      authentication-keys: [{"+oorKey+"}]").Replace(n.natServer()))
		n.run("xtr1", n.xtr(1))
		n.must(n.at["host1"].SetOffload("eth0", testnet.TxChecksum, false))
		for range starts() {
			stop := n.runOORBehindNAT()
			exchange(n)
			stop()
		}
	})
	t.Run("its RTR", func(t *testing.T) {
		n, _ := natNetworkWith(t, "user", []string{"rtr1"}, 1)
		for _, host := range []string{"host1", "host2"} {
			n.must(n.at[host].SetOffload("eth0", testnet.TxChecksum, false))
		}
		const key = "auth-algorithm-id: hmac-sha-1-96, auth-key-value: "
		n.run("ms", strings.NewReplacer("map-server:\n",
			"map-server:\n  rtrs: [{address: "+rlocOf("rtr1", false)+
				", authentication-keys: [{"+key+"between-map-server-and-rtr}]}]\n",
			"auth-key-value: "+siteKey(1), key+"the-key-of-site-1",
			"auth-key-value: "+siteKey(2), key+"the-key-of-site-2").Replace(n.mappingSystem()))
		_, rtr := oorNATServers("OLD")
		for range starts() {
			stop := n.runOOR("rtr1", rtr)
			n.run("xtr1", n.natSiteAtOOR(1))
			n.run("xtr2", n.natSiteAtOOR(2))
			exchange(n)
			n.end("xtr1")
			n.end("xtr2")
			stop()
		}
	})
}

// natSiteAtOOR is a site of ours with its EID-Prefix of IPv4 alone.
func (n *lispNetwork) natSiteAtOOR(number int) string {
	s := testSite{number}
	key := fmt.Sprintf("auth-algorithm-id: hmac-sha-1-96, auth-key-value: the-key-of-site-%d", number)
	return strings.NewReplacer("auth-key-value: "+siteKey(number), key,
		", {eid: '"+s.eid6()+"', rlocs: own}", "").Replace(n.natXTR(number))
}

// oorMobile is the EID of OpenOverlayRouter's mobile node.
var oorMobile = netip.MustParseAddr("10.2.0.77")

// TestInteropMobileNodes: OpenOverlayRouter's mobile node and ours, behind a NAT, reach each other by our RTR, also
// after ours moved to another NAT.
func TestInteropMobileNodes(t *testing.T) {
	testnet.RequireProgram(t, "oor")
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			n, _ := mobileBehindNATs(t, engine, "wlan0", "wwan0")
			n.run("ms", strings.NewReplacer(
				"authentication-keys: [{auth-key-value: "+siteKey(2)+"}]",
				"accept-any-nonce: true\n      authentication-keys: [{"+oorKey+"}]",
				"{eid: 10.2.0.0/24}", "{eid: 10.2.0.0/24, more-specifics-accepted: true}").Replace(n.mobileServer()))
			n.run("mn", n.mobileBehindNAT("default-route: true"))
			for _, link := range []string{"wlan0", "wwan0"} { // see bothReach
				n.must(n.at["mn"].SetOffload(link, testnet.TxChecksum, false))
			}
			asMobile := strings.NewReplacer("= xTR", "= MN", testSite{2}.eid4(), oorMobile.String()+"/32")
			n.runOOR("xtr2", asMobile.Replace(oorBehindNAT()))
			n.exchangeMobile()
			n.disconnectMobile("wlan0")
			n.connectBehindNAT("wwan0", 5)
			n.exchangeMobile()
		})
	}
}

func (n *lispNetwork) exchangeMobile() {
	n.t.Helper()
	n.exchange("mn", "xtr2", mobile4, oorMobile)
	n.exchange("xtr2", "mn", oorMobile, mobile4)
}

// SPDX-License-Identifier: Apache-2.0

// Forwarding by the stack: filters and policy routing of the router see the packets of its hosts, in both directions. The
// tests need root and nft.

package kernel

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/features"
	"loci/dataplane/kernel/tap"
	"loci/internal/testnet"
)

// useStack lets the stack of xTR A forward what its interfaces carry.
func (n *network) useStack(t *testing.T, sides ...dataplane.Side) {
	t.Helper()
	settings := n.routers[0].Settings()
	for i := range settings.Interfaces {
		for _, side := range sides {
			if settings.Interfaces[i].Side == side {
				settings.Interfaces[i].Forwarding = dataplane.ForwardingStack
			}
		}
	}
	n.routers[0].apply(t, dataplane.SetSettings{Settings: settings})
}

// nft runs commands in xTR A.
func (n *network) nft(t *testing.T, commands string) string {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(commands)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, n.routers[0].ns.Start(cmd))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("nft: %v\n%s%s", err, commands, out.String())
	}
	return out.String()
}

// leadIntoLISP gives xTR A what the daemon sets up: routes of EIDs into loci0, and filters that believe what comes from there.
func (n *network) leadIntoLISP(t *testing.T, p pair) {
	t.Helper()
	r := n.routers[0]
	must(t, r.ns.SetReversePathFilter(0))
	tap, err := r.ns.Netlink().LinkByName(tap.DefaultName)
	must(t, err)
	remote, bits := p.inner(1, 0), 24
	if remote.Is6() {
		bits = 64
	}
	must(t, r.ns.Netlink().RouteAdd(&netlink.Route{LinkIndex: tap.Attrs().Index,
		Dst: &net.IPNet{IP: net.IP(remote.AsSlice()), Mask: net.CIDRMask(bits, remote.BitLen())}}))
}

const countingTable = `
table inet seen {
	counter out { }
	counter back { }
	chain forward {
		type filter hook forward priority 0;
		iifname "site0" %s daddr %s ct state new,established counter name "out"
		oifname "site0" %s saddr %s ct state established counter name "back"
	}
}
`

// seen is how many packets a counter of nft has seen.
func (n *network) seen(t *testing.T, counter string) (packets int) {
	t.Helper()
	for line := range strings.Lines(n.nft(t, "list counter inet seen "+counter)) {
		_, _ = fmt.Sscanf(strings.TrimSpace(line), "packets %d", &packets)
	}
	return packets
}

func TestStackSeesPackets(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	testnet.RequireProgram(t, "nft")
	both := []dataplane.Side{dataplane.SideSite, dataplane.SideCore}
	for _, c := range []struct {
		name      string
		sides     []dataplane.Side
		out, back bool
		pairs     []pair
	}{
		{"fast", nil, false, false, pairs[:1]},
		{"site", both[:1], true, true, pairs},
		{"core", both[1:], false, true, pairs[3:]},
		{"both", both, true, true, pairs[2:3]},
	} {
		for _, p := range c.pairs {
			t.Run(c.name+"/"+p.name, func(t *testing.T) {
				n := newNetwork(t)
				n.useStack(t, c.sides...)
				n.leadIntoLISP(t, p)
				n.mapBoth(t, p.outer)
				family := "ip"
				if p.inner(0, 0).Is6() {
					family = "ip6"
				}
				far := p.inner(1, 10).String()
				n.nft(t, fmt.Sprintf(countingTable, family, far, family, far))
				n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
				if got := n.seen(t, "out") >= 5; got != c.out {
					t.Errorf("%d packets on their way out were seen", n.seen(t, "out"))
				}
				// conntrack knows a connection when it has seen both directions.
				if got := n.seen(t, "back") >= 5; got != (c.out && c.back) {
					t.Errorf("%d packets on their way back were seen", n.seen(t, "back"))
				}
				n.expectTCP(t, p, 16<<20)
			})
		}
	}
}

// A router that translates its hosts' addresses, and whose default route leaves by the core: TCP needs to be told what fits, about packets with
// other addresses than the host gave them.
func TestStackTranslatesAnswers(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	testnet.RequireProgram(t, "nft")
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			n.useStack(t, dataplane.SideSite)
			n.leadIntoLISP(t, p)
			n.mapBoth(t, p.outer)
			family, gateway, all := "ip", rloc4(1), net.CIDRMask(0, 32)
			if p.inner(0, 0).Is6() {
				family, gateway, all = "ip6", rloc6(1), net.CIDRMask(0, 128)
			}
			ns := n.routers[0].ns
			core, err := ns.Netlink().LinkByName("core0")
			must(t, err)
			n.nft(t, fmt.Sprintf(`table %s nat {
	chain after {
		type nat hook postrouting priority 100
		oifname "core0" %s saddr %s snat to %s
	}
}`, family, family, p.inner(0, 10), p.inner(0, 99)))
			tap, err := ns.Netlink().LinkByName(tap.DefaultName)
			must(t, err)
			routes, err := ns.Netlink().RouteList(tap, netlink.FAMILY_ALL)
			must(t, err)
			for _, r := range routes {
				if r.Dst != nil && r.Dst.Contains(p.inner(1, 10).AsSlice()) {
					must(t, ns.Netlink().RouteDel(&r))
				}
			}
			must(t, ns.Netlink().RouteAdd(&netlink.Route{LinkIndex: core.Attrs().Index, Gw: gateway.AsSlice(),
				Dst: &net.IPNet{IP: make(net.IP, len(all)), Mask: all}}))
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			n.expectTCP(t, p, 4<<20)
		})
	}
}

func TestStackDrops(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	testnet.RequireProgram(t, "nft")
	for _, p := range []pair{pairs[0], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			n.useStack(t, dataplane.SideSite)
			n.leadIntoLISP(t, p)
			n.mapBoth(t, p.outer)
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			n.nft(t, `table inet wall { chain forward { type filter hook forward priority 0; iifname "site0" drop; }; }`)
			n.expectNoPings(t, p)
			n.nft(t, `delete table inet wall`)
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))

			rule := netlink.NewRule()
			rule.Family, rule.Priority, rule.Src, rule.Type = netlink.FAMILY_V4, 500, hostRoute(p.inner(0, 10)), uint8(6) // blackhole
			if p.inner(0, 10).Is6() {
				rule.Family = netlink.FAMILY_V6
			}
			must(t, n.routers[0].ns.Netlink().RuleAdd(rule))
			n.expectNoPings(t, p)
		})
	}
}

func TestForwardRules(t *testing.T) {
	testnet.RequireRoot(t)
	testnet.RequireProgram(t, "nft")
	n := newLinks(t)
	rules := func() string {
		var found []string
		must(t, n.routers[0].ns.Do(func() (err error) {
			found, err = features.ForwardRules()
			return err
		}))
		return strings.Join(found, ", ")
	}
	for _, c := range []struct{ commands, want string }{
		{"table inet a { chain in { type filter hook input priority 0; drop; }; chain other { drop; }; }", ""},
		{"table ip b { chain forward { type filter hook forward priority 0; }; }", ""},
		{"add rule ip b forward drop", "nftables chain ip b forward"},
		{"table ip6 c { chain f { type filter hook forward priority 0; policy drop; }; }", "nftables chain ip b forward, nftables chain ip6 c f"},
		{"delete table ip b; delete table ip6 c; table inet d { chain w { type filter hook forward priority 0; accept; }; }", "nftables chain inet d w"},
	} {
		n.nft(t, c.commands)
		if got := rules(); got != c.want {
			t.Errorf("after %q: %q, want %q", c.commands, got, c.want)
		}
	}
}

func (n *network) expectNoPings(t *testing.T, p pair) {
	t.Helper()
	result, err := testnet.Ping{Namespace: n.hosts[0], Source: p.inner(0, 10), Destination: p.inner(1, 10), Count: 5, Timeout: 200e6}.Run(t.Context())
	must(t, err)
	if result.Received != 0 {
		t.Errorf("%d of 5 pings answered;%s", result.Received, n.report())
	}
}

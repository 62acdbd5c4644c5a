// SPDX-License-Identifier: Apache-2.0

package main_test

// LISP-NAT (RFC 6832 s.7): a site whose EIDs the Internet has no route to, with hosts of private addresses beside them.

import (
	"net/netip"
	"strings"
	"testing"

	"loci/internal/testnet"
)

var (
	private4 = netip.MustParseAddr("192.168.1.10")
	private6 = netip.MustParseAddr("fd99:1::10")
)

// natEntries are the entries of the site: pools of its own for EIDs, and an EID-Prefix for private addresses.
const natEntries = "lisp-nat: [{from: 10.1.0.0/24, pool: 192.0.2.0/24, translate: address}, {from: 'fd00:1::/64', pool: '2001:db8:a::/64', translate: address}, " +
	"{from: 192.168.1.0/24, pool: 203.0.113.0/24, translate: address}, {from: 'fd99:1::/64', pool: '2001:db8:b::/64', translate: address}]"

// newNATNetwork is the network of two sites, with a host outside LISP, and one of private addresses at the first site. The core has
// routes to the pools, and to no EID.
//
//	host1 ---- xtr1 ---- core ---- xtr2 --- host2
//	private --/          |  \---- ms
//	                  outside
func newNATNetwork(t *testing.T, engine string) *lispNetwork {
	t.Helper()
	n := newLISPNetwork(t)
	n.engine = engine
	for _, role := range []string{"outside", "private"} {
		ns, err := n.net.Namespace(role)
		n.must(err)
		n.at[role] = ns
	}
	n.link("core", "to-outside", "outside", "eth0", "198.51.100.1/24", "198.51.100.10/24", "2001:db8:ffff::1/64", "2001:db8:ffff::10/64")
	n.defaults("outside", "198.51.100.1", "2001:db8:ffff::1")
	n.link("xtr1", "priv0", "private", "eth0", "192.168.1.1/24", "192.168.1.10/24", "fd99:1::1/64", "fd99:1::10/64")
	n.defaults("private", "192.168.1.1", "fd99:1::1")
	for pool, via := range map[string]string{
		"192.0.2.0/24": "172.16.1.2", "203.0.113.0/24": "172.16.1.2", "2001:db8:a::/64": "2001:db8:1::2", "2001:db8:b::/64": "2001:db8:1::2",
	} {
		n.must(n.at["core"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix(pool), Via: netip.MustParseAddr(via)}))
	}
	return n
}

// natRouter is the configuration of the first site's router.
func (n *lispNetwork) natRouter(entries string) string {
	return strings.NewReplacer(
		"site: [{interface: site0}]", "site: [{interface: site0, forwarding: stack}, {interface: priv0, forwarding: stack}]",
		"itr: {", "itr: {"+entries+", ",
		"local-eids: [", "local-eids: [{eid: 203.0.113.0/24}, {eid: '2001:db8:b::/64'}, ",
	).Replace(n.xtr(1))
}

// natMappingSystem also registers the pools that are EID-Prefixes.
func (n *lispNetwork) natMappingSystem() string {
	return strings.Replace(n.mappingSystem(), "eid-prefixes: [", "eid-prefixes: [{eid: 203.0.113.0/24}, {eid: '2001:db8:b::/64'}, ", 1)
}

// runNAT starts all daemons.
func (n *lispNetwork) runNAT(entries string) {
	n.t.Helper()
	n.run("ms", n.natMappingSystem())
	n.run("xtr2", n.xtr(2))
	n.run("xtr1", n.natRouter(entries))
	n.awaitRegistrations(6)
}

// onEachEngine runs a test with each data plane.
func onEachEngine(t *testing.T, test func(*testing.T, *lispNetwork)) {
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			test(t, newNATNetwork(t, engine))
		})
	}
}

// Shows RFC 6832 s.7.2 (1), RFC 6832 s.7.3 (1).
func TestPrivateHostsReachHostsInsideAndOutsideLISP(t *testing.T) {
	onEachEngine(t, func(t *testing.T, n *lispNetwork) {
		n.runNAT(natEntries)
		two := testSite{2}
		for _, c := range []struct {
			to             string
			source, target netip.Addr
		}{{"outside", private4, outside4}, {"outside", private6, outside6}, {"host2", private4, two.host4()}, {"host2", private6, two.host6()}} {
			n.ping("private", c.source, c.target, 3)
			n.transfer("private", c.to, c.source, c.target)
		}
	})
}

// Shows RFC 6832 s.7 (1), RFC 6832 s.7.1 (1).
func TestEIDsReachHostsOutsideLISP(t *testing.T) {
	for _, c := range []struct{ name, engine, forwarding string }{{"stack", "kernel", "stack"}, {"fast", "kernel", "fast"}, {"user", "user", "stack"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNATNetwork(t, c.engine)
			entries := natEntries
			if c.forwarding == "fast" { // private addresses to EIDs need the stack
				entries, _, _ = strings.Cut(natEntries, ", {from: 192.168.1.0/24")
				entries += "]"
			}
			n.run("ms", n.natMappingSystem())
			n.run("xtr2", n.xtr(2))
			n.run("xtr1", strings.ReplaceAll(n.natRouter(entries), "forwarding: stack", "forwarding: "+c.forwarding))
			n.awaitRegistrations(6)
			n.transfer("host1", "outside", testSite{1}.host4(), outside4) // the first packet waits for its mapping
			n.transfer("host1", "outside", testSite{1}.host6(), outside6)
			n.ping("host1", testSite{1}.host4(), outside4, 3)
			n.ping("host1", testSite{1}.host6(), outside6, 3)
			n.transfer("host1", "host2", testSite{1}.host4(), testSite{2}.host4())
			n.ping("host2", testSite{2}.host6(), testSite{1}.host6(), 3)
		})
	}
}

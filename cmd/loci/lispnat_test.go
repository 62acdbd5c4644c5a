// SPDX-License-Identifier: Apache-2.0

package main_test

// LISP-NAT (RFC 6832 s.7): a site whose EIDs the Internet has no route to, with hosts of private addresses beside them.

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"

	"loci/daemon/api"
	"loci/internal/testnet"
)

var (
	private4 = netip.MustParseAddr("192.168.1.10")
	private6 = netip.MustParseAddr("fd99:1::10")
)

// natEntries are the entries of the site: pools of its own for EIDs, and an EID-Prefix for private addresses.
const natEntries = "lisp-nat: [{from: 10.1.0.0/24, pool: 192.0.2.0/24, translate: address}, {from: 'fd00:1::/64', pool: '2001:db8:a::/64', translate: address}, " +
	"{from: 192.168.1.0/24, pool: 203.0.113.0/24, translate: address}, {from: 'fd99:1::/64', pool: '2001:db8:b::/64', translate: address}]"

// newNATNetwork is the network of two sites, with a host outside LISP, and one of private addresses at the first
// site. The core has routes to the pools, and to no EID.
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

// natFlow is a UDP session, whose far end says from where it was sent to.
type natFlow struct {
	n    *lispNetwork
	conn *net.UDPConn
	far  *net.UDPConn
}

// newFlow joins two hosts; port is that of the near one.
func (n *lispNetwork) newFlow(from, to string, source, target netip.Addr, port uint16) natFlow {
	n.t.Helper()
	far, err := n.at[to].ListenUDP(netip.AddrPortFrom(target, 0))
	n.must(err)
	n.t.Cleanup(func() { far.Close() })
	conn, err := n.at[from].DialUDP(netip.AddrPortFrom(source, port), far.LocalAddr().(*net.UDPAddr).AddrPort())
	n.must(err)
	n.t.Cleanup(func() { conn.Close() })
	return natFlow{n, conn, far}
}

// exchange sends so many octets there and back, and returns the source that the far end saw. What does not fit the
// path is sent again once the source knows its MTU.
func (f natFlow) exchange(octets int) netip.AddrPort {
	f.n.t.Helper()
	answered := make([]byte, 65536)
	for range 5 {
		_, err := f.conn.Write(bytes.Repeat([]byte{7}, octets))
		if err != nil && !errors.Is(err, syscall.EMSGSIZE) {
			f.n.must(err)
		}
		if length, seen, err := receive(f.far, 3*time.Second); err == nil {
			_, err = f.far.WriteToUDPAddrPort(make([]byte, length), seen)
			f.n.must(err)
			f.n.must(f.conn.SetReadDeadline(time.Now().Add(3 * time.Second)))
			if length, err = f.conn.Read(answered); err == nil && length == octets {
				return netip.AddrPortFrom(seen.Addr().Unmap(), seen.Port())
			}
		}
	}
	f.n.t.Fatalf("%s -> %s: %d octets do not come back", f.conn.LocalAddr(), f.conn.RemoteAddr(), octets)
	return netip.AddrPort{}
}

func receive(conn *net.UDPConn, within time.Duration) (int, netip.AddrPort, error) {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, netip.AddrPort{}, err
	}
	return conn.ReadFromUDPAddrPort(make([]byte, 65536))
}

// flushRules does what `nft flush ruleset` does.
func (n *lispNetwork) flushRules(at string) {
	n.t.Helper()
	n.must(n.at[at].Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		conn.FlushRuleset()
		return conn.Flush()
	}))
}

// natTables are the names of the tables of nftables.
func (n *lispNetwork) natTables(at string) (names []string) {
	n.t.Helper()
	n.must(n.at[at].Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := conn.ListTables()
		for _, table := range tables {
			names = append(names, table.Name)
		}
		return err
	}))
	return names
}

func (n *lispNetwork) translations() (t api.Translations) {
	n.t.Helper()
	n.show("xtr1", &t, "translations")
	return t
}

// natCases are the three of RFC 6832, in both families, with the source that the far end sees.
var natCases = []struct{ from, to, source, target, seen string }{
	{"host1", "outside", "10.1.0.10", "198.51.100.10", "192.0.2.10"},
	{"host1", "outside", "fd00:1::10", "2001:db8:ffff::10", "2001:db8:a::10"},
	{"private", "outside", "192.168.1.10", "198.51.100.10", "203.0.113.10"},
	{"private", "outside", "fd99:1::10", "2001:db8:ffff::10", "2001:db8:b::10"},
	{"private", "host2", "192.168.1.10", "10.2.0.10", "203.0.113.10"},
	{"private", "host2", "fd99:1::10", "fd00:2::10", "2001:db8:b::10"},
}

// TestTranslations: addresses and ports that the other side sees, fragments, ICMP errors, packets without a session;
// and the table through a flush of all rules, a crash, a reload and a stop.
func TestTranslations(t *testing.T) {
	onEachEngine(t, func(t *testing.T, n *lispNetwork) {
		n.runNAT(natEntries)
		var flows []natFlow
		for i, c := range natCases {
			source, target := netip.MustParseAddr(c.source), netip.MustParseAddr(c.target)
			f := n.newFlow(c.from, c.to, source, target, uint16(20000+i))
			for _, octets := range []int{10, 4000} { // in one packet, in fragments
				if seen, want := f.exchange(octets), netip.AddrPortFrom(netip.MustParseAddr(c.seen), uint16(20000+i)); seen != want {
					t.Errorf("%s -> %s: %d octets came from %s, want %s", c.source, c.target, octets, seen, want)
				}
			}
			flows = append(flows, f)
			n.expectRefusal(c.from, source, target)
		}
		before := n.translations()
		if len(before.Entries) != 4 || before.SessionCount < len(natCases) || before.Table != "lisp-nat-loci0" || before.RestoredTotal != 0 || !before.Entries[0].EIDs || before.Entries[2].EIDs {
			t.Errorf("translations %+v", before)
		}
		n.expectUnsolicitedDropped()
		n.expectWords("xtr1", "show translations", "203.0.113.10:20002", "fd99:1::/64")

		flushed := time.Now()
		n.flushRules("xtr1")
		n.await("the table is back", func(ctx context.Context) bool {
			now, err := n.client("xtr1").Translations(ctx)
			return err == nil && now.RestoredTotal == 1
		})
		if at := n.translations().RestoredAt; at == nil || at.Sub(flushed) > time.Second {
			t.Errorf("flushed at %s, back at %v", flushed, at)
		}
		if !n.warns("xtr1", "is back") || !strings.Contains(n.logs["xtr1"].String(), "was removed or changed by someone else") {
			t.Error("status or log does not tell of the table that was gone")
		}
		n.awaitEvents("xtr1", flushed, "translation-restored")
		n.expectFlows(flows)
		n.expectRefusal("private", private4, outside4) // a session that begins by the new table

		n.kill("xtr1")
		n.start("xtr1")
		n.expectFlows(flows)
		after := n.translations()
		if after.RestoredTotal != 0 || after.Entries[2].SessionsTotal == 0 || n.warns("xtr1", "is back") {
			t.Errorf("after a crash: %+v", after)
		}
		n.reconfigure("xtr1", n.natRouter("lisp-nat: []"))
		if tables := n.natTables("xtr1"); len(tables) != 0 {
			t.Errorf("tables %q are left without entries", tables)
		}
		n.reconfigure("xtr1", n.natRouter(natEntries))
		n.expectFlows(flows)
		n.stop("xtr1", n.daemons["xtr1"])
		if tables := n.natTables("xtr1"); len(tables) != 0 {
			t.Errorf("tables %q are left after a stop", tables)
		}
	})
}

// expectFlows exchanges packets of sessions that began before.
func (n *lispNetwork) expectFlows(flows []natFlow) {
	n.t.Helper()
	for i, f := range flows {
		if seen, want := f.exchange(10), netip.AddrPortFrom(netip.MustParseAddr(natCases[i].seen), uint16(20000+i)); seen != want {
			n.t.Errorf("a packet came from %s, want %s", seen, want)
		}
	}
}

// expectRefusal sends to a port where nothing listens: the ICMP error quotes the packet that was translated, and
// reaches its sender.
func (n *lispNetwork) expectRefusal(from string, source, target netip.Addr) {
	n.t.Helper()
	conn, err := n.at[from].DialUDP(netip.AddrPortFrom(source, 0), netip.AddrPortFrom(target, 9))
	n.must(err)
	defer conn.Close()
	n.must(conn.SetReadDeadline(time.Now().Add(10 * time.Second)))
	_, err = conn.Write([]byte{1})
	n.must(err)
	if _, err = conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
		n.t.Errorf("%s -> %s: %v, want a Port Unreachable", source, target, err)
	}
}

// expectUnsolicitedDropped sends to addresses of pools that have no session: each packet is dropped once, and goes
// round nowhere.
func (n *lispNetwork) expectUnsolicitedDropped() {
	n.t.Helper()
	before := n.translations().Entries
	for _, target := range []string{"192.0.2.77", "2001:db8:a::77", "203.0.113.77", "2001:db8:b::77"} {
		conn, err := n.at["outside"].DialUDP(netip.AddrPort{}, netip.AddrPortFrom(netip.MustParseAddr(target), 9))
		n.must(err)
		for range 5 {
			_, err = conn.Write([]byte{1})
			n.must(err)
		}
		conn.Close()
	}
	n.await("unsolicited packets are counted", func(context.Context) bool {
		for i, e := range n.translations().Entries {
			if e.UnsolicitedTotal-before[i].UnsolicitedTotal != 5 {
				return false
			}
		}
		return true
	})
	if c := n.dataPlane("xtr1"); c.Control["translation_unsolicited_packets_total"] < 20 || c.Control["translation_sessions_total"] == 0 {
		n.t.Errorf("counters %v", c.Control)
	}
}

// TestAddressesAndPortsOfAPool: two hosts share an address of the pool, which with the kernel's data plane may be the
// router's own, TCP finds the MTU of its path, and sessions beyond the ports of the pool are refused and counted
// while those that are there go on.
func TestAddressesAndPortsOfAPool(t *testing.T) {
	onEachEngine(t, func(t *testing.T, n *lispNetwork) {
		n.must(n.at["private"].AddAddress("eth0", netip.MustParsePrefix("192.168.1.11/24")))
		n.must(n.at["core"].SetMTU("to-outside", 1300))
		n.must(n.at["outside"].SetMTU("eth0", 1300))
		pool := map[string]string{"kernel": testSite{1}.rloc4(), "user": "192.0.2.7"}[n.engine]
		n.runNAT("lisp-nat: [{from: 192.168.1.0/24, pool: " + pool + ", translate: address-and-port}]")
		if n.warns("xtr1", "is an RLOC of this router") {
			t.Error("status warns of a pool that works")
		}
		n.transfer("private", "outside", private4, outside4)
		one := n.newFlow("private", "outside", private4, outside4, 20000)
		if seen := one.exchange(100); seen.String() != pool+":20000" {
			t.Errorf("a free port was changed: %s", seen)
		}
		target := one.far.LocalAddr().(*net.UDPAddr).AddrPort()
		two, err := n.at["private"].DialUDP(netip.MustParseAddrPort("192.168.1.11:20000"), target)
		n.must(err)
		defer two.Close()
		if seen := (natFlow{n, two, one.far}).exchange(100); seen.Addr() != netip.MustParseAddr(pool) || seen.Port() == 20000 {
			t.Errorf("the second host with that port came from %s", seen)
		}

		// Sources with ports below 512 get such ports.
		for _, source := range []string{"192.168.1.10", "192.168.1.11"} {
			for port := uint16(1); port <= 400; port++ {
				conn, err := n.at["private"].DialUDP(netip.AddrPortFrom(netip.MustParseAddr(source), port), target)
				n.must(err)
				_, _ = conn.Write([]byte{1})
				conn.Close()
			}
		}
		n.await("refused sessions are counted", func(context.Context) bool { return n.translations().RefusedPortsTotal >= 800-511 })
		for reads := 0; reads < 511; reads++ { // what passed is not of the sessions that follow
			if _, _, err := receive(one.far, 100*time.Millisecond); err != nil {
				break
			}
		}
		one.exchange(100)
		if !n.warns("xtr1", "the ports of a pool are all in use") {
			t.Error("status does not tell of the refused sessions")
		}
		if count := n.translations().SessionCount; count > 511+10 {
			t.Errorf("%d sessions of 511 ports", count)
		}
		n.reconfigure("xtr1", n.natRouter("lisp-nat: [{from: 10.1.0.0/24, pool: 172.16.1.2, translate: address-and-port}]"))
		if !n.warns("xtr1", "is an RLOC of this router") {
			t.Error("status does not warn of an RLOC in the pool of EIDs")
		}
	})
}

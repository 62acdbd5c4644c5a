// SPDX-License-Identifier: Apache-2.0

// Engines with real packets of real hosts: two sites with a host each, two xTRs with
// an engine each, a core between them. The tests need root.

package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/tap"
	"loci/internal/testnet"
	"loci/lisp"
)

// router is one xTR: interfaces site0 and core0 and an engine.
type router struct {
	*Engine
	ns       *testnet.Namespace
	instance string
	attached map[string]*ebpf.Program // that a test has run
}

// network is host A - xTR A - xTR B - host B. Site x is 10.x.0.0/24 and 2001:db8:x::/64, host .10, xTR .1.
type network struct {
	hosts   [2]*testnet.Namespace
	routers [2]*router
}

func siteAddress4(site, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(site + 1), 0, byte(host)})
}

func siteAddress6(site, host int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, byte(site + 1), 15: byte(host)})
}

func rloc4(site int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(site + 1)}) }

func rloc6(site int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0xff, 15: byte(site + 1)})
}

// pair is a family of EIDs in a family of RLOCs.
type pair struct {
	name  string
	inner func(site, host int) netip.Addr
	outer func(site int) netip.Addr
}

var pairs = []pair{
	{"IPv4 in IPv4", siteAddress4, rloc4},
	{"IPv6 in IPv4", siteAddress6, rloc4},
	{"IPv4 in IPv6", siteAddress4, rloc6},
	{"IPv6 in IPv6", siteAddress6, rloc6},
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newNetwork has engines with their Database, and no mapping.
func newNetwork(t *testing.T) *network {
	t.Helper()
	n := newLinks(t)
	for i := range n.routers {
		n.open(t, i, Options{})
	}
	return n
}

// open opens an engine with its site's settings and Database.
func (n *network) open(t *testing.T, i int, options Options) *router {
	t.Helper()
	n.routers[i].open(t, options)
	n.routers[i].apply(t, siteOperations(i)...)
	return n.routers[i]
}

// newLinks is a network whose routers have no engines yet: to open one costs as much as the rest.
func newLinks(t *testing.T) *network {
	t.Helper()
	net := testnet.ForTest(t)
	n := &network{}
	for i, role := range []string{"a", "b"} {
		host, err := net.Namespace("host" + role)
		must(t, err)
		xtr, err := net.Namespace("xtr" + role)
		must(t, err)
		n.hosts[i], n.routers[i] = host, &router{ns: xtr, instance: strings.ReplaceAll(xtr.Name(), ".", "_")}
		connectSite(t, host, xtr, i)
	}
	must(t, testnet.Connect(coreEnd(n.routers[0].ns, 0), coreEnd(n.routers[1].ns, 1)))
	for _, r := range n.routers {
		must(t, r.ns.Forward())
		must(t, r.ns.SetReversePathFilter(1))
	}
	return n
}

func connectSite(t *testing.T, host, xtr *testnet.Namespace, i int) {
	t.Helper()
	prefixes := func(last int) []netip.Prefix {
		return []netip.Prefix{netip.PrefixFrom(siteAddress4(i, last), 24), netip.PrefixFrom(siteAddress6(i, last), 64)}
	}
	must(t, testnet.Connect(testnet.End{Namespace: host, Name: "eth0", Addresses: prefixes(10)},
		testnet.End{Namespace: xtr, Name: "site0", Addresses: prefixes(1)}))
	must(t, host.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: siteAddress4(i, 1)}))
	must(t, host.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: siteAddress6(i, 1)}))
}

func coreEnd(ns *testnet.Namespace, i int) testnet.End {
	return testnet.End{Namespace: ns, Name: "core0",
		Addresses: []netip.Prefix{netip.PrefixFrom(rloc4(i), 24), netip.PrefixFrom(rloc6(i), 64)}}
}

// open opens the router's engine and detaches it at the end of the test.
func (r *router) open(t *testing.T, options Options) {
	t.Helper()
	options.Instance = r.instance
	options.Logger = cmp.Or(options.Logger, testLogger())
	must(t, r.ns.Do(func() (err error) {
		r.Engine, err = Open(options)
		return err
	}))
	r.closePrograms()
	t.Cleanup(func() {
		r.closePrograms()
		if err := r.Detach(context.Background()); err != nil && err != dataplane.ErrClosed {
			t.Errorf("detach: %v", err)
		}
		if _, err := os.Stat(pins.DefaultDirectory + "/" + r.instance); err == nil {
			_ = os.RemoveAll(pins.DefaultDirectory + "/" + r.instance)
		}
	})
}

func testLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (r *router) apply(t *testing.T, operations ...dataplane.Operation) {
	t.Helper()
	for i, err := range r.Apply(operations...) {
		if err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
}

// siteOperations are the settings and Database of site i.
func siteOperations(i int) []dataplane.Operation { return siteOperationsAt(i, dataplane.HookAuto) }

// siteOperationsAt are those with another hook.
func siteOperationsAt(i int, hook dataplane.Hook) []dataplane.Operation {
	own := []lisp.RLOC{lisp.RLOCFromAddr(rloc4(i)), lisp.RLOCFromAddr(rloc6(i))}
	operations := []dataplane.Operation{dataplane.SetSettings{Settings: dataplane.Settings{
		Interfaces: []dataplane.Interface{
			{Name: "site0", Side: dataplane.SideSite, Hook: hook}, {Name: "core0", Side: dataplane.SideCore, Hook: hook},
		},
		LocalRLOCs: own, Wait: dataplane.DefaultWaitBounds,
	}}}
	for _, prefix := range sitePrefixes(i) {
		operations = append(operations, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
			Prefix: prefix, Locators: locators(rloc4(i), rloc6(i)),
		}})
	}
	return operations
}

func sitePrefixes(i int) []lisp.Prefix {
	return []lisp.Prefix{
		lisp.MustParsePrefix(fmt.Sprintf("10.%d.0.0/24", i+1)), lisp.MustParsePrefix(fmt.Sprintf("2001:db8:%d::/64", i+1)),
	}
}

func locators(addresses ...netip.Addr) lisp.LocatorSet {
	var all []lisp.Locator
	for _, a := range addresses {
		all = append(all, lisp.Locator{RLOC: lisp.RLOCFromAddr(a), Priority: 1, Weight: 100, Reachable: true})
	}
	set, err := lisp.NewLocatorSet(all...)
	if err != nil {
		panic(err)
	}
	return set
}

// mappingOf maps both prefixes of site i to RLOCs of a family.
func mappingOf(i int, outer func(int) netip.Addr) []dataplane.Operation {
	var operations []dataplane.Operation
	for _, prefix := range sitePrefixes(i) {
		operations = append(operations, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
			Mapping:   lisp.Mapping{Prefix: prefix, Locators: locators(outer(i)), TTLMinutes: 10},
			CreatedAt: time.Now(), ExpiresAt: time.Now().Add(10 * time.Minute),
		}})
	}
	return operations
}

func (n *network) mapBoth(t *testing.T, outer func(int) netip.Addr) {
	t.Helper()
	for i, r := range n.routers {
		r.apply(t, mappingOf(1-i, outer)...)
	}
}

// report says what both engines dropped.
func (n *network) report() string {
	text := ""
	for i, r := range n.routers {
		if r.Engine == nil {
			continue
		}
		c := r.Counters()
		text += fmt.Sprintf(" %c: out %d, in %d, missed %d, waiting %d, released %d;", 'A'+i,
			c.EncapsulatedPackets, c.DecapsulatedPackets, c.MissPackets, c.WaitingPackets, c.ReleasedPackets)
		for name, packets := range c.Drops {
			if packets > 0 {
				text += fmt.Sprintf(" %s %d", name, packets)
			}
		}
	}
	return text
}

func (n *network) expectPings(t *testing.T, from *testnet.Namespace, source, destination netip.Addr) {
	t.Helper()
	result, err := testnet.Ping{Namespace: from, Source: source, Destination: destination, Count: 5}.Run(t.Context())
	must(t, err)
	if result.Received != 5 {
		t.Errorf("%v -> %v: %d of 5 pings answered, %d refused;%s", source, destination, result.Received, result.Refused, n.report())
	}
}

func (n *network) expectTCP(t *testing.T, p pair, octets int64) {
	t.Helper()
	result, err := testnet.TCP{
		Client: n.hosts[0], Server: n.hosts[1], Source: p.inner(0, 10), Destination: p.inner(1, 10),
		Octets: octets, Verify: true, Timeout: 20 * time.Second,
	}.Run(t.Context())
	if err != nil {
		t.Fatalf("TCP %s: %v;%s", p.name, err, n.report())
	}
	t.Logf("%s: %.1f Gbit/s;%s", p.name, result.BitsPerSecond/1e9, n.report())
}

func TestHostsThroughEngines(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			n.mapBoth(t, p.outer)
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			n.expectTCP(t, p, 64<<20)
			n.expectPings(t, n.hosts[1], p.inner(1, 10), p.inner(0, 10))
		})
	}
}

// ownEIDs leads what this host itself sends from its EIDs into the TAP, as the daemon does.
func (r *router) ownEIDs(t *testing.T, tap netlink.Link, from netip.Prefix) {
	t.Helper()
	const table = 4341
	handle, family, all := r.ns.Netlink(), netlink.FAMILY_V4, "0.0.0.0/0"
	if from.Addr().Is6() {
		family, all = netlink.FAMILY_V6, "::/0"
	}
	add := func(priority, table int, change func(*netlink.Rule)) {
		rule := netlink.NewRule()
		rule.Family, rule.Priority, rule.Table, rule.IifName = family, priority, table, "lo"
		change(rule)
		must(t, handle.RuleAdd(rule))
	}
	own := &net.IPNet{IP: net.IP(from.Masked().Addr().AsSlice()), Mask: net.CIDRMask(from.Bits(), from.Addr().BitLen())}
	add(1000, unix.RT_TABLE_MAIN, func(rule *netlink.Rule) { rule.Dst = own })
	add(1001, table, func(rule *netlink.Rule) { rule.Src = own })
	add(32800, table, func(*netlink.Rule) {})
	_, everything, err := net.ParseCIDR(all)
	must(t, err)
	must(t, handle.RouteAdd(&netlink.Route{
		LinkIndex: tap.Attrs().Index, Dst: everything, Table: table, Src: net.IP(from.Addr().AsSlice()),
	}))
}

func TestOwnEIDs(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a := n.routers[0]
	for i, r := range n.routers {
		tap, err := r.ns.Netlink().LinkByName(tap.DefaultName)
		must(t, err)
		r.ownEIDs(t, tap, netip.PrefixFrom(siteAddress4(i, 1), 24))
		r.ownEIDs(t, tap, netip.PrefixFrom(siteAddress6(i, 1), 64))
	}
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			n.mapBoth(t, p.outer)
			n.expectPings(t, a.ns, p.inner(0, 1), p.inner(1, 10))
			n.expectPings(t, a.ns, netip.Addr{}, p.inner(1, 10))
			n.expectPings(t, a.ns, p.inner(0, 1), p.inner(1, 1))
			n.expectPings(t, n.hosts[1], p.inner(1, 10), p.inner(0, 1))
			if _, err := (testnet.TCP{Client: a.ns, Server: n.hosts[1], Source: p.inner(0, 1), Destination: p.inner(1, 10),
				Octets: 8 << 20, Verify: true}).Run(t.Context()); err != nil {
				t.Errorf("TCP of the xTR itself: %v;%s", err, n.report())
			}
		})
	}
	n.expectRefusals(t)
}

// expectRefusals demands that hosts and the router itself are told that mappings drop their packets: a connection that is
// begun ends at once.
func (n *network) expectRefusals(t *testing.T) {
	t.Helper()
	a := n.routers[0]
	wanted := map[lisp.Action][2]syscall.Errno{
		lisp.ActionDrop: {unix.ENETUNREACH, unix.ENETUNREACH}, lisp.ActionDropPolicyDenied: {unix.EHOSTUNREACH, unix.EACCES},
	}
	for action, errnos := range wanted {
		for i, p := range []pair{pairs[0], pairs[1]} {
			to := p.inner(2+int(action), 10)
			a.apply(t, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: lisp.Mapping{
				Prefix: lisp.HostPrefix(0, lisp.EIDFromAddr(to)), Action: action,
			}}})
			for from, source := range map[*testnet.Namespace]netip.Addr{n.hosts[0]: p.inner(0, 10), a.ns: p.inner(0, 1)} {
				dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0)), Timeout: patience}
				err := from.Do(func() error {
					conn, err := dialer.Dial("tcp", netip.AddrPortFrom(to, 9).String())
					if err == nil {
						conn.Close()
					}
					return err
				})
				if !errors.Is(err, errnos[i]) {
					t.Errorf("%v -> %v, %v: %v, want %v;%s", source, to, action, err, errnos[i], n.report())
				}
			}
		}
	}
}

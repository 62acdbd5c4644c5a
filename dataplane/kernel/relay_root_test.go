// SPDX-License-Identifier: Apache-2.0

// An RTR with real packets of real hosts: host A - xTR A - RTR - xTR B - host B, each router with an engine. The tests need root.

package kernel

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
)

// relayed is a network whose xTRs reach each other by the RTR alone: xTR A by core0, where the RTR has address 3 of rloc4 and rloc6, xTR B
// by core1, where it has that of second4 and second6.
type relayed struct {
	*network
	rtr       *router
	near, far func(int) netip.Addr
	tables    []dataplane.Operation // of the RTR
}

// newRelayed opens engines whose tables are full, but for the RTR's. near and far are the families of the RLOCs before and behind the RTR.
func newRelayed(t *testing.T, near, far func(int) netip.Addr, hook dataplane.Hook) *relayed {
	t.Helper()
	net := testnet.ForTest(t)
	n := &relayed{network: &network{}, near: near, far: far}
	for i, role := range []string{"a", "b"} {
		host, err := net.Namespace("host" + role)
		must(t, err)
		xtr, err := net.Namespace("xtr" + role)
		must(t, err)
		n.hosts[i], n.routers[i] = host, &router{ns: xtr, instance: strings.ReplaceAll(xtr.Name(), ".", "_")}
		connectSite(t, host, xtr, i)
		must(t, host.SetMTU("eth0", 1500-40-16)) // fits a core of 1500 octets in any family
	}
	middle, err := net.Namespace("rtr")
	must(t, err)
	n.rtr = &router{ns: middle, instance: strings.ReplaceAll(middle.Name(), ".", "_")}
	farEnd := func(ns *testnet.Namespace, name string, i int) testnet.End {
		return testnet.End{Namespace: ns, Name: name, Addresses: []netip.Prefix{netip.PrefixFrom(second4(i), 24), netip.PrefixFrom(second6(i), 64)}}
	}
	must(t, testnet.Connect(coreEnd(n.routers[0].ns, 0), coreEnd(middle, 2)))
	must(t, testnet.Connect(farEnd(middle, "core1", 2), farEnd(n.routers[1].ns, "core0", 1)))
	for i, r := range n.routers {
		must(t, r.ns.Forward())
		r.open(t, Options{})
		operations := siteOperationsAt(i, hook)
		settings := operations[0].(dataplane.SetSettings)
		own, rtr := near, near
		if i == 1 {
			own, rtr = far, far
			settings.Settings.LocalRLOCs = []lisp.RLOC{lisp.RLOCFromAddr(second4(1)), lisp.RLOCFromAddr(second6(1))}
		}
		r.apply(t, settings)
		for _, prefix := range sitePrefixes(i) {
			r.apply(t, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: prefix, Locators: locators(own(i))}})
		}
		r.apply(t, mappingBy(1-i, rtr(2))...)
	}
	must(t, middle.Forward())
	n.rtr.open(t, Options{})
	n.rtr.apply(t, dataplane.SetSettings{Settings: relaySettings(hook, "10.1.0.0/24", "2001:db8:1::/64")})
	n.tables = append(mappingBy(0, near(0)), mappingBy(1, far(1))...)
	return n
}

// relaySettings are the RTR's, for some EIDs; those at the other end need not be named.
func relaySettings(hook dataplane.Hook, eids ...string) dataplane.Settings {
	policy := dataplane.RolePolicy{Role: dataplane.RoleRTR}
	for _, eid := range eids {
		policy.EIDs = append(policy.EIDs, netip.MustParsePrefix(eid))
	}
	s := dataplane.Settings{
		Interfaces: []dataplane.Interface{{Name: "core0", Side: dataplane.SideCore, Hook: hook}, {Name: "core1", Side: dataplane.SideCore, Hook: hook}},
		Wait:       dataplane.DefaultWaitBounds, Roles: []dataplane.RolePolicy{policy},
	}
	for _, a := range []netip.Addr{rloc4(2), rloc6(2), second4(2), second6(2)} {
		s.LocalRLOCs = append(s.LocalRLOCs, lisp.RLOCFromAddr(a))
	}
	return s
}

// mappingBy maps both prefixes of site i to one RLOC.
func mappingBy(i int, to netip.Addr) []dataplane.Operation {
	return mappingOf(i, func(int) netip.Addr { return to })
}

func (n *relayed) report() string {
	return n.network.report() + (&network{routers: [2]*router{n.rtr, {}}}).report()
}

func (n *relayed) told(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v;%s", what, err, n.report())
	}
}

// relayFamilies are families before and behind the RTR.
var relayFamilies = map[string][2]func(int) netip.Addr{
	"IPv4 to IPv4": {rloc4, second4}, "IPv4 to IPv6": {rloc4, second6}, "IPv6 to IPv4": {rloc6, second4}, "IPv6 to IPv6": {rloc6, second6},
}

// TestHostsThroughRelay has pings and TCP in both directions; behind the RTR GSO packets are cut in software, so that each segment has
// to have the headers that the RTR wrote.
func TestHostsThroughRelay(t *testing.T) {
	for name, outer := range relayFamilies {
		for _, hook := range []dataplane.Hook{dataplane.HookTC, dataplane.HookXDP} {
			t.Run(name+" "+hook.String(), func(t *testing.T) {
				t.Parallel()
				n := newRelayed(t, outer[0], outer[1], hook)
				n.rtr.apply(t, n.tables...)
				if hook == dataplane.HookTC {
					for _, core := range []string{"core0", "core1"} {
						must(t, n.rtr.ns.SetOffload(core, testnet.TSO, false))
					}
				}
				for _, inner := range []func(int, int) netip.Addr{siteAddress4, siteAddress6} {
					ping, err := testnet.Ping{Namespace: n.hosts[0], Source: inner(0, 10), Destination: inner(1, 10), Count: 5}.Run(t.Context())
					if err != nil || ping.Received != 5 {
						t.Fatalf("%d of 5 pings, %v;%s", ping.Received, err, n.report())
					}
					for from := range 2 {
						result, err := testnet.TCP{
							Client: n.hosts[from], Server: n.hosts[1-from], Source: inner(from, 10), Destination: inner(1-from, 10),
							Octets: 4 << 20, Verify: true, Timeout: 20 * time.Second,
						}.Run(t.Context())
						n.told(t, "TCP", err)
						t.Logf("to %s: %.1f Gbit/s;%s", inner(1-from, 10), result.BitsPerSecond/1e9, n.report())
					}
				}
				if c := n.rtr.Counters(); c.RelayedPackets == 0 || c.EncapsulatedPackets+c.DecapsulatedPackets != 0 {
					t.Errorf("counters %+v", c)
				}
			})
		}
	}
}

// TestRelayedPacketsWait has packets of two flows come to an RTR without the mapping: all arrive in order, and have lost one hop at each
// router.
func TestRelayedPacketsWait(t *testing.T) {
	t.Parallel()
	const perFlow = 60
	for name, outer := range relayFamilies {
		for _, inner := range []func(int, int) netip.Addr{siteAddress4, siteAddress6} {
			t.Run(name, func(t *testing.T) {
				n := newRelayed(t, outer[0], outer[1], dataplane.HookTC)
				to := netip.AddrPortFrom(inner(1, 10), 5000)
				server, err := n.hosts[1].ListenUDP(to)
				must(t, err)
				defer server.Close()
				flows := []*udpFlow{n.udpFlow(t, netip.AddrPort{}, to), n.udpFlow(t, netip.AddrPort{}, to)}
				for _, f := range flows {
					f.send(t, perFlow/2)
				}
				miss := n.rtr.nextMiss(t)
				if miss.Destination.Addr() != to.Addr() || miss.Source.Addr() != inner(0, 10) || miss.Interface != "core0" {
					t.Errorf("miss %+v", miss)
				}
				eventually(t, "all wait", func() bool { return n.rtr.Counters().WaitingPackets >= perFlow })
				done := make(chan struct{})
				go func() {
					defer close(done)
					for _, err := range n.rtr.Apply(n.tables...) {
						t.Errorf("apply: %v", err)
					}
				}()
				for range perFlow / 2 { // these meet HOLD, or not
					for _, f := range flows {
						f.send(t, 1)
					}
				}
				<-done
				expectInOrder(t, server, len(flows), perFlow)
				eventually(t, "none waits", func() bool { return n.rtr.Counters().WaitingPackets == 0 }) // counted after they have left
				if c := n.rtr.Counters(); c.ReleasedPackets < perFlow || c.RelayedPackets != 2*perFlow {
					t.Errorf("counters afterwards:%s", n.report())
				}
			})
		}
	}
}

// TestTracerouteThroughRelay: a packet that ends at the RTR is answered with Time Exceeded by the RTR's stack, whose answer is LISP's as
// its receiver is an EID.
func TestTracerouteThroughRelay(t *testing.T) {
	t.Parallel()
	for name, outer := range relayFamilies {
		t.Run(name, func(t *testing.T) {
			n := newRelayed(t, outer[0], outer[1], dataplane.HookTC)
			n.rtr.apply(t, n.tables...)
			for _, gateway := range []netip.Addr{rloc4(0), rloc6(0)} {
				everywhere := netip.PrefixFrom(gateway, 0).Masked()
				must(t, n.rtr.ns.AddRoute(testnet.Route{Destination: everywhere, Via: gateway}))
			}
			for _, to := range []netip.Addr{siteAddress4(1, 10), siteAddress6(1, 10)} {
				if err := n.sendWithTTL(t, netip.AddrPortFrom(to, 9), 2); !errors.Is(err, unix.EHOSTUNREACH) {
					t.Errorf("to %s with two hops to go: %v, want %v;%s", to, err, unix.EHOSTUNREACH, n.report())
				}
			}
		})
	}
}

// sendWithTTL sends UDP from host A and returns the error that comes back.
func (n *relayed) sendWithTTL(t *testing.T, to netip.AddrPort, ttl int) error {
	t.Helper()
	var conn net.Conn
	must(t, n.hosts[0].Do(func() (err error) {
		conn, err = net.Dial("udp", to.String())
		return err
	}))
	defer conn.Close()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		if to.Addr().Is4() {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, ttl),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1))
		} else {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ttl),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1))
		}
	}))
	must(t, err)
	_, err = conn.Write([]byte("?"))
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(2*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	return err
}

// TestKillARelay kills the engine of an RTR and starts it again under pings, none of which is lost. Paths and states are as before.
func TestKillARelay(t *testing.T) {
	n := newRelayed(t, rloc4, second6, dataplane.HookTC)
	n.rtr.apply(t, n.tables...)
	behind := lisp.RLOCFromAddr(second6(1))
	path, err := lisp.NewPath(lisp.RLOCFromAddr(second6(2)), behind)
	must(t, err)
	locator := lisp.Locator{RLOC: path.RLOC, Behind: path.Behind, Next: 1, Priority: 1, Weight: 1, Reachable: true,
		Bits: lisp.PathBits{lisp.HopExplicit | lisp.HopStrict, lisp.HopExplicit | lisp.HopProbe}}
	backup := lisp.Locator{RLOC: behind.WithPort(40001), Priority: 2, Weight: 1, Reachable: true}
	set, err := lisp.NewLocatorSet(locator, backup)
	must(t, err)
	entry := mappingBy(1, second6(1))[0].(dataplane.PutMapping)
	entry.Entry.Mapping.Locators = set
	n.rtr.apply(t, entry,
		dataplane.PutLocatorState{RLOC: backup.RLOC, State: dataplane.LocatorDown},
		dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(rloc4(0)), Behind: path.Behind, State: dataplane.LocatorUnconfirmed})
	before := describe(n.rtr.Engine)
	must(t, n.rtr.Close())
	process := n.rtr.startEngine(t, "")
	const count = 300
	pings := make(chan testnet.PingResult, 1)
	go func() {
		result, err := testnet.Ping{Namespace: n.hosts[0], Destination: siteAddress4(1, 10), Count: count}.Run(t.Context())
		if err != nil {
			t.Error(err)
		}
		pings <- result
	}()
	for range 2 {
		time.Sleep(300 * time.Millisecond)
		kill(t, process)
		time.Sleep(300 * time.Millisecond)
		process = n.rtr.startEngine(t, "")
	}
	if result := <-pings; result.Sent != count || result.Lost() != 0 || result.Refused != 0 {
		t.Errorf("of %d pings %d were lost", result.Sent, result.Lost())
	}
	kill(t, process)
	n.rtr.open(t, Options{})
	if after := describe(n.rtr.Engine); withoutUse(after) != withoutUse(before) {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if states := maps.Collect(n.rtr.LocatorStates()); len(states) != 2 {
		t.Errorf("states %v", states)
	}
	if c := n.rtr.Counters(); c.RelayedPackets < 2*count {
		t.Errorf("%d packets relayed;%s", c.RelayedPackets, n.report())
	}
}

// TestRelayOnAPath has a path whose hops before the next one are others' RLOCs: relayed packets do not take it, until one is an own RLOC.
func TestRelayOnAPath(t *testing.T) {
	t.Parallel()
	n := newRelayed(t, rloc6, second4, dataplane.HookTC)
	n.rtr.apply(t, n.tables...)
	another, end := lisp.RLOCFromAddr(netip.MustParseAddr("198.51.100.77")), lisp.RLOCFromAddr(second4(1))
	path, err := lisp.NewPath(another, end)
	must(t, err)
	set, err := lisp.NewLocatorSet(lisp.Locator{RLOC: path.RLOC, Behind: path.Behind, Next: 1, Priority: 1, Weight: 1, Reachable: true})
	must(t, err)
	for _, o := range mappingBy(1, second4(1)) {
		put := o.(dataplane.PutMapping)
		put.Entry.Mapping.Locators = set
		n.rtr.apply(t, put)
	}
	ping := testnet.Ping{Namespace: n.hosts[0], Destination: siteAddress4(1, 10), Count: 3, Timeout: 100 * time.Millisecond}
	if result, err := ping.Run(t.Context()); err != nil || result.Received != 0 || n.rtr.Counters().Drops["not-on-path"] != 3 {
		t.Errorf("%d pings came through, %v;%s", result.Received, err, n.report())
	}
	settings := n.rtr.Settings()
	settings.LocalRLOCs = append(settings.LocalRLOCs, another)
	n.rtr.apply(t, dataplane.SetSettings{Settings: settings})
	n.expectPings(t, n.hosts[0], netip.Addr{}, siteAddress4(1, 10))
	settings.LocalRLOCs = append(settings.LocalRLOCs, end) // the last hop is this router, and yet the next one
	n.rtr.apply(t, dataplane.SetSettings{Settings: settings})
	if result, err := ping.Run(t.Context()); err != nil || result.Received != 0 || n.rtr.Counters().Drops["own-next-hop"] != 3 {
		t.Errorf("%d pings came through, %v;%s", result.Received, err, n.report())
	}
}

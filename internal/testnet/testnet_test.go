// SPDX-License-Identifier: Apache-2.0

// Tests of namespaces, links, ping and TCP, in real namespaces. They need root.

package testnet

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// twoHosts is a - r - b, with both families.
type twoHosts struct {
	a, r, b *Namespace
}

var (
	a4, b4 = netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("10.2.0.2")
	a6, b6 = netip.MustParseAddr("fd00:1::2"), netip.MustParseAddr("fd00:2::2")
)

func newTwoHosts(t testing.TB) twoHosts {
	t.Helper()
	network := ForTest(t)
	var hosts twoHosts
	for role, into := range map[string]**Namespace{"a": &hosts.a, "r": &hosts.r, "b": &hosts.b} {
		ns, err := network.Namespace(role)
		if err != nil {
			t.Fatal(err)
		}
		*into = ns
	}
	connect := func(host *Namespace, site, v4, v6, gateway4, gateway6 string) {
		must(t, Connect(
			End{Namespace: host, Name: "eth0", Addresses: prefixes(v4, v6), MTU: 1500},
			End{Namespace: hosts.r, Name: site, Addresses: prefixes(gateway4, gateway6), MTU: 1500}))
		must(t, host.AddRoute(Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParsePrefix(gateway4).Addr()}))
		must(t, host.AddRoute(Route{Destination: netip.MustParsePrefix("::/0"), Via: netip.MustParsePrefix(gateway6).Addr()}))
	}
	must(t, hosts.r.Forward())
	connect(hosts.a, "to-a", "10.1.0.2/24", "fd00:1::2/64", "10.1.0.1/24", "fd00:1::1/64")
	connect(hosts.b, "to-b", "10.2.0.2/24", "fd00:2::2/64", "10.2.0.1/24", "fd00:2::1/64")
	return hosts
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPing(t *testing.T) {
	hosts := newTwoHosts(t)
	for _, pair := range []struct {
		name     string
		from, to netip.Addr
	}{{"ipv4", a4, b4}, {"ipv6", a6, b6}} {
		t.Run(pair.name, func(t *testing.T) {
			result, err := Ping{Namespace: hosts.a, Source: pair.from, Destination: pair.to, Count: 20, Interval: time.Millisecond}.Run(context.Background())
			must(t, err)
			if result.Sent != 20 || result.Received != 20 || result.Duplicates != 0 {
				t.Errorf("got %+v, want 20 sent and 20 received", result)
			}
			if first, answered := result.First(); !answered || first <= 0 {
				t.Errorf("first answer after %v (%v)", first, answered)
			}
		})
	}
}

func TestPingCountsWhatIsLost(t *testing.T) {
	hosts := newTwoHosts(t)
	must(t, hosts.r.SetUp("to-b", false))
	result, err := Ping{Namespace: hosts.a, Destination: b4, Count: 3, Timeout: 50 * time.Millisecond}.Run(context.Background())
	must(t, err)
	if result.Sent != 3 || result.Received != 0 || result.Lost() != 3 {
		t.Errorf("got %+v, want 3 sent and none received", result)
	}
	if _, answered := result.First(); answered {
		t.Error("the first request counts as answered")
	}
}

func TestPingEndsWithItsContext(t *testing.T) {
	hosts := newTwoHosts(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (Ping{Namespace: hosts.a, Destination: b4, Count: 1000, Interval: time.Hour}).Run(ctx); err == nil {
		t.Error("no error after the context ended")
	}
}

func TestTCP(t *testing.T) {
	hosts := newTwoHosts(t)
	cases := map[string]TCP{
		"ipv4 octets verified": {Source: a4, Destination: b4, Octets: 5_000_001, Verify: true},
		"ipv6 octets":          {Source: a6, Destination: b6, Octets: 1 << 20},
		"ipv6 time":            {Source: a6, Destination: b6, Duration: 50 * time.Millisecond, CongestionControl: "reno"},
	}
	for name, transfer := range cases {
		t.Run(name, func(t *testing.T) {
			transfer.Client, transfer.Server = hosts.a, hosts.b
			result, err := transfer.Run(context.Background())
			must(t, err)
			if result.Octets == 0 || (transfer.Octets > 0 && result.Octets != transfer.Octets) || result.BitsPerSecond <= 0 {
				t.Errorf("got %+v for %+v", result, transfer)
			}
		})
	}
}

func TestTCPTellsWhatFails(t *testing.T) {
	hosts := newTwoHosts(t)
	cases := map[string]struct {
		transfer TCP
		want     string
	}{
		"congestion control": {TCP{Destination: b4, Octets: 1, CongestionControl: "no-such"}, `congestion control "no-such"`},
		"foreign address":    {TCP{Destination: a4, Octets: 1}, "cannot assign requested address"},
		"foreign source":     {TCP{Source: b4, Destination: b4, Octets: 1}, "cannot assign requested address"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.transfer.Client, c.transfer.Server = hosts.a, hosts.b
			_, err := c.transfer.Run(context.Background())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestTCPEndsWithItsTimeout(t *testing.T) {
	hosts := newTwoHosts(t)
	must(t, hosts.r.SetUp("to-b", false))
	_, err := TCP{Client: hosts.a, Server: hosts.b, Destination: b4, Octets: 1, Timeout: 50 * time.Millisecond}.Run(context.Background())
	if err == nil {
		t.Error("a transfer over a cut link succeeded")
	}
}

func TestDoComesBack(t *testing.T) {
	hosts := newTwoHosts(t)
	inside, err := hosts.a.Sysctl("net.ipv4.conf.eth0.forwarding")
	must(t, err)
	if inside != "0" {
		t.Errorf("forwarding of host a is %q", inside)
	}
	router, err := hosts.r.Sysctl("net.ipv4.conf.to-a.forwarding")
	must(t, err)
	if router != "1" {
		t.Errorf("forwarding of the router is %q", router)
	}
	if _, err := os.Stat("/proc/sys/net/ipv4/conf/to-a"); err == nil {
		t.Error("the test's own namespace shows an interface of the network")
	}
}

func TestStartRunsInside(t *testing.T) {
	hosts := newTwoHosts(t)
	cmd := exec.Command("/bin/cat", "/proc/net/dev")
	var out strings.Builder
	cmd.Stdout = &out
	must(t, hosts.r.Start(cmd))
	must(t, cmd.Wait())
	if !strings.Contains(out.String(), "to-b") {
		t.Errorf("the process sees %q, not the router's interfaces", out.String())
	}
}

func TestRoutes(t *testing.T) {
	hosts := newTwoHosts(t)
	for address, want := range map[string]bool{"10.2.0.2": true, "fd00:2::2": true, "192.0.2.1": false, "2001:db8::1": false} {
		got, err := hosts.r.HasRoute(netip.MustParseAddr(address))
		must(t, err)
		if got != want {
			t.Errorf("route to %s: got %v, want %v", address, got, want)
		}
	}
}

func TestBridgeJoinsItsPorts(t *testing.T) {
	network := ForTest(t)
	bridge, err := network.Namespace("bridge")
	must(t, err)
	var hosts [2]*Namespace
	for i, name := range []string{"one", "two"} {
		hosts[i], err = network.Namespace(name)
		must(t, err)
		address := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)}), 24)
		must(t, Connect(End{Namespace: hosts[i], Name: "eth0", Addresses: []netip.Prefix{address}, MTU: 9000},
			End{Namespace: bridge, Name: "to-" + name, MTU: 9000}))
	}
	must(t, bridge.AddBridge("br0", "to-one", "to-two"))
	result, err := Ping{Namespace: hosts[0], Destination: netip.MustParseAddr("10.9.0.2"), Octets: 8000}.Run(context.Background())
	must(t, err)
	if result.Received != 1 {
		t.Errorf("got %+v over the bridge", result)
	}
}

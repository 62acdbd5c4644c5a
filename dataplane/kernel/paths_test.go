// SPDX-License-Identifier: Apache-2.0

// Paths to locators that carry less than their routes say: a router between the two xTRs has a smaller MTU towards B. The
// tests need root.

package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/forward"
	"loci/internal/testnet"
	"loci/lisp"
)

// newRoutedNetwork is newNetwork with a router in the core, whose link to B carries so many octets.
func newRoutedNetwork(t *testing.T, mtu int) (n *network, middle *testnet.Namespace) {
	t.Helper()
	spaces := testnet.ForTest(t)
	n = &network{}
	middle, err := spaces.Namespace("core")
	must(t, err)
	must(t, middle.Forward())
	for i, role := range []string{"a", "b"} {
		host, err := spaces.Namespace("host" + role)
		must(t, err)
		xtr, err := spaces.Namespace("xtr" + role)
		must(t, err)
		n.hosts[i], n.routers[i] = host, &router{ns: xtr, instance: strings.ReplaceAll(xtr.Name(), ".", "_")}
		connectSite(t, host, xtr, i)
		n.connectToMiddle(t, i, middle)
	}
	setMiddleMTU(t, n, middle, mtu)
	for i, r := range n.routers {
		must(t, r.ns.Forward())
		must(t, r.ns.SetReversePathFilter(1))
		r.open(t, Options{})
		r.apply(t, siteOperations(i)...)
	}
	return n, middle
}

func (n *network) connectToMiddle(t *testing.T, i int, middle *testnet.Namespace) {
	t.Helper()
	link := func(last int) []netip.Prefix {
		return []netip.Prefix{
			netip.MustParsePrefix(fmt.Sprintf("198.51.100.%d/30", 4*i+last)), netip.MustParsePrefix(fmt.Sprintf("2001:db8:fe:%d::%d/64", i, last)),
		}
	}
	own := []netip.Prefix{netip.PrefixFrom(rloc4(i), 32), netip.PrefixFrom(rloc6(i), 128)}
	must(t, testnet.Connect(testnet.End{Namespace: n.routers[i].ns, Name: "core0", Addresses: append(link(1), own...)},
		testnet.End{Namespace: middle, Name: fmt.Sprintf("to%d", i), Addresses: link(2)}))
	for f, all := range []string{"0.0.0.0/0", "::/0"} {
		must(t, n.routers[i].ns.AddRoute(testnet.Route{Destination: netip.MustParsePrefix(all), Via: link(2)[f].Addr()}))
		must(t, middle.AddRoute(testnet.Route{Destination: own[f], Via: link(1)[f].Addr()}))
	}
}

func setMiddleMTU(t *testing.T, n *network, middle *testnet.Namespace, mtu int) {
	t.Helper()
	must(t, middle.SetMTU("to1", mtu))
}

// encapsulateAs makes both routers send so to everybody.
func (n *network) encapsulateAs(t *testing.T, encapsulation dataplane.Encapsulation) {
	t.Helper()
	for _, r := range n.routers {
		settings := r.Settings()
		settings.Encapsulations = []dataplane.EncapsulationRule{{Encapsulation: encapsulation}}
		r.apply(t, dataplane.SetSettings{Settings: settings})
	}
}

func TestPathMTUIsLearnt(t *testing.T) {
	t.Parallel()
	for i, p := range []pair{pairs[0], pairs[1], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n, middle := newRoutedNetwork(t, 1400)
			n.encapsulateAs(t, dataplane.Encapsulation(i)) // one after the other, to have all
			n.mapBoth(t, p.outer)
			n.expectTCP(t, p, 8<<20)
			rloc := lisp.RLOCFromAddr(p.outer(1))
			if octets, learnt := n.routers[0].PathMTU(rloc); octets != 1400 || !learnt {
				t.Errorf("the path is known to carry %d octets, learnt %v", octets, learnt)
			}
			eventually(t, "the event", func() bool {
				select {
				case e := <-n.routers[0].Events():
					return e == dataplane.MTUChanged{RLOC: rloc, MTU: 1400}
				default:
					return false
				}
			})
			done := make(chan error, 1)
			go func() {
				_, err := testnet.TCP{Client: n.hosts[0], Server: n.hosts[1], Source: p.inner(0, 10), Destination: p.inner(1, 10),
					Duration: time.Second, Verify: true, Timeout: 60 * time.Second}.Run(t.Context())
				done <- err
			}()
			time.Sleep(300 * time.Millisecond)
			setMiddleMTU(t, n, middle, 1280)
			if err := <-done; err != nil {
				t.Errorf("TCP while the path shrinks: %v;%s", err, n.report())
			}
			if octets, _ := n.routers[0].PathMTU(rloc); octets != 1280 {
				t.Errorf("the path is known to carry %d octets after it shrank", octets)
			}
			n.expectTCP(t, p, 1<<20)
			if p.inner(0, 1).Is6() && (n.routers[0].Counters().Other["outer_fragmented"] == 0 || n.routers[1].Counters().Other["reassembled"] == 0) {
				t.Errorf("nothing went in fragments:%s", n.report())
			}
		})
	}
}

// A restart keeps what was learnt, and it ends with its time.
func TestPathMTUSurvivesARestart(t *testing.T) {
	t.Parallel()
	n, _ := newRoutedNetwork(t, 1400)
	p := pairs[0]
	n.mapBoth(t, p.outer)
	n.expectTCP(t, p, 1<<20)
	a, rloc := n.routers[0], lisp.RLOCFromAddr(p.outer(1))
	must(t, a.Close())
	a.open(t, Options{})
	if octets, learnt := a.PathMTU(rloc); octets != 1400 || !learnt {
		t.Errorf("after a restart the path is known to carry %d octets, learnt %v", octets, learnt)
	}
	ended := a.entries.EndPathMTUs(time.Now().Add(time.Hour))
	if octets, learnt := a.PathMTU(rloc); octets != 1500 || learnt || len(ended) != 1 {
		t.Errorf("when its time is over: %d octets, learnt %v, ended %v", octets, learnt, ended)
	}
}

// Errors that quote what was never sent change nothing.
func TestForgedPathErrors(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	p := pairs[0]
	n.mapBoth(t, p.outer)
	n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
	a, rloc := n.routers[0], lisp.RLOCFromAddr(p.outer(1))
	outer := udpPacket(t, pair{inner: func(site, _ int) netip.Addr { return p.outer(site) }}, 0, 1, 40)
	outer[22], outer[23] = 0x10, 0xf5 // to the data port, with no flow of ours inside
	must(t, n.routers[1].ns.Do(func() error {
		socket, err := icmp.ListenPacket("ip4:icmp", p.outer(1).String())
		if err != nil {
			return err
		}
		defer socket.Close()
		message := icmp.Message{Type: ipv4.ICMPTypeDestinationUnreachable, Code: 4, Body: &icmp.DstUnreach{Data: outer}}
		packet, err := message.Marshal(nil)
		if err != nil {
			return err
		}
		packet[6], packet[7] = 0x03, 0xe8 // MTU 1000
		packet[2], packet[3] = 0, 0
		sum := forward.Checksum(packet)
		packet[2], packet[3] = byte(sum>>8), byte(sum)
		_, err = socket.WriteTo(packet, &net.IPAddr{IP: p.outer(0).AsSlice()})
		return err
	}))
	eventually(t, "the error is refused", func() bool { return a.Counters().Other["path_errors_refused"] == 1 })
	if octets, learnt := a.PathMTU(rloc); octets != 1500 || learnt {
		t.Errorf("a forged error made the path carry %d octets", octets)
	}
}

// sendWithHops sends a datagram that has so many hops to go.
func sendWithHops(t *testing.T, from *testnet.Namespace, source, destination netip.Addr, hops int) {
	t.Helper()
	must(t, from.Do(func() error {
		socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: source.AsSlice()})
		if err != nil {
			return err
		}
		defer socket.Close()
		if source.Is4() {
			err = ipv4.NewConn(socket).SetTTL(hops)
		} else {
			err = ipv6.NewConn(socket).SetHopLimit(hops)
		}
		if err == nil {
			_, err = socket.WriteTo([]byte("hops"), &net.UDPAddr{IP: destination.AsSlice(), Port: 33434})
		}
		return err
	}))
}

// Routers of the core answer a host's traceroute with errors about outer packets. Those say nothing about the locator; that the core
// has lost its way to it does.
func TestTracerouteIsNoUnreachable(t *testing.T) {
	t.Parallel()
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			n, middle := newRoutedNetwork(t, 1500)
			n.mapBoth(t, p.outer)
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			sendWithHops(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10), 2)
			own := netip.PrefixFrom(p.outer(1), p.outer(1).BitLen())
			must(t, middle.Netlink().RouteReplace(&netlink.Route{
				Dst: &net.IPNet{IP: own.Addr().AsSlice(), Mask: net.CIDRMask(own.Bits(), own.Bits())}, Type: unix.RTN_UNREACHABLE,
			}))
			first := dataplane.LocatorUnreachable{}
			eventually(t, "the event", func() bool {
				sendWithHops(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10), 64)
				select {
				case e := <-n.routers[0].Events():
					u, ok := e.(dataplane.LocatorUnreachable)
					first = u
					return ok
				default:
					return false
				}
			})
			unreachable := uint8(3)
			if p.outer(1).Is6() {
				unreachable = 1
			}
			if first.RLOC != lisp.RLOCFromAddr(p.outer(1)) || first.Type != unreachable {
				t.Errorf("the first event is %+v", first)
			}
		})
	}
}

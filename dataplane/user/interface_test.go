// SPDX-License-Identifier: Apache-2.0

// What becomes of an engine whose TUN somebody deletes, and of the TUN's MTU. The tests need root.

package user

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/conformance/links"
	"loci/dataplane/user/underlay"
	"loci/internal/testnet"
	"loci/lisp"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// openedRouter is an engine that tells when its TUN was made anew, at a router with an interface to the site and one to the core.
func openedRouter(t *testing.T) (e *Engine, router, other *testnet.Namespace, remade <-chan struct{}) {
	t.Helper()
	network := testnet.ForTest(t)
	router, err := network.Namespace("xtr")
	must(t, err)
	other, err = network.Namespace("other")
	must(t, err)
	for _, name := range []string{links.Site, links.Core} {
		must(t, testnet.Connect(testnet.End{Namespace: router, Name: name}, testnet.End{Namespace: other, Name: name}))
	}
	told := make(chan struct{}, 64)
	must(t, router.Do(func() (err error) {
		e, err = Open(Options{Remade: func() { told <- struct{}{} }})
		return err
	}))
	t.Cleanup(func() { must(t, e.Detach(context.Background())) })
	return e, router, other, told
}

// TestTUNIsKept deletes the TUN, sets it down, renames it, and moves it to another network namespace: each time it is as it was
// soon after, and the queues go on.
func TestTUNIsKept(t *testing.T) {
	e, router, there, remade := openedRouter(t)
	handle := router.Netlink()
	tests := []struct {
		name string
		make func(netlink.Link) error
	}{
		{"deleted", handle.LinkDel},
		{"deleted again", handle.LinkDel},
		{"set down", handle.LinkSetDown},
		{"renamed", func(device netlink.Link) error {
			for { // until it has another name before the engine mends it
				err := errors.Join(handle.LinkSetDown(device), handle.LinkSetName(device, "other"))
				if !errors.Is(err, unix.ENODEV) {
					return err
				}
				eventually(t, "it is there again", func() bool {
					device, err = handle.LinkByName(DefaultInterface)
					return err == nil
				})
			}
		}},
		{"moved", func(device netlink.Link) error {
			fd, err := os.Open(there.Path())
			if err != nil {
				return err
			}
			defer fd.Close()
			return handle.LinkSetNsFd(device, int(fd.Fd()))
		}},
	}
	for _, amiss := range tests {
		before := e.Counters().Other["tun_renewed"]
		device, err := handle.LinkByName(DefaultInterface)
		must(t, err)
		must(t, amiss.make(device))
		eventually(t, amiss.name+": it is counted", func() bool { return e.Counters().Other["tun_renewed"] > before })
		eventually(t, amiss.name+": it is told", func() bool { return len(remade) > 0 })
		eventually(t, amiss.name+": it is as it was", func() bool {
			kept, err := handle.LinkByName(DefaultInterface)
			return err == nil && kept.Attrs().Flags&net.FlagUp != 0 && kept.Attrs().Index == e.tun.Index()
		})
		for len(remade) > 0 {
			<-remade
		}
		for i, q := range e.tun.Queues {
			if err := q.Writer().Write(make([]byte, 10), []byte{0x45}); err != nil { // which the host's stack drops
				t.Errorf("%s: queue %d: %v", amiss.name, i, err)
			}
		}
	}
	eventually(t, "the one that was moved is gone", func() bool {
		_, err := there.Netlink().LinkByName(DefaultInterface)
		return errors.As(err, &netlink.LinkNotFoundError{})
	})
	if _, err := handle.LinkByName("other"); !errors.As(err, &netlink.LinkNotFoundError{}) {
		t.Errorf("the one that was renamed is left: %v", err)
	}
}

// TestTUNTakesTheLargestMTU follows the MTU of the interfaces by which packets come in.
func TestTUNTakesTheLargestMTU(t *testing.T) {
	e, router, _, _ := openedRouter(t)
	handle := router.Netlink()
	expect := func(what string, want int) {
		t.Helper()
		eventually(t, what, func() bool {
			link, err := handle.LinkByName(DefaultInterface)
			must(t, err)
			return link.Attrs().MTU == want
		})
	}
	expect("without interfaces", 1500)
	must(t, router.SetMTU(links.Site, 9000))
	must(t, router.SetMTU(links.Core, 8000))
	settings := e.Settings()
	settings.Interfaces = []dataplane.Interface{{Name: links.Site}, {Name: links.Core, Side: dataplane.SideCore}}
	if errs := e.Apply(dataplane.SetSettings{Settings: settings}); errs != nil {
		t.Fatal(errs)
	}
	link, err := handle.LinkByName(DefaultInterface)
	must(t, err)
	if link.Attrs().MTU != 9000 {
		t.Errorf("the MTU is %d when the settings are in force", link.Attrs().MTU)
	}
	must(t, router.SetMTU(links.Site, 7000))
	expect("the site's became smaller", 7000)
	must(t, router.SetMTU(links.Site, 1280))
	expect("the site's is small", 1500)
	settings.Roles = []dataplane.RolePolicy{{Role: dataplane.RolePITR, EIDs: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}}
	if errs := e.Apply(dataplane.SetSettings{Settings: settings}); errs != nil {
		t.Fatal(errs)
	}
	expect("a PITR gets packets from the core", 8000)
	device, err := handle.LinkByName(DefaultInterface)
	must(t, err)
	must(t, handle.LinkDel(device))
	eventually(t, "a new one has it as well", func() bool {
		link, err := handle.LinkByName(DefaultInterface)
		return err == nil && link.Attrs().MTU == 8000
	})
}

// TestBoundDatagrams leads the routes to peers into the TUN: datagrams to them leave by the interface to the core, and only they are
// bound to it.
func TestBoundDatagrams(t *testing.T) {
	h := newHarness(t).(*engineHarness)
	if errs := h.engine.Apply(dataplane.SetSettings{Settings: h.Settings()}); errs != nil {
		t.Fatal(errs)
	}
	core, err := h.Router.Netlink().LinkByName(links.Core)
	must(t, err)
	sender := underlay.NewSender(h.engine.pool, h.engine.errors.refusedByCache)
	for peer, own := range map[netip.Addr]netip.Addr{conformance.PeerRLOCs[0]: conformance.OwnRLOC4, conformance.PeerRLOCs[2]: conformance.OwnRLOC6} {
		rloc := lisp.RLOCFromAddr(peer)
		for _, captured := range []bool{false, true, false} {
			route := &netlink.Route{LinkIndex: h.engine.tun.Index(), Dst: &net.IPNet{IP: peer.AsSlice(), Mask: net.CIDRMask(peer.BitLen(), peer.BitLen())}, Priority: 1}
			want := 0
			if captured {
				want = core.Attrs().Index
				must(t, h.Router.Netlink().RouteAdd(route))
			} else {
				_ = h.Router.Netlink().RouteDel(route)
			}
			h.engine.paths.askAnew(peer)
			if mtu := h.engine.paths.mtu(rloc); mtu != conformance.PathMTU {
				t.Errorf("%s: the path carries %d, captured: %v", peer, mtu, captured)
			}
			if !h.engine.pool.IsBound(peer, want) {
				t.Errorf("%s is not bound to interface %d", peer, want)
			}
			sender.Add(&underlay.Outer{Source: own, To: netip.AddrPortFrom(peer, 4341), Marks: underlay.Marks{TTL: 64}}, []byte("datagram"))
			sender.Flush()
			if packet, ok := h.ReceiveAtCore(t); !ok || !strings.HasSuffix(string(packet), "datagram") {
				t.Errorf("%s: %q left, captured: %v", peer, packet, captured)
			}
		}
	}
}

// TestDataPortIsTaken: a socket of either family that cannot be had is an error.
func TestDataPortIsTaken(t *testing.T) {
	router, err := testnet.ForTest(t).Namespace("xtr")
	must(t, err)
	open := func() (e *Engine, err error) {
		_ = router.Do(func() error { e, err = Open(Options{}); return nil })
		return e, err
	}
	for network, want := range map[string]string{"udp4": "data port: ", "udp6": "data port, IPv6: "} {
		var taken net.PacketConn
		must(t, router.Do(func() (err error) {
			taken, err = net.ListenPacket(network, ":4341")
			return err
		}))
		if e, err := open(); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s: %v, want %q", network, err, want)
			if err == nil {
				must(t, e.Detach(context.Background()))
			}
		}
		must(t, taken.Close())
	}
	e, err := open()
	must(t, err)
	must(t, e.Detach(context.Background()))
}

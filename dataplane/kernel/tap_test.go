// SPDX-License-Identifier: Apache-2.0

// What becomes of an engine whose TAP somebody deletes, and of packets while no engine makes another one. The tests need root.

package kernel

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/tap"
	"loci/forward"
	"loci/internal/testnet"
)

func TestTAPIsMadeAnew(t *testing.T) {
	n := newNetwork(t)
	a := n.routers[0]
	must(t, a.Detach(context.Background()))
	remade := make(chan struct{}, 1)
	a.open(t, Options{TAPRemade: func() { remade <- struct{}{} }})
	a.apply(t, siteOperations(0)...)
	settings := a.Settings()
	settings.Wait.Time = 10 * patience // however long the TAP takes to be made anew, twice
	a.apply(t, dataplane.SetSettings{Settings: settings})
	n.routers[1].apply(t, mappingOf(0, rloc4)...)
	f := n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(siteAddress4(1, 10), 5000))
	server, err := n.hosts[1].ListenUDP(netip.AddrPortFrom(siteAddress4(1, 10), 5000))
	must(t, err)
	defer server.Close()
	f.send(t, 3)
	eventually(t, "packets wait", func() bool { return a.Counters().WaitingPackets == 3 })

	for range 2 {
		before := a.Counters().Other["tap_errors"]
		device, err := a.ns.Netlink().LinkByName(tap.DefaultName)
		must(t, err)
		must(t, a.ns.Netlink().LinkDel(device))
		<-remade
		if after := a.Counters().Other["tap_errors"]; after == before {
			t.Error("no counter tells that the TAP could not be read")
		}
	}
	f.send(t, 3)
	eventually(t, "more packets wait", func() bool { return a.Counters().WaitingPackets == 6 })
	a.apply(t, mappingOf(1, rloc4)...)
	expectInOrder(t, server, 1, 6)
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
}

// TestTAPIsKept sets the TAP down, renames it, and moves it to another network namespace: each time it is as it was soon after, routes by it are asked
// for again, and packets wait there.
func TestTAPIsKept(t *testing.T) {
	n := newLinks(t)
	a := n.routers[0]
	remade := make(chan struct{}, 1)
	a.open(t, Options{TAPRemade: func() { remade <- struct{}{} }})
	a.apply(t, siteOperations(0)...)
	settings := a.Settings()
	settings.Wait.Time = 10 * patience
	a.apply(t, dataplane.SetSettings{Settings: settings})
	f := n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(siteAddress4(1, 10), 5000))
	handle, there := a.ns.Netlink(), n.hosts[0]
	for _, amiss := range []struct {
		name string
		make func(netlink.Link) error
	}{
		{"set down", handle.LinkSetDown},
		{"renamed", func(device netlink.Link) error {
			return errors.Join(handle.LinkSetDown(device), handle.LinkSetName(device, "other"), handle.LinkSetUp(device))
		}},
		{"moved", func(device netlink.Link) error {
			fd, err := os.Open(there.Path())
			if err != nil {
				return err
			}
			defer fd.Close()
			return handle.LinkSetNsFd(device, int(fd.Fd()))
		}},
	} {
		before := a.Counters().Other["tap_errors"]
		device, err := handle.LinkByName(tap.DefaultName)
		must(t, err)
		must(t, amiss.make(device))
		select {
		case <-remade:
		case <-time.After(patience):
			t.Fatalf("%s: nothing is done", amiss.name)
		}
		eventually(t, amiss.name+": it is as it was", func() bool {
			kept, err := handle.LinkByName(tap.DefaultName)
			return err == nil && kept.Attrs().Flags&net.FlagUp != 0
		})
		if after := a.Counters().Other["tap_errors"]; after == before {
			t.Errorf("%s: no counter tells", amiss.name)
		}
		waiting := a.Counters().WaitingPackets
		eventually(t, amiss.name+": packets wait", func() bool {
			f.send(t, 1)
			return a.Counters().WaitingPackets > waiting
		})
	}
	eventually(t, "the one that was moved is gone", func() bool {
		_, err := there.Netlink().LinkByName(tap.DefaultName)
		return errors.As(err, &netlink.LinkNotFoundError{})
	})
}

// warnings counts those of a text.
type warnings struct {
	of    string
	count atomic.Int64
}

// Write implements io.Writer.
func (w *warnings) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(w.of)) {
		w.count.Add(1)
	}
	return os.Stderr.Write(line)
}

// TestTAPWhoseNameIsTaken renames the TAP and gives its name to another interface. It is said once, however often it is tried again, and the TAP stays as
// it is meanwhile, with its routes.
func TestTAPWhoseNameIsTaken(t *testing.T) {
	t.Parallel()
	a := newLinks(t).routers[0]
	told := &warnings{of: "set down or renamed"}
	a.open(t, Options{Logger: slog.New(slog.NewTextHandler(told, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	handle := a.ns.Netlink()
	device, err := handle.LinkByName(tap.DefaultName)
	must(t, err)
	other := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: tap.DefaultName}}
	route := &netlink.Route{LinkIndex: device.Attrs().Index, Dst: networkOf("203.0.113.0/24")}
	a.changing.Lock() // so that the engine does not give it its name back in between
	must(t, errors.Join(handle.LinkSetDown(device), handle.LinkSetName(device, "other"), handle.LinkSetUp(device), handle.LinkAdd(other), handle.RouteAdd(route)))
	a.changing.Unlock()
	for range 3 {
		if a.resync() {
			t.Error("nothing is amiss")
		}
	}
	if routes, err := handle.RouteList(device, netlink.FAMILY_V4); err != nil || len(routes) != 1 {
		t.Errorf("routes by the TAP: %v, %v", routes, err)
	}
	if n := told.count.Load(); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	must(t, handle.LinkDel(other))
	eventually(t, "it has its name again", func() bool {
		kept, err := handle.LinkByName(tap.DefaultName)
		return err == nil && kept.Attrs().Index == device.Attrs().Index && kept.Attrs().Flags&net.FlagUp != 0
	})
}

// TestMappingsGoWithoutTAP installs mappings while no TAP can be made, because something else has its name: what they are for is forwarded, and what
// waited before follows when there is a TAP again.
func TestMappingsGoWithoutTAP(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{pairs[0], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			a := n.routers[0]
			settings := a.Settings()
			settings.Wait.Time = 10 * patience
			a.apply(t, dataplane.SetSettings{Settings: settings})
			n.routers[1].apply(t, mappingOf(0, p.outer)...)
			server, err := n.hosts[1].ListenUDP(netip.AddrPortFrom(p.inner(1, 10), 5000))
			must(t, err)
			defer server.Close()
			n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(p.inner(1, 10), 5000)).send(t, 3)
			eventually(t, "packets wait", func() bool { return a.Counters().WaitingPackets == 3 })
			device, err := a.ns.Netlink().LinkByName(tap.DefaultName)
			must(t, err)
			other := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: tap.DefaultName}}
			a.changing.Lock() // so that the engine does not make another one
			must(t, errors.Join(a.ns.Netlink().LinkDel(device), a.ns.Netlink().LinkAdd(other)))
			a.changing.Unlock()
			before := a.Counters().Other["tap_errors"]
			eventually(t, "no TAP can be made", func() bool { return a.Counters().Other["tap_errors"] > before })
			a.apply(t, mappingOf(1, p.outer)...)
			eventually(t, "the mapping is obeyed", func() bool {
				result, err := testnet.Ping{Namespace: n.hosts[0], Source: p.inner(0, 10), Destination: p.inner(1, 10), Count: 1, Timeout: time.Second}.Run(t.Context())
				return err == nil && result.Received == 1
			})
			if waiting := a.Counters().WaitingPackets; waiting != 3 {
				t.Errorf("%d packets wait", waiting)
			}
			must(t, a.ns.Netlink().LinkDel(other))
			expectInOrder(t, server, 1, 3)
		})
	}
}

// TestTAPThatCannotBeConfigured has the kernel refuse how the TAP is to be: none is left behind.
func TestTAPThatCannotBeConfigured(t *testing.T) {
	t.Parallel()
	n := testnet.ForTest(t)
	ns, err := n.Namespace("router")
	must(t, err)
	const tooFew = 1
	must(t, ns.Do(func() error {
		file, err := tap.OpenFile(tap.DefaultName, tooFew)
		if err == nil {
			t.Error("it is there")
			return file.Close()
		}
		return nil
	}))
	if left, err := ns.Netlink().LinkByName(tap.DefaultName); err == nil {
		t.Errorf("left behind: %+v", left.Attrs())
	}
}

// TestInterfacesFollowWithoutTAP changes the core's MTU when the TAP was deleted and is not made anew yet: nothing is wrong with that, and the new one
// has the MTU that fits.
func TestInterfacesFollowWithoutTAP(t *testing.T) {
	t.Parallel()
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	a.apply(t, siteOperations(0)...)
	core, err := a.ns.Netlink().LinkByName("core0")
	must(t, err)
	device, err := a.ns.Netlink().LinkByName(tap.DefaultName)
	must(t, err)
	a.changing.Lock() // so that the engine does not make another one
	must(t, a.ns.Netlink().LinkDel(device))
	must(t, a.ns.Netlink().LinkSetMTU(core, core.Attrs().MTU-100))
	followed := a.syncInterfaces()
	a.changing.Unlock()
	if followed != nil {
		t.Errorf("without a TAP: %v", followed)
	}
	eventually(t, "the new TAP has the MTU", func() bool {
		made, err := a.ns.Netlink().LinkByName(tap.DefaultName)
		return err == nil && made.Attrs().Index != device.Attrs().Index && made.Attrs().MTU == device.Attrs().MTU-100
	})
}

// TestTAPGoesWithoutAnEngine takes the TAP away while no engine lives: packets from one site to the other go on, what needs the TAP
// is told to be dropped, and the next engine has all as it was.
func TestTAPGoesWithoutAnEngine(t *testing.T) {
	t.Parallel()
	for i, p := range []pair{pairs[0], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			hook := []dataplane.Hook{dataplane.HookTC, dataplane.HookXDP}[i]
			n.setSides(t, hook)
			b := n.routers[1]
			n.mapBoth(t, p.outer)
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			noTAP := func() uint64 { return b.Counters().Drops[forward.DropNoTAP.String()] }
			before := noTAP()
			must(t, b.Close())
			device, err := b.ns.Netlink().LinkByName(tap.DefaultName)
			must(t, err)
			must(t, b.ns.Netlink().LinkDel(device))
			time.Sleep(followTime) // nothing is kept from before
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			const count = 5
			for _, ping := range []testnet.Ping{ // to the router itself, and to where no mapping leads
				{Namespace: n.hosts[0], Source: p.inner(0, 10), Destination: p.inner(1, 1)},
				{Namespace: n.hosts[1], Source: p.inner(1, 10), Destination: p.inner(7, 10)},
			} {
				ping.Count, ping.Timeout = count, time.Millisecond
				if result, err := ping.Run(t.Context()); err != nil || result.Received != 0 {
					t.Errorf("%v answered %d pings, %v", ping.Destination, result.Received, err)
				}
			}
			b.open(t, Options{}) // with the same hooks: the other router is not told at once when frames are no longer taken here
			b.apply(t, siteOperationsAt(1, hook)...)
			eventually(t, "packets were dropped without a TAP", func() bool { return noTAP()-before == 2*count })
			n.mapBoth(t, p.outer)
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			device, err = b.ns.Netlink().LinkByName(tap.DefaultName)
			must(t, err)
			b.ownEIDs(t, device, netip.PrefixFrom(p.inner(1, 1), []int{24, 64}[i]))
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 1))
		})
	}
}

func networkOf(text string) *net.IPNet {
	_, n, err := net.ParseCIDR(text)
	if err != nil {
		panic(err)
	}
	return n
}

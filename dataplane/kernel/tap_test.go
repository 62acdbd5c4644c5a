// SPDX-License-Identifier: Apache-2.0

// What becomes of an engine whose TAP somebody deletes, and of packets while no engine makes another one. The tests need root.

package kernel

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
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
		before := a.Counters().Other["tap-errors"]
		tap, err := a.ns.Netlink().LinkByName(DefaultTAP)
		must(t, err)
		must(t, a.ns.Netlink().LinkDel(tap))
		<-remade
		if after := a.Counters().Other["tap-errors"]; after == before {
			t.Error("nobody is told that the TAP could not be read")
		}
	}
	f.send(t, 3)
	eventually(t, "more packets wait", func() bool { return a.Counters().WaitingPackets == 6 })
	a.apply(t, mappingOf(1, rloc4)...)
	expectInOrder(t, server, 1, 6)
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
}

// TestTAPThatCannotBeConfigured has the kernel refuse how the TAP is to be: none is left behind.
func TestTAPThatCannotBeConfigured(t *testing.T) {
	t.Parallel()
	n := testnet.ForTest(t)
	ns, err := n.Namespace("router")
	must(t, err)
	const tooFew = 1
	must(t, ns.Do(func() error {
		file, err := openTUNFile(DefaultTAP, tooFew)
		if err == nil {
			t.Error("it is there")
			return file.Close()
		}
		return nil
	}))
	if left, err := ns.Netlink().LinkByName(DefaultTAP); err == nil {
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
	tap, err := a.ns.Netlink().LinkByName(DefaultTAP)
	must(t, err)
	a.changing.Lock() // so that nobody makes another one
	must(t, a.ns.Netlink().LinkDel(tap))
	must(t, a.ns.Netlink().LinkSetMTU(core, core.Attrs().MTU-100))
	followed := a.syncInterfaces()
	a.changing.Unlock()
	if followed != nil {
		t.Errorf("without a TAP: %v", followed)
	}
	eventually(t, "the new TAP has the MTU", func() bool {
		made, err := a.ns.Netlink().LinkByName(DefaultTAP)
		return err == nil && made.Attrs().Index != tap.Attrs().Index && made.Attrs().MTU == tap.Attrs().MTU-100
	})
}

// TestTAPGoesWithoutAnEngine takes the TAP away while no engine lives: packets from one site to the other go on, what needs the TAP
// is told to be dropped, and the next engine has all as it was.
func TestTAPGoesWithoutAnEngine(t *testing.T) {
	t.Parallel()
	for i, p := range []pair{pairs[0], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			n.setSides(t, []dataplane.Hook{dataplane.HookTC, dataplane.HookXDP}[i])
			b := n.routers[1]
			n.mapBoth(t, p.outer)
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			noTAP := func() uint64 { return b.Counters().Drops[forward.DropNoTAP.String()] }
			before := noTAP()
			must(t, b.Close())
			tap, err := b.ns.Netlink().LinkByName(DefaultTAP)
			must(t, err)
			must(t, b.ns.Netlink().LinkDel(tap))
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
			n.open(t, 1, Options{})
			eventually(t, "packets were dropped for want of a TAP", func() bool { return noTAP()-before == 2*count })
			n.mapBoth(t, p.outer)
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			tap, err = b.ns.Netlink().LinkByName(DefaultTAP)
			must(t, err)
			b.ownEIDs(t, tap, netip.PrefixFrom(p.inner(1, 1), []int{24, 64}[i]))
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 1))
		})
	}
}

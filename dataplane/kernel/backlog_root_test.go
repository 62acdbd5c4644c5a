// SPDX-License-Identifier: Apache-2.0

// A host that floods unknown EIDs while the engine does not read the TAP. The test needs root.

package kernel

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/pending"
	"loci/dataplane/kernel/tap"
	"loci/internal/testnet"
	"loci/lisp"
)

// TestFloodBeforeTheTAPIsReadLeavesRoomForOthers: one host sends thrice what the TAP's queue holds before anything of it is read, and
// then the first packets of other hosts all wait and are sent.
func TestFloodBeforeTheTAPIsReadLeavesRoomForOthers(t *testing.T) {
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	settings := a.Settings()
	settings.Wait.Time = patience
	a.apply(t, dataplane.SetSettings{Settings: settings})
	must(t, n.hosts[0].SetOffload("eth0", testnet.GRO, true))
	n.waitForFlag(t, 0, "site0", takesFrames)
	for i, hook := range []dataplane.Hook{dataplane.HookTC, dataplane.HookXDP} {
		a.setHooks(t, hook, hook)
		for _, p := range []pair{pairs[0], pairs[1]} {
			t.Run(hook.String()+", "+p.name, func(t *testing.T) { n.expectBacklog(t, p, 8+i) })
		}
	}
}

// otherHosts are the hosts beside the one that floods.
const otherHosts = 50

func (n *network) expectBacklog(t *testing.T, p pair, subnet int) {
	const flooded = 3 * tap.QueuePackets
	a := n.routers[0]
	socket, err := n.routers[1].ns.ListenUDP(netip.AddrPortFrom(p.outer(1), 4341))
	must(t, err)
	defer socket.Close()
	core := encapsulated{socket, map[bool]int{true: 8 + 20 + 8, false: 8 + 40 + 8}[p.inner(0, 1).Is4()]}
	refused := a.Counters().Drops["backlog-source-limit"]

	a.queue.WithoutReading(func() {
		n.sendFrom(t, p.inner(0, 20), inSubnet(p.inner(0, 1), 100+subnet, 0), flooded)
		for i := range otherHosts {
			n.sendFrom(t, p.inner(0, 30+i), inSubnet(p.inner(0, 1), subnet, i), 1)
		}
		taken := flooded + otherHosts - (a.Counters().Drops["backlog-source-limit"] - refused)
		if got := atomic.LoadInt32(&a.store.Backlog.Places); uint64(got) != taken {
			t.Errorf("%d places are taken, by %d packets", got, taken)
		}
	})
	// Half of the queue, and now and then another packet.
	if got := a.Counters().Drops["backlog-source-limit"] - refused; got > flooded-tap.QueuePackets/2 || got < flooded-tap.QueuePackets*3/4 {
		t.Errorf("%d packets refused, want those beyond half of the queue;%s", got, n.report())
	}
	prefix, err := lisp.PrefixFromNetip(0, netip.PrefixFrom(inSubnet(p.inner(0, 1), subnet, 0), map[bool]int{true: 16, false: 48}[p.inner(0, 1).Is4()]).Masked())
	must(t, err)
	a.apply(t, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping:   lisp.Mapping{Prefix: prefix, Locators: locators(p.outer(1)), TTLMinutes: 10},
		CreatedAt: time.Now(), ExpiresAt: time.Now().Add(10 * time.Minute),
	}})
	seen := map[netip.Addr]bool{}
	for range otherHosts {
		to, _ := core.next(t)
		seen[to] = true
	}
	if len(seen) != otherHosts {
		t.Errorf("packets of %d hosts arrived, want %d;%s", len(seen), otherHosts, n.report())
	}
	a.expectNoBacklog(t)
}

// expectNoBacklog demands that programs and the pending-packet queue have counted alike.
func (r *router) expectNoBacklog(t *testing.T) {
	t.Helper()
	eventually(t, "there is no backlog", pending.NewBacklog(r.store.Backlog).IsZero)
	for i := range r.store.Backlog.Shares {
		if got := atomic.LoadInt32(&r.store.Backlog.Shares[i]); got != 0 {
			t.Errorf("%d places are somebody's share of an empty queue", got)
		}
	}
}

// TestWhatIsLostBeforeTheTAPIsForgotten lets the queue seem full though it is empty, while the reader sleeps: packets wait again.
func TestWhatIsLostBeforeTheTAPIsForgotten(t *testing.T) {
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	a.queue.WithoutReading(func() {
		atomic.StoreInt32(&a.store.Backlog.Places, tap.QueuePackets)
		for i := range a.store.Backlog.Shares {
			atomic.StoreInt32(&a.store.Backlog.Shares[i], 1)
		}
	})
	flow := n.udpFlow(t, netip.AddrPortFrom(siteAddress4(0, 10), 0), netip.AddrPortFrom(siteAddress4(2, 10), 5000))
	eventually(t, "a packet waits", func() bool {
		flow.send(t, 1)
		return a.Counters().WaitingPackets > 0
	})
	eventually(t, "there is no backlog", pending.NewBacklog(a.store.Backlog).IsZero)
}

// sendFrom sends datagrams from a host's address, each to the next destination, no faster than programs take them.
func (n *network) sendFrom(t *testing.T, source, first netip.Addr, count int) {
	t.Helper()
	addresses, err := n.hosts[0].Netlink().AddrList(nil, 0)
	must(t, err)
	known := false
	for _, a := range addresses {
		known = known || a.IP.Equal(net.IP(source.AsSlice()))
	}
	if !known {
		must(t, n.hosts[0].AddAddress("eth0", netip.PrefixFrom(source, map[int]int{32: 24, 128: 64}[source.BitLen()])))
	}
	conn, err := n.hosts[0].ListenUDP(netip.AddrPortFrom(source, 0))
	must(t, err)
	defer conn.Close()
	missed := n.routers[0].Counters().MissPackets
	to := first
	for i := range count {
		if i%floodBacklog == 0 {
			eventually(t, "the programs have what was sent", func() bool { return n.routers[0].Counters().MissPackets-missed == uint64(i) })
		}
		_, err := conn.WriteToUDPAddrPort(make([]byte, 100), netip.AddrPortFrom(to, 5000))
		must(t, err)
		to = to.Next()
	}
	eventually(t, "the programs have all", func() bool { return n.routers[0].Counters().MissPackets-missed == uint64(count) })
}

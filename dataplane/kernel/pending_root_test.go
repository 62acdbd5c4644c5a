// SPDX-License-Identifier: Apache-2.0

// The pending-packet queue with real packets: everything that waits arrives, in order, whole
// and with right checksums. The tests need root.

package kernel

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/forward"
	"loci/internal/testnet"
	"loci/lisp"
)

// patience bounds every wait for something that must come, on a busy machine too: the
// kernel takes its time to remove a namespace.
const patience = time.Minute

// nextMiss waits for an event.
func (r *router) nextMiss(t *testing.T) dataplane.Miss {
	t.Helper()
	select {
	case event := <-r.Events():
		miss, ok := event.(dataplane.Miss)
		if !ok {
			t.Fatalf("event %#v, want a miss", event)
		}
		return miss
	case <-time.After(patience):
		t.Fatalf("no miss; counters %+v", r.Counters())
	}
	return dataplane.Miss{}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// udpFlow is a flow of numbered datagrams from host A to host B.
type udpFlow struct {
	conn *net.UDPConn
	next uint32
}

func (n *network) udpFlow(t *testing.T, source, destination netip.AddrPort) *udpFlow {
	t.Helper()
	conn, err := n.hosts[0].DialUDP(source, destination)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return &udpFlow{conn: conn}
}

func (f *udpFlow) send(t *testing.T, count int) {
	t.Helper()
	for range count {
		payload := make([]byte, 100)
		binary.BigEndian.PutUint32(payload, f.next)
		f.next++
		_, err := f.conn.Write(payload)
		must(t, err)
	}
}

// expectInOrder reads datagrams of several flows and demands each flow's whole sequence.
func expectInOrder(t *testing.T, server *net.UDPConn, flows, count int) {
	t.Helper()
	must(t, server.SetReadDeadline(time.Now().Add(patience)))
	next := map[netip.AddrPort]uint32{}
	buffer := make([]byte, 2048)
	for got := range flows * count {
		_, from, err := server.ReadFromUDPAddrPort(buffer)
		if err != nil {
			t.Fatalf("%d of %d datagrams came: %v", got, flows*count, err)
		}
		if number := binary.BigEndian.Uint32(buffer); number != next[from] {
			t.Fatalf("datagram %d of %v came, want %d", number, from, next[from])
		}
		next[from]++
	}
	if len(next) != flows {
		t.Errorf("datagrams of %d flows, want %d", len(next), flows)
	}
}

// TestWaitingPacketsOfAnotherSite gives the interface, where packets came in that wait, to another Instance-ID: they do not go by its mappings.
func TestWaitingPacketsOfAnotherSite(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{pairs[0], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n := newLinks(t)
			a := n.open(t, 0, Options{})
			settings := a.Settings()
			settings.Wait.Time = 10 * patience
			a.apply(t, dataplane.SetSettings{Settings: settings})
			n.send(t, p, 3)
			eventually(t, "it waits", func() bool { return a.Counters().WaitingPackets == 1 })
			settings.Interfaces[0].Instance = 7
			a.apply(t, dataplane.SetSettings{Settings: settings})
			for _, o := range mappingOf(1, p.outer) {
				other := o.(dataplane.PutMapping)
				prefix := other.Entry.Mapping.Prefix
				other.Entry.Mapping.Prefix = lisp.MustParsePrefix("[7]" + prefix.String())
				a.apply(t, other, o)
			}
			eventually(t, "it waits no more", func() bool { return a.Counters().WaitingPackets == 0 })
			if c := a.Counters(); c.Drops[forward.DropTAPOriginUnknown.String()] != 1 || c.EncapsulatedPackets != 0 {
				t.Errorf("%s", n.report())
			}
		})
	}
}

func TestWaitingPacketsArriveInOrder(t *testing.T) {
	t.Parallel()
	const perFlow = 60
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			a := n.routers[0]
			n.routers[1].apply(t, mappingOf(0, p.outer)...)
			server, err := n.hosts[1].ListenUDP(netip.AddrPortFrom(p.inner(1, 10), 5000))
			must(t, err)
			defer server.Close()
			flows := []*udpFlow{
				n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(p.inner(1, 10), 5000)),
				n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(p.inner(1, 10), 5000)),
			}
			for _, f := range flows {
				f.send(t, perFlow/2)
			}
			miss := a.nextMiss(t)
			if miss.Destination.Addr() != p.inner(1, 10) || miss.Source.Addr() != p.inner(0, 10) || miss.Interface != "site0" {
				t.Errorf("miss %+v", miss)
			}
			eventually(t, "all wait", func() bool { return a.Counters().WaitingPackets >= perFlow })
			done := make(chan struct{})
			go func() {
				defer close(done)
				for _, err := range a.Apply(mappingOf(1, p.outer)...) {
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
			eventually(t, "none waits", func() bool { return a.Counters().WaitingPackets == 0 }) // counted after they have left
			c := a.Counters()
			if c.WaitingOctets != 0 || c.ReleasedPackets < perFlow || c.MissPackets < perFlow {
				t.Errorf("counters afterwards:%s", n.report())
			}
			select {
			case event := <-a.Events():
				t.Errorf("a second event for one destination within a moment: %+v", event)
			default:
			}
		})
	}
}

// TestHoldEnds makes sure that mappings do not stay on hold.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.mapBoth(t, rloc4)
	a := n.routers[0]
	eventually(t, "no entry on hold", func() bool {
		for _, record := range a.records() {
			if atomic.LoadUint32(&record.Flags)&abi.MappingHold != 0 {
				return false
			}
		}
		return true
	})
	before := a.Counters().ReleasedPackets
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
	if after := a.Counters().ReleasedPackets; after != before {
		t.Errorf("%d packets took the way through the pending-packet queue", after-before)
	}
}

// netstat returns a counter of TCP in a namespace.
func netstat(t *testing.T, ns *testnet.Namespace, name string) string {
	t.Helper()
	var value string
	must(t, ns.Do(func() error {
		f, err := os.Open("/proc/thread-self/net/netstat")
		if err != nil {
			return err
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			names := strings.Fields(lines.Text())
			lines.Scan()
			for i, v := range strings.Fields(lines.Text()) {
				if names[i] == name {
					value = v
				}
			}
		}
		return nil
	}))
	if value == "" {
		t.Fatalf("no counter %s", name)
	}
	return value
}

// TestWaitingSYN lets a SYN wait whose checksum its host left to the interface.
func TestWaitingSYN(t *testing.T) {
	t.Parallel()
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			n.routers[1].apply(t, mappingOf(0, p.outer)...)
			resolved := make(chan struct{})
			go func() {
				defer close(resolved)
				<-n.routers[0].Events()
				n.routers[0].Apply(mappingOf(1, p.outer)...)
			}()
			n.expectTCP(t, p, 1<<20)
			<-resolved
			if again := netstat(t, n.hosts[0], "TCPSynRetrans"); again != "0" {
				t.Errorf("the SYN was sent again %s times: the first one did not arrive", again)
			}
			if released := n.routers[0].Counters().ReleasedPackets; released == 0 {
				t.Error("nothing waited")
			}
		})
	}
}

// TestWaitingGSOPacket removes the mapping under a transfer, until GSO packets wait, and brings it back.
func TestWaitingGSOPacket(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a := n.routers[0]
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			n.mapBoth(t, p.outer)
			began := a.Counters().EncapsulatedOctets
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			result := make(chan error, 1)
			go func() {
				_, err := testnet.TCP{Client: n.hosts[0], Server: n.hosts[1], Source: p.inner(0, 10), Destination: p.inner(1, 10),
					Octets: 256 << 20, Verify: true, Timeout: 60 * time.Second}.Run(ctx)
				result <- err
			}()
			eventually(t, "transfer runs", func() bool { return a.Counters().EncapsulatedOctets > began+4<<20 })
			largest := uint64(0)
			for range 2 {
				for _, prefix := range sitePrefixes(1) {
					a.apply(t, dataplane.DeleteMapping{Prefix: prefix})
				}
				eventually(t, "packets wait", func() bool {
					c := a.Counters()
					if c.WaitingPackets > 0 {
						largest = max(largest, c.WaitingOctets/c.WaitingPackets)
					}
					return c.WaitingPackets > 0
				})
				a.apply(t, mappingOf(1, p.outer)...)
				before := a.Counters().EncapsulatedOctets
				eventually(t, "transfer goes on", func() bool { return a.Counters().EncapsulatedOctets > before+1<<20 })
			}
			a.expectNoBacklog(t)
			if largest < 10000 {
				t.Errorf("packets of %d octets waited at most: not a GSO packet", largest)
			}
			if err := <-result; err != nil {
				t.Errorf("%v;%s", err, n.report())
			}
			t.Logf("packets of up to %d octets waited;%s", largest, n.report())
		})
	}
}

func TestMissPolicies(t *testing.T) {
	t.Parallel()
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	settings := a.Settings()
	settings.MissPolicy = dataplane.MissDrop
	a.apply(t, dataplane.SetSettings{Settings: settings})
	result, err := testnet.Ping{Namespace: n.hosts[0], Destination: siteAddress4(1, 10), Timeout: 100 * time.Millisecond}.Run(t.Context())
	must(t, err)
	a.nextMiss(t)
	if drops := a.Counters().Drops["miss"]; result.Received != 0 || drops != 1 {
		t.Errorf("policy drop: %d answers, %d drops;%s", result.Received, drops, n.report())
	}
}

func TestWaitingEndsByTime(t *testing.T) {
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	settings := a.Settings()
	settings.Wait.Time = 50 * time.Millisecond
	settings.Wait.PacketsPerDestination = 3
	a.apply(t, dataplane.SetSettings{Settings: settings})
	f := n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(siteAddress4(1, 10), 5000))
	f.send(t, 5)
	eventually(t, "dropped, and none waits", func() bool {
		c := a.Counters() // a packet is counted as dropped before it leaves its place
		return c.Drops["waiting-time-limit"]+c.Drops["waiting-packets-limit"] == 5 && c.WaitingPackets == 0
	})
}

// TestNegativeMappingEndsWaiting drops what waits, counted by the reason of the mapping.
func TestNegativeMappingEndsWaiting(t *testing.T) {
	t.Parallel()
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	f := n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(siteAddress4(1, 10), 5000))
	f.send(t, 3)
	eventually(t, "all wait", func() bool { return a.Counters().WaitingPackets == 3 })
	a.apply(t, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: lisp.Mapping{
		Prefix: lisp.MustParsePrefix("10.2.0.0/16"), Action: lisp.ActionDrop,
	}}})
	eventually(t, "dropped", func() bool { return a.Counters().Drops["action-drop"] == 3 })
}

// TestFragments sends datagrams without DF that fit the site but not the core.
func TestFragments(t *testing.T) {
	t.Parallel()
	for _, outer := range []func(int) netip.Addr{rloc4, rloc6} {
		n := newNetwork(t)
		n.mapBoth(t, outer)
		server, err := n.hosts[1].ListenUDP(netip.AddrPortFrom(siteAddress4(1, 10), 5000))
		must(t, err)
		defer server.Close()
		must(t, n.hosts[0].SetSysctl("net.ipv4.ip_no_pmtu_disc", "1")) // so that the host leaves DF clear
		f := n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(siteAddress4(1, 10), 5000))
		payload := make([]byte, 1472)
		for i := range payload {
			payload[i] = byte(i)
		}
		for range 3 {
			_, err = f.conn.Write(payload)
			must(t, err)
		}
		must(t, server.SetReadDeadline(time.Now().Add(patience)))
		buffer := make([]byte, 2048)
		for range 3 {
			octets, err := server.Read(buffer)
			if err != nil || string(buffer[:octets]) != string(payload) {
				t.Fatalf("%d octets came, %v;%s", octets, err, n.report())
			}
		}
		if c := n.routers[0].Counters(); c.Other["too_big"] != 3 || c.EncapsulatedPackets != 6 {
			t.Errorf("want 3 packets too big, sent as 6:%s", n.report())
		}
	}
}

func TestPacketTooBigReachesTheHost(t *testing.T) {
	t.Parallel()
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			n.mapBoth(t, p.outer)
			f := n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(p.inner(1, 10), 5000))
			want := fmt.Sprint("write: ", "message too long")
			eventually(t, "the host knows the smaller path", func() bool {
				_, err := f.conn.Write(make([]byte, 1450))
				return err != nil && strings.Contains(err.Error(), want)
			})
		})
	}
}

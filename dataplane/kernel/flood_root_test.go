// SPDX-License-Identifier: Apache-2.0

// A host that floods unknown EIDs, beside hosts that do not. The test needs root.

package kernel

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// inSubnet is the n-th address of 10.x.0.0/16, or of 2001:db8:x::/64.
func inSubnet(like netip.Addr, x, n int) netip.Addr {
	if like.Is4() {
		return netip.AddrFrom4([4]byte{10, byte(x), byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, byte(x), 14: byte(n >> 8), 15: byte(n)})
}

// flood is a host that sends to one unknown EID after the other.
type flood struct {
	sent atomic.Int64
	stop chan struct{}
	done chan struct{}
}

// floodBacklog is how many packets the pending-packet queue may be behind: fewer than any queue of the kernel holds, the TAP's included. What
// overflows there, of whomever, is lost before anybody can judge whose places it takes.
const floodBacklog = 256

// taken is how many packets the pending-packet queue has taken from the TAP.
func (r *router) taken() int64 {
	c := r.Counters()
	sum := c.WaitingPackets + c.ReleasedPackets
	for reason, n := range c.Drops {
		if strings.HasPrefix(reason, "waiting-") {
			sum += n
		}
	}
	return int64(sum)
}

func (n *network) flood(t *testing.T, source netip.Addr) *flood {
	t.Helper()
	conn, err := n.hosts[0].ListenUDP(netip.AddrPortFrom(source, 0))
	must(t, err)
	f := &flood{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		defer conn.Close()
		f.run(n.routers[0], conn, source)
	}()
	t.Cleanup(f.end)
	return f
}

func (f *flood) run(r *router, conn *net.UDPConn, source netip.Addr) {
	taken := r.taken()
	for i := 0; ; i++ {
		if i%floodBacklog == 0 {
			for r.taken()-taken+floodBacklog < f.sent.Load() {
				time.Sleep(time.Millisecond)
				if f.isStopped() {
					return
				}
			}
		}
		if f.isStopped() {
			return
		}
		if _, err := conn.WriteToUDPAddrPort(make([]byte, 100), netip.AddrPortFrom(inSubnet(source, 9, i%65536), 5000)); err == nil {
			f.sent.Add(1)
		}
	}
}

func (f *flood) isStopped() bool {
	select {
	case <-f.stop:
		return true
	default:
		return false
	}
}

// end stops it, once.
func (f *flood) end() {
	if !f.isStopped() {
		close(f.stop)
	}
	<-f.done
}

// encapsulated reads numbers of datagrams where they arrive encapsulated.
type encapsulated struct {
	conn *net.UDPConn
	at   int // of the number
}

func (e encapsulated) next(t *testing.T) (to netip.Addr, number uint32) {
	t.Helper()
	must(t, e.conn.SetReadDeadline(time.Now().Add(patience)))
	packet := make([]byte, 2048)
	n, err := e.conn.Read(packet)
	if err != nil || n < e.at+4 {
		t.Fatalf("%d octets: %v", n, err)
	}
	inner := packet[8:n]
	to, _ = netip.AddrFromSlice(inner[16:20])
	if inner[0]>>4 == 6 {
		to, _ = netip.AddrFromSlice(inner[24:40])
	}
	return to, binary.BigEndian.Uint32(packet[e.at:])
}

// TestAFloodOfMissesHoldsNobodyUp: while one host floods, every packet of another's
// established flow arrives, and a third host's first packet to an unknown EID waits and is sent.
func TestAFloodOfMissesHoldsNobodyUp(t *testing.T) {
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	settings := a.Settings()
	settings.Wait.PacketsPerDestination, settings.Wait.PacketsTotal, settings.Wait.Time = 4, 64, patience
	a.apply(t, dataplane.SetSettings{Settings: settings})
	for _, p := range []pair{pairs[0], pairs[1]} {
		t.Run(p.name, func(t *testing.T) { n.expectNobodyHeldUp(t, p) })
	}
}

func (n *network) expectNobodyHeldUp(t *testing.T, p pair) {
	const established = 1000
	a := n.routers[0]
	for _, host := range []int{20, 30} {
		must(t, n.hosts[0].AddAddress("eth0", netip.PrefixFrom(p.inner(0, host), map[int]int{32: 24, 128: 64}[p.inner(0, host).BitLen()])))
	}
	a.apply(t, mappingOf(1, p.outer)...)
	conn, err := n.routers[1].ns.ListenUDP(netip.AddrPortFrom(p.outer(1), 4341))
	must(t, err)
	defer conn.Close()
	core := encapsulated{conn, map[bool]int{true: 8 + 20 + 8, false: 8 + 40 + 8}[p.inner(0, 1).Is4()]}
	refused := a.Counters().Drops["waiting-source-limit"]
	f := n.flood(t, p.inner(0, 20))
	eventually(t, "the flood has all that it gets", func() bool { return a.Counters().Drops["waiting-source-limit"] > refused })
	flow := n.udpFlow(t, netip.AddrPortFrom(p.inner(0, 10), 0), netip.AddrPortFrom(p.inner(1, 10), 5000))
	for i := range uint32(established) {
		flow.send(t, 1)
		if to, number := core.next(t); to != p.inner(1, 10) || number != i {
			t.Fatalf("number %d to %v, want %d;%s", number, to, i, n.report())
		}
	}
	unmapped := inSubnet(p.inner(0, 1), 8, 1)
	n.udpFlow(t, netip.AddrPortFrom(p.inner(0, 30), 0), netip.AddrPortFrom(unmapped, 5000)).send(t, 1)
	deadline := time.Now().Add(patience)
	for miss := a.nextMiss(t); miss.Destination.Addr() != unmapped; miss = a.nextMiss(t) {
		if time.Now().After(deadline) {
			t.Fatalf("no miss of %v;%s", unmapped, n.report())
		}
	}
	prefix, err := lisp.PrefixFromNetip(0, netip.PrefixFrom(unmapped, unmapped.BitLen()))
	must(t, err)
	a.apply(t, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping:   lisp.Mapping{Prefix: prefix, Locators: locators(p.outer(1)), TTLMinutes: 10},
		CreatedAt: time.Now(), ExpiresAt: time.Now().Add(10 * time.Minute),
	}})
	if to, _ := core.next(t); to != unmapped {
		t.Errorf("a packet to %v, want %v;%s", to, unmapped, n.report())
	}
	f.end()
	t.Logf("%d packets of the flood;%s", f.sent.Load(), n.report())
}

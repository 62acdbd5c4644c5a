// SPDX-License-Identifier: Apache-2.0

// Flows that are bound to a path, at both hooks: which locator they take, by the stages and by each cache; and the
// events of TCP packets that begin or end a connection which may be bound.

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"loci/forward"
)

// In struct lisp_generations.
const bindingsAt = 4

// numberPaths gives the locators from `first` on the numbers 1 and up, and says which of them bindings may choose.
func (b *bench) numberPaths(first uint32, usable ...bool) {
	b.t.Helper()
	for i := range usable {
		var l []byte
		must(b.t, b.coll.Maps["locators"].Lookup(first+uint32(i), &l))
		b.setMember("lisp_locator", "path", l, uint32(i+1))
		b.setMember("lisp_locator", "flags", l, map[bool]uint32{true: b.constant("LISP_LOCATOR_UP")}[usable[i]])
		b.update("locators", first+uint32(i), l)
	}
}

// flowKey is the key of a packet's flow, and of the pair of addresses that it is between.
func (b *bench) flowKey(t testing.TB, packet []byte) (flow, pair []byte) {
	t.Helper()
	h, err := forward.ParseHeader(packet)
	must(t, err)
	values := fields{"family": h.Family, "source": address16(h.Source), "destination": address16(h.Destination)}
	pair = b.encode("lisp_binding_key", values)
	values["ports"], values["protocol"] = binary.BigEndian.AppendUint32(nil, h.Ports), h.Protocol
	return b.encode("lisp_binding_key", values), pair
}

// bind binds a packet's flow to a path by its number, and ends that with 0.
func (b *bench) bind(t testing.TB, packet []byte, path uint32) {
	t.Helper()
	flow, pair := b.flowKey(t, packet)
	if b.bindings = min(path, 1); path != 0 {
		b.update("bound_pairs", pair, uint32(1))
		b.update("bindings", flow, b.encode("lisp_binding", fields{"path": path}))
		return
	}
	must(t, b.coll.Maps["bindings"].Delete(flow))
	must(t, b.coll.Maps["bound_pairs"].Delete(pair))
	b.forgetCaches()
}

// lastUsed is when the binding of a packet's flow was last used.
func (b *bench) lastUsed(t *testing.T, packet []byte) uint64 {
	t.Helper()
	flow, _ := b.flowKey(t, packet)
	var value []byte
	must(t, b.coll.Maps["bindings"].Lookup(flow, &value))
	return b.member("lisp_binding", "last_used", value)
}

// TestBoundFlows binds one of two flows between two addresses to the locator that the hash chooses for none.
func TestBoundFlows(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		set := b.mapTwice(p)
		set(func(int) byte { return 0 })
		first := b.locators - 2
		bound := ip{from: p.inner(0, 10), to: p.inner(1, 10), tos: 0xB9, ttl: 64, port: 7, checksum: true,
			payload: []byte("to B, which is far")}
		beside := bound
		beside.port = 8
		for name, c := range map[string]struct {
			path   uint32
			usable [2]bool
			want   byte
		}{
			"to the second locator":              {2, [2]bool{true, true}, 1},
			"to the first":                       {1, [2]bool{true, true}, 0},
			"to the second, which is not usable": {2, [2]bool{true, false}, 0},
			"to the second, the first is down":   {2, [2]bool{false, true}, 1},
			"to a path of no locator":            {3, [2]bool{true, true}, 0},
		} {
			eachHook(t, p.name+"/"+name, func(t *testing.T, hook string) {
				b.emptyCaches()
				b.numberPaths(first, c.usable[:]...)
				b.bind(t, bound.serialize(), c.path)
				chosen, hashed := func(int) byte { return c.want }, func(int) byte { return 0 }
				for _, hit := range []bool{false, true} {
					b.expectFlow(t, hook, p, bound.serialize(), chosen, hit)
					b.expectFlow(t, hook, p, beside.serialize(), hashed, hit)
					b.markFlows(nil)
				}
				if b.lastUsed(t, bound.serialize()) == 0 {
					t.Error("no use is noted")
				}
				b.missMostly(true)
				b.expectFlow(t, hook, p, bound.serialize(), chosen, false)
				b.expectFlow(t, hook, p, beside.serialize(), hashed, false)
				b.missMostly(false)
				b.bind(t, bound.serialize(), 0)
				b.expectFlow(t, hook, p, bound.serialize(), hashed, false)
			})
		}
	}
}

// TestBoundFlowsBySet has bound flows of sites whose packets mostly miss the flow cache, without the stages.
func TestBoundFlowsBySet(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		set := b.mapTwice(p)
		set(func(int) byte { return 0 })
		b.numberPaths(b.locators-2, true, true)
		bound := ip{from: p.inner(0, 10), to: p.inner(1, 10), ttl: 64, port: 7, checksum: true,
			payload: []byte("to B, which is far")}.serialize()
		eachHook(t, p.name, func(t *testing.T, hook string) {
			b.emptyCaches()
			b.bind(t, bound, 2)
			frame := ethernet(b.site.Attrs().HardwareAddr, hostMAC, bound)
			b.goByStages(t, hook, b.site, frame)
			b.markRecords(nil)
			gone, got := b.goBySet(t, hook, b.site, frame)
			udp := 14 + map[bool]int{true: 20, false: 40}[p.outer(0).Is4()]
			if !gone || binary.BigEndian.Uint16(got[udp+2:]) != 4342 {
				t.Errorf("by the tables alone: %t, frame %x", gone, got)
			}
			b.restoreStages(t)
			b.bind(t, bound, 0)
		})
	}
}

// tcpPacket is a TCP packet with these flags and options.
func tcpPacket(from, to netip.Addr, flags byte, options, payload []byte) []byte {
	for len(options)%4 != 0 {
		options = append(options, 0)
	}
	header := make([]byte, 20, 60)
	binary.BigEndian.PutUint16(header, 40000)
	binary.BigEndian.PutUint16(header[2:], 443)
	header[12], header[13] = byte(5+len(options)/4)<<4, flags
	header = append(header, options...)
	buffer := gopacket.NewSerializeBuffer()
	var network gopacket.SerializableLayer = &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP,
		SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
	if from.Is6() {
		network = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP,
			SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
	}
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		network, gopacket.Payload(append(header, payload...))); err != nil {
		panic(err)
	}
	return buffer.Bytes()
}

// subflowsRaised reads the TCP headers of all events about subflows, and which of them came from the core.
func (b *bench) subflowsRaised(t *testing.T, ring *ringbuf.Reader) (headers [][]byte, fromCore []bool) {
	t.Helper()
	for {
		ring.SetDeadline(time.Now())
		record, err := ring.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return headers, fromCore
		}
		must(t, err)
		event := record.RawSample
		octets := b.member("lisp_subflow", "octets", event)
		headers = append(headers, bytes.Clone(event[len(event)-64:][:octets]))
		fromCore = append(fromCore, b.member("lisp_subflow", "from_core", event) != 0)
	}
}

// Flags of TCP.
const (
	tcpFIN, tcpSYN, tcpRST, tcpACK = 1, 2, 4, 16
)

// TestSubflowEvents has TCP packets of all kinds go towards the core and come from there.
func TestSubflowEvents(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	ring, err := ringbuf.NewReader(b.coll.Maps["subflows"])
	must(t, err)
	defer ring.Close()
	capable := []byte{1, 1, 30, 4, 0x01, 0x81}
	for _, p := range pairs {
		set := b.mapTwice(p)
		set(func(int) byte { return 0 })
		first := b.locators - 2
		for name, c := range map[string]struct {
			off     bool // the setting is
			one     bool // only one locator is usable
			bound   bool // the flow
			reverse bool // its other direction
			flags   byte
			options []byte
			payload []byte
			change  func(tcp []byte)
			raised  bool
			cached  bool // by an entry that a packet without flags has left
		}{
			"SYN of Multipath TCP": {flags: tcpSYN, options: capable, raised: true},
			"SYN and ACK": {flags: tcpSYN | tcpACK,
				options: []byte{2, 4, 5, 0xB4, 30, 4, 1, 0x81}, raised: true},
			"the last of many options": {flags: tcpSYN,
				options: append(bytes.Repeat([]byte{1}, 36), 30, 4, 0, 0), raised: true},
			"SYN of plain TCP":          {flags: tcpSYN, options: []byte{2, 4, 30, 30}},
			"SYN without options":       {flags: tcpSYN},
			"behind the end of options": {flags: tcpSYN, options: []byte{0, 1, 30, 4, 0, 0}},
			"an option too short":       {flags: tcpSYN, options: []byte{2, 1, 30, 4, 0, 0}},
			"an option too long":        {flags: tcpSYN, options: []byte{1, 1, 30, 7, 0, 0}},
			"an option without length":  {flags: tcpSYN, options: []byte{1, 1, 1, 30}},
			"a header longer than the packet": {flags: tcpSYN, options: capable,
				change: func(tcp []byte) { tcp[12] = 0xF0 }},
			"a header too short": {flags: tcpSYN, options: capable,
				change: func(tcp []byte) { tcp[12] = 0x40 }},
			"one locator":                     {flags: tcpSYN, options: capable, one: true},
			"FIN of a flow without binding":   {flags: tcpFIN | tcpACK},
			"FIN of a bound flow":             {flags: tcpFIN | tcpACK, bound: true, raised: true},
			"RST of a bound flow":             {flags: tcpRST, bound: true, raised: true},
			"FIN, and the other way is bound": {flags: tcpFIN | tcpACK, reverse: true, raised: true},
			"ACK of a bound flow": {flags: tcpACK, bound: true, options: capable,
				cached: true},
			"off: SYN": {off: true, flags: tcpSYN, options: capable,
				cached: true},
			"off: FIN of a bound flow":            {off: true, flags: tcpFIN, bound: true, cached: true},
			"SYN and FIN of a flow that is bound": {flags: tcpSYN | tcpFIN, bound: true, raised: true},
		} {
			eachHook(t, p.name+"/"+name, func(t *testing.T, hook string) {
				b.emptyCaches()
				b.settings(fields{"flags": map[bool]uint32{false: b.constant("LISP_SETTING_SUBFLOWS")}[c.off]})
				b.numberPaths(first, true, !c.one)
				packet := tcpPacket(p.inner(0, 10), p.inner(1, 10), c.flags, c.options, []byte("data"))
				other := tcpPacket(p.inner(0, 10), p.inner(1, 10), tcpACK, nil, []byte("data"))
				if c.change != nil {
					c.change(packet[len(packet)-len("data")-len(c.options)-(4-len(c.options)%4)%4-20:])
				}
				switch {
				case c.bound:
					b.bind(t, packet, 1)
					defer b.bind(t, packet, 0)
				case c.reverse:
					back := tcpPacket(p.inner(1, 10), p.inner(0, 10), tcpACK, nil, nil)
					at := map[bool]int{true: 20, false: 40}[p.inner(0, 10).Is4()]
					copy(back[at:], []byte{443 >> 8, 443 & 255, 40000 >> 8, 40000 & 255})
					b.bind(t, back, 1)
					defer b.bind(t, back, 0)
				}
				b.empty(t, "subflow_limits")
				if sent, _ := b.leaveSite(t, hook, b.fromHost(other)); !sent || b.markFlows(nil) == 0 {
					t.Fatalf("nothing kept; %s", b.allDrops())
				}
				before := b.flowHits(t)
				if sent, _ := b.leaveSite(t, hook, b.fromHost(packet)); !sent {
					t.Fatalf("not sent; %s", b.allDrops())
				}
				if cached := b.flowHits(t) > before; cached != c.cached {
					t.Errorf("by the flow cache: %t, want %t", cached, c.cached)
				}
				header := packet[map[bool]int{true: 20,
					false: 40}[packet[0]>>4 == 4] : len(packet)-len("data")]
				got, fromCore := b.subflowsRaised(t, ring)
				if c.raised != (len(got) == 1) || c.raised &&
					(!bytes.Equal(got[0], header) || fromCore[0]) {
					t.Errorf("raised %x, from the core %v, want %t: %x", got, fromCore, c.raised,
						header)
				}
			})
		}
		eachHook(t, p.name+"/from the core", func(t *testing.T, hook string) {
			b.settings(fields{"flags": b.constant("LISP_SETTING_SUBFLOWS")})
			packet := tcpPacket(p.inner(1, 10), p.inner(0, 10), tcpSYN|tcpACK, capable, nil)
			outer := lispPacket(p.outer, 0, 64, [8]byte{}, packet)
			b.empty(t, "subflow_limits")
			if hook == "tc" {
				b.toCore(t, ethernet(b.core.Attrs().HardwareAddr, peerMAC, outer))
			} else {
				b.frameXDP(t, b.core, ethernet(b.core.Attrs().HardwareAddr, peerMAC, outer))
			}
			got, fromCore := b.subflowsRaised(t, ring)
			if len(got) != 1 || !fromCore[0] || !bytes.Equal(got[0], packet[len(packet)-28:]) {
				t.Errorf("raised %x, from the core %v", got, fromCore)
			}
		})
	}
}

// TestSubflowsLimited raises no more events than the control plane is to see: of one source, and of all within a
// second.
func TestSubflowsLimited(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	ring, err := ringbuf.NewReader(b.coll.Maps["subflows"])
	must(t, err)
	defer ring.Close()
	p := pairs[0]
	b.mapTwice(p)(func(int) byte { return 0 })
	b.numberPaths(b.locators-2, true, true)
	b.settings(fields{"flags": b.constant("LISP_SETTING_SUBFLOWS")})
	packet := tcpPacket(p.inner(0, 10), p.inner(1, 10), tcpSYN, []byte{30, 4, 0, 0}, nil)
	source := b.encode("lisp_limit_key",
		fields{"family": familyOf(p.inner(0, 10)), "destination": address16(p.inner(0, 10))})
	for name, c := range map[string]struct {
		since  time.Duration // from now to the beginning of this second, as another processor may have it
		raised uint64        // within it
		ahead  time.Duration // of the time that the source's next event is due
		want   int
	}{
		"none before":              {0, 0, -time.Hour, 1},
		"one is left":              {0, 4999, 0, 1},
		"none is left":             {0, 5000, 0, 0},
		"none of a second to come": {30 * time.Second, 5000, 0, 0},
		"one of a second to come":  {30 * time.Second, 4999, 0, 1},
		"a second that is over":    {-time.Second, 5000, 0, 1},
		"of a burst":               {0, 0, time.Millisecond, 1},
		"far beyond a burst":       {0, 0, time.Hour, 0},
		"no source and no time":    {0, 5000, time.Hour, 0},
	} {
		for range 20 {
			now := bootNanoseconds(t)
			began := uint64(int64(now) + int64(c.since))
			b.update("subflow_rate", uint32(0),
				b.encode("lisp_subflow_rate", fields{"since_ns": began, "raised": c.raised}))
			b.update("subflow_limits", source, max(int64(now)+int64(c.ahead), 1))
			limited := b.counter("LISP_COUNTER_SUBFLOWS_LIMITED")
			b.toSite(t, b.fromHost(packet))
			got, _ := b.subflowsRaised(t, ring)
			if bootNanoseconds(t)-now >= uint64(time.Second) {
				continue // that second was over meanwhile
			}
			if len(got) != c.want || b.counter("LISP_COUNTER_SUBFLOWS_LIMITED") != limited+uint64(1-c.want) {
				t.Errorf("%s: %d raised, want %d", name, len(got), c.want)
			}
			break
		}
	}
}

// bootNanoseconds is the time by which programs go.
func bootNanoseconds(t *testing.T) uint64 {
	t.Helper()
	var now unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
	return uint64(now.Nano())
}

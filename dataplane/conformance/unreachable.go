// SPDX-License-Identifier: Apache-2.0

package conformance

// Destination Unreachable to the sources of packets that mappings drop, or that no
// locator of their mapping can take (RFC 9301 s.5.4).

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/dataplane"
	"loci/lisp"
)

const (
	// toldEvery is how long an engine is silent towards a source that it told.
	toldEvery = 100 * time.Millisecond
	// tellingPause is longer.
	tellingPause = 150 * time.Millisecond
)

func dropsAreTold(b *bench) {
	b.apply(b.to("10.2.9.0/24", "192.0.2.3"), b.to("2001:db8:2:9::/64", "192.0.2.3"), state("192.0.2.3", dataplane.LocatorDown))
	for i, c := range []struct {
		action     lisp.Action
		prohibited bool
	}{
		{lisp.ActionNoAction, false}, {lisp.ActionDrop, false}, {lisp.ActionDropPolicyDenied, true}, {lisp.ActionDropAuthFailure, true},
		{0, false}, // a mapping without a usable locator
	} {
		if i < 4 {
			b.apply(negative(fmt.Sprintf("10.2.%d.0/24", i), c.action), negative(fmt.Sprintf("2001:db8:2:%d::/64", i), c.action))
		} else {
			i = 9
		}
		b.Pass(tellingPause)
		want4, want6 := layers.CreateICMPv4TypeCode(3, 0), layers.CreateICMPv6TypeCode(1, 0)
		if c.prohibited {
			want4, want6 = layers.CreateICMPv4TypeCode(3, 13), layers.CreateICMPv6TypeCode(1, 1)
		}
		b.expectTold(from4(fmt.Sprintf("10.2.%d.1", i)).numbered(i), want4.String())
		b.expectTold(from6(fmt.Sprintf("2001:db8:2:%d::1", i)).numbered(i), want6.String())
	}
	least := uint64(11) // the ten of before, and one
	most := least + b.expectRarelyTold()
	sent := func() uint64 { return b.plane.Counters().Other["unreachables_sent"] }
	b.eventually("the answers counted", func() bool { return sent() >= least })
	if got := sent(); got > most {
		b.Errorf("%d answers, want %d to %d", got, least, most)
	}
}

// expectTold sends a packet and demands the answer about it.
func (b *bench) expectTold(p packet, want string) {
	b.Helper()
	b.send(p)
	told := b.receiveAtSite().inner
	got, quoted := "no ICMP", []byte(nil)
	switch l := told.Layers()[1].(type) {
	case *layers.ICMPv4:
		got, quoted = l.TypeCode.String(), l.Payload
	case *layers.ICMPv6:
		got, quoted = l.TypeCode.String(), l.Payload[min(4, len(l.Payload)):]
	}
	if _, to := addresses(told); got != want || to != p.from {
		b.Fatalf("to %s: %s to %s, want %s to %s", p.to, got, to, want, p.from)
	}
	if string(quoted) != string(p.bytes()) {
		b.Errorf("to %s: the answer quotes\n%x, want\n%x", p.to, quoted, p.bytes())
	}
}

// expectRarelyTold demands one answer for many packets, and none about ICMP errors and later fragments. It
// returns how many more there may be, because it took so long.
func (b *bench) expectRarelyTold() (more uint64) {
	b.Helper()
	b.Pass(tellingPause)
	before := b.plane.Counters().Drops["action-drop"]
	silent := [][]byte{portUnreachable(SiteHosts[0], netip.MustParseAddr("10.2.1.1")), laterFragment(from4("10.2.1.1"))}
	for _, p := range silent {
		b.SendFromSite(b, p)
		b.eventually("counted", func() bool { return b.plane.Counters().Drops["action-drop"] > before })
		before = b.plane.Counters().Drops["action-drop"]
		b.Pass(tellingPause)
	}
	const many = 20
	begun := time.Now()
	for range many {
		b.send(from4("10.2.1.1").numbered(77))
	}
	b.eventually("all counted", func() bool { return b.plane.Counters().Drops["action-drop"] == before+many })
	more = uint64(time.Since(begun) / toldEvery)
	s := b.receiveAtSite()
	v4, ok := s.inner.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
	if !ok || len(v4.Payload) == 0 || string(v4.Payload) != string(from4("10.2.1.1").numbered(77).bytes()) {
		b.Errorf("the next answer is %v, want one about number 77: nothing else may be answered", s.inner)
	}
	return more
}

// portUnreachable is an ICMP error.
func portUnreachable(from, to netip.Addr) []byte {
	v4 := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolICMPv4, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
	icmp := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(3, 3)}
	quoted := packet{from: to, to: from, port: 9}.bytes()
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, v4, icmp, gopacket.Payload(quoted)); err != nil {
		panic(err) // the suite's own packets always serialize
	}
	return buffer.Bytes()
}

// laterFragment is the second part of a datagram.
func laterFragment(p packet) []byte {
	v4 := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, FragOffset: 185, Protocol: layers.IPProtocolUDP, SrcIP: p.from.AsSlice(), DstIP: p.to.AsSlice()}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, v4, gopacket.Payload(make([]byte, 64))); err != nil {
		panic(err) // the suite's own packets always serialize
	}
	return buffer.Bytes()
}

// SPDX-License-Identifier: Apache-2.0

// Traces of packets through the tables of an engine with real interfaces. The tests need root.

package kernel

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/observe"
	"loci/forward"
	"loci/lisp"
)

// tracer opens a tracer of a router's instance.
func (r *router) tracer(t *testing.T) (tracer *observe.Tracer, err error) {
	t.Helper()
	err = r.ns.Do(func() (err error) {
		tracer, err = observe.OpenTracer("", r.instance)
		return err
	})
	if err == nil {
		t.Cleanup(func() { must(t, tracer.Close()) })
	}
	return tracer, err
}

// expectTrace traces a packet at an interface of the router, and returns the trace in one line.
func (r *router) expectTrace(t *testing.T, tracer *observe.Tracer, at string, p observe.TracedPacket) (text string, result []byte) {
	t.Helper()
	must(t, r.ns.Do(func() error {
		link, err := net.InterfaceByName(at)
		if err != nil {
			return err
		}
		p.Ifindex = uint32(link.Index)
		trace, err := tracer.Trace(p)
		text, result = trace.Verdict+" "+trace.Reason, trace.Packet
		for _, s := range trace.Steps {
			text += "; " + s.Name + ": " + s.Answer
		}
		return err
	}))
	return text, result
}

// udpPacket is a packet of IP and UDP.
func udpPacket(t *testing.T, p pair, from, to int, octets int) []byte {
	t.Helper()
	source, destination := p.inner(from, 10), p.inner(to, 10)
	udp := &layers.UDP{SrcPort: 1000, DstPort: 9}
	var network gopacket.SerializableLayer
	if source.Is4() {
		ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, Flags: layers.IPv4DontFragment,
			SrcIP: source.AsSlice(), DstIP: destination.AsSlice()}
		must(t, udp.SetNetworkLayerForChecksum(ip))
		network = ip
	} else {
		ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: source.AsSlice(), DstIP: destination.AsSlice()}
		must(t, udp.SetNetworkLayerForChecksum(ip))
		network = ip
	}
	buffer := gopacket.NewSerializeBuffer()
	must(t, gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		network, udp, gopacket.Payload(make([]byte, octets))))
	return buffer.Bytes()
}

func wantAll(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in: %s", part, text)
		}
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{pairs[0], pairs[3], pairs[1]} {
		t.Run(p.name, func(t *testing.T) {
			n := newLinks(t)
			a := n.open(t, 0, Options{})
			tracer, err := a.tracer(t)
			must(t, err)
			out := udpPacket(t, p, 0, 1, 10)
			text, _ := a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: out})
			wantAll(t, text, "wait miss", "source: an EID of this site", "destination: no EID", "map-cache: nothing covers it")

			a.apply(t, mappingOf(1, p.outer)...)
			n.expectPings(t, a.ns, p.outer(0), p.outer(1)) // the neighbour is known from now on
			text, sent := a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: out})
			wantAll(t, text, "encapsulate", "map-cache: "+sitePrefixText(1, p), "locator: "+p.outer(1).String(), "route: next hop known by core0")
			e, reason := forward.ParseEncapsulated(sent)
			if reason != forward.DropNone || e.Outer.Destination != p.outer(1) || e.Header.TTL != 63 {
				t.Errorf("sent as %+v, %s", e, reason)
			}
			text, _ = a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: udpPacket(t, p, 0, 1, 1440)})
			wantAll(t, text, "wait too-big", "route: too big for the path")
			text, _ = a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: udpPacket(t, p, 1, 0, 10)})
			wantAll(t, text, "pass", "source: no EID of this site")
			a.checkIncoming(t, tracer, p)
			a.wantUntouched(t)
		})
	}
}

func sitePrefixText(i int, p pair) string {
	prefixes := sitePrefixes(i)
	if p.inner(i, 1).Is4() {
		return prefixes[0].String()
	}
	return prefixes[1].String()
}

// checkIncoming traces packets from the core.
func (r *router) checkIncoming(t *testing.T, tracer *observe.Tracer, p pair) {
	t.Helper()
	encapsulated := func(inner []byte, instance lisp.InstanceID) []byte {
		h, err := forward.ParseHeader(inner)
		must(t, err)
		packet, reason := forward.Encapsulate(nil, inner, &h, &forward.Tunnel{
			Source: lisp.RLOCFromAddr(p.outer(1)), Destination: lisp.RLOCFromAddr(p.outer(0)), Header: forward.DataHeader(instance, 1),
		})
		if reason != forward.DropNone {
			t.Fatal(reason)
		}
		return packet
	}
	text, _ := r.expectTrace(t, tracer, "core0", observe.TracedPacket{Packet: encapsulated(udpPacket(t, p, 1, 0, 10), 0)})
	wantAll(t, text, "decapsulate", "lisp-header: flags N, Instance-ID 0", "database: "+sitePrefixText(0, p), "marking: DSCP 0, ECN 0, TTL 64")
	text, _ = r.expectTrace(t, tracer, "core0", observe.TracedPacket{Packet: encapsulated(udpPacket(t, p, 1, 0, 10), 77)})
	wantAll(t, text, "drop eid-not-in-database", "flags NI, Instance-ID 77", "database: nothing covers it")
	text, _ = r.expectTrace(t, tracer, "core0", observe.TracedPacket{Packet: udpPacket(t, p, 1, 0, 10)})
	wantAll(t, text, "pass")
}

// wantUntouched fails when a trace left anything behind.
func (r *router) wantUntouched(t *testing.T) {
	t.Helper()
	c := r.Counters()
	if c.MissPackets != 0 || c.EncapsulatedPackets != 0 || c.DecapsulatedPackets != 0 || c.Drops["eid-not-in-database"] != 0 {
		t.Errorf("a trace was counted: %+v", c)
	}
	select {
	case e := <-r.Events():
		t.Errorf("a trace raised %+v", e)
	default:
	}
}

// What programs remember of other routers stays as it is: no echo is asked for by a trace.
func TestTraceRemembersNothing(t *testing.T) {
	t.Parallel()
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	settings := a.Settings()
	settings.Header.EchoNonce, settings.Header.StatusBits = true, true
	a.apply(t, dataplane.SetSettings{Settings: settings})
	for _, operation := range mappingOf(1, rloc4) {
		put := operation.(dataplane.PutMapping)
		put.Entry.Mapping.EchoNonce = true
		a.apply(t, put)
	}
	n.expectPings(t, a.ns, rloc4(0), rloc4(1)) // the neighbour is known from now on
	tracer, err := a.tracer(t)
	must(t, err)
	text, _ := a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: udpPacket(t, pairs[0], 0, 1, 10)})
	wantAll(t, text, "encapsulate")
	for _, name := range []string{abi.MapPeers, abi.MapHeard} {
		var key []byte
		if err := a.store.Map(name).NextKey(nil, &key); !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Errorf("%s has %x after a trace, %v", name, key, err)
		}
	}
	if err := tracer.PrivateMap(abi.MapPeers).NextKey(nil, new([]byte)); err != nil {
		t.Errorf("the trace did not come to what it must not remember: %v", err)
	}
}

// What packets have told of mappings and of the queue before the TAP stays as it is, too: how much a mapping was used and when last,
// and when a packet was last tried although there seemed to be no place.
func TestTraceChangesNoCounts(t *testing.T) {
	t.Parallel()
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	a.apply(t, mappingOf(1, rloc4)...)
	n.expectPings(t, a.ns, rloc4(0), rloc4(1)) // the neighbour is known from now on
	tracer, err := a.tracer(t)
	must(t, err)
	index, record := a.entryOf(t, abi.RootMapCache, sitePrefixes(1)[0])
	if record == nil {
		t.Fatal("no mapping")
	}
	a.store.Usage[index].Packets, a.store.Usage[index].Octets = 3, 300
	a.store.Records[index].LastUsed = 7
	want := a.store.UsageOf(index)
	if want.Packets == 0 {
		t.Fatal("nothing is counted")
	}
	text, _ := a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: udpPacket(t, pairs[0], 0, 1, 10)})
	wantAll(t, text, "encapsulate")
	if got := a.store.UsageOf(index); got != want || a.store.Records[index].LastUsed != 7 {
		t.Errorf("use of the mapping %+v after a trace, %+v before; last used %d", got, want, a.store.Records[index].LastUsed)
	}
	unread := a.store.Backlog
	unread.Limit, unread.TriedNs = math.MaxUint32, 5 // less than nothing: no source has a place
	text, _ = a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: udpPacket(t, pairs[0], 0, 2, 10)})
	wantAll(t, text, "wait miss")
	if unread.TriedNs != 5 {
		t.Errorf("a trace was taken for a try to find a place: %d", unread.TriedNs)
	}
}

func TestTraceOfNothing(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{})
	tracer, err := a.tracer(t)
	must(t, err)
	must(t, a.ns.Do(func() error {
		if _, err := tracer.Trace(observe.TracedPacket{Ifindex: 1, Packet: udpPacket(t, pairs[0], 0, 1, 0)}); err == nil {
			t.Error("lo can be traced at")
		}
		return nil
	}))
	for _, packet := range [][]byte{nil, {0x45}, {0x60, 0, 0}} {
		must(t, a.ns.Do(func() error {
			site, err := net.InterfaceByName("site0")
			must(t, err)
			if _, err := tracer.Trace(observe.TracedPacket{Ifindex: uint32(site.Index), Packet: packet}); err == nil {
				t.Errorf("a packet of %d octets is traced", len(packet))
			}
			return nil
		}))
		text, _ := a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: append(packet, make([]byte, 60)...)})
		wantAll(t, text, "pass")
	}
	must(t, a.Detach(context.Background()))
	if _, err := a.tracer(t); !errors.Is(err, observe.ErrNothingInForce) {
		t.Errorf("a tracer of nothing: %v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package flows

// The TCP packets by which connections of Multipath TCP begin and end, as events.

import (
	"reflect"
	"time"

	"github.com/gopacket/gopacket/layers"

	"loci/dataplane"
)

// multipath are the options of a SYN of Multipath TCP that opens a connection, joining those of one that joins.
var (
	multipath = []layers.TCPOption{
		option(2, 5, 180), option(30, 0x01, 0x81),
	}
	joining = []layers.TCPOption{
		option(2, 5, 180), {OptionType: layers.TCPOptionKindNop}, option(3, 7), option(4),
		option(8, 0, 0, 0, 9, 0, 0, 0, 0),
		option(30, 0x10, 1, 1, 2, 3, 4, 5, 6, 7, 8),
	}
	withoutMultipath = []layers.TCPOption{option(2, 5, 180), option(8, 30, 4, 1, 2, 30, 4, 1, 2)}
)

func option(kind layers.TCPOptionKind, data ...byte) layers.TCPOption {
	return layers.TCPOption{OptionType: kind, OptionLength: uint8(2 + len(data)), OptionData: data}
}

// expectSubflow demands that this event is the next of its kind.
func (b *bench) expectSubflow(want dataplane.Subflow) {
	b.Helper()
	deadline := time.After(patience)
	for {
		select {
		case event := <-b.plane.Events():
			got, ok := event.(dataplane.Subflow)
			if !ok {
				continue
			}
			if !reflect.DeepEqual(got, want) {
				b.Fatalf("event %+v, want %+v", got, want)
			}
			return
		case <-deadline:
			b.Fatalf("no event %+v; counters %+v", want, b.plane.Counters())
		}
	}
}

func (b *bench) tellSubflows(on bool) {
	b.Helper()
	b.settings(func(s *dataplane.Settings) { s.Subflows = on })
}

// connection is a packet to a host whose mapping has two locators, and one to a host whose mapping has one that packets
// may go to.
type connection struct {
	out, alone      packet
	prefix, onlyOne string
	relayed         packet // to the same host as out, from one of another site
}

func connections() []connection {
	const four, six = "10.2.0.1", "2001:db8:2::1"
	return []connection{
		{from4(four), from4("10.3.0.1"), "10.2.0.0/24", "10.3.0.0/24", between("10.9.0.1", four)},
		{from6(six), from6("2001:db8:3::1"), "2001:db8:2::/64", "2001:db8:3::/64",
			between("2001:db8:9::1", six)},
	}
}

// mapConnection puts the mappings of a connection.
func (b *bench) mapConnection(c connection) {
	b.Helper()
	b.apply(b.mapping(c.prefix, locator("192.0.2.2", 1), locator("192.0.2.3", 2)),
		b.mapping(c.onlyOne, locator("192.0.2.2", 1), locator("192.0.2.3", 255)))
}

// subflowsAreTold: those of Multipath TCP, both ways, towards several locators, and while the settings want it.
func subflowsAreTold(b *bench) {
	for _, c := range connections() {
		b.mapConnection(c)
		b.tellSubflows(true)
		// What raises nothing goes first: its event would come before the one that is waited for.
		for _, p := range []packet{
			c.out.tcp(flagACK, multipath...), c.out.tcp(flagSYN, withoutMultipath...), c.out.tcp(flagSYN),
			c.alone.tcp(flagSYN, multipath...),
		} {
			b.expectTo("192.0.2.2", p)
		}
		b.deliver(c.out.tcp(flagSYN, withoutMultipath...).reversed())
		b.deliver(c.out.tcp(flagACK, multipath...).reversed())
		for i, p := range []packet{
			c.out.tcp(flagSYN, multipath...), c.out.tcp(flagSYN, joining...),
			c.out.tcp(flagSYN|flagACK, multipath...),
		} {
			p = p.numbered(i)
			b.expectTo("192.0.2.2", p)
			b.expectSubflow(p.event(false))
			b.deliver(p.reversed())
			b.expectSubflow(p.reversed().event(true))
		}
		b.tellSubflows(false)
		b.expectTo("192.0.2.2", c.out.flow(7).tcp(flagSYN, multipath...))
		b.tellSubflows(true)
		last := c.out.flow(8).tcp(flagSYN, multipath...)
		b.expectTo("192.0.2.2", last)
		b.expectSubflow(last.event(false))
	}
}

// endsOfSubflowsAreTold: those of flows that are bound, or whose other direction is, also when caches know the flows.
func endsOfSubflowsAreTold(b *bench) {
	for _, c := range connections() {
		b.mapConnection(c)
		b.tellSubflows(true)
		exchange := func(rloc string) {
			data := c.out.tcp(flagACK)
			for range 3 {
				b.expectTo(rloc, data)
				b.deliver(data.reversed())
			}
		}
		exchange("192.0.2.2")
		b.expectTo("192.0.2.2", c.out.tcp(flagFIN|flagACK))
		b.deliver(c.out.tcp(flagRST).reversed())
		b.apply(bind(c.out.tcp(flagACK), pathTo("192.0.2.3")))
		for i, flags := range []uint8{flagFIN | flagACK, flagRST, flagRST | flagACK} {
			exchange("192.0.2.3")
			p := c.out.numbered(i).tcp(flags)
			b.expectTo("192.0.2.3", p)
			b.expectSubflow(p.event(false))
			b.deliver(p.reversed())
			b.expectSubflow(p.reversed().event(true))
		}
	}
}

// subflowsThatWait are told when they leave.
func subflowsThatWait(b *bench) {
	b.tellSubflows(true)
	for _, c := range connections() {
		p := c.out.tcp(flagSYN, multipath...)
		b.SendFromSite(b, p.bytes())
		b.eventually("it waits", func() bool { return b.plane.Counters().WaitingPackets == 1 })
		b.mapConnection(c)
		b.expect("192.0.2.2", 0, p)
		b.expectSubflow(p.event(false))
	}
}

// subflowsOfRelays: what is relayed begins nothing here, and ends what is bound.
func subflowsOfRelays(b *bench) {
	b.relay()
	b.tellSubflows(true)
	for _, c := range connections() {
		b.mapConnection(c)
		b.expectRelayed("192.0.2.2", 0, c.relayed.tcp(flagSYN, multipath...))
		b.expectRelayed("192.0.2.2", 0, c.relayed.tcp(flagFIN|flagACK))
		b.apply(bind(c.relayed.tcp(flagACK), pathTo("192.0.2.3")))
		for range 3 { // caches know the flow by then
			b.expectRelayed("192.0.2.3", 0, c.relayed.tcp(flagACK))
		}
		end := c.relayed.numbered(1).tcp(flagFIN | flagACK)
		b.expectRelayed("192.0.2.3", 0, end)
		b.expectSubflow(end.event(false))
	}
}

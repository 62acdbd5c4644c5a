// SPDX-License-Identifier: Apache-2.0

package conformance

// Misses, and packets that wait for a mapping (RFC 9300 s.4): delivered in order
// per flow when it comes, dropped for a named reason when it does not.

import (
	"fmt"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// expectMiss demands an event for that destination; others may come before it.
func (b *bench) expectMiss(destination string) dataplane.Miss {
	b.Helper()
	deadline := time.After(patience)
	for {
		select {
		case event := <-b.plane.Events():
			if miss, ok := event.(dataplane.Miss); ok && miss.Destination.String() == destination {
				return miss
			}
		case <-deadline:
			b.Fatalf("no miss for %s; counters %+v", destination, b.plane.Counters())
		}
	}
}

func (b *bench) drainEvents() {
	for {
		select {
		case <-b.plane.Events():
		default:
			return
		}
	}
}

// eventuallyWaiting waits until so many packets are in the queue.
func (b *bench) eventuallyWaiting(packets uint64) {
	b.Helper()
	b.eventually(fmt.Sprintf("%d packets waiting", packets), func() bool { return b.plane.Counters().WaitingPackets == packets })
}

func missRaisesAnEvent(b *bench) {
	for _, p := range []packet{from4("10.2.0.1"), from6("2001:db8:2::1")} {
		for i := range 20 {
			b.send(p.numbered(i))
		}
		miss := b.expectMiss(p.to.String())
		if miss.Source.Addr() != p.from || miss.Instance != 0 || miss.Interface != b.siteInterface() {
			b.Errorf("miss %+v, want source %s at %s", miss, p.from, b.siteInterface())
		}
	}
	b.eventually("40 misses counted", func() bool { return b.plane.Counters().MissPackets == 40 })
	events := 0
	for len(b.plane.Events()) > 0 {
		<-b.plane.Events()
		events++
	}
	if events > 10 {
		b.Errorf("%d more events for 40 packets to two destinations: at most about one a second is due", events)
	}
}

func (b *bench) siteInterface() string {
	for _, i := range b.plane.Settings().Interfaces {
		if i.Side == dataplane.SideSite {
			return i.Name
		}
	}
	b.Fatal("the harness has no site interface")
	return ""
}

// waitingPacketsAreDelivered in all four family pairs: each packet, in order, and
// those that come later behind them.
func waitingPacketsAreDelivered(b *bench) {
	for _, c := range []struct {
		prefix, rloc string
		packet       packet
	}{
		{"10.2.0.0/24", "192.0.2.2", from4("10.2.0.1")}, {"10.3.0.0/24", "2001:db8:ff00::2", from4("10.3.0.1")},
		{"2001:db8:2::/64", "192.0.2.2", from6("2001:db8:2::1")}, {"2001:db8:3::/64", "2001:db8:ff00::2", from6("2001:db8:3::1")},
	} {
		const early, late = 20, 5
		for i := range early {
			b.send(c.packet.numbered(i))
		}
		b.eventuallyWaiting(early)
		b.apply(b.to(c.prefix, c.rloc))
		for i := range late {
			b.send(c.packet.numbered(early + i))
		}
		for i := range early + late {
			s := b.receive()
			if _, number := s.flow(); !s.encapsulated || s.rloc.String() != c.rloc || number != i || s.ttl() != 63 {
				b.Fatalf("%s with TTL %d, want number %d to %s", s, s.ttl(), i, c.rloc)
			}
		}
		b.eventuallyWaiting(0)
	}
	b.eventually("all counted as released", func() bool { return b.plane.Counters().ReleasedPackets >= 80 })
}

func waitingPacketsOfManyFlows(b *bench) {
	const flows, each = 8, 6
	for i := range each {
		for flow := range flows {
			destination := fmt.Sprintf("10.2.0.%d", 1+flow/2) // two flows to each
			b.send(from4(destination).flow(uint16(3000 + flow)).numbered(i))
		}
	}
	b.send(from4("10.3.0.1")) // not covered: it stays
	b.eventuallyWaiting(flows*each + 1)
	b.apply(b.mapping("10.2.0.0/24", locator("192.0.2.2", 1, 50), locator("2001:db8:ff00::2", 1, 50)))
	next := map[uint16]int{}
	for range flows * each {
		s := b.receive()
		port, number := s.flow()
		if number != next[port] {
			b.Fatalf("flow %d: number %d, want %d", port, number, next[port])
		}
		next[port]++
	}
	if len(next) != flows {
		b.Errorf("%d flows arrived, want %d", len(next), flows)
	}
	b.eventuallyWaiting(1)
}

func waitingPacketsMeetANegativeMapping(b *bench) {
	for i := range 5 {
		b.send(from4("10.2.0.1").numbered(i))
	}
	b.eventuallyWaiting(5)
	b.apply(negative("10.2.0.0/16", lisp.ActionDrop))
	b.eventuallyDropped("action-drop", 5)
	b.eventuallyWaiting(0)
	// Nothing of it is left over for another mapping.
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"))
	b.expectTo("192.0.2.2", from4("10.2.0.1").numbered(77))
}

func waitingPacketsGoNatively(b *bench) {
	for i := range 5 {
		b.send(from6("2001:db8:2::1").numbered(i))
	}
	b.eventuallyWaiting(5)
	b.apply(negative("2001:db8:2::/48", lisp.ActionNativelyForward))
	for i := range 5 {
		s := b.receive()
		if _, number := s.flow(); s.encapsulated || number != i || s.destination().String() != "2001:db8:2::1" {
			b.Fatalf("%s, encapsulated %t, want number %d natively", s, s.encapsulated, i)
		}
	}
	b.eventuallyWaiting(0)
}

// waitingGoesOnUnderSendMapRequest: a mapping that says so decides nothing, and
// neither does a shorter prefix behind it.
func waitingGoesOnUnderSendMapRequest(b *bench) {
	b.send(from4("10.2.0.1").numbered(1))
	b.eventuallyWaiting(1)
	b.apply(negative("10.2.0.0/24", lisp.ActionSendMapRequest), b.to("10.0.0.0/8", "192.0.2.2"))
	b.expectTo("192.0.2.2", from4("10.3.0.1").numbered(2))
	b.eventuallyWaiting(1)
	b.apply(b.to("10.2.0.0/24", "192.0.2.3"))
	if s := b.receive(); s.rloc.String() != "192.0.2.3" {
		b.Errorf("%s, want the packet that waited", s)
	}
}

func waitingIsBoundedInPackets(b *bench) {
	b.settings(func(s *dataplane.Settings) { s.Wait.PacketsPerDestination, s.Wait.PacketsTotal = 4, 12 })
	for i := range 7 {
		b.send(from4("10.2.0.1").numbered(i))
	}
	b.eventuallyDropped("waiting-packets-limit", 3)
	for i := range 4 {
		b.send(from4("10.2.0.2").numbered(i))
	}
	b.eventuallyDropped("waiting-source-limit", 2) // it leaves as much free as it takes
	b.eventuallyWaiting(6)
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"))
	next := map[string]int{}
	for range 6 {
		s := b.receive()
		to := s.destination().String()
		if _, number := s.flow(); number != next[to] {
			b.Fatalf("%s, want number %d: the oldest stay", s, next[to])
		}
		next[to]++
	}
	if next["10.2.0.1"] != 4 || next["10.2.0.2"] != 2 {
		b.Errorf("released %v, want four and two", next)
	}
}

func waitingIsBoundedInOctets(b *bench) {
	b.settings(func(s *dataplane.Settings) { s.Wait.OctetsTotal = 4000 })
	for i := range 3 {
		for _, destination := range []string{"10.2.0.1", "10.2.0.2", "10.2.0.3"} {
			b.send(from4(destination).numbered(i).sized(1000))
		}
	}
	b.eventually("all queued or dropped for their octets", func() bool {
		c := b.plane.Counters()
		return c.WaitingPackets+c.Drops["waiting-octets-limit"]+c.Drops["waiting-source-limit"] == 9
	})
	if c := b.plane.Counters(); c.WaitingOctets > 4000 || c.WaitingPackets == 0 {
		b.Errorf("%d packets of %d octets wait, the bound is 4000", c.WaitingPackets, c.WaitingOctets)
	}
}

func waitingIsBoundedInTime(b *bench) {
	b.settings(func(s *dataplane.Settings) { s.Wait.Time = 200 * time.Millisecond })
	b.send(from4("10.2.0.1"), from6("2001:db8:2::1"))
	b.eventually("both counted as misses", func() bool { return b.plane.Counters().MissPackets == 2 })
	b.Pass(300 * time.Millisecond)
	b.eventuallyDropped("waiting-time-limit", 2)
	b.eventuallyWaiting(0)
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"))
	b.expectTo("192.0.2.2", from4("10.2.0.1").numbered(5))
}

// aFloodLeavesRoom demands that another host's packets wait, whatever one host sends.
func aFloodLeavesRoom(b *bench) {
	b.settings(func(s *dataplane.Settings) { s.Wait.PacketsPerDestination, s.Wait.PacketsTotal = 4, 20 })
	for i := range 40 {
		b.send(from4(fmt.Sprintf("10.2.0.%d", i+1)))
	}
	b.eventuallyDropped("waiting-source-limit", 30)
	b.send(from4("10.3.0.1").withSource("10.1.0.77"), from6("2001:db8:2::1"))
	b.eventuallyWaiting(12)
	b.apply(b.to("10.3.0.0/24", "192.0.2.2"), b.to("2001:db8:2::/64", "192.0.2.2"))
	for range 2 {
		if s := b.receive(); s.destination().Is4() && s.destination() != from4("10.3.0.1").to {
			b.Errorf("%s was released", s)
		}
	}
}

func missPolicies(b *bench) {
	b.settings(func(s *dataplane.Settings) { s.MissPolicy = dataplane.MissDrop })
	b.send(from4("10.2.0.1"))
	b.expectMiss("10.2.0.1")
	b.eventuallyDropped("miss", 1)
	b.settings(func(s *dataplane.Settings) { s.MissPolicy = dataplane.MissForwardNatively })
	b.expectNative(from4("10.2.0.2"))
	b.expectMiss("10.2.0.2")
	b.settings(func(s *dataplane.Settings) { s.MissPolicy = dataplane.MissQueue })
	b.send(from4("10.2.0.3"))
	b.expectMiss("10.2.0.3")
	b.eventuallyWaiting(1)
}

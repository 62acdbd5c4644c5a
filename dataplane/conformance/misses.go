// SPDX-License-Identifier: Apache-2.0

package conformance

// Policies of single Instance-IDs, what a miss tells of its packet, and packets that
// are handed to the control plane (RFC 9300 s.4 leaves the choice open).

import (
	"bytes"
	"errors"
	"net/netip"

	"loci/dataplane"
	"loci/lisp"
)

// missPoliciesOfInstances: that of the site's Instance-ID counts, and what others have
// does not.
func missPoliciesOfInstances(b *bench) {
	policies := func(policy dataplane.MissPolicy, of map[lisp.InstanceID]dataplane.MissPolicy) {
		b.settings(func(s *dataplane.Settings) { s.MissPolicy, s.MissPolicies = policy, of })
	}
	policies(dataplane.MissQueue, map[lisp.InstanceID]dataplane.MissPolicy{0: dataplane.MissDrop, 7: dataplane.MissForwardNatively})
	b.send(from4("10.2.0.1"))
	b.expectMiss("10.2.0.1")
	b.eventuallyDropped("miss", 1)
	policies(dataplane.MissDrop, map[lisp.InstanceID]dataplane.MissPolicy{0: dataplane.MissForwardNatively, 7: dataplane.MissQueue})
	b.expectNative(from4("10.2.0.2"))
	policies(dataplane.MissDrop, map[lisp.InstanceID]dataplane.MissPolicy{0: dataplane.MissQueue, 7: dataplane.MissHandOver})
	b.send(from6("2001:db8:2::3"))
	b.eventuallyWaiting(1)
	policies(dataplane.MissDrop, nil)
	b.send(from4("10.2.0.4"))
	b.eventuallyDropped("miss", 2)
	b.eventually("every miss counted", func() bool { return b.plane.Counters().MissPackets == 4 })
	if got := b.plane.Settings().MissPolicies; len(got) != 0 {
		b.Errorf("policies %v are left", got)
	}
	for name, wrong := range map[string]dataplane.Settings{
		"policy": {MissPolicy: dataplane.MissHandOver + 1}, "form": {MissForm: dataplane.MissFormPacket + 1},
		"policy of an Instance-ID": {MissPolicies: map[lisp.InstanceID]dataplane.MissPolicy{1: dataplane.MissHandOver + 1}},
		"Instance-ID":              {MissPolicies: map[lisp.InstanceID]dataplane.MissPolicy{lisp.MaxInstanceID + 1: dataplane.MissDrop}},
	} {
		if err := errors.Join(b.plane.Apply(dataplane.SetSettings{Settings: wrong})...); !errors.Is(err, dataplane.ErrInvalid) {
			b.Errorf("wrong %s: %v", name, err)
		}
	}
}

func missForms(b *bench) {
	number := 0
	for _, form := range []dataplane.MissForm{dataplane.MissFormHeader, dataplane.MissFormPacket, dataplane.MissFormEID} {
		b.settings(func(s *dataplane.Settings) { s.MissForm = form })
		for _, p := range []packet{from4("10.2.0.1"), from6("2001:db8:2::1")} {
			number++
			p.to = nth(p.to, number)
			octets := p.sized(200).bytes()
			b.send(p.sized(200))
			miss := b.expectMiss(p.to.String())
			headers := 20
			if p.to.Is6() {
				headers = 40
			}
			want := map[dataplane.MissForm][]byte{dataplane.MissFormHeader: octets[:headers+8], dataplane.MissFormPacket: octets}[form]
			if miss.Form != form || miss.Handed || !bytes.Equal(miss.Packet, want) {
				b.Errorf("form %s: told as %s, handed %t, %d octets, want %d", form, miss.Form, miss.Handed, len(miss.Packet), len(want))
			}
		}
	}
	b.eventuallyWaiting(6)
}

// handedPacketsArrive, each of them, whole, and nowhere else.
func handedPacketsArrive(b *bench) {
	b.settings(func(s *dataplane.Settings) {
		s.MissPolicy, s.MissPolicies = dataplane.MissDrop, map[lisp.InstanceID]dataplane.MissPolicy{0: dataplane.MissHandOver}
	})
	const each = 5
	for _, p := range []packet{from4("10.2.0.1"), from6("2001:db8:2::1")} {
		for i := range each {
			b.send(p.numbered(i))
		}
		for i := range each {
			miss := b.expectMiss(p.to.String())
			if !miss.Handed || miss.Form != dataplane.MissFormPacket || !bytes.Equal(miss.Packet, p.numbered(i).bytes()) || miss.Interface != b.siteInterface() {
				b.Fatalf("number %d: %+v", i, miss)
			}
		}
	}
	b.eventually("all counted", func() bool {
		c := b.plane.Counters()
		return c.MissPackets == 2*each && c.Other["handed_over"] == 2*each && c.WaitingPackets == 0
	})
	// A mapping ends it.
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"))
	b.expectTo("192.0.2.2", from4("10.2.0.1").numbered(99))
}

// handedPacketsAreBounded: who does not read loses them, counted.
func handedPacketsAreBounded(b *bench) {
	b.settings(func(s *dataplane.Settings) { s.MissPolicy = dataplane.MissHandOver })
	const sent = 6000
	for i := range sent {
		b.send(from4("10.2.0.1").numbered(i))
	}
	b.eventually("all handed over or dropped", func() bool {
		c := b.plane.Counters()
		return c.Other["handed_over"]+c.Drops["hand-over-limit"] == sent
	})
	last := lisp.EIDFromAddr(from4("10.2.0.9").to)
	b.eventually("packets are handed over again when their reader reads", func() bool {
		b.send(from4("10.2.0.9"))
		for {
			select {
			case event := <-b.plane.Events():
				if miss, ok := event.(dataplane.Miss); ok && miss.Handed && miss.Destination == last {
					return true
				}
			default:
				return false
			}
		}
	})
}

// nth is another address of the same network.
func nth(a netip.Addr, n int) netip.Addr {
	octets := a.AsSlice()
	octets[len(octets)-1] = byte(n)
	other, _ := netip.AddrFromSlice(octets) // as long as a
	return other
}

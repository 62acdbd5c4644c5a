// SPDX-License-Identifier: Apache-2.0

// A destination is told about once in a while.

package pending

import (
	"net/netip"
	"testing"
	"time"

	"loci/forward"
	"loci/lisp"
)

func TestMissesAreToldOnceAMoment(t *testing.T) {
	var lost uint64
	m := NewMisses(&lost, func(uint32) string { return "site0" }, func(lisp.InstanceID) bool { return false }, nil)
	to := func(i byte) missedPacket {
		return missedPacket{destination: forward.Destination{EID: lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, 2, 0, i}))}, source: lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, 1, 0, 10}))}
	}
	now := time.Unix(1000, 0)
	m.raise(now, to(1))
	if !m.raise(now.Add(MissInterval/2), to(1)) {
		t.Error("an event told just before counts as lost")
	}
	m.raise(now, to(2))
	if len(m.events) != 2 {
		t.Errorf("%d events, want 2", len(m.events))
	}
	m.raise(now.Add(MissInterval), to(1))
	if len(m.events) != 3 {
		t.Errorf("%d events after a while, want 3", len(m.events))
	}
	for i := range eventPlaces {
		m.raise(now, missedPacket{destination: forward.Destination{Instance: lisp.InstanceID(i + 1), EID: to(1).destination.EID}})
	}
	if m.raise(now, missedPacket{}) {
		t.Error("an event without room counts as told")
	}
	if len(m.events) != eventPlaces || lost != 4 {
		t.Errorf("%d events, %d lost, want %d and 4", len(m.events), lost, eventPlaces)
	}
	<-m.events
	m.raise(now, missedPacket{destination: forward.Destination{Instance: eventPlaces, EID: to(1).destination.EID}})
	if len(m.events) != eventPlaces {
		t.Error("a lost event is not raised again with the next packet")
	}
}

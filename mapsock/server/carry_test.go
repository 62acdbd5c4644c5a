// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

// Events are told in their order, also those of which there are two kinds of hearers, and
// those that are told apart from the others.
func TestEventsKeepTheirOrder(t *testing.T) {
	s := serve(t, Options{})
	m := s.monitor(t, mapsock.HearEvents)
	ended := func(prefix string) dataplane.Event { return dataplane.Expired{Prefix: lisp.MustParsePrefix(prefix)} }
	events := []dataplane.Event{
		dataplane.MTUChanged{RLOC: peerRLOC, MTU: 1400}, ended("10.2.0.0/24"),
		dataplane.Miss{Destination: lisp.MustParsePrefix("10.3.0.1").EID(), Form: dataplane.MissFormPacket, Packet: packetTo("10.3.0.1"), Handed: true},
		ended("10.4.0.0/24"), dataplane.MTUChanged{RLOC: peerRLOC, MTU: 1500},
	}
	more := make(chan dataplane.Event, len(events))
	for _, event := range events[1:] {
		more <- event
	}
	s.server.carry(events[0], more, &outgoing{})
	for i, want := range []mapsock.Type{mapsock.TypeMTU, mapsock.TypeDelete, mapsock.TypeMissEID, mapsock.TypeDelete, mapsock.TypeMTU} {
		got := next(t, m, want)
		if event, _ := got.Event(); i != 2 && event != events[i] {
			t.Errorf("event %d is %+v, want %+v", i, event, events[i])
		}
	}
}

// A packet that is handed over goes to the client that asked last, once; others hear of
// the miss in the form they asked for, and readers no packet at all.
func TestHandedPacketsGoToOne(t *testing.T) {
	s := serve(t, Options{})
	apply(t, s.engine, own("10.1.0.0/24"))
	settings := s.engine.Settings()
	settings.MissPolicy, settings.MissForm = dataplane.MissHandOver, dataplane.MissFormPacket
	apply(t, s.engine, dataplane.SetSettings{Settings: settings})
	listen := func(hearing mapsock.Hearing, form mapsock.Type) *mapsock.Monitor {
		m := s.monitor(t, 0)
		ask := &mapsock.Message{Type: mapsock.TypeListen, Hearing: hearing, MissForm: form}
		ask.Mark(mapsock.AttributeListen, mapsock.AttributeMissForm)
		send(t, m, ask)
		if got := next(t, m, mapsock.TypeListen); got.Hearing != hearing || got.MissForm != form {
			t.Fatalf("%s", got)
		}
		return m
	}
	first, last := listen(mapsock.HearEvents|mapsock.HearPackets, mapsock.TypeMissPacket), listen(mapsock.HearEvents|mapsock.HearPackets, mapsock.TypeMissPacket)
	eids, headers := listen(mapsock.HearEvents, mapsock.TypeMissEID), listen(mapsock.HearEvents, mapsock.TypeMissHeader)
	s.engine.Send("site0", packetTo("10.2.0.1"))
	s.engine.Send("site0", packetTo("10.2.0.2"))
	for _, c := range []struct {
		m      *mapsock.Monitor
		kind   mapsock.Type
		handed bool
	}{{first, mapsock.TypeMissPacket, false}, {last, mapsock.TypeMissPacket, true}, {eids, mapsock.TypeMissEID, false}, {headers, mapsock.TypeMissHeader, false}} {
		for _, to := range []string{"10.2.0.1", "10.2.0.2"} { // each once
			got := next(t, c.m, c.kind)
			if got.Prefix.EID().String() != to || got.Flags&mapsock.FlagHanded != 0 != c.handed {
				t.Errorf("%s, handed %v, want %s", got, c.handed, to)
			}
		}
	}
	if n := s.server.Counters()["mapsock_packets_unclaimed_total"]; n != 0 {
		t.Errorf("%d packets went to no client", n)
	}
}

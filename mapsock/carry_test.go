// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"testing"

	"loci/dataplane"
)

// A packet that is handed over goes to the client that asked last, once; others hear of
// the miss in the form they asked for, and readers no packet at all.
func TestHandedPacketsGoToOne(t *testing.T) {
	s := serve(t, Options{})
	apply(t, s.engine, own("10.1.0.0/24"))
	settings := s.engine.Settings()
	settings.MissPolicy, settings.MissForm = dataplane.MissHandOver, dataplane.MissFormPacket
	apply(t, s.engine, dataplane.SetSettings{Settings: settings})
	listen := func(hearing Hearing, form Type) *Monitor {
		m := s.monitor(t, 0)
		ask := &Message{Type: TypeListen, Hearing: hearing, MissForm: form}
		ask.Mark(AttributeListen, AttributeMissForm)
		send(t, m, ask)
		if got := next(t, m, TypeListen); got.Hearing != hearing || got.MissForm != form {
			t.Fatalf("%s", got)
		}
		return m
	}
	first, last := listen(HearEvents|HearPackets, TypeMissPacket), listen(HearEvents|HearPackets, TypeMissPacket)
	eids, headers := listen(HearEvents, TypeMissEID), listen(HearEvents, TypeMissHeader)
	s.engine.Send("site0", packetTo("10.2.0.1"))
	s.engine.Send("site0", packetTo("10.2.0.2"))
	for _, c := range []struct {
		m      *Monitor
		kind   Type
		handed bool
	}{{first, TypeMissPacket, false}, {last, TypeMissPacket, true}, {eids, TypeMissEID, false}, {headers, TypeMissHeader, false}} {
		for _, to := range []string{"10.2.0.1", "10.2.0.2"} { // each once
			got := next(t, c.m, c.kind)
			if got.Prefix.EID().String() != to || got.Flags&FlagHanded != 0 != c.handed {
				t.Errorf("%s, handed %v, want %s", got, c.handed, to)
			}
		}
	}
	if n := s.server.Counters()["mapsock_packets_unclaimed_total"]; n != 0 {
		t.Errorf("%d packets went to nobody", n)
	}
}

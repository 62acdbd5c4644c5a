// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

// What events tell of a path stands in the metrics of its locators, in gets and dumps.
func TestMetricsOfPaths(t *testing.T) {
	s := serve(t, Options{})
	apply(t, s.engine, to("10.2.0.0/24", "192.0.2.2", "192.0.2.3"))
	listener := s.monitor(t, mapsock.HearEvents)
	s.engine.Raise(dataplane.MTUChanged{RLOC: peerRLOC, MTU: 1400})
	s.engine.Raise(dataplane.NonceMismatch{RLOC: peerRLOC, Sent: 0xABCDEF, Received: 7})
	next(t, listener, mapsock.TypeMTU)
	next(t, listener, mapsock.TypeNonceMismatch)
	ask := mapsock.Message{Type: mapsock.TypeGet}
	ask.SetPrefix(lisp.MustParsePrefix("10.2.0.0/24"))
	send(t, listener, &ask)
	check := func(m *mapsock.Message) {
		t.Helper()
		known, unknown := m.Locators[0], m.Locators[1]
		if known.MTU != 1400 || known.TxNonce != 0xABCDEF || known.RxNonce != 7 || !known.HasTxNonce || unknown.MTU != 0 || unknown.HasTxNonce {
			t.Errorf("%s: %+v, %+v", m.Type, known, unknown)
		}
	}
	check(next(t, listener, mapsock.TypeGet))
	send(t, listener, &mapsock.Message{Type: mapsock.TypeDump})
	check(next(t, listener, mapsock.TypeDump))
}

func TestCountersSinceTheyWereZeroed(t *testing.T) {
	s := serve(t, Options{})
	apply(t, s.engine, own("10.1.0.0/24"), to("10.2.0.0/24", "192.0.2.2"))
	client := s.monitor(t, mapsock.HearOwn)
	counters := func(flags mapsock.Flags) dataplane.Counters {
		t.Helper()
		send(t, client, &mapsock.Message{Type: mapsock.TypeGetCounters, Flags: flags})
		return next(t, client, mapsock.TypeGetCounters).Counters()
	}
	s.engine.Send("site0", packetTo("10.2.0.9"))
	if c := counters(mapsock.FlagSince); c.EncapsulatedPackets != 1 {
		t.Errorf("never zeroed: %d packets", c.EncapsulatedPackets)
	}
	send(t, client, &mapsock.Message{Type: mapsock.TypeZeroCounters})
	next(t, client, mapsock.TypeZeroCounters)
	s.engine.Send("site0", packetTo("10.2.0.9"))
	s.engine.Send("site0", packetTo("10.2.0.9"))
	if since, all := counters(mapsock.FlagSince), counters(0); since.EncapsulatedPackets != 2 || all.EncapsulatedPackets != 3 || since.Other["mapsock_clients"] != 1 {
		t.Errorf("%d packets since, %d in all, %d clients", since.EncapsulatedPackets, all.EncapsulatedPackets, since.Other["mapsock_clients"])
	}
}

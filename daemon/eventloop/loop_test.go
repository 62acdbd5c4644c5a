// SPDX-License-Identifier: Apache-2.0

package eventloop

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/events"
	"loci/daemon/handover"
	"loci/daemon/transport"
	"loci/dataplane"
	"loci/lisp"
)

// Parts of an ITR with one static mapping for [7]10.2.0.0/16, with sockets of its own that do not run.
func partsOf(t *testing.T) Parts {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	sockets, err := transport.Listen([]netip.Addr{netip.MustParseAddr("127.0.0.1")}, 0, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sockets.Close)
	locators := lisp.LocatorSet{{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("203.0.113.3")), Priority: 1, Weight: 1, Reachable: true}}
	node, err := control.New(control.Config{
		LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))},
		ITR: &control.ITRConfig{
			MapResolvers:   []netip.AddrPort{netip.MustParseAddrPort("192.0.2.100:4342")},
			StaticMappings: []lisp.Mapping{{Prefix: lisp.MustParsePrefix("[7]10.2.0.0/16"), Locators: locators, TTLMinutes: lisp.TTLUnlimited}},
		},
	}, time.Now(), func(b []byte) { _, _ = rand.Read(b) })
	if err != nil {
		t.Fatal(err)
	}
	return Parts{
		Node: node, Sockets: sockets, Handed: handover.New(sockets.Queue), Events: events.NewHub(), SiblingPath: func(netip.Addr) {}, Log: log,
	}
}

// running has a loop at work until the test ends.
func running(t *testing.T, p Parts) *Loop {
	l := New(p)
	ctx, stop := context.WithCancel(context.Background())
	go l.Run(ctx)
	t.Cleanup(func() { stop(); <-l.stopped })
	return l
}

// A packet may be handed over while its mapping is on its way to the data plane: the Node has
// nothing more to say of it then.
func TestHandedPacketsOfAKnownMappingDoNotWait(t *testing.T) {
	var sent []control.SendPacket
	p := partsOf(t)
	p.Handed = handover.New(func(p control.SendPacket) { sent = append(sent, p) })
	p.Handed.Configure(handover.Settings{
		Local: []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))}, Wait: dataplane.DefaultWaitBounds,
	})
	l := New(p)
	packet := func(to string) dataplane.Miss {
		octets := []byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 10}
		octets = append(octets, netip.MustParseAddr(to).AsSlice()...)
		eid := lisp.EIDFromAddr(netip.MustParseAddr(to))
		return dataplane.Miss{Instance: 7, Destination: eid, Handed: true, Packet: octets}
	}
	for _, to := range []string{"10.2.0.1", "198.51.100.1"} { // the second has no mapping
		l.planeEvent(time.Now(), packet(to))
	}
	if len(sent) != 1 || sent[0].Remote.String() != "203.0.113.3:4341" || p.Handed.Stats().Dropped != 0 {
		t.Fatalf("sent %v, %+v", sent, p.Handed.Stats())
	}
	locators := lisp.LocatorSet{{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("203.0.113.4")), Priority: 1, Weight: 1, Reachable: true}}
	p.Handed.Mapped(time.Now(), &lisp.Mapping{Prefix: lisp.MustParsePrefix("[7]198.51.100.0/24"), Locators: locators})
	if len(sent) != 2 || sent[1].Remote.String() != "203.0.113.4:4341" {
		t.Errorf("the other one did not wait: sent %v", sent)
	}
}

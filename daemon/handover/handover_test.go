// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"net/netip"
	"testing"
	"time"

	"loci/config"
	"loci/control"
	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

// handedPacket is IPv4 without payload, from 10.1.0.10.
func handedPacket(to string, ttl byte) dataplane.Miss {
	destination := netip.MustParseAddr(to).As4()
	packet := append([]byte{0x45, 0, 0, 20, 0, 0, 0, 0, ttl, 253, 0, 0, 10, 1, 0, 10}, destination[:]...)
	sum := forward.Checksum(packet)
	packet[10], packet[11] = byte(sum>>8), byte(sum)
	return dataplane.Miss{
		Instance: 7, Destination: lisp.EIDFromAddr(netip.AddrFrom4(destination)), Form: dataplane.MissFormPacket, Packet: packet, Handed: true,
	}
}

func newTestHandover(h config.HandOver) (*Handover, *[]control.SendPacket) {
	sent := &[]control.SendPacket{}
	handed := New(func(p control.SendPacket) { *sent = append(*sent, p) })
	handed.Configure(Settings{
		To: h.To, Proxy: h.Proxy, Local: []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))},
		Wait: dataplane.WaitBounds{PacketsPerDestination: 2, PacketsTotal: 3, OctetsTotal: 1 << 16, Time: time.Second},
	})
	return handed, sent
}

func handedMapping(prefix string, action lisp.Action, rlocs ...string) *lisp.Mapping {
	m := &lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Action: action}
	for _, r := range rlocs {
		m.Locators = append(m.Locators, lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(r)), Priority: 1, Weight: 1, Reachable: true})
	}
	return m
}

func TestHandedPacketsWaitForTheirMapping(t *testing.T) {
	h, sent := newTestHandover(config.HandOver{To: config.HandedToMapping})
	now := time.Unix(1000, 0)
	for range 3 { // one more than may wait for a destination
		h.Take(now, handedPacket("10.2.0.1", 64))
	}
	h.Take(now, handedPacket("10.3.0.1", 64))
	h.Mapped(now, handedMapping("[7]10.2.0.0/16", lisp.ActionSendMapRequest))
	h.Mapped(now, handedMapping("10.2.0.0/16", 0, "192.0.2.2")) // of another Instance-ID
	if len(*sent) != 0 || h.dropped.Load() != 1 {
		t.Fatalf("sent %v, %d dropped", *sent, h.dropped.Load())
	}
	// One locator is down, of the other family there is no own RLOC.
	h.SetState(lisp.PathTo(lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.2"))), dataplane.LocatorDown)
	h.Mapped(now, handedMapping("[7]10.2.0.0/16", 0, "192.0.2.2", "192.0.2.3", "2001:db8::2"))
	if len(*sent) != 2 || h.sent.Load() != 2 {
		t.Fatalf("sent %v", *sent)
	}
	p := (*sent)[0]
	if p.Remote.String() != "192.0.2.3:4341" || p.Local.Addr().String() != "192.0.2.1" || p.Payload[0] != 0x88 || p.Payload[6] != 7 {
		t.Errorf("%s -> %s: %x", p.Local, p.Remote, p.Payload[:8])
	}
	if inner, err := forward.ParseHeader(p.Payload[8:]); err != nil || inner.TTL != 63 || forward.Checksum(p.Payload[8:28]) != 0 {
		t.Errorf("inner %+v, %v", inner, err)
	}
	h.Mapped(now, handedMapping("[7]10.3.0.0/16", lisp.ActionDrop))
	h.Take(now, handedPacket("10.4.0.1", 64))
	h.expire(now.Add(time.Second))
	if h.dropped.Load() != 3 || h.queue.Packets() != 0 || h.taken.Load() != 5 {
		t.Errorf("%d dropped of %d, %d wait", h.dropped.Load(), h.taken.Load(), h.queue.Packets())
	}
}

// A path takes them to its next hop, at the port of that hop.
func TestHandedPacketsFollowPaths(t *testing.T) {
	path, err := lisp.NewPath(lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8::9")), lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.9")).WithPort(40001))
	if err != nil {
		t.Fatal(err)
	}
	h, sent := newTestHandover(config.HandOver{To: config.HandedToMapping})
	m := handedMapping("[7]10.2.0.0/16", 0, "2001:db8::9")
	m.Locators[0].Behind = path.Behind
	for next, want := range []int{0, 1} { // there is no own RLOC of the first hop's family
		h.Take(time.Unix(1000, 0), handedPacket("10.2.0.1", 64))
		m.Locators[0].Next = uint8(next)
		h.Mapped(time.Unix(1000, 0), m)
		if len(*sent) != want {
			t.Fatalf("next hop %d: sent %v", next, *sent)
		}
	}
	if to := (*sent)[0].Remote.String(); to != "192.0.2.9:40001" {
		t.Errorf("sent to %s", to)
	}
	h.Take(time.Unix(1000, 0), handedPacket("10.2.0.1", 64))
	h.SetState(path, dataplane.LocatorDown)
	if h.Mapped(time.Unix(1000, 0), m); len(*sent) != 1 {
		t.Errorf("sent by a path that is down: %v", *sent)
	}
}

func TestHandedPacketsGoAtOnce(t *testing.T) {
	for _, c := range []struct {
		over   config.HandOver
		remote string
	}{
		{config.HandOver{To: config.HandedToProxy, Proxy: netip.MustParseAddr("203.0.113.5")}, "203.0.113.5:4341"},
		{config.HandOver{To: config.HandedToDataProbe}, "10.2.0.1:4341"},
	} {
		h, sent := newTestHandover(c.over)
		h.Take(time.Unix(1000, 0), handedPacket("10.2.0.1", 2))
		h.Take(time.Unix(1000, 0), handedPacket("10.2.0.1", 1))                // at the end of its way
		h.Take(time.Unix(1000, 0), dataplane.Miss{Packet: []byte{0x45, 0, 0}}) // no packet
		if len(*sent) != 1 || (*sent)[0].Remote.String() != c.remote || h.dropped.Load() != 2 {
			t.Errorf("%s: %v, %d dropped", c.over.To, *sent, h.dropped.Load())
		}
	}
}

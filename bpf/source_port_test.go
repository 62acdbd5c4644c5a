// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// TestSourcePort: tc sends to a locator from its source port, by all stages each time; XDP leaves the packet to it,
// unchanged.
func TestSourcePort(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	var port [2]byte
	binary.BigEndian.PutUint16(port[:], 4342)
	for _, r := range relays() {
		t.Run(r.String(), func(t *testing.T) {
			b.relaying(r)
			set := b.locatorSet(fields{"source_port": binary.NativeEndian.Uint16(port[:])}, r.onward(1).String(), r.onward(0).String())
			b.mapCacheTo(7, "10.2.0.0/24", set)
			b.mapCacheTo(7, "2001:db8:2::/64", set)
			b.emptyCaches()
			inner := ip{from: r.inner(2, 10), to: r.inner(1, 10), ttl: 70, port: 9, checksum: true, payload: []byte("to B")}.serialize()
			in := lispPacket(r.outer, 0, 64, [8]byte{0x88, 1, 2, 3, 0, 0, 7, 0}, inner)
			frame := ethernet(b.core.Attrs().HardwareAddr, peerMAC, in)
			for range 2 {
				if verdict, got := b.frameXDP(t, b.core, frame); verdict != xdpPass || !bytes.Equal(got, frame) {
					t.Errorf("XDP: verdict %d, %x", verdict, got)
				}
				hits := b.flowHits(t)
				verdict, got := b.toCore(t, frame)
				header := map[uint8]int{4: 20, 6: 40}[familyOf(r.onward(0))]
				if verdict != actRedirect || len(got) < 14+header+8 {
					t.Fatalf("tc: verdict %d; %s", int32(verdict), b.allDrops())
				}
				udp := got[14+header:]
				if from := binary.BigEndian.Uint16(udp); from != 4342 || udp[6] == 0 && udp[7] == 0 {
					t.Errorf("tc: from port %d, checksum %x", from, udp[6:8])
				}
				if b.flowHits(t) != hits {
					t.Error("the flow cache has it")
				}
			}
		})
	}
}

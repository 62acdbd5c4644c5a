// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// TestSourcePort: both hooks send to a locator from its source port, with an outer UDP checksum that a receiver finds
// right, the second packet of a flow by the flow cache. XDP leaves a packet to tc, unchanged, whose own checksum does
// not lead to it.
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
			inner := ip{from: r.inner(2, 10), to: r.inner(1, 10), ttl: 70, port: 9, checksum: true, payload: []byte("long enough for the flow cache")}
			frame := func(inner ip) []byte {
				in := lispPacket(r.outer, 0, 64, [8]byte{0x88, 1, 2, 3, 0, 0, 7, 0}, inner.serialize())
				return ethernet(b.core.Attrs().HardwareAddr, peerMAC, in)
			}
			for _, hook := range []struct {
				name string
				sent uint32
				send func(t *testing.T, frame []byte) (uint32, []byte)
			}{
				{"XDP", xdpRedirect, func(t *testing.T, f []byte) (uint32, []byte) { return b.frameXDP(t, b.core, f) }},
				{"tc", actRedirect, func(t *testing.T, f []byte) (uint32, []byte) { return b.toCore(t, f) }},
			} {
				b.emptyCaches()
				for i := range 2 {
					hits := b.flowHits(t)
					verdict, got := hook.send(t, frame(inner))
					if verdict != hook.sent {
						t.Fatalf("%s: verdict %d; %s", hook.name, int32(verdict), b.allDrops())
					}
					checkSourcePort(t, hook.name, got, familyOf(r.onward(0)))
					if byCache := b.flowHits(t) != hits; byCache != (i > 0) {
						t.Errorf("%s: packet %d by the flow cache: %v", hook.name, i+1, byCache)
					}
					b.markFlows(nil)
				}
			}
			inner.checksum = false
			for range 2 {
				without := frame(inner)
				if verdict, got := b.frameXDP(t, b.core, without); r.inner(1, 10).Is4() && (verdict != xdpPass || !bytes.Equal(got, without)) {
					t.Errorf("XDP, without inner checksum: verdict %d, %x", verdict, got)
				}
			}
		})
	}
}

// checkSourcePort judges the outer headers of a frame from port 4342, as its receiver does.
func checkSourcePort(t *testing.T, hook string, frame []byte, family uint8) {
	t.Helper()
	addresses, header := 12, 20
	if family == 6 {
		addresses, header = 8, 40
	}
	if len(frame) < 14+header+8 {
		t.Fatalf("%s: %x", hook, frame)
	}
	outer, udp := frame[14:14+header], frame[14+header:]
	if from := binary.BigEndian.Uint16(udp); from != 4342 {
		t.Errorf("%s: from port %d", hook, from)
	}
	pseudo := append(bytes.Clone(outer[addresses:]), 0, 17, udp[4], udp[5])
	if sum := internetChecksum(append(pseudo, udp...)); sum != 0 || udp[6] == 0 && udp[7] == 0 {
		t.Errorf("%s: UDP checksum %x, %x is left", hook, udp[6:8], sum)
	}
}

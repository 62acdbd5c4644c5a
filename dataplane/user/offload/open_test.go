// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// TestCompleteChecksum: an open checksum is completed, as gopacket finds right; what is complete, has none, is a
// fragment or is cut off stays as it is.
func TestCompleteChecksum(t *testing.T) {
	for _, six := range []bool{false, true} {
		for _, udp := range []bool{false, true} {
			for _, payload := range []int{1, 2, 1399, 1400} {
				t.Run(fmt.Sprintf("IPv6 %v, UDP %v, %d", six, udp, payload), func(t *testing.T) {
					v, complete := packetOf(t, six, udp, payload, payload)
					start, at := int(v.checksumStart), int(v.checksumStart+v.checksumOffset)
					stays := func(what string, packet []byte) {
						t.Helper()
						was := bytes.Clone(packet)
						if CompleteChecksum(packet); !bytes.Equal(packet, was) {
							t.Errorf("%s: changed", what)
						}
					}
					open := bytes.Clone(complete)
					binary.NativeEndian.PutUint16(open[at:], fold(pseudoHeader(open, protocolOf(udp), len(open)-start)))
					got := append(bytes.Clone(open), "padding"...)
					if CompleteChecksum(got); !bytes.Equal(got[:len(open)], complete) {
						t.Errorf("got  %x\nwant %x", got, complete)
					}
					verified(t, got[:len(open)])
					stays("complete", bytes.Clone(complete))
					damaged := bytes.Clone(complete)
					damaged[len(damaged)-1]++
					stays("damaged", damaged)
					none := bytes.Clone(open)
					none[at], none[at+1] = 0, 0
					stays("none", none)
					for octets := range len(open) {
						stays("cut off", bytes.Clone(open[:octets]))
					}
					if !six {
						fragment := bytes.Clone(open)
						fragment[6] |= 0x20
						stays("fragment", fragment)
					}
				})
			}
		}
	}
}

func protocolOf(udp bool) uint8 {
	if udp {
		return protocolUDP
	}
	return protocolTCP
}

// TestUncutPacketIsCut: a GSO packet that came whole has segments that go over each link; a long packet with a
// complete checksum, a short one, one of UDP and one that is cut off are none.
func TestUncutPacketIsCut(t *testing.T) {
	for _, six := range []bool{false, true} {
		open := openPacket(t, six, false, 60001)
		s, ok := CutUncut(append(bytes.Clone(open), "padding"...))
		if !ok || s.Longest() != everywhereOctets {
			t.Fatalf("segments: %v, of %d octets", ok, s.Longest())
		}
		var data []byte
		for i := range s.Count() {
			verified(t, append(s.AppendHeader(nil, i), s.Payload(i)...))
			data = append(data, s.Payload(i)...)
		}
		if !bytes.Equal(data, open[s.HeaderOctets():]) {
			t.Error("payloads differ")
		}
		_, complete := packetOf(t, six, false, 60001, 1400)
		for what, p := range map[string][]byte{
			"complete": complete, "short": openPacket(t, six, false, 1400), "UDP": openPacket(t, six, true, 8000), "cut off": open[:len(open)-1], "empty": nil,
		} {
			if _, ok := CutUncut(p); ok {
				t.Errorf("%s: taken for a GSO packet", what)
			}
		}
	}
}

// openPacket has the sum of the pseudo-header for a checksum.
func openPacket(t *testing.T, six, udp bool, payload int) []byte {
	v, p := packetOf(t, six, udp, payload, payload)
	start := int(v.checksumStart)
	binary.NativeEndian.PutUint16(p[start+int(v.checksumOffset):], fold(pseudoHeader(p, protocolOf(udp), len(p)-start)))
	return p
}

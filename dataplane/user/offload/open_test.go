// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
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

// TestUncutPacketIsCut: a GSO packet that came whole gets to the host as one, with segments of an ordinary link; a
// long packet with a complete checksum goes as it is.
func TestUncutPacketIsCut(t *testing.T) {
	for _, six := range []bool{false, true} {
		v, complete := packetOf(t, six, false, 60001, 1400)
		at := int(v.checksumStart + v.checksumOffset)
		open := bytes.Clone(complete)
		binary.NativeEndian.PutUint16(open[at:], fold(pseudoHeader(open, protocolTCP, len(open)-int(v.checksumStart))))
		CompleteChecksum(open)
		var j Joiner
		if !j.Add(bytes.Clone(open)) || j.Add(bytes.Clone(open)) {
			t.Error("another packet is joined with it")
		}
		frame := slices.Concat(j.Frame()...)
		got := ParseVnet(frame)
		s, ok := Cut(frame[VnetOctets:], got)
		if !ok || s.Longest() != usualOctets {
			t.Fatalf("%+v, segments of %d octets", got, s.Longest())
		}
		var data []byte
		for i := range s.Count() {
			verified(t, append(s.AppendHeader(nil, i), s.Payload(i)...))
			data = append(data, s.Payload(i)...)
		}
		if !bytes.Equal(data, complete[s.HeaderOctets():]) {
			t.Error("payloads differ")
		}
		j.Reset()
		j.Add(bytes.Clone(complete))
		if frame := slices.Concat(j.Frame()...); ParseVnet(frame).IsGSO() || !bytes.Equal(frame[VnetOctets:], complete) {
			t.Error("a complete packet changed")
		}
	}
}

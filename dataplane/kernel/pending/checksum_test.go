// SPDX-License-Identifier: Apache-2.0

// Checksums that a host left to its interface.

package pending

import (
	"testing"
	"unsafe"

	"loci/dataplane/kernel/tap"
	"loci/forward"
)

func TestFinishChecksum(t *testing.T) {
	// 10.0.0.1 -> 10.0.0.2, UDP with 4 octets; the checksum field holds the sum of the pseudo-header, as a host leaves it.
	packet := []byte{
		0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
		0x10, 0x00, 0x20, 0x00, 0, 12, 0x14, 0x20, 1, 2, 3, 4,
	}
	f := append(make(tap.Frame, tap.VnetOctets+tap.EthernetOctets), packet...)
	f[0] = tap.VnetNeedsChecksum
	*(*uint16)(unsafe.Pointer(&f[6])) = tap.EthernetOctets + 20
	*(*uint16)(unsafe.Pointer(&f[8])) = 6
	h, err := forward.ParseHeader(f.Packet())
	must(t, err)
	finishChecksum(f, &h)
	sum := uint32(0)
	pseudo := []byte{10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 12}
	for _, part := range [][]byte{pseudo, f.Packet()[20:]} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(part[i])<<8 | uint32(part[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	if sum != 0xffff || f[0] != 0 {
		t.Errorf("the finished checksum sums up to %#x, flags %d", sum, f[0])
	}
}

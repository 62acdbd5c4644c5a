// SPDX-License-Identifier: Apache-2.0

// This file finishes what a sender left to its interface (CHECKSUM_PARTIAL).

package pending

import (
	"encoding/binary"

	"loci/dataplane/kernel/tap"
	"loci/forward"
)

// finishChecksum does what the sender left to its interface.
func finishChecksum(f tap.Frame, header *forward.Header) {
	start, at, ok := f.UnfinishedChecksum()
	end := tap.VnetOctets + tap.EthernetOctets + header.Length
	if !ok || end > len(f) || start >= end {
		return
	}
	checksum := forward.Checksum(f[start:end])
	if checksum == 0 {
		checksum = 0xffff // UDP's 0 says that there is none (RFC 768)
	}
	binary.BigEndian.PutUint16(f[at:], checksum)
	clear(f[:tap.VnetOctets])
}

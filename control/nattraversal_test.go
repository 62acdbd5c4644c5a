// SPDX-License-Identifier: Apache-2.0

package control

// NAT traversal (draft-ermagan-lisp-nat-traversal): nodes behind NATs, their RTR and their Map-Server.

import (
	"testing"

	"loci/control/internal/counter"
)

// TestControlInDataOfStrangers: what no RTR of the node sent changes nothing.
func TestControlInDataOfStrangers(t *testing.T) {
	_, x1, _ := probedSites(t, "10.2.0.9")
	for _, packet := range [][]byte{nil, {0x45}, make([]byte, 60)} {
		x1.HandleControlPacket(x1.net.now, ControlPacket{Packet: packet})
	}
	x1.wantCounter(counter.RefusedControlInData, 3)
}

// SPDX-License-Identifier: Apache-2.0

package forward

// Stage 1: what a packet is to LISP (RFC 9300 s.4): one of the site that LISP can carry, or one from the core for this router.
// Nothing here changes a packet.

import "encoding/binary"

// classify reads a packet of the site; false when LISP can carry none like it.
func (o *Outcome) classify(packet []byte, in Ingress) bool {
	var err error
	if o.Header, err = ParseHeader(packet); err != nil || !RoutableUnicast(o.Header.Destination) {
		return o.leave(in, DropNotForwardable)
	}
	return true
}

// isLISP reports whether a packet from the core is UDP to the LISP data port of an own RLOC. Fragments are the stack's: it
// puts them together first.
func (x *XTR) isLISP(packet []byte) bool {
	h, err := readHeader(packet)
	if err != nil || h.Protocol != protocolUDP || h.Fragment || h.PayloadOffset+4 > len(packet) {
		return false
	}
	port := binary.BigEndian.Uint16(packet[h.PayloadOffset+2:])
	return (port == DataPort || port == VXLANGPEPort && x.VXLANGPE) && x.Tables.IsLocalRLOC(h.Destination)
}

// SPDX-License-Identifier: Apache-2.0

package wire

// Map-Requests for one EID-Prefix straight to octets (RFC 9301 s.5.2), which are all that an ITR sends by the thousand a
// second. The result is that of AppendTo; nothing in between is made.

import (
	"encoding/binary"
	"fmt"

	"loci/lisp"
)

// AppendMapRequest appends a Map-Request to b: the nonce and the bits of head, a source EID in the Instance-ID of what is asked
// for, zero for none, these ITR-RLOCs, and one EID-Prefix. Nothing else of head is looked at. It errs like MapRequest.AppendTo.
func AppendMapRequest(b []byte, head *MapRequest, source lisp.EID, itrRLOCs []lisp.RLOC, asked lisp.Prefix) ([]byte, error) {
	if len(itrRLOCs) == 0 || len(itrRLOCs) > MaxITRRLOCs {
		return b, fmt.Errorf("Map-Request: %d ITR-RLOCs: want 1 to %d", len(itrRLOCs), MaxITRRLOCs)
	}
	word := uint32(TypeMapRequest)<<28 | head.flags()&^uint32(requestMapDataPresent|requestXTRIDPresent) | uint32(len(itrRLOCs)-1)<<requestIRCShift | 1
	out := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, word), head.Nonce)
	out, err := appendSource(out, asked.Instance(), source)
	if err != nil {
		return b, fmt.Errorf("Map-Request: Source EID: %w", err)
	}
	for _, r := range itrRLOCs {
		out = appendRLOC(out, r)
	}
	if out, err = appendEID(append(out, 0, uint8(asked.Bits())), asked.Instance(), asked.EID()); err != nil {
		return b, fmt.Errorf("Map-Request: record 1: %w", err)
	}
	return out, nil
}

func appendSource(b []byte, instance lisp.InstanceID, source lisp.EID) ([]byte, error) {
	if source.IsZero() {
		return appendAFI(b, AFINone), nil
	}
	return appendEID(b, instance, source)
}

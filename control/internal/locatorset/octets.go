// SPDX-License-Identifier: Apache-2.0

package locatorset

// The octets of locator-sets in the Map-Server's journal.

import (
	"encoding/binary"

	"loci/lisp"
)

// The bits of a locator's fifth octet in AppendLocators.
const (
	LocatorLocal = 1 << iota
	LocatorProbed
	LocatorReachable
	LocatorIPv6
	LocatorWithoutRLOC
	LocatorAddress
	LocatorPath
)

// AppendLocators appends the number of locators and all that they are: priorities and weights, bits, the RLOC if there is one, the
// hops of a path, and the length and the octets of an address that says more. The journal holds
// them in this form.
func AppendLocators(b []byte, set lisp.LocatorSet) []byte {
	b = append(b, uint8(len(set)))
	for _, l := range set {
		b = append(b, l.Priority, l.Weight, l.MulticastPriority, l.MulticastWeight,
			Bit(l.Local, LocatorLocal)|Bit(l.Probed, LocatorProbed)|Bit(l.Reachable, LocatorReachable)|Bit(l.RLOC.Is6(), LocatorIPv6)|
				Bit(l.RLOC.IsZero(), LocatorWithoutRLOC)|Bit(l.Address != "", LocatorAddress)|Bit(l.Behind != "" || l.Bits[0] != 0, LocatorPath))
		if b = appendRLOC(b, l.RLOC); l.Behind != "" || l.Bits[0] != 0 {
			b = appendHops(b, &l)
		}
		if l.Address != "" {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(l.Address))), l.Address...)
		}
	}
	return b
}

// appendHops appends the bits of the first hop, the number of the others, and of each its bits, its family, and its address. No
// port: what is sent on the wire has none.
func appendHops(b []byte, l *lisp.Locator) []byte {
	b = append(b, uint8(l.Bits[0]), uint8(l.Behind.Len()))
	for i := range l.Behind.Len() {
		hop := l.Behind.At(i)
		b = append(b, uint8(l.Bits[i+1]), Bit(hop.Is6(), LocatorIPv6))
		b = appendRLOC(b, hop)
	}
	return b
}

func appendRLOC(b []byte, r lisp.RLOC) []byte {
	switch {
	case r.Is4():
		a := r.Addr().As4()
		return append(b, a[:]...)
	case r.Is6():
		a := r.Addr().As16()
		return append(b, a[:]...)
	}
	return b
}

// Bit is the mask if set is true, else 0.
func Bit(set bool, mask uint8) uint8 {
	if set {
		return mask
	}
	return 0
}

// SPDX-License-Identifier: Apache-2.0

package locatorset

// The octets of locator-sets in the Map-Server's journal.

import (
	"encoding/binary"
	"fmt"

	"loci/lisp"
)

// The bits of a locator's fifth octet in AppendLocators.
const (
	locatorLocal = 1 << iota
	locatorProbed
	locatorReachable
	locatorIPv6
	locatorWithoutRLOC
	locatorAddress
	locatorPath
)

// AppendLocators appends the number of locators and all that they are: priorities and weights, bits, the RLOC if there
// is one, the hops of a path, and the length and the octets of an address that says more. The journal holds them in
// this form.
func AppendLocators(b []byte, set lisp.LocatorSet) []byte {
	b = append(b, uint8(len(set)))
	for _, l := range set {
		isPath := l.Behind != "" || l.Bits[0] != 0
		flags := Bit(l.Local, locatorLocal) |
			Bit(l.Probed, locatorProbed) |
			Bit(l.Reachable, locatorReachable) |
			Bit(l.RLOC.Is6(), locatorIPv6) |
			Bit(l.RLOC.IsZero(), locatorWithoutRLOC) |
			Bit(l.Address != "", locatorAddress) |
			Bit(isPath, locatorPath)
		b = append(b, l.Priority, l.Weight, l.MulticastPriority, l.MulticastWeight, flags)
		b = appendRLOC(b, l.RLOC)
		if isPath {
			b = appendHops(b, &l)
		}
		if l.Address != "" {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(l.Address))), l.Address...)
		}
	}
	return b
}

// Locators reads what AppendLocators appended. Without error, and not Short, it is valid.
func (r *Reader) Locators() (lisp.LocatorSet, error) {
	list := make([]lisp.Locator, min(int(r.U8()), lisp.MaxLocators+1))
	for i := range list {
		l := lisp.Locator{Priority: r.U8(), Weight: r.U8(), MulticastPriority: r.U8(), MulticastWeight: r.U8()}
		flags := r.U8()
		l.Local = flags&locatorLocal != 0
		l.Probed = flags&locatorProbed != 0
		l.Reachable = flags&locatorReachable != 0
		if flags&locatorWithoutRLOC == 0 {
			l.RLOC = lisp.RLOCFromAddr(r.Addr(flags&locatorIPv6 != 0))
		}
		if flags&locatorPath != 0 {
			if err := r.hops(&l); err != nil {
				return nil, err
			}
		}
		if flags&locatorAddress != 0 {
			l.Address = string(r.Take(int(r.U16())))
		}
		list[i] = l
	}
	return lisp.NewLocatorSet(list...)
}

// appendHops appends the bits of the first hop, the number of the others, and of each its bits, its family, and its
// address. No port: what is sent on the wire has none.
func appendHops(b []byte, l *lisp.Locator) []byte {
	b = append(b, uint8(l.Bits[0]), uint8(l.Behind.Len()))
	for i := range l.Behind.Len() {
		hop := l.Behind.At(i)
		b = append(b, uint8(l.Bits[i+1]), Bit(hop.Is6(), locatorIPv6))
		b = appendRLOC(b, hop)
	}
	return b
}

// hops reads the hops of a path behind its first one.
func (r *Reader) hops(l *lisp.Locator) (err error) {
	l.Bits[0] = lisp.HopBits(r.U8())
	hops := make([]lisp.RLOC, 1, lisp.MaxHops)
	hops[0] = l.RLOC
	for n := int(r.U8()); n > 0 && !r.Short; n-- {
		if len(hops) == lisp.MaxHops {
			return fmt.Errorf("a path of more than %d hops", lisp.MaxHops)
		}
		l.Bits[len(hops)] = lisp.HopBits(r.U8())
		hops = append(hops, lisp.RLOCFromAddr(r.Addr(r.U8()&locatorIPv6 != 0)))
	}
	if r.Short {
		return nil
	}
	path, err := lisp.NewPath(hops...)
	l.Behind = path.Behind
	return err
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

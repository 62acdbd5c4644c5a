// SPDX-License-Identifier: Apache-2.0

package mapsock

// Locators that are paths of several hops, or whose RLOC has a port (RFC 8060 s.4.6): an attribute beside the locator, whose address
// is the first hop's. Plain locators have none, so that they are what they were to clients that do not know it. Which
// paths an engine can do, it says itself.

import (
	"errors"
	"fmt"

	"loci/lisp"
)

const (
	hopsSize = 8 // u32 locator, u32 next hop; then the hops
	hopSize  = 4 // u16 port, u8 bits, u8 octets of the address; then the address

	knownHopBits = lisp.HopStrict | lisp.HopProbe | lisp.HopLookup | lisp.HopExplicit
)

// saysHops reports whether there is more to say of a locator's hops than an address.
func saysHops(l *lisp.Locator) bool {
	return l.Behind != "" || l.RLOC.Port() != 0 || l.Next != 0 || l.Bits != lisp.PathBits{}
}

// appendHops writes the hops of each locator that has more than an address. A reader that does not know the attribute
// must refuse a message that writes tables: the path would become another. In what is reported it may skip it.
func appendHops(b []byte, a Attribute, m *Message) []byte {
	if m.Type.Writes() {
		a |= mandatory
	}
	for i := range m.Locators {
		if l := &m.Locators[i].Locator; saysHops(l) {
			b = appendEachHop(b, a, i, l)
		}
	}
	return b
}

func appendEachHop(b []byte, a Attribute, locator int, l *lisp.Locator) []byte {
	path, at := l.Path(), len(b)
	b = appendAttribute(b, a, 0)
	b = order.AppendUint32(b, uint32(locator))
	b = order.AppendUint32(b, uint32(l.Next))
	for i := range path.Len() {
		hop := path.Hop(i)
		b = order.AppendUint16(b, hop.Port())
		octets := hop.Addr().As16()
		if hop.Is4() {
			b = append(append(b, byte(l.Bits[i]), 4), octets[12:]...)
		} else {
			b = append(append(b, byte(l.Bits[i]), 16), octets[:]...)
		}
	}
	order.PutUint16(b[at+2:], uint16(len(b)-at-attributeHeaderSize))
	return b
}

func parseHops(m *Message, v []byte) error {
	locator, next := order.Uint32(v), order.Uint32(v[4:])
	if locator >= uint32(len(m.Locators)) {
		return fmt.Errorf("of locator %d, but there are %d", locator, len(m.Locators))
	}
	l := &m.Locators[locator].Locator
	if saysHops(l) {
		return fmt.Errorf("of locator %d, for the second time", locator)
	}
	hops, bits, err := parseEachHop(v[hopsSize:])
	if err != nil {
		return err
	}
	path, err := lisp.NewPath(hops...)
	switch {
	case err != nil:
		return err
	case path.RLOC.WithPort(0) != l.RLOC:
		return fmt.Errorf("begin with %s, but the address of locator %d is %s", path.RLOC, locator, l.RLOC)
	case next >= uint32(path.Len()):
		return fmt.Errorf("packets go to hop %d of a path of %d, counted from 0", next, path.Len())
	}
	l.RLOC, l.Behind, l.Bits, l.Next = path.RLOC, path.Behind, bits, uint8(next)
	return nil
}

func parseEachHop(v []byte) (hops []lisp.RLOC, bits lisp.PathBits, err error) {
	hops = make([]lisp.RLOC, 0, lisp.MaxHops)
	for len(v) > 0 {
		switch {
		case len(hops) == lisp.MaxHops:
			return nil, bits, fmt.Errorf("path of more than %d hops", lisp.MaxHops)
		case len(v) < hopSize || len(v) < hopSize+int(v[3]):
			return nil, bits, fmt.Errorf("hop %d: %d octets are left", len(hops)+1, len(v))
		case lisp.HopBits(v[2])&^knownHopBits != 0:
			return nil, bits, fmt.Errorf("hop %d: unknown bits %#x", len(hops)+1, v[2])
		}
		end := hopSize + int(v[3])
		hop := rlocFrom(v[hopSize:end])
		if hop.IsZero() {
			return nil, bits, fmt.Errorf("hop %d: %d octets %x are not an address", len(hops)+1, v[3], v[hopSize:end])
		}
		bits[len(hops)] = lisp.HopBits(v[2])
		hops = append(hops, hop.WithPort(order.Uint16(v)))
		v = v[end:]
	}
	if len(hops) == 0 {
		err = errors.New("path of 0 hops")
	}
	return hops, bits, err
}

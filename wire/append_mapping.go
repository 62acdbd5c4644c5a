// SPDX-License-Identifier: Apache-2.0

package wire

// Mappings straight to octets, for Map-Replies by the hundred thousand a second (RFC 9301
// s.5.4). The result is that of RecordOf and AppendTo; nothing in between is made.

import (
	"encoding/binary"
	"fmt"

	"loci/lisp"
)

// AppendMapReply appends a Map-Reply to b: the nonce and the bits P and E of head, and these
// mappings. It errs like MapReply.AppendTo.
func AppendMapReply(b []byte, head *MapReply, mappings []lisp.Mapping) ([]byte, error) {
	if len(mappings) > MaxRecords {
		return b, fmt.Errorf("Map-Reply: %d records: want at most %d", len(mappings), MaxRecords)
	}
	word := uint32(TypeMapReply)<<28 | bit32(head.Probe, replyProbe) | bit32(head.EchoNonce, replyEchoNonce) | uint32(len(mappings))
	out := binary.BigEndian.AppendUint32(b, word)
	out = binary.BigEndian.AppendUint64(out, head.Nonce)
	var err error
	for i := range mappings {
		if out, err = appendMapping(out, &mappings[i]); err != nil {
			return b, fmt.Errorf("Map-Reply: record %d: %w", i+1, err)
		}
	}
	return out, nil
}

// appendMapping is RecordOf and appendTo at once.
func appendMapping(b []byte, m *lisp.Mapping) ([]byte, error) {
	if !m.Prefix.EID().IsIP() || len(m.Locators) > MaxRecords || m.Action > 7 || m.Version > recordVersionMask {
		rec := RecordOf(*m)
		return rec.appendTo(b)
	}
	action := m.Action
	if !m.Negative() {
		action = 0 // sent as 0 with locators (RFC 9301 s.5.4)
	}
	b = binary.BigEndian.AppendUint32(b, m.TTLMinutes)
	b = append(b, uint8(len(m.Locators)), uint8(m.Prefix.Bits()))
	b = binary.BigEndian.AppendUint16(b, uint16(action)<<recordActionShift|bit16(m.Authoritative, recordAuthoritative))
	b = binary.BigEndian.AppendUint16(b, m.Version)
	b, err := appendEID(b, m.Prefix.Instance(), m.Prefix.EID())
	if err != nil {
		return b, err
	}
	for i := range m.Locators {
		b = appendLocator(b, &m.Locators[i])
	}
	return b, nil
}

// appendEID is AddressOf and appendTo at once.
func appendEID(b []byte, instance lisp.InstanceID, e lisp.EID) ([]byte, error) {
	switch {
	case !e.IsIP():
		return appendAddress(b, EIDAddress(instance, e))
	case instance == 0:
		return appendIP(b, e), nil
	}
	b, at := beginLCAF(b, LCAFInstanceID, 0)
	return endLCAF(appendIP(binary.BigEndian.AppendUint32(b, uint32(instance)), e), at)
}

func appendIP(b []byte, e lisp.EID) []byte {
	afi := AFIIPv6
	if e.Kind() == lisp.EIDIPv4 {
		afi = AFIIPv4
	}
	return e.AppendOctets(appendAFI(b, afi))
}

func appendLocator(b []byte, l *lisp.Locator) []byte {
	b = append(b, l.Priority, l.Weight, l.MulticastPriority, l.MulticastWeight)
	b = binary.BigEndian.AppendUint16(b, bit16(l.Local, locatorLocal)|bit16(l.Probed, locatorProbed)|bit16(l.Reachable, locatorReachable))
	return appendRLOC(b, l.RLOC)
}

// appendRLOC is RLOCAddress and appendTo at once.
func appendRLOC(b []byte, r lisp.RLOC) []byte {
	switch {
	case r.Is4():
		a := r.Addr().As4()
		return append(appendAFI(b, AFIIPv4), a[:]...)
	case r.Is6():
		a := r.Addr().As16()
		return append(appendAFI(b, AFIIPv6), a[:]...)
	}
	return appendAFI(b, AFINone)
}

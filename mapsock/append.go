// SPDX-License-Identifier: Apache-2.0

package mapsock

// Message → octets. Append writes behind what the buffer holds and allocates nothing
// when the buffer has room. Numbers are in the order of the host, as a C program
// writes them into a structure; addresses are in network order, as in every sockaddr.

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"

	"loci/dataplane"
	"loci/lisp"
)

var order = binary.NativeEndian

// Append writes m behind b. It fails, and returns b as it was, when m does not fit
// the format: too many locators, a locator without address, more than MaxMessage.
func (m *Message) Append(b []byte) ([]byte, error) {
	start := len(b)
	if err := fits(m); err != nil {
		return b, err
	}
	b = appendHeader(m, b)
	addresses := 0
	if m.HasEID && m.Prefix.EID().IsIP() {
		addresses |= addressEID
		b = appendSockaddr(b, m.Prefix.EID().Addr())
		if m.HasMask {
			addresses |= addressEIDMask
			b = appendSockaddr(b, maskOf(m.Prefix))
		}
	}
	for i := range m.Locators {
		addresses |= addressRLOC
		b = appendLocator(b, &m.Locators[i])
	}
	attributes := len(b) - start
	b = appendAttributes(m, b)
	length := len(b) - start
	if length > MaxMessage {
		return b[:start], fmt.Errorf("%s message of %d octets: at most %d fit: %w", m.Type, length, MaxMessage, dataplane.ErrInvalid)
	}
	header := b[start:]
	order.PutUint16(header[offsetLength:], uint16(length))
	order.PutUint16(header[offsetAddresses:], uint16(addresses))
	order.PutUint16(header[offsetAttributes:], uint16(attributes))
	return b, nil
}

func fits(m *Message) error {
	if len(m.Locators) > MaxLocators {
		return fmt.Errorf("%s: %d locators, at most %d fit: %w", m.Prefix, len(m.Locators), MaxLocators, dataplane.ErrInvalid)
	}
	for i := range m.Locators {
		if m.Locators[i].RLOC.IsZero() {
			return fmt.Errorf("%s: locator %d has no RLOC: %w", m.Prefix, i, dataplane.ErrInvalid)
		}
		if l := &m.Locators[i].Locator; saysHops(l) {
			if err := dataplane.CheckPath(l); err != nil {
				return fmt.Errorf("%s: locator %d: %w", m.Prefix, i, err)
			}
		}
	}
	if m.Has(AttributeFlow) {
		if err := m.Flow.Valid(); err != nil {
			return fmt.Errorf("%w: %w", err, dataplane.ErrInvalid)
		}
	}
	for _, w := range m.Watched {
		if w.Name == "" || len(w.Name) > MaxNameOctets {
			return fmt.Errorf("interface %q: a name has 1 to %d octets: %w", w.Name, MaxNameOctets, dataplane.ErrInvalid)
		}
	}
	for _, r := range m.LocalRLOCs {
		if r.IsZero() || r.Port() != 0 {
			return fmt.Errorf("own RLOC %s: want an address without a port: %w", r, dataplane.ErrInvalid)
		}
	}
	if m.Header.EchoWait < 0 || m.Header.EchoInterval < 0 {
		return fmt.Errorf("negative time of Echo-Nonce: %w", dataplane.ErrInvalid)
	}
	if w := m.Wait; min(w.PacketsPerDestination, w.PacketsTotal, w.OctetsTotal) < 0 || w.Time < 0 {
		return fmt.Errorf("negative bound for waiting packets: %w", dataplane.ErrInvalid)
	}
	return nil
}

func appendHeader(m *Message, b []byte) []byte {
	b = order.AppendUint16(b, 0) // length, patched
	b = append(b, Version, byte(m.Type))
	b = order.AppendUint32(b, uint32(m.Flags))
	b = order.AppendUint16(b, 0) // addresses, patched
	b = order.AppendUint16(b, m.MapVersion)
	b = order.AppendUint32(b, uint32(len(m.Locators)))
	b = order.AppendUint32(b, uint32(m.PID))
	b = order.AppendUint32(b, m.Seq)
	b = order.AppendUint32(b, uint32(m.Errno))
	return append(b, 0, 0, 0, 0) // attributes, patched; reserved
}

func appendSockaddr(b []byte, a netip.Addr) []byte {
	if a.Is4() {
		b = order.AppendUint16(b, familyIPv4)
		octets := a.As4()
		return append(append(b, 0, 0, octets[0], octets[1], octets[2], octets[3]), 0, 0, 0, 0, 0, 0, 0, 0)
	}
	b = order.AppendUint16(b, familyIPv6)
	b = append(b, 0, 0, 0, 0, 0, 0) // port, flow
	octets := a.As16()
	return append(append(b, octets[:]...), 0, 0, 0, 0) // scope
}

// maskOf is a prefix length as an address.
func maskOf(p lisp.Prefix) netip.Addr {
	var octets [16]byte
	for i, bits := 0, p.Bits(); bits > 0; i, bits = i+1, bits-8 {
		octets[i] = 0xff << max(0, 8-bits)
	}
	if p.Kind() == lisp.EIDIPv4 {
		return netip.AddrFrom4([4]byte(octets[:4]))
	}
	return netip.AddrFrom16(octets)
}

func appendAttribute(b []byte, a Attribute, octets int) []byte {
	b = order.AppendUint16(b, uint16(a))
	return order.AppendUint16(b, uint16(octets))
}

func appendPadding(b []byte, octets int) []byte {
	for ; octets%Alignment != 0; octets++ {
		b = append(b, 0)
	}
	return b
}

func append32(b []byte, a Attribute, value uint32) []byte {
	return order.AppendUint32(appendAttribute(b, a, 4), value)
}

func append64(b []byte, a Attribute, value uint64) []byte {
	return order.AppendUint64(appendAttribute(b, a, 8), value)
}

// appendOctets cuts what no message has room for; Append then finds it too long.
func appendOctets[T string | []byte](b []byte, a Attribute, octets T) []byte {
	octets = octets[:min(len(octets), math.MaxUint16)]
	return appendPadding(append(appendAttribute(b, a, len(octets)), octets...), len(octets))
}

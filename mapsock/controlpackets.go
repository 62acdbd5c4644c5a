// SPDX-License-Identifier: Apache-2.0

package mapsock

// Control messages in data packets: the RTRs that they are taken from, and the event.

import (
	"bytes"
	"fmt"
	"net/netip"

	"loci/dataplane"
)

// setControlPacket makes m report a control message in a data packet.
func (m *Message) setControlPacket(e dataplane.ControlPacket) {
	m.Reset(TypeControlPacket)
	m.Outer, m.Packet = [2]netip.AddrPort{e.Source, e.Destination}, e.Payload
	m.Mark(AttributeOuter, AttributePacket)
}

// controlPacket reads what a message of TypeControlPacket reports. The payload is a copy.
func (m *Message) controlPacket() (e dataplane.ControlPacket, ok bool) {
	if m.Type != TypeControlPacket || !m.Has(AttributeOuter) || !m.Has(AttributePacket) {
		return e, false
	}
	return dataplane.ControlPacket{Source: m.Outer[0], Destination: m.Outer[1], Payload: bytes.Clone(m.Packet)}, true
}

func appendRTRs(b []byte, a Attribute, m *Message) []byte {
	for _, r := range m.RTRs {
		b = appendAddress(appendAttribute(b, a, r.Addr().BitLen()/8), r.Addr())
	}
	return b
}

func parseRTR(m *Message, v []byte) error {
	r := rlocFrom(v)
	if r.IsZero() {
		return fmt.Errorf("%d octets %x are not an address", len(v), v)
	}
	m.RTRs = append(m.RTRs, r)
	return nil
}

// outerSize is the length of AttributeOuter without the addresses.
const outerSize = 4

func appendOuter(b []byte, a Attribute, m *Message) []byte {
	source, destination := m.Outer[0], m.Outer[1]
	b = appendAttribute(b, a, outerSize+(source.Addr().BitLen()+destination.Addr().BitLen())/8)
	b = order.AppendUint16(order.AppendUint16(b, source.Port()), destination.Port())
	return appendAddress(appendAddress(b, source.Addr()), destination.Addr())
}

func parseOuter(m *Message, v []byte) error {
	half := (len(v) - outerSize) / 2
	source, destination := rlocFrom(v[outerSize:outerSize+half]), rlocFrom(v[outerSize+half:])
	if source.IsZero() || destination.IsZero() {
		return fmt.Errorf("%d octets %x are not two addresses", len(v)-outerSize, v[outerSize:])
	}
	m.Outer[0] = netip.AddrPortFrom(source.Addr(), order.Uint16(v))
	m.Outer[1] = netip.AddrPortFrom(destination.Addr(), order.Uint16(v[2:]))
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package mapsock

// Message → octets. Append writes behind what the buffer holds and allocates nothing
// when the buffer has room. Numbers are in the order of the host, as a C program
// writes them into a structure; addresses are in network order, as in every sockaddr.

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

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

func appendAttributes(m *Message, b []byte) []byte {
	if m.Has(AttributeInstance) || m.HasEID && m.Instance != 0 {
		b = append32(b, AttributeInstance|mandatory, uint32(m.Instance))
	}
	if m.HasEID && !m.Prefix.EID().IsIP() {
		b = appendEID(b, AttributeEID|mandatory, m.Prefix.EID(), m.Prefix.Bits())
	}
	for i := range m.Locators {
		if saysHops(&m.Locators[i].Locator) {
			b = appendHops(b, m.Type, i, &m.Locators[i].Locator)
		}
	}
	if m.has == 0 {
		return b
	}
	b = appendEntryAttributes(m, b)
	b = appendEventAttributes(m, b)
	return appendStateAttributes(m, b)
}

// appendEntryAttributes writes what concerns a map-cache entry.
func appendEntryAttributes(m *Message, b []byte) []byte {
	if m.Has(AttributeAction) {
		b = append32(b, AttributeAction|mandatory, uint32(m.Action))
	}
	if m.Has(AttributeTTL) {
		b = append32(b, AttributeTTL, m.TTLMinutes)
	}
	if m.Has(AttributeCreated) {
		b = appendTime(b, AttributeCreated, m.Created)
	}
	if m.Has(AttributeExpires) {
		b = appendTime(b, AttributeExpires, m.Expires)
	}
	if m.Has(AttributeLastUsed) {
		b = appendTime(b, AttributeLastUsed, m.Usage.LastUsedAt)
	}
	if m.Has(AttributePackets) {
		b = append64(b, AttributePackets, m.Usage.Packets)
	}
	if m.Has(AttributeOctets) {
		b = append64(b, AttributeOctets, m.Usage.Octets)
	}
	return b
}

// appendEventAttributes writes what concerns events and answers.
func appendEventAttributes(m *Message, b []byte) []byte {
	if m.Has(AttributeSource) {
		b = appendEID(b, AttributeSource, m.Source, m.Source.BitLen())
	}
	if m.Has(AttributeInterface) {
		b = appendOctets(b, AttributeInterface, m.Interface)
	}
	if m.Has(AttributeStatusBits) {
		b = append32(b, AttributeStatusBits, m.StatusBits)
	}
	if m.Has(AttributeReceivedVersion) {
		b = append32(b, AttributeReceivedVersion, uint32(m.ReceivedVersion))
	}
	if m.Has(AttributeOtherVersion) {
		b = append32(b, AttributeOtherVersion, uint32(m.OtherVersion))
	}
	if m.Has(AttributeStatusBitCount) {
		b = append32(b, AttributeStatusBitCount, m.StatusBitCount)
	}
	if m.Has(AttributeICMP) {
		b = append32(b, AttributeICMP, uint32(m.ICMPType)<<8|uint32(m.ICMPCode))
	}
	if m.Has(AttributeMTU) {
		b = append32(b, AttributeMTU, m.MTU)
	}
	if m.Has(AttributeNonce) {
		b = append32(b, AttributeNonce, m.Nonce)
	}
	if m.Has(AttributePacket) {
		b = appendOctets(b, AttributePacket, m.Packet)
	}
	if m.Has(AttributeError) {
		b = appendError(b, m.ErrorOffset, m.ErrorText)
	}
	if m.Has(AttributeLost) {
		b = append64(b, AttributeLost, m.Lost)
	}
	if m.Has(AttributeCount) {
		b = append64(b, AttributeCount, m.Count)
	}
	return b
}

// appendStateAttributes writes what concerns locator states, settings, counters and
// listeners.
func appendStateAttributes(m *Message, b []byte) []byte {
	if m.Has(AttributeLocatorState) {
		b = append32(b, AttributeLocatorState|mandatory, uint32(m.LocatorState))
	}
	if m.Has(AttributeListen) {
		b = append32(b, AttributeListen|mandatory, uint32(m.Hearing))
	}
	if m.Has(AttributeMissForm) {
		b = append32(b, AttributeMissForm|mandatory, uint32(m.MissForm))
	}
	for _, w := range m.Watched {
		b = appendAttribute(b, AttributeWatched|mandatory, 8+len(w.Name))
		b = order.AppendUint32(b, uint32(w.VLAN)<<watchedVLANShift|uint32(w.Forwarding)<<watchedForwardingShift|uint32(w.Hook)<<watchedHookShift|uint32(w.Side))
		b = order.AppendUint32(b, uint32(w.Instance))
		b = appendPadding(append(b, w.Name...), len(w.Name))
	}
	for _, r := range m.LocalRLOCs {
		b = appendRLOC(b, r)
	}
	if m.Has(AttributeMissPolicy) {
		b = append32(b, AttributeMissPolicy|mandatory, uint32(m.MissPolicy))
	}
	if len(m.MissPolicies) > 0 {
		b = appendMissPolicies(m, b)
	}
	if m.Has(AttributeWaitBounds) {
		b = appendAttribute(b, AttributeWaitBounds|mandatory, 32)
		b = order.AppendUint64(b, uint64(m.Wait.PacketsPerDestination))
		b = order.AppendUint64(b, uint64(m.Wait.PacketsTotal))
		b = order.AppendUint64(b, uint64(m.Wait.OctetsTotal))
		b = order.AppendUint64(b, uint64(m.Wait.Time))
	}
	if m.Has(AttributeHeader) {
		b = appendHeaderSettings(b, m.Header)
	}
	for _, rule := range m.Encapsulations {
		b = appendEncapsulation(b, rule)
	}
	for i := range m.Lists {
		b = appendList(b, &m.Lists[i])
	}
	for i := range m.Roles {
		b = appendRole(b, &m.Roles[i])
	}
	if m.Has(AttributeRecursionDepth) {
		b = append32(b, AttributeRecursionDepth|mandatory, uint32(m.RecursionDepth))
	}
	if m.Sibling.IsValid() {
		b = appendSibling(b, m.Sibling)
	}
	for i := range m.Paths {
		b = appendPathState(b, &m.Paths[i])
	}
	for _, c := range m.Counts {
		name := c.Name[:min(len(c.Name), MaxNameOctets)]
		b = appendAttribute(b, c.Attribute, 8+len(name))
		b = order.AppendUint64(b, c.Value)
		b = appendPadding(append(b, name...), len(name))
	}
	return b
}

func appendMissPolicies(m *Message, b []byte) []byte {
	for _, instance := range slices.Sorted(maps.Keys(m.MissPolicies)) {
		b = appendAttribute(b, AttributeMissPolicyOf|mandatory, 8)
		b = order.AppendUint32(b, uint32(instance))
		b = order.AppendUint32(b, uint32(m.MissPolicies[instance]))
	}
	return b
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

func appendEID(b []byte, a Attribute, e lisp.EID, bits int) []byte {
	at := len(b)
	b = append(appendAttribute(b, a, 0), byte(e.Kind()), byte(bits))
	b = e.AppendOctets(b)
	octets := len(b) - at - attributeHeaderSize
	order.PutUint16(b[at+2:], uint16(octets))
	return appendPadding(b, octets)
}

func appendRLOC(b []byte, r lisp.RLOC) []byte {
	if r.Is4() {
		octets := r.Addr().As4()
		return append(appendAttribute(b, AttributeLocalRLOC|mandatory, 4), octets[:]...)
	}
	octets := r.Addr().As16()
	return append(appendAttribute(b, AttributeLocalRLOC|mandatory, 16), octets[:]...)
}

// The times that the format holds; the zero time is 0, so 1970 begins a moment late.
const (
	timeSize       = 12                 // i64 seconds since 1970, u32 nanoseconds
	maxTimeSeconds = 253402300800 - 1   // the end of the year 9999
	maxErrorOctets = 256 - 4            // of text
	errorSize      = 4 + maxErrorOctets // at most
)

func appendTime(b []byte, a Attribute, t time.Time) []byte {
	return appendMoment(appendAttribute(b, a, timeSize), t)
}

func appendMoment(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	seconds := min(max(t.Unix(), 0), maxTimeSeconds)
	b = order.AppendUint64(b, uint64(seconds))
	return order.AppendUint32(b, uint32(t.Nanosecond()))
}

// appendError writes as much of the text as an error may have.
func appendError(b []byte, offset uint32, text string) []byte {
	text = text[:min(len(text), maxErrorOctets)]
	b = appendAttribute(b, AttributeError, 4+len(text))
	b = order.AppendUint32(b, offset)
	return appendPadding(append(b, text...), len(text))
}

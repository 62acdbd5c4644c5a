// SPDX-License-Identifier: Apache-2.0

package mapsock

// The settings of data headers and of encapsulations as attributes, and back (RFC 9300
// s.4.1, s.10, RFC 9302, RFC 9305). What they mean is in package dataplane; which of them
// an engine can do, it says itself.

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"loci/dataplane"
)

const (
	headerSettingsSize = 24 // u32 bits, u32 source check, u64 wait, u64 interval
	encapsulationSize  = 8  // u32 encapsulation, u32 mask length; then the address
)

// headerBits pairs each bit with its setting.
func headerBits(h *dataplane.HeaderSettings) [5]struct {
	bit HeaderBits
	is  *bool
} {
	return [...]struct {
		bit HeaderBits
		is  *bool
	}{
		{HeaderPublicInternet, &h.PublicInternet}, {HeaderStatusBits, &h.StatusBits},
		{HeaderMapVersions, &h.MapVersions}, {HeaderEchoNonce, &h.EchoNonce},
		{HeaderGlean, &h.Glean},
	}
}

func appendHeaderSettings(b []byte, a Attribute, m *Message) []byte {
	h := &m.Header
	var bits HeaderBits
	for _, known := range headerBits(h) {
		if *known.is {
			bits |= known.bit
		}
	}
	b = appendAttribute(b, a, headerSettingsSize)
	b = order.AppendUint32(b, uint32(bits))
	b = order.AppendUint32(b, uint32(h.SourceCheck))
	b = order.AppendUint64(b, uint64(h.EchoWait))
	return order.AppendUint64(b, uint64(h.EchoInterval))
}

func parseHeaderSettings(m *Message, v []byte) error {
	bits, check := HeaderBits(order.Uint32(v)), order.Uint32(v[4:])
	wait, interval := order.Uint64(v[8:]), order.Uint64(v[16:])
	if max(wait, interval) > 1<<62 {
		return fmt.Errorf("%d and %d ns of Echo-Nonce are too long", wait, interval)
	}
	for _, known := range headerBits(&m.Header) {
		*known.is = bits&known.bit != 0
	}
	m.Header.SourceCheck = dataplane.SourceCheck(check)
	m.Header.EchoWait, m.Header.EchoInterval = time.Duration(wait), time.Duration(interval)
	return errors.Join(atMost(uint32(bits&^knownHeaderBits), 0), atMost(check, 255))
}

// appendEncapsulations writes rules; one for all RLOCs has no address.
func appendEncapsulations(b []byte, a Attribute, m *Message) []byte {
	for _, rule := range m.Encapsulations {
		address := rule.RLOCs.Addr()
		b = appendAttribute(b, a, encapsulationSize+address.BitLen()/8)
		b = order.AppendUint32(b, uint32(rule.Encapsulation))
		b = order.AppendUint32(b, uint32(max(rule.RLOCs.Bits(), 0)))
		b = appendAddress(b, address)
	}
	return b
}

func parseEncapsulation(m *Message, v []byte) error {
	encapsulation, bits := order.Uint32(v), order.Uint32(v[4:])
	if err := atMost(encapsulation, 255); err != nil {
		return err
	}
	rule := dataplane.EncapsulationRule{Encapsulation: dataplane.Encapsulation(encapsulation)}
	if octets := v[encapsulationSize:]; len(octets) > 0 {
		a, ok := netip.AddrFromSlice(octets)
		if !ok || a.Is4In6() || bits > uint32(a.BitLen()) {
			return fmt.Errorf("%d octets %x with %d bits are not a prefix", len(octets), octets, bits)
		}
		rule.RLOCs = netip.PrefixFrom(a, int(bits))
		if rule.RLOCs != rule.RLOCs.Masked() {
			return fmt.Errorf("%s has host bits set: did you mean %s?", a, rule.RLOCs.Masked())
		}
	} else if bits != 0 {
		return fmt.Errorf("%d bits of no address", bits)
	}
	m.Encapsulations = append(m.Encapsulations, rule)
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package mapsock

// A locator with its metrics: the value, its octets, and back. docs/mapsock.md and c/mapsock.h say the same of the
// octets; tests compare the three.

import "loci/lisp"

// Locator is a locator with OpenLISP's metrics.
type Locator struct {
	lisp.Locator
	Interface bool   // an address of this system
	MTU       uint32 // 0: not known
	TxNonce   uint32 // with HasTxNonce; 24 bits (RFC 9300 s.5.3)
	RxNonce   uint32

	HasTxNonce, HasRxNonce bool
}

// LocatorFlags are those of a locator's metrics.
type LocatorFlags uint16

// OpenLISP's locator flags, and from LocatorLocal on those of a Map-Reply that it
// does not keep (RFC 9301 s.5.4).
const (
	LocatorUp        LocatorFlags = 1 << 0 // the R-bit: reachable, as far as the mapping says
	LocatorInterface LocatorFlags = 1 << 1 // an address of this system; reported, never set
	LocatorTxNonce   LocatorFlags = 1 << 2 // TxNonce counts
	LocatorRxNonce   LocatorFlags = 1 << 3 // RxNonce counts
	LocatorLocal     LocatorFlags = 1 << 4 // the L-bit
	LocatorProbed    LocatorFlags = 1 << 5 // the p-bit

	knownLocatorFlags = LocatorUp | LocatorInterface | LocatorTxNonce | LocatorRxNonce |
		LocatorLocal | LocatorProbed
)

// Offsets in the metrics that follow the address of a locator.
const (
	offsetPriority          = 0  // u8
	offsetWeight            = 1  // u8
	offsetLocatorFlags      = 2  // u16
	offsetMTU               = 4  // u32
	offsetTxNonce           = 8  // u32
	offsetRxNonce           = 12 // u32
	offsetMulticastPriority = 16 // u8
	offsetMulticastWeight   = 17 // u8
	offsetSourcePort        = 18 // u16

	metricsSize = 20
)

func appendLocator(b []byte, l *Locator) []byte {
	b = appendSockaddr(b, l.RLOC.Addr())
	b = append(b, l.Priority, l.Weight)
	b = order.AppendUint16(b, uint16(l.flags()))
	b = order.AppendUint32(b, l.MTU)
	b = order.AppendUint32(b, l.TxNonce)
	b = order.AppendUint32(b, l.RxNonce)
	return order.AppendUint16(append(b, l.MulticastPriority, l.MulticastWeight), l.SourcePort)
}

func (l *Locator) flags() (f LocatorFlags) {
	for _, flag := range [...]struct {
		set  bool
		flag LocatorFlags
	}{
		{l.Reachable, LocatorUp}, {l.Interface, LocatorInterface}, {l.HasTxNonce, LocatorTxNonce},
		{l.HasRxNonce, LocatorRxNonce}, {l.Local, LocatorLocal}, {l.Probed, LocatorProbed},
	} {
		if flag.set {
			f |= flag.flag
		}
	}
	return f
}

func parseLocator(m *Message, b []byte, at int) (end int, problem *FormatError) {
	rloc, at, problem := parseSockaddr(b, at, "RLOC")
	if problem != nil {
		return 0, problem
	}
	if len(b) < at+metricsSize {
		return 0, malformed("metrics", at, "%d octets of %d", len(b)-at, metricsSize)
	}
	s := b[at : at+metricsSize]
	flags := LocatorFlags(order.Uint16(s[offsetLocatorFlags:]))
	if unknown := flags &^ knownLocatorFlags; unknown != 0 {
		return 0, malformed("locator flags", at+offsetLocatorFlags, "unknown bits %#x", uint16(unknown))
	}
	m.Locators = append(m.Locators, Locator{
		Locator: lisp.Locator{
			RLOC:     lisp.RLOCFromAddr(rloc),
			Priority: s[offsetPriority], Weight: s[offsetWeight],
			MulticastPriority: s[offsetMulticastPriority],
			MulticastWeight:   s[offsetMulticastWeight],
			Local:             flags&LocatorLocal != 0,
			Probed:            flags&LocatorProbed != 0,
			Reachable:         flags&LocatorUp != 0,
			SourcePort:        order.Uint16(s[offsetSourcePort:]),
		},
		Interface: flags&LocatorInterface != 0, MTU: order.Uint32(s[offsetMTU:]),
		TxNonce: order.Uint32(s[offsetTxNonce:]), HasTxNonce: flags&LocatorTxNonce != 0,
		RxNonce: order.Uint32(s[offsetRxNonce:]), HasRxNonce: flags&LocatorRxNonce != 0,
	})
	return at + metricsSize, nil
}

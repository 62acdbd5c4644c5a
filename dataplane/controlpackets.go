// SPDX-License-Identifier: Apache-2.0

package dataplane

// Control messages in data packets: those of Instance-ID 0xFFFFFF, which an RTR sends to a node behind a NAT
// (draft-ermagan-lisp-nat-traversal s.4.5), and a node to an RTR (draft-farinacci-lisp-lispers-net-nat). They are not
// forwarded: they become events, within a rate, where they are from an RTR that Settings has.

import (
	"fmt"
	"net/netip"
	"slices"

	"loci/lisp"
)

const (
	// MaxRTRs is how many RTRs Settings may have.
	MaxRTRs = 64
	// MaxControlPackets is how many events ControlPacket an engine raises within a second.
	MaxControlPackets = 1000
	// MaxControlPacketsUnknown is how many of them are of sources that no mapping sends to, or that have used up
	// MaxControlPacketsKnown: the others are for routers that are in use.
	MaxControlPacketsUnknown = MaxControlPackets / 2
	// MaxControlPacketsFrom is how many of these are of one address: a flood from one leaves room for the others.
	MaxControlPacketsFrom = MaxControlPackets / 4
	// MaxControlPacketsKnown is how many are for one address and port that a mapping sends to.
	MaxControlPacketsKnown = MaxControlPackets / 50
	// MaxControlOctets is how many octets behind the LISP header such an event has at most.
	MaxControlOctets = 9216
)

// AnyIPv4 among Settings.RTRs stands for every IPv4 address: an RTR does not know its nodes before they send.
var AnyIPv4 = lisp.RLOCFromAddr(netip.IPv4Unspecified())

// ControlPacket says that a data packet of Instance-ID 0xFFFFFF came from one of Settings.RTRs. Its outer source may
// be forged. ControlMeter says how many are raised; they have MaxControlOctets at most. The others are dropped.
type ControlPacket struct {
	Source, Destination netip.AddrPort // of the outer header
	Payload             []byte         // what stands behind the LISP header; the reader's own
}

func (ControlPacket) event() {}

// IsRTR reports whether control messages in data packets are taken from an address.
func (s *Settings) IsRTR(a netip.Addr) bool {
	return IsAmongRTRs(s.RTRs, a)
}

// IsAmongRTRs is IsRTR for a list of RTRs.
func IsAmongRTRs(rtrs []lisp.RLOC, a netip.Addr) bool {
	return slices.ContainsFunc(rtrs, func(r lisp.RLOC) bool { return r.Addr() == a || r == AnyIPv4 && a.Is4() })
}

// CheckRTRs says what of the RTRs cannot be; ErrInvalid.
func (s *Settings) CheckRTRs() error {
	if len(s.RTRs) > MaxRTRs {
		return fmt.Errorf("%d RTRs, at most %d: %w", len(s.RTRs), MaxRTRs, ErrInvalid)
	}
	for i, r := range s.RTRs {
		if err := r.Valid(); err != nil && r != AnyIPv4 {
			return fmt.Errorf("RTR %v: %w: %w", r, ErrInvalid, err)
		}
		if slices.Contains(s.RTRs[:i], r) {
			return fmt.Errorf("RTR %v twice: %w", r, ErrInvalid)
		}
	}
	return nil
}

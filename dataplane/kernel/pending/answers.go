// SPDX-License-Identifier: Apache-2.0

// This file sends the ICMP errors that the pending-packet queue owes to sources (RFC 9300 s.7, RFC 9301 s.5.4), within one limit for
// all of them. What they say is package forward's; it drops and counts no packet.

package pending

import (
	"log/slog"
	"net/netip"

	"golang.org/x/time/rate"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/entries"
	"loci/dataplane/kernel/tap"
	"loci/dataplane/kernel/underlay"
	"loci/forward"
)

const (
	// errorsPerSecond limits the ICMP errors that are sent (RFC 1812 s.4.3.2.8,
	// RFC 4443 s.2.4 (f)), errorsBurst how many of them at once.
	errorsPerSecond = 100
	errorsBurst     = 100
)

// answers sends ICMP errors. Package forward says what is in them.
type answers struct {
	limit     *rate.Limiter
	addressOf func(ifindex uint32, family uint8) (netip.Addr, bool)
	mac       func() [6]byte // of the TAP
	write     func(f tap.Frame, magic byte)
	fragments *underlay.Fragmenter
	log       *slog.Logger
}

// unreachable answers a packet that programs dropped and counted, and reports whether an answer was due. The source of
// a packet that was to be relayed is a host of another site, and gets none.
func (a *answers) unreachable(f tap.Frame, header *forward.Header, from entries.Origin) bool {
	code, ok := forward.UnreachableFor(f.Dropped())
	if !ok || from.Relayed {
		return false
	}
	return a.send(f, header, from, func(dst []byte, source netip.Addr) ([]byte, bool) {
		return forward.Unreachable(dst, source, f.Packet(), code)
	})
}

// message appends an ICMP error from a source.
type message func(dst []byte, source netip.Addr) ([]byte, bool)

// send sends an ICMP error to the source of a packet, and reports whether one was due. To a host of the site it comes
// from the interface that the packet came in by; so it does to one whose packet was to be relayed, which gets it by
// LISP, too. To this host itself it comes from the packet's destination, because a host rejects a packet from its own
// address. What the stack forwarded may have other addresses by then than its sender gave it, which only connection
// tracking knows: the stack sends the answer, too.
func (a *answers) send(f tap.Frame, header *forward.Header, from entries.Origin, about message) bool {
	if !a.limit.Allow() {
		return false
	}
	source := header.Destination
	if from.Site {
		if own, ok := a.addressOf(f.Origin(), header.Family); ok {
			source = own
		}
	}
	if from.Site && from.Stack {
		return a.sendByStack(source, about)
	}
	answer := make(tap.Frame, tap.VnetOctets+tap.EthernetOctets)
	copy(answer.Ethernet()[12:], f.Ethernet()[12:])
	if from.Relayed {
		copy(answer.Ethernet(), f.Ethernet())
	}
	answer, ok := about(answer, source)
	switch {
	case !ok:
		return false
	case from.Relayed:
		a.write(answer, abi.TAPReleased)
	case from.Site:
		a.write(answer, abi.TAPTransmit)
	default:
		mac := a.mac()
		copy(answer.Ethernet(), mac[:])
		a.write(answer, 0)
	}
	return true
}

// sendByStack sends an ICMP error as this host's own.
func (a *answers) sendByStack(source netip.Addr, about func(dst []byte, source netip.Addr) ([]byte, bool)) bool {
	answer, ok := about(nil, source)
	if !ok {
		return false
	}
	header, err := forward.ParseHeader(answer)
	if err != nil {
		return false
	}
	err = a.fragments.SendWhole(answer, header.Destination)
	if err != nil {
		a.log.Debug("an answer could not be sent", "to", header.Destination, "error", err)
	}
	return err == nil
}

// SPDX-License-Identifier: Apache-2.0

// This file sends the ICMP errors that the waiting room owes to sources (RFC 9300 s.7, RFC 9301 s.5.4), within one limit for
// all of them. What they say is package forward's; it drops and counts no packet.

package kernel

import (
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/forward"
)

// answerUnreachable answers a packet that programs dropped and counted.
func (r *room) answerUnreachable(f frame, header *forward.Header, from origin) {
	code, ok := forward.UnreachableFor(f.dropped())
	if !ok {
		return
	}
	sent := r.answer(f, header, from, func(dst []byte, source netip.Addr) ([]byte, bool) {
		return forward.Unreachable(dst, source, f.packet(), code)
	})
	if sent {
		atomic.AddUint64(&r.words[wordUnreachablesSent], 1)
	}
}

// answer sends an ICMP error to the source of a packet, and reports whether one was due. To a host of
// the site it comes from the interface that the packet came in by. To this host itself it
// comes from the packet's destination, because nobody believes a packet from himself. What the stack forwarded may have other
// addresses by then than its sender gave it, which connection tracking alone knows: the stack sends the answer, too.
func (r *room) answer(f frame, header *forward.Header, from origin, about func(dst []byte, source netip.Addr) ([]byte, bool)) bool {
	if !r.limit.Allow() {
		return false
	}
	source := header.Destination
	if from.site {
		if own, ok := r.tables.addressOf(f.origin(), header.Family); ok {
			source = own
		}
	}
	if from.site && from.stack {
		return r.answerByStack(source, header.Family, about)
	}
	answer := make(frame, vnetOctets+ethernetOctets)
	copy(answer.ethernet()[12:], f.ethernet()[12:])
	answer, ok := about(answer, source)
	switch {
	case !ok:
		return false
	case from.site:
		r.write(answer, abi.TAPTransmit)
	default:
		copy(answer.ethernet(), r.tap.mac[:])
		r.write(answer, 0)
	}
	return true
}

// answerByStack sends an ICMP error as this host's own.
func (r *room) answerByStack(source netip.Addr, family uint8, about func(dst []byte, source netip.Addr) ([]byte, bool)) bool {
	answer, ok := about(nil, source)
	if !ok {
		return false
	}
	header, err := forward.ParseHeader(answer)
	if err != nil {
		return false
	}
	socket, err := r.fragments.socket(family == 4)
	if err == nil {
		err = unix.Sendto(socket, answer, 0, socketAddress(header.Destination))
	}
	if err != nil {
		r.log.Debug("an answer could not be sent", "to", header.Destination, "error", err)
	}
	return err == nil
}

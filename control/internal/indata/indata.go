// SPDX-License-Identifier: Apache-2.0

// Package indata sends control messages in data packets: they pass a NAT by its binding for data.
package indata

import (
	"bytes"
	"net/netip"

	"loci/control/internal/counter"
	"loci/control/internal/system"
	"loci/lisp"
	"loci/wire"
)

// Way is that of a control message in a data packet: the outer addresses and ports, and the inner ones.
type Way struct {
	Local, Remote       netip.AddrPort
	Source, Destination netip.AddrPort
}

// Send sends a control message in a data packet. It reports whether it could be encoded.
func Send(h *system.System, by Way, message []byte) bool {
	payload, err := wire.AppendControlInData(h.Buffer(system.UsualECMOctets+len(message)), by.Source, by.Destination, message)
	if err != nil {
		h.Count(counter.RefusedEncoding)
		return false
	}
	h.Send(by.Local, by.Remote, h.Used(payload))
	return true
}

// AnswerProbe answers an RLOC-probe that came in a data packet, with a mapping of what it asked about. It
// reports whether an answer went: their rate is limited as that of others.
func AnswerProbe(h *system.System, by Way, nonce uint64, answer lisp.Mapping) bool {
	if !h.MayAnswerProbe(lisp.RLOCFromAddr(by.Remote.Addr()).WithPort(by.Remote.Port()), answer.Prefix) {
		return false
	}
	reply := wire.MapReply{Probe: true, Nonce: nonce}
	payload, err := wire.AppendMapReply(h.Buffer(system.UsualRecordOctets), &reply, []lisp.Mapping{answer})
	if err != nil {
		h.Count(counter.RefusedEncoding)
		return false
	}
	return Send(h, by, bytes.Clone(payload)) // the buffer is used for what goes around it
}

// ProbedMapping is a mapping with one locator, an own address that was probed.
func ProbedMapping(asked lisp.Prefix, own netip.Addr, ttlMinutes uint32) lisp.Mapping {
	l := lisp.NewLocator(lisp.RLOCFromAddr(own))
	l.Local, l.Probed = true, true
	return lisp.Mapping{Prefix: asked, Authoritative: true, TTLMinutes: ttlMinutes, Locators: lisp.LocatorSet{l}}
}

// SPDX-License-Identifier: Apache-2.0

package mapserver

// The rows of the table of registrations: what they hold, no pointers (RFC 9301 s.5.6).

import (
	"net/netip"

	"loci/control/internal/message"
	"loci/control/internal/timing"
	"loci/lisp"
)

// RegistrantID tells the xTRs of an EID-Prefix apart: by Site-ID and xTR-ID where
// they send them (RFC 9301 s.5.6), else by address.
type RegistrantID struct {
	XTRID  [16]byte
	siteID uint64
	source netip.Addr // only without xTR-ID
}

// XTR is what a Map-Register says of who sent it. The rows of all its records share it.
type XTR struct {
	ID                                              RegistrantID
	From                                            netip.AddrPort
	keyID, algorithm, macOctets                     uint8
	ProxyReply, useTTL, mergeRequest, wantMapNotify bool
}

// Registrant is what one xTR registered for one EID-Prefix.
type Registrant struct {
	FirstAt, LastAt, ExpiresAt timing.Instant
	next                       uint32 // the one that registered the same EID-Prefix before, noRow for none
	XTR                        uint32
	Content                    content
}

// content is a mapping but for its EID-Prefix.
type content struct {
	Locators      uint32
	ttlMinutes    uint32
	version       uint16
	action        lisp.Action
	authoritative bool
}

// Registration is an EID-Prefix with all xTRs that registered it.
type Registration struct {
	Prefix lisp.Prefix
	site   uint32
	newest uint32  // the registrant who came last; the others follow by next
	Merged content // what is answered
	// ProxyReply: any of them wants the Map-Server to answer, which is enough (RFC 9301 s.8.3).
	proxyReply bool
	wide       bool // something more specific is registered, or was
	displaced  bool // what some xTR registered is not in force
}

// noRow is the number of no row.
const noRow = ^uint32(0)

// HashOf is an EID-Prefix's hash in 32 bits.
func HashOf(p *lisp.Prefix) uint32 { return uint32(p.Hash()) }

// registrantOf is who sent the Map-Register.
func registrantOf(m *message.MapRegister) RegistrantID {
	if !m.XTRIDPresent {
		return RegistrantID{source: m.From.Addr()}
	}
	return RegistrantID{XTRID: m.XTRID, siteID: m.SiteID}
}

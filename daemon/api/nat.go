// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/netip"
	"time"

	"loci/lisp"
)

// What `loci show nat` tells.

// NAT tells how this router looks from outside, and to which routers behind NATs it forwards.
type NAT struct {
	Views        []NATView    `json:"views"`
	OctetsSent   uint64       `json:"octets_sent_last_hour"` // Info-Requests, keepalives and Map-Registers by an RTR, with IP and UDP headers
	RTRs         []NATRTR     `json:"rtrs"`                  // by which this router registers
	Unasked      []lisp.RLOC  `json:"rlocs_not_asked"`       // of this router, beyond eight; registered as unreachable where RTRs are in use
	Bindings     []NATBinding `json:"bindings"`
	BindingCount int          `json:"binding_count"` // how many there are; more than those that are listed
	Hosts        []NATHost    `json:"hosts"`         // that an RTR knows by simple-nat
	HostCount    int          `json:"host_count"`    // how many there are; more than those that are listed
}

// The protocols of NAT traversal.
const (
	NATProtocolAuto    = "auto"    // asked by both, and not answered yet
	NATProtocolErmagan = "ermagan" // draft-ermagan-lisp-nat-traversal
	NATProtocolSimple  = "simple"  // simple-nat, draft-farinacci-lisp-lispers-net-nat
)

// NATProtocolName is what a protocol is called in a sentence.
func NATProtocolName(protocol string) string {
	switch protocol {
	case NATProtocolErmagan:
		return "draft-ermagan-lisp-nat-traversal"
	case NATProtocolSimple:
		return "simple-nat"
	default:
		return protocol
	}
}

// NATView is what one Map-Server says of this router's address.
type NATView struct {
	// ermagan or simple; auto while it is asked by both and has answered neither
	Protocol   string     `json:"protocol"`
	MapServer  string     `json:"map_server"`
	RLOC       lisp.RLOC  `json:"rloc"` // of this router, from which it was asked
	AnsweredAt *time.Time `json:"answered_at"`
	SeenAs     string     `json:"seen_as"` // address and port
	BehindNAT  bool       `json:"behind_nat"`
	// NAT64Prefix is that of the NAT64 on the way; empty where there is none.
	NAT64Prefix string       `json:"nat64_prefix"`
	RTRs        []netip.Addr `json:"rtrs"` // that it offers, as this router reaches them
	// OftenChangedSince is the first of the last five times that it saw another address or port of the same RLOC,
	// by simple-nat, where these were within ten minutes; else null.
	OftenChangedSince *time.Time `json:"often_changed_since"`
}

// NATRTR is an RTR by which this router registers and is reached.
type NATRTR struct {
	Protocol         string      `json:"protocol"` // ermagan or simple
	Address          netip.Addr  `json:"address"`
	IPv4             *netip.Addr `json:"ipv4"` // its own, where a NAT64 is on the way; else null
	RLOC             netip.Addr  `json:"rloc"` // of this router, which is reached by it
	Since            *time.Time  `json:"since"`
	KeepaliveSeconds float64     `json:"keepalive_seconds"` // 0: none are sent
	LastKeepaliveAt  *time.Time  `json:"last_keepalive_at"`
	ConfirmedAt      *time.Time  `json:"confirmed_at"` // when it last said that it knows this router's address
	Silent           bool        `json:"silent"`
	BindingsLost     uint64      `json:"bindings_lost"` // times that the RTR had another address or port for this router, or none
	// OftenChangedSince is the first of the last five such times, where these were within ten minutes; else null.
	OftenChangedSince *time.Time `json:"often_changed_since"`
}

// NATBinding is where an RTR forwards the packets of an EID-Prefix to a router. Several routers may have one of the
// same EID-Prefix: packets go to those of all their RLOCs that have the best priority.
type NATBinding struct {
	Protocol   string      `json:"protocol"` // ermagan; by simple an RTR knows hosts
	EIDPrefix  lisp.Prefix `json:"eid_prefix"`
	MapServer  netip.Addr  `json:"map_server"`
	XTRID      string      `json:"xtr_id"`
	SiteID     uint64      `json:"site_id"`
	Since      *time.Time  `json:"since"`
	VerifiedAt *time.Time  `json:"verified_at"` // by the last Map-Notify
	ExpiresAt  *time.Time  `json:"expires_at"`
	RLOCs      []NATRLOC   `json:"rlocs"` // all RLOCs of the router; packets go to those with the best priority, never to 255
	// Silent: the router is silent, and packets go to others that have the EID-Prefix.
	Silent bool   `json:"silent"`
	Moves  uint64 `json:"moves"` // times that it came from another address or port
	// OftenChangedSince is the first of the NAT's last five changes, where these were within ten minutes; else null.
	OftenChangedSince *time.Time `json:"often_changed_since"`
}

// NATHost is a host behind a NAT that an RTR knows by simple-nat. Packets of mappings that have its name, and the
// address that it is seen as, are forwarded there.
type NATHost struct {
	Protocol  string     `json:"protocol"` // simple
	Name      string     `json:"name"`     // as it says
	SeenAs    string     `json:"seen_as"`  // its address and port, as its NAT translates them
	Since     *time.Time `json:"since"`
	HeardAt   *time.Time `json:"heard_at"` // its last Info-Request
	ExpiresAt *time.Time `json:"expires_at"`
	Moves     uint64     `json:"moves"`    // times that it had another port
	Mappings  int        `json:"mappings"` // of the map-cache that are forwarded there
	// OftenChangedSince is the first of the last five times that it had another port, where these were within ten
	// minutes; else null.
	OftenChangedSince *time.Time `json:"often_changed_since"`
}

// NATRLOC is an RLOC of a router behind a NAT, by which an RTR sends it packets.
type NATRLOC struct {
	SeenAs   string     `json:"seen_as"` // address and port, as its NAT translates them
	Private  netip.Addr `json:"private"`
	Priority uint8      `json:"priority"` // as the router has them for this RLOC
	Weight   uint8      `json:"weight"`
}

// NAT asks how this router looks from outside, and to which routers behind NATs it forwards.
func (c *Client) NAT(ctx context.Context) (n NAT, err error) { return n, c.get(ctx, PathNAT, &n) }

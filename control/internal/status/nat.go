// SPDX-License-Identifier: Apache-2.0

package status

// NAT traversal, as a node and an RTR see it.

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	"loci/control/internal/settings"
	"loci/lisp"
)

// NAT is how a node looks from outside, and by which RTRs it is reached.
type NAT struct {
	Views []NATView
	// SentLastHour are the octets of Info-Requests, keepalives and Map-Registers by an RTR, with IP and UDP
	// headers.
	SentLastHour uint64
	Keepalive    time.Duration // negative for never
	RTRs         []NATRTR      // in use, each by each own RLOC behind a NAT
	Unasked      []lisp.RLOC   // own RLOCs beyond those that are asked about; as long as RTRs are used they are unreachable
}

// NATRTR is an RTR by which a node registers, from one own RLOC.
type NATRTR struct {
	Protocol        settings.NATProtocol
	Address         netip.Addr
	IPv4            netip.Addr // its own, where a NAT64 is on the way; else the zero one
	Local           netip.Addr
	Since           time.Time // it is used
	LastKeepaliveAt time.Time // zero for never
	ConfirmedAt     time.Time // when it last said that it knows this node's address; zero for never
	Silent          bool      // it left several keepalives, or without such Map-Registers, unanswered
	BindingsLost    uint64    // times that it had another address or port for this node, or none
	// OftenChangedSince is the first of the last five such times, where these were within ten minutes; zero
	// otherwise.
	OftenChangedSince time.Time
}

// NATView is what one Map-Server said about this node's address.
type NATView struct {
	Protocol   settings.NATProtocol // by which it answered; NATAuto where it is asked by both, and answers neither
	MapServer  netip.AddrPort
	Local      lisp.RLOC
	Prefix     lisp.Prefix // that the Info-Request named
	AnsweredAt time.Time   // zero: it does not answer Info-Requests
	Seen       netip.AddrPort
	Behind     bool         // a NAT is on the way there
	NAT64      netip.Prefix // of the NAT64 on the way; the zero one for none
	RTRs       []netip.Addr
	// OftenChangedSince is the first of the last five times that it saw another address or port, by simple-nat,
	// where these were within ten minutes; zero otherwise.
	OftenChangedSince time.Time
}

// NATBinding is where an RTR forwards the packets of an EID-Prefix.
type NATBinding struct {
	Prefix     lisp.Prefix
	Seen       netip.AddrPort // where the last Map-Register came from, as the NAT translates it
	Private    netip.Addr     // the node's own address that it came from
	Own        netip.Addr     // ours
	MapServer  netip.Addr
	XTRID      [16]byte
	SiteID     uint64
	Since      time.Time
	VerifiedAt time.Time // by the last Map-Notify
	ExpiresAt  time.Time
	Moves      uint64
	RLOCs      []NATRLOC // all RLOCs of the node
	Silent     bool      // the node is silent, and others that have the EID-Prefix are not
	// OftenChangedSince is the first of the NAT's last five changes, where these were within ten minutes; zero
	// otherwise. A node that moved is none.
	OftenChangedSince time.Time
}

// NATInUse are the RLOCs that packets go to, of the bindings of one EID-Prefix: those with the best priority. There may
// be none.
func NATInUse(bindings []NATBinding) (list []NATRLOC) {
	best := uint8(lisp.PriorityUnused)
	for _, b := range bindings {
		for _, r := range b.RLOCs {
			if !b.Silent && r.Priority < best {
				list, best = nil, r.Priority
			}
			if !b.Silent && r.Priority == best && best != lisp.PriorityUnused {
				list = append(list, r)
			}
		}
	}
	return list
}

// NATHost is a host behind a NAT that an RTR knows by simple-nat.
type NATHost struct {
	Name      string         // as the host says
	Seen      netip.AddrPort // as the NAT translates it
	Own       netip.Addr     // ours, that it sends to
	Since     time.Time
	HeardAt   time.Time
	ExpiresAt time.Time
	Moves     uint64 // times that it had another port
	Mappings  int    // of the map-cache that name it
	// OftenChangedSince is the first of the last five such times, where these were within ten minutes; zero
	// otherwise.
	OftenChangedSince time.Time
}

// Compare orders hosts by name and address.
func (h NATHost) Compare(o NATHost) int {
	return cmp.Or(strings.Compare(h.Name, o.Name), h.Seen.Compare(o.Seen))
}

// NATRLOC is an RLOC of a node behind a NAT, with what the node says of it.
type NATRLOC struct {
	Seen             netip.AddrPort
	Private          netip.Addr
	Priority, Weight uint8
}

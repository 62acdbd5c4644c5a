// SPDX-License-Identifier: Apache-2.0

package forward

// What the stages work on: the router with its tables, how a packet came in, and what was found out about it.

import (
	"net/netip"
	"time"

	"loci/lisp"
)

// XTR is a tunnel router's view of packets.
type XTR struct {
	Tables  Tables
	Marking Marking
	Miss    MissPolicy
	Trusted Trusted
	Memory  *Memory // needed where Trusted is not off
	// Encapsulation says how packets go to an RLOC; nil: as LISP.
	Encapsulation func(lisp.RLOC) Encapsulation
	VXLANGPE      bool   // UDP to VXLANGPEPort is ours as well
	Denies        Denies // nil: there are no lists
}

// Tables are what a tunnel router looks up. IPv4-mapped IPv6 addresses are IPv6.
type Tables interface {
	// InDatabase reports whether an address is an EID of this site.
	InDatabase(instance lisp.InstanceID, eid netip.Addr) bool
	// MapCache returns the entry of the longest prefix; nil is a miss.
	MapCache(instance lisp.InstanceID, eid netip.Addr) *Entry
	// IsLocalRLOC reports whether an address is one of the router's own RLOCs.
	IsLocalRLOC(a netip.Addr) bool
	// Path returns the own RLOC from which a locator is sent to, and the octets
	// that the path carries; mtu 0 says that there is no route.
	Path(to lisp.RLOC) (source lisp.RLOC, mtu int)
	// Site returns what headers tell of the Database entry that covers an EID.
	Site(instance lisp.InstanceID, eid netip.Addr) Site
}

// Entry is what packets see of a map-cache entry.
type Entry struct {
	Locators lisp.LocatorSet // none: Action counts
	Buckets  BucketVector
	Action   lisp.Action
	Hold     bool // packets wait while earlier ones are being released

	// What headers are held against (trusted.go).
	Prefix    netip.Prefix
	Version   uint16
	EchoNonce bool // the ETRs that answer for it echo nonces
}

// MissPolicy says what happens to a packet that no mapping covers.
type MissPolicy uint8

// The policies.
const (
	MissWait MissPolicy = iota
	MissDrop
	MissNative
)

// Ingress is how a packet came to the ITR.
type Ingress struct {
	Instance lisp.InstanceID
	Own      bool   // sent by this system itself: its TTL is left alone
	Routed   bool   // own, and routes led it to LISP: it has no other way
	Released bool   // has waited: no Hold, and never to wait again
	Segment  int    // payload of each segment of a GSO packet, else 0
	Nonce    uint32 // for the LISP header
	Now      time.Time
}

// Outcome is what the stages found out about a packet, what was decided, and what is sent.
type Outcome struct {
	Action
	Packet   []byte          // DoEncapsulate; DoDeliver, DoLocal: the inner packet
	Header   Header          // of the packet between EIDs, as far as it was read
	Instance lisp.InstanceID // of that packet
	Miss     bool            // no mapping covers it: a Map-Request is due
	Entry    *Entry          // of the map-cache, where there is one
	Notes    Notes
	Hints    []Hint // of a packet from the core
}

// end is for a stage that decides: no later one is asked.
func (o *Outcome) end(a Action) bool {
	o.Action = a
	return false
}

// leave is the end of a packet that is not LISP's: it goes its way as without it, unless LISP is the way that routes chose for it.
func (o *Outcome) leave(in Ingress, reason DropReason) bool {
	if in.Routed {
		return o.end(drop(reason))
	}
	return false
}

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
	Trusted Trusted
	Memory  *Memory // needed where Trusted is not off
	// Encapsulation says how packets go to an RLOC; nil: as LISP.
	Encapsulation func(lisp.RLOC) Encapsulation
	VXLANGPE      bool   // UDP to VXLANGPEPort is ours as well
	Denies        Denies // nil: there are no lists
	// Miss says how packets of an Instance-ID are treated that no mapping covers; nil: they wait.
	Miss func(lisp.InstanceID) MissPolicy
	// Roles says what the router does in an Instance-ID beside ITR and ETR; nil: nothing.
	Roles func(lisp.InstanceID) Roles
	// IsRTR reports whether control messages in data packets, those of Instance-ID 0xFFFFFF, are taken from an
	// address; nil: from none.
	IsRTR func(netip.Addr) bool
	// RecursionDepth is how many layers of encapsulation packets get, or lose, here at most: 1, which 0 stands
	// for, or 2. None leaves with three: one to port 4341 or 4342 of an EID has one already.
	RecursionDepth int
	// Subflows has Outcome.Subflow found out.
	Subflows bool
	// PathIdentification says how a packet tells which path of a mapping it is on.
	PathIdentification PathIdentification
}

func (x *XTR) depth() int { return max(x.RecursionDepth, 1) }

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
	// BoundPath returns the path that a flow is bound to; false where it is bound to none.
	BoundPath(flow lisp.Flow) (lisp.Path, bool)
}

// Entry is what packets see of a map-cache entry.
type Entry struct {
	Locators lisp.LocatorSet // none: Action counts
	Buckets  BucketVector
	Usable   LocatorBits // those that a binding may choose
	Action   lisp.Action
	Hold     bool // packets wait while earlier ones are being released
	// Registered: a router behind a NAT registered it by this RTR, which relays packets to and from it.
	Registered bool

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
	Core     bool   // not from an EID's interface: from the core, as it came; LISP's for a PITR alone
	Relayed  bool   // came from the core and was decapsulated: it is an RTR's
	On       OnPath // of a packet that is Relayed and did not wait: what tells its path
	Released bool   // has waited: no Hold, and it waits again for an RLOC's mapping alone
	Resolved bool   // has waited for an RLOC's mapping, too: never to wait again
	Segment  int    // payload of each segment of a GSO packet, else 0
	Nonce    uint32 // for the LISP header
	Now      time.Time
}

// Outcome is what the stages found out about a packet, what was decided, and what is sent.
type Outcome struct {
	Action
	// DoEncapsulate, DoRelay: what is sent. DoDeliver, DoLocal: the inner packet. DoControl: what is behind the
	// LISP header. Of a packet that is Relayed, and of one that a PETR forwards natively, also: DoNatively: what
	// is sent; DoWait, DoTooBig, DoSegment: the inner packet.
	Packet   []byte
	Header   Header          // of the packet between EIDs, as far as it was read
	Instance lisp.InstanceID // of that packet
	Miss     bool            // no mapping covers Asked: a Map-Request is due
	Asked    Destination     // what the map-cache was asked for last: the destination or, with two layers, the RLOC
	Entry    *Entry          // of the map-cache, where there is one for the destination
	Negative Destination     // what a negative entry decided about: the destination, or the RLOC that it says is not an EID; zero for none
	Layers   int             // of a packet from the core: how many were taken off
	Relayed  bool            // from the core, and an RTR's to send on
	Proxied  bool            // a PITR's
	Notes    Notes
	Hints    []Hint  // of a packet from the core
	Binding  Binding // of a packet that locators were selected for
	Opens    bool    // it has a binding, and is TCP with SYN: no use of its flow
	// Subflow is the TCP header of a packet that goes on and begins or ends a connection between EIDs that may be
	// bound (dataplane.Subflow), a part of the packet; nil for all others.
	Subflow []byte
}

// end is for a stage that decides: no later one is asked.
func (o *Outcome) end(a Action) bool {
	o.Action = a
	return false
}

// leave is the end of a packet that is not LISP's: it goes its way as without it, unless LISP is the way that routes
// chose for it.
func (o *Outcome) leave(in Ingress, reason DropReason) bool {
	if in.Routed {
		return o.end(drop(reason))
	}
	return false
}

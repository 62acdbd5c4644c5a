// SPDX-License-Identifier: Apache-2.0

package report

// What the data plane reports to the Node. Nothing here acts on it.

import (
	"net/netip"
	"time"

	"loci/lisp"
)

// Miss says that a packet from a local EID found no mapping.
type Miss struct {
	Instance            lisp.InstanceID
	Source, Destination lisp.EID
}

// Usage says when a map-cache entry last forwarded a packet.
type Usage struct {
	Prefix     lisp.Prefix
	LastUsedAt time.Time
}

// Heard says when data packets last came from an RLOC.
type Heard struct {
	RLOC        lisp.RLOC
	LastHeardAt time.Time
}

// StatusBits are the Locator-Status-Bits of a data packet that differ from those before
// (RFC 9300 s.10).
type StatusBits struct {
	Prefix lisp.Prefix // of the map-cache entry that covers the inner source
	From   lisp.RLOC   // outer source
	Bits   uint32      // bit i is that of the entry's i-th locator; 1 is up
	Count  int         // how many the header has: 32, or 8 beside an Instance-ID
}

// Gleaned is what a data packet from the core says of an inner source without mapping.
type Gleaned struct {
	Instance    lisp.InstanceID
	Source      lisp.EID  // inner source
	Destination lisp.EID  // inner destination, one of ours
	From        lisp.RLOC // outer source
}

// MapVersions are the Map-Versions that a data packet carried, with the V bit. Report
// those that differ from the tables, at a bounded rate; trusted networks only.
type MapVersions struct {
	Instance            lisp.InstanceID
	Source, Destination lisp.EID  // of the inner packet
	From                lisp.RLOC // outer source address
	SourceVersion       uint16
	DestinationVersion  uint16
}

// Subflow is a TCP segment that begins or ends a subflow of Multipath TCP. It may be forged.
type Subflow struct {
	Flow     lisp.Flow // of the packet
	FromCore bool      // it came from the core
	TCP      []byte    // the TCP header with its options; not kept
}

// BoundFlow is a flow that the data plane has bound to a path.
type BoundFlow struct {
	Flow       lisp.Flow
	Path       lisp.Path
	CreatedAt  time.Time
	LastUsedAt time.Time // zero when never
}

// ControlPacket is what came to the data port in a packet of Instance-ID 0xFFFFFF: a control message of an RTR to a
// node behind a NAT (draft-ermagan-lisp-nat-traversal s.4.5). Report it of configured RTRs, or of any: the Node
// believes its RTRs only.
type ControlPacket struct {
	Local, From netip.AddrPort // of the outer header
	Packet      []byte         // what stands behind the LISP header: inner IP and UDP headers, and the message; not kept
}

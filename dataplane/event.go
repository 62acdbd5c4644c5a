// SPDX-License-Identifier: Apache-2.0

package dataplane

// What engines tell the control plane: misses (RFC 9300 s.4), what LISP headers of
// others say about locators and mappings (RFC 9300 s.10, RFC 9302), and what the
// network says about the way to a locator (RFC 9300 s.7.2). Nothing here is verified
// beyond what each type says: an attacker who forges packets can cause events, so the
// control plane treats them as hints and limits what it does about them.

import "loci/lisp"

// Event is something that the control plane should know: Miss, Expired,
// StatusBitsChanged, LocalVersionStale, RemoteVersionStale, NonceMismatch,
// Gleaned, LocatorUnreachable, MTUChanged, ControlPacket or Subflow.
type Event interface{ event() }

// Miss says that a packet found no mapping: one from a local EID, or one that a role relays or encapsulates. With two layers
// Destination may be an RLOC, in Instance-ID 0; it then comes with the EIDs alone, and Source is an own RLOC. At most about one a
// second is raised for each destination, but for packets that are handed over: each of
// them is an event.
type Miss struct {
	Instance    lisp.InstanceID
	Source      lisp.EID
	Destination lisp.EID
	Interface   string // where the packet came in
	Form        MissForm
	Packet      []byte // as Form says; nil with MissFormEID
	Handed      bool   // by MissHandOver: Packet is whole, and the reader's to forward
}

// Expired says that a map-cache entry was deleted whose TTL had ended. Who deleted it
// is told like everyone else. Engines never delete one of their own accord. When many
// come at once, these are the first to be lost: misses matter more.
type Expired struct{ Prefix lisp.Prefix }

// StatusBitsChanged says that a packet of a remote site carried other
// Locator-Status-Bits than are known of the site (RFC 9300 s.10): those of the last
// such event, and before the first the Reachable bits of the mapping. Only packets
// whose source EID a positive map-cache entry covers raise it.
type StatusBitsChanged struct {
	Prefix lisp.Prefix // of the map-cache entry that covers the inner source
	From   lisp.RLOC   // outer source
	Bits   uint32      // bit i is that of Mapping.Locators[i]; 1 is up
	Count  int         // how many the header had room for: 32, or 8 beside an Instance-ID
}

// PacketVersions are the Map-Versions of a data packet with the V-bit (RFC 9302 s.6).
// 0 is the Null Map-Version.
type PacketVersions struct {
	Instance            lisp.InstanceID
	Source, Destination lisp.EID  // of the inner packet
	From                lisp.RLOC // outer source
	SourceVersion       uint16
	DestinationVersion  uint16
}

// LocalVersionStale says that a packet carried a newer source Map-Version than that
// of the map-cache entry for its source: our copy of their mapping is old (RFC 9302
// s.7.2). It is OpenLISP's LOCALSTALE.
type LocalVersionStale struct{ PacketVersions }

// RemoteVersionStale says that a packet carried an older destination Map-Version than
// that of the Database entry for its destination: their copy of our mapping is old
// (RFC 9302 s.7.1). It is OpenLISP's REMOTESTALE.
type RemoteVersionStale struct{ PacketVersions }

// NonceMismatch says that a locator was asked to echo a nonce, sent packets for as long
// as the engine waits for the echo, and that none of them carried it (RFC 9300
// s.10.1). Silence is no mismatch. It is raised once for each request.
type NonceMismatch struct {
	RLOC     lisp.RLOC
	Sent     uint32 // 24 bits
	Received uint32 // of the last packet that carried one; 0 when none did
}

// Gleaned says that a packet for an EID of ours came from an inner source that no
// map-cache entry covers, and by which RLOC (RFC 9300 s.9). At most about one a second is
// raised for each inner source. It was not verified. The packet was forwarded.
type Gleaned struct {
	Instance            lisp.InstanceID
	Source, Destination lisp.EID  // of the inner packet
	From                lisp.RLOC // outer source
}

// LocatorUnreachable says that ICMP called a locator unreachable. The message quoted a
// packet that this router may have sent: from an own RLOC to the data port of a
// locator in the map-cache.
type LocatorUnreachable struct {
	RLOC       lisp.RLOC
	Type, Code uint8 // of ICMPv4 or ICMPv6, after the family of RLOC
}

// MTUChanged says that the path to a locator now carries so many octets, the outer
// header counted in (RFC 9300 s.7.2). The engine already obeys it: packets that do not
// fit are answered or fragmented. 0 says that the limit is not known any more.
type MTUChanged struct {
	RLOC lisp.RLOC
	MTU  int
}

func (Miss) event()               {}
func (Expired) event()            {}
func (StatusBitsChanged) event()  {}
func (LocalVersionStale) event()  {}
func (RemoteVersionStale) event() {}
func (NonceMismatch) event()      {}
func (Gleaned) event()            {}
func (LocatorUnreachable) event() {}
func (MTUChanged) event()         {}

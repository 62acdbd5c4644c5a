// SPDX-License-Identifier: Apache-2.0

package effect

// Effects: everything a Node wants done, in the order in which it has to happen.
// An effect owns its bytes. Nothing here does anything.

import (
	"net/netip"
	"time"

	"loci/control/internal/settings"
	"loci/lisp"
)

// Effect is one of SendPacket, InstallMapping, RemoveMapping, InstallDatabase,
// RemoveDatabase, SetLocatorState, BindFlow, UnbindFlow, SiblingPath, SetRTRs, Notice and Journal.
type Effect interface{ effect() }

// SendPacket is a UDP packet to send, its checksum computed and not zero. A zero
// address or port of Local leaves it to the sender, the control port by default. With the
// data port, 4341, it leaves from that, and the address has to be given.
type SendPacket struct {
	Local, Remote netip.AddrPort
	Payload       []byte
}

// InstallMapping puts an entry into the map-cache of the data plane, in place of
// the one of the same prefix.
type InstallMapping struct{ MapCacheEntry }

// RemoveMapping takes an entry out of the map-cache of the data plane.
type RemoveMapping struct {
	Prefix lisp.Prefix
	Reason RemoveReason
}

// InstallDatabase puts an EID-Prefix of the site into the data plane's Database.
type InstallDatabase struct{ settings.DatabaseMapping }

// RemoveDatabase takes one out.
type RemoveDatabase struct{ Prefix lisp.Prefix }

// SetLocatorState says whether packets may be sent to a locator, and before which others, in
// all mappings that have it: LocatorUp, LocatorHeard, LocatorUnconfirmed or LocatorDown.
// A locator that it never said anything about is up. A path has a state of its own.
type SetLocatorState struct {
	RLOC   lisp.RLOC
	Behind lisp.Hops // the other hops of a path
	State  LocatorState
}

// Path is the locator's identity.
func (e SetLocatorState) Path() lisp.Path { return lisp.Path{RLOC: e.RLOC, Behind: e.Behind} }

// BindFlow binds a flow to a path of the mapping that covers its destination, or binds it to another one.
type BindFlow struct {
	Flow lisp.Flow
	Path lisp.Path
}

// UnbindFlow ends the binding of a flow.
type UnbindFlow struct{ Flow lisp.Flow }

// SiblingPath says where packets from this site's EIDs go: natively to a sibling while we
// have no path to the core, or, with a zero address, into LISP as always.
type SiblingPath struct{ To netip.Addr }

// SetRTRs says which RTRs may send this node control messages in data packets.
type SetRTRs struct{ RTRs []lisp.RLOC }

// MapCacheEntry is a mapping of the map-cache.
type MapCacheEntry struct {
	Mapping lisp.Mapping
	Static  bool // from the configuration: never expires
	Gleaned bool // from a data packet, while the mapping system is asked (RFC 9300 s.9)
	Stale   bool // used past its TTL, while the mapping system is silent; without its Map-Version (RFC 9302 s.7.1)
	ByNAT   bool // made by NAT traversal
	// Registered says that a router behind a NAT registered it by this RTR: packets to and from it are relayed.
	Registered bool
	CreatedAt  time.Time // when the prefix was first installed
	ExpiresAt  time.Time // end of the TTL; zero when Static
}

// RemoveReason says why a mapping left the map-cache.
type RemoveReason string

// The reasons.
const (
	RemoveExpired    RemoveReason = "expired"    // its TTL ended
	RemoveIdle       RemoveReason = "idle"       // it forwarded nothing for long
	RemoveWithdrawn  RemoveReason = "withdrawn"  // a Map-Reply said TTL 0
	RemoveReplaced   RemoveReason = "replaced"   // a less specific mapping came (RFC 9301 s.5.5)
	RemoveEvicted    RemoveReason = "evicted"    // the table is full
	RemoveConfigured RemoveReason = "configured" // the configuration changed
	RemoveUnknown    RemoveReason = "unknown"    // the data plane has it, the Node does not: a removal was lost
)

func (SendPacket) effect()      {}
func (InstallMapping) effect()  {}
func (RemoveMapping) effect()   {}
func (InstallDatabase) effect() {}
func (RemoveDatabase) effect()  {}
func (SetLocatorState) effect() {}
func (BindFlow) effect()        {}
func (UnbindFlow) effect()      {}
func (SiblingPath) effect()     {}
func (SetRTRs) effect()         {}

// Journal is what an event-loop iteration added to the journal. Where one is Begin, all before it may be
// forgotten when the next that is End is stored.
type Journal struct {
	Octets     []byte // whole entries
	Begin, End bool   // the first and the last piece of a checkpoint
}

func (Journal) effect() {}

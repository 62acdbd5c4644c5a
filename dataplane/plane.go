// SPDX-License-Identifier: Apache-2.0

// Package dataplane is the one boundary between Loci's control plane and the
// engines that forward packets (the kernel's eBPF programs, the model for tests,
// later others). It holds the interface, the values that cross it, and what they
// mean. It knows package lisp alone and forwards nothing itself.
//
// # Semantics that every engine keeps
//
// Tables. An engine holds two tables keyed by EID-Prefix with Instance-ID: the
// map-cache (remote EIDs) and the Database (EIDs of this site). Lookups take the
// longest match in the packet's Instance-ID and family.
//
// Paths. A locator may be a path of several hops. Its packets go to the hop that
// Locator.Next names, which the control plane chose; engines treat its address, its port
// and its family as those of a plain RLOC. The identity of a locator, for its state and
// everything else that is kept of it, is its whole path.
//
// Operations. Apply carries out its operations in order, each of them whole or
// not at all; one that fails is reported in its place, changes nothing and does
// not stop those behind it. When Apply returns, packets are treated by the new
// tables. At no moment in between does a lookup give an answer that neither the
// old nor the new tables would have given.
//
// Time. Entries carry the times that the control plane gave them and keep them
// across a restart of either side. An engine never expires an entry: the control
// plane does, because forwarding goes on while it is away.
//
// Misses. A packet with a source EID of the Database, or that the policy of an RTR or
// PITR covers, and a destination that no mapping covers raises a Miss and is treated by Settings.MissPolicyOf.
// Waiting packets are sent, in order per flow, once a positive mapping covers them;
// they are dropped and counted when a negative one does (or sent natively, by
// its action) or when a bound of Settings.Wait is reached.
//
// Events. Beside misses an engine tells what packets show that the control plane
// cannot see: event.go says what each event means. An engine raises those that it
// can find out, at most about one a second for each kind and subject, and acts on
// none of them by itself, except where their description says so.
//
// Concurrency. All methods may be called from any goroutine. No method waits for
// a reader of Events: an event that finds no room is lost and counted.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
)

// Plane is an engine that forwards packets by mappings it is given.
type Plane interface {
	// Apply carries out operations in order and returns one error for each of
	// them, nil for success; the result is nil when all succeeded.
	Apply(operations ...Operation) []error

	// Mapping returns the map-cache entry of exactly that prefix.
	Mapping(prefix lisp.Prefix) (MapCacheEntry, bool)
	// Mappings yields the map-cache, in no order. Entries changed meanwhile may
	// be seen in either state, each at most once; no caller is held up.
	Mappings() iter.Seq[MapCacheEntry]
	// Database yields the Database in prefix order.
	Database() iter.Seq[DatabaseEntry]
	// LocatorStates yields the locators that are down; it may yield others that were.
	LocatorStates() iter.Seq2[lisp.Path, LocatorState]
	// Flows yields the flows that are bound, in no order, as Mappings does.
	Flows() iter.Seq[FlowEntry]
	// Settings returns what was last set.
	Settings() Settings

	// Counters returns the totals since the tables were created.
	Counters() Counters
	// Events is where misses and other events arrive. It is closed by Close.
	Events() <-chan Event

	// Close releases what this process holds. An engine whose tables live outside
	// the process leaves them in force, for the next Open to adopt.
	Close() error
	// Detach ends forwarding and removes every trace of the engine, then closes.
	Detach(ctx context.Context) error
}

// PromptPlane is a Plane that does at once, in the caller's goroutine or its own, what a Plane
// leaves to others: for a caller who counts the threads that have to be woken for a packet.
type PromptPlane interface {
	Plane
	// TryApply is Apply unless another changes the engine: then it does nothing, and done
	// is false.
	TryApply(operations ...Operation) (errs []error, done bool)
	// TellAtOnce has the engine call take with misses in the goroutine that found them. What take
	// returns false for comes by Events, as does what others find. TellAtOnce may be called once;
	// take is called by one goroutine at a time, must not wait, and may call TryApply.
	TellAtOnce(take func([]Event) bool)
}

// Operation is one change of the tables: PutMapping, DeleteMapping, PutDatabase,
// DeleteDatabase, PutLocatorState, PutFlow, DeleteFlow, SetSettings or Flush.
type Operation interface{ operation() }

// PutMapping adds a map-cache entry or replaces the one of the same prefix. A
// replacement keeps the entry's counters and use.
type PutMapping struct{ Entry MapCacheEntry }

// DeleteMapping removes a map-cache entry; ErrNotFound when there is none.
type DeleteMapping struct{ Prefix lisp.Prefix }

// PutDatabase adds or replaces a Database entry; ErrNoLocalLocator when none of
// its locators is one of Settings.LocalRLOCs.
type PutDatabase struct{ Entry DatabaseEntry }

// DeleteDatabase removes a Database entry; ErrNotFound when there is none.
type DeleteDatabase struct{ Prefix lisp.Prefix }

// PutLocatorState says whether packets may be sent to a locator, and before which others,
// in whichever mappings it stands. Only flows that have to move do. A path has a state of
// its own, whatever is known of its hops.
type PutLocatorState struct {
	RLOC   lisp.RLOC
	Behind lisp.Hops // the other hops of a path, as in lisp.Locator
	State  LocatorState
}

// Path is the locator's identity.
func (o *PutLocatorState) Path() lisp.Path { return lisp.Path{RLOC: o.RLOC, Behind: o.Behind} }

// SetSettings replaces all settings.
type SetSettings struct{ Settings Settings }

// Flush empties tables.
type Flush struct{ MapCache, Database, Flows bool }

func (PutMapping) operation()      {}
func (DeleteMapping) operation()   {}
func (PutDatabase) operation()     {}
func (DeleteDatabase) operation()  {}
func (PutLocatorState) operation() {}
func (SetSettings) operation()     {}
func (Flush) operation()           {}

// Errors of operations; engines wrap them with the prefix or RLOC concerned.
var (
	ErrNotFound       = errors.New("no such entry")
	ErrUnsupported    = errors.New("this engine does not forward such EIDs")
	ErrInvalid        = errors.New("invalid")
	ErrNoLocalLocator = errors.New("no locator of the entry is an address of this system")
	ErrFull           = errors.New("the table is full")
	ErrClosed         = errors.New("the engine is closed")
)

// MapCacheEntry is a remote mapping as an ITR keeps it.
type MapCacheEntry struct {
	Mapping lisp.Mapping
	Static  bool // from the configuration: never expires
	Gleaned bool // from a data packet, not verified yet (RFC 9300 s.9); engines only keep it
	Stale   bool // used past its TTL, while the mapping system is silent; engines only keep it
	ByNAT   bool // made by NAT traversal; engines only keep it
	// Registered says that a router behind a NAT registered it by this RTR: packets to and from its EIDs are
	// relayed as those that a policy of RoleRTR names, with such a policy or without.
	Registered bool
	CreatedAt  time.Time // when the prefix was first installed
	ExpiresAt  time.Time // end of the TTL; zero when Static
	Usage      Usage     // filled in by the engine, ignored by PutMapping
}

// HasExpired reports whether the entry's TTL has ended.
func (e *MapCacheEntry) HasExpired(now time.Time) bool {
	return !e.Static && !e.ExpiresAt.IsZero() && !e.ExpiresAt.After(now)
}

// Usage tells how much an entry was used since it was created: by packets that went by it and, where it is negative,
// by those that it sent out natively or dropped.
type Usage struct {
	Packets    uint64
	Octets     uint64    // inner octets
	LastUsedAt time.Time // zero when never; exact to a second
}

// DatabaseEntry is an EID-Prefix of this site and its own locators.
type DatabaseEntry struct {
	Prefix   lisp.Prefix
	Locators lisp.LocatorSet
	Version  uint16 // Map-Version, 0 for none (RFC 9302)
}

// LocatorState says whether packets may be sent to a locator, and before which others.
// Of a locator-set those are used that are up; without one, those that are unconfirmed
// and were heard from; without one, all that are unconfirmed; within each, by priority
// and weight. Never those that are down. An engine does not change a state by itself:
// the caller knows when a locator was heard from last.
type LocatorState uint8

// Locators are up unless something else was said. The numbers are those of the mapping
// socket (docs/mapsock.md) and of pinned maps.
const (
	LocatorUp          LocatorState = iota
	LocatorDown                     // something says that the path or the locator is gone
	LocatorUnconfirmed              // it answers no RLOC-probes, which says nothing about its data plane
	LocatorHeard                    // unconfirmed, and data packets came from it lately
)

var locatorStateNames = [...]string{LocatorUp: "up", LocatorDown: "down", LocatorUnconfirmed: "unconfirmed", LocatorHeard: "unconfirmed, heard"}

// IsValid reports whether s is one of the states.
func (s LocatorState) IsValid() bool { return int(s) < len(locatorStateNames) }

// String names the state.
func (s LocatorState) String() string {
	if !s.IsValid() {
		return fmt.Sprintf("state %d", uint8(s))
	}
	return locatorStateNames[s]
}

// Rank says before which other states this one is used, the lowest first; usable is false
// for those that never are.
func (s LocatorState) Rank() (rank int, usable bool) {
	switch s {
	case LocatorUp:
		return 0, true
	case LocatorHeard:
		return 1, true
	case LocatorUnconfirmed:
		return 2, true
	}
	return 0, false
}

// MissPolicy says what happens to a packet that no mapping covers.
type MissPolicy uint8

// The policies. Queue is the default.
const (
	MissQueue MissPolicy = iota
	MissDrop
	MissForwardNatively
	MissHandOver // to the control plane, in Miss.Packet: it is the control plane's to forward
)

// String names the policy as configuration does.
func (p MissPolicy) String() string {
	switch p {
	case MissDrop:
		return "drop"
	case MissForwardNatively:
		return "natively-forward"
	case MissHandOver:
		return "hand-over"
	}
	return "queue"
}

// MissForm says what a Miss tells of the packet, beside its EIDs. Packets that do not
// come to the engine, because the policy is to drop them or to forward them natively,
// are told by their EIDs alone.
type MissForm uint8

// The forms.
const (
	MissFormEID    MissForm = iota
	MissFormHeader          // IP header and the eight octets behind it, as ICMP quotes
	MissFormPacket
)

// String names the form as configuration does.
func (f MissForm) String() string {
	switch f {
	case MissFormHeader:
		return "header"
	case MissFormPacket:
		return "packet"
	}
	return "eid"
}

// MaxMissPolicies is how many Instance-IDs may have a policy of their own.
const MaxMissPolicies = 4096

// Side says where an interface leads.
type Side uint8

// SideSite leads to the site's hosts, SideCore to the network of the RLOCs.
const (
	SideSite Side = iota
	SideCore
)

// String is "site" or "core".
func (s Side) String() string {
	if s == SideCore {
		return "core"
	}
	return "site"
}

// Interface is an interface that an engine watches.
type Interface struct {
	Name     string
	Side     Side
	Instance lisp.InstanceID // of the EIDs behind a site interface
	VLAN     uint16          // of a site: its tag at the interface, 0 for frames without one
	Hook     Hook
	// Forwarding of what comes in by the interface, and of what goes to a site by it.
	Forwarding Forwarding
}

// WaitBounds bound the packets that wait for a mapping. A packet beyond a bound
// is dropped and counted; the oldest stay, because the first packet matters most.
type WaitBounds struct {
	PacketsPerDestination int
	PacketsTotal          int
	OctetsTotal           int
	Time                  time.Duration
}

// DefaultWaitBounds suit a router of a few thousand hosts.
var DefaultWaitBounds = WaitBounds{PacketsPerDestination: 256, PacketsTotal: 8192, OctetsTotal: 64 << 20, Time: 5 * time.Second}

// Settings are an engine's global settings.
type Settings struct {
	Interfaces []Interface
	LocalRLOCs []lisp.RLOC // own RLOCs; the first of a family is the source of what is sent in it
	RTRs       []lisp.RLOC // those that control messages in data packets are taken from (ControlPacket), or AnyIPv4; at most MaxRTRs
	MissPolicy MissPolicy  // of Instance-IDs that MissPolicies does not name
	Wait       WaitBounds
	MissForm   MissForm
	Header     HeaderSettings

	Encapsulations []EncapsulationRule // the first that fits an RLOC counts; at most MaxEncapsulations
	Lists          []AccessList        // at most MaxLists

	MissPolicies map[lisp.InstanceID]MissPolicy // at most MaxMissPolicies

	Roles []RolePolicy // roles beside ITR and ETR; at most MaxRolePolicies
	// Sibling is the other xTR of the site that gets its packets while no interface to the site is watched; zero
	// for the first that the configuration has. Engines only keep it: it is for who routes those packets.
	Sibling netip.Addr
	// RecursionDepth is how many layers of encapsulation packets get at most: 1, which 0 stands for, or 2. With 2
	// an RLOC that a mapping of Instance-ID 0 covers is an EID: the encapsulated packet is encapsulated again, to
	// a locator of that mapping (RFC 9300 s.4). An RLOC that no mapping covers raises a Miss, as a destination
	// does. With 2 a packet from the core may also lose two layers here, if both are for own RLOCs.
	RecursionDepth uint8
	// MarkNative has an engine in front of the host's stack set NativeMark in the marks of packets of the site
	// that a negative mapping leaves to the stack, which translates them (RFC 6832 s.7.1).
	MarkNative bool
	// Subflows has an engine raise Subflow, and lead TCP packets with SYN, FIN or RST past its caches.
	Subflows bool
	// PathIdentification says how routers on several paths of a mapping tell which one a packet is on.
	PathIdentification PathIdentification
}

// NativeMark is the bit that MarkNative is about.
const NativeMark = 0x0800_0000

// Clone shares no memory with s.
func (s Settings) Clone() Settings {
	s.Interfaces, s.LocalRLOCs, s.MissPolicies = slices.Clone(s.Interfaces), slices.Clone(s.LocalRLOCs), maps.Clone(s.MissPolicies)
	s.RTRs, s.Encapsulations = slices.Clone(s.RTRs), slices.Clone(s.Encapsulations)
	s.Lists = slices.Clone(s.Lists)
	for i := range s.Lists {
		s.Lists[i].Allow, s.Lists[i].Deny = slices.Clone(s.Lists[i].Allow), slices.Clone(s.Lists[i].Deny)
	}
	s.Roles = slices.Clone(s.Roles)
	for i := range s.Roles {
		s.Roles[i].EIDs, s.Roles[i].Sources = slices.Clone(s.Roles[i].EIDs), slices.Clone(s.Roles[i].Sources)
	}
	return s
}

// MissPolicyOf is the policy of an Instance-ID.
func (s *Settings) MissPolicyOf(instance lisp.InstanceID) MissPolicy {
	if own, ok := s.MissPolicies[instance]; ok {
		return own
	}
	return s.MissPolicy
}

// CheckMisses says what of the policies for misses cannot be; ErrInvalid.
func (s *Settings) CheckMisses() error {
	if s.MissPolicy > MissHandOver || s.MissForm > MissFormPacket {
		return fmt.Errorf("miss policy %d, miss form %d: %w", s.MissPolicy, s.MissForm, ErrInvalid)
	}
	if len(s.MissPolicies) > MaxMissPolicies {
		return fmt.Errorf("%d miss policies, at most %d: %w", len(s.MissPolicies), MaxMissPolicies, ErrInvalid)
	}
	for instance, policy := range s.MissPolicies {
		if instance > lisp.MaxInstanceID || policy > MissHandOver {
			return fmt.Errorf("miss policy %d of Instance-ID %d: %w", policy, instance, ErrInvalid)
		}
	}
	return nil
}

// HeaderSettings say what data headers tell and what is believed of them. The zero
// value is the plain header: a nonce, and the Instance-ID.
type HeaderSettings struct {
	// PublicInternet sends N, L, E and V as 0 and believes nothing of them (RFC 9300
	// s.4.1), whatever else is set.
	PublicInternet bool
	// StatusBits tells the Reachable bits of the Database entry's locators (RFC 9300 s.10).
	// After their RLOCs changed it tells none for StatusBitsPause: bits mean nothing to who
	// has the locator-set before (s.13.1).
	StatusBits  bool
	MapVersions bool // RFC 9302: DatabaseEntry.Version, Mapping.Version
	EchoNonce   bool // RFC 9300 s.10.1, with locators whose Mapping.EchoNonce is set
	// EchoWait is how long an echo may take while packets come from the locator,
	// EchoInterval when it is asked for again. 0 is DefaultEchoWait, DefaultEchoInterval.
	EchoWait, EchoInterval time.Duration
	// Glean tells of the outer sources of packets whose inner source has no mapping (RFC 9300
	// s.9): Gleaned.
	Glean bool
	// SourceCheck holds the inner source of packets from the core against the outer one.
	SourceCheck SourceCheck
}

// The times of Echo-Nonce where nothing else is said.
const (
	DefaultEchoWait     = 10 * time.Second
	DefaultEchoInterval = time.Minute
)

// StatusBitsPause is how long a Database entry's Locator-Status-Bits are not told after
// its RLOCs changed: the use-LSB timer of RFC 9300 s.13.1. It outlives a restart.
const StatusBitsPause = 5 * time.Minute

// HintInterval is the shortest time between two events of one kind that the headers
// of one RLOC, or about one mapping, can raise.
const HintInterval = time.Second

// SourceCheck says whether the outer source of a packet must be a locator of its
// inner source.
type SourceCheck uint8

// The checks.
const (
	SourceUnchecked SourceCheck = iota
	SourceLoose                 // where the map-cache has locators for the inner source
	SourceStrict                // always; an inner source without mapping raises a Miss
)

// Counters are totals. Drops names each reason by its word in docs/counters.md.
type Counters struct {
	EncapsulatedPackets, EncapsulatedOctets uint64
	DecapsulatedPackets, DecapsulatedOctets uint64
	RelayedPackets, RelayedOctets           uint64 // decapsulated and encapsulated again; among neither of those
	ProxiedPackets                          uint64 // of those encapsulated: by a PITR
	NativePackets                           uint64 // of EIDs, sent without encapsulation: of the site, or by a PETR
	MissPackets                             uint64 // packets that no mapping covered
	WaitingPackets, WaitingOctets           uint64 // now in the queue
	ReleasedPackets                         uint64 // sent after waiting
	EventsLost                              uint64
	Drops                                   map[string]uint64
	Other                                   map[string]uint64 // engine's own, by name
}

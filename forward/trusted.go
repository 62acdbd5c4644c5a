// SPDX-License-Identifier: Apache-2.0

package forward

// What the data header says among routers that trust each other, and what no other may
// use (RFC 9300 s.4.1): Locator-Status-Bits (RFC 9300 s.10), Echo-Nonce (s.10.1),
// Map-Versions (RFC 9302); and the check of the inner source against its mapping's
// locators. bpf/nonce_lsb_version.h has the same in C. What is found is reported, at a bounded
// rate, and never acted upon here but by dropping the packet.

import (
	"maps"
	"net/netip"
	"time"

	"loci/lisp"
	"loci/wire"
)

// SourceCheck says how the inner source of a packet from the core is held against the
// outer one.
type SourceCheck uint8

// The checks.
const (
	SourceUnchecked SourceCheck = iota
	SourceLoose                 // where the map-cache has locators for it, the outer source is one of them
	SourceStrict                // likewise, and the map-cache must have them
)

// The limits of stale versions (RFC 9302 s.7.1): after so many events about an old
// version from an RLOC, about ten Solicit-Map-Requests at one in three seconds, its
// packets with an old version are dropped, until it was silent for a while.
const (
	StaleEventsMax = 30
	StaleForget    = time.Minute
)

// Trusted switches on what only trusted networks may use. The zero value is off.
type Trusted struct {
	PublicInternet bool // N, L, E, V are 0 and what is received of L, E, V has no effect
	StatusBits     bool
	MapVersions    bool
	EchoNonce      bool
	Glean          bool // tell of outer sources of inner sources without mapping (RFC 9300 s.9)
	Source         SourceCheck
	Echo           EchoTimes
	HintInterval   time.Duration // the shortest time between two hints of one kind about the same
}

// varies says what the headers of packets have beside the Instance-ID.
func (t *Trusted) varies() Varies {
	switch {
	case t.PublicInternet:
		return 0
	case t.StatusBits || t.MapVersions || t.EchoNonce:
		return VariesHeader
	}
	return VariesNonce
}

// off reports whether headers are not looked at for more than the Instance-ID.
func (t *Trusted) off() bool {
	return !t.StatusBits && !t.MapVersions && !t.EchoNonce && !t.Glean && t.Source == SourceUnchecked
}

// StatusBits are the Locator-Status-Bits that a locator-set stands for (RFC 9300
// s.10): bit i is whether the i-th locator is reachable.
func StatusBits(set lisp.LocatorSet) (bits uint32) {
	for i, l := range set[:min(len(set), lisp.MaxLocators)] {
		if l.Reachable {
			bits |= 1 << i
		}
	}
	return bits
}

// Site is what the header tells of the mapping of an inner source: zero where there
// is none.
type Site struct {
	Known      bool
	Quiet      bool // StatusBits mean nothing to others yet (RFC 9300 s.13.1)
	Version    uint16
	StatusBits uint32
}

// HintKind says what a Hint is about.
type HintKind uint8

// The kinds; their numbers are those of enum lisp_event_kind.
const (
	HintStatusBits         HintKind = 2 // those of the source's mapping are Value now; Other is how many fit the header
	HintDestinationVersion HintKind = 3 // the destination version is older than ours; Value is the source's, Other it
	HintSourceVersion      HintKind = 4 // the source version, Value, is newer than the map-cache's; Other is the destination's
	HintEchoMissing        HintKind = 5 // packets come from RLOC without the echo of Value; the last one had Other
	HintGleaned            HintKind = 6 // RLOC sends for Source, which no map-cache entry covers
)

// Hint is what a packet from the core says that the control plane should know.
type Hint struct {
	Kind                HintKind
	Instance            lisp.InstanceID
	Source, Destination netip.Addr // of the inner packet
	RLOC                netip.Addr // outer source
	Value, Other        uint32
}

// memoryLimit bounds what a Memory knows, of each kind.
const memoryLimit = 1 << 14

// watchKey names what is watched: a mapping for its status bits, an RLOC for
// versions.
type watchKey struct {
	kind     HintKind
	instance lisp.InstanceID
	about    netip.Prefix
}

type watched struct {
	raised time.Time
	value  uint32
	count  int
	anew   bool // whatever comes next is news: value was of another locator-set
}

// Memory is what a router remembers of its peers' headers. It is bounded: what is
// beyond is forgotten, all at once.
type Memory struct {
	peers map[netip.Addr]*Echo
	watch map[watchKey]watched
}

// Peer returns the state of Echo-Nonce with an RLOC; nil when there is none and none
// is to be made.
func (m *Memory) Peer(rloc netip.Addr, wanted bool) *Echo {
	if p := m.peers[rloc]; p != nil || !wanted {
		return p
	}
	if m.peers == nil || len(m.peers) >= memoryLimit {
		m.peers = map[netip.Addr]*Echo{}
	}
	p := &Echo{}
	m.peers[rloc] = p
	return p
}

// ForgetStatusBits says that a mapping has another locator-set now, or, with gone, that it
// is no more: its Locator-Status-Bits were those of the one before (RFC 9300 s.10).
func (m *Memory) ForgetStatusBits(instance lisp.InstanceID, prefix netip.Prefix, gone bool) {
	key := watchKey{kind: HintStatusBits, instance: instance, about: prefix}
	if gone {
		delete(m.watch, key)
	} else if _, heard := m.watch[key]; heard {
		m.watch[key] = watched{anew: true}
	}
}

// ForgetAllStatusBits says that all mappings are gone.
func (m *Memory) ForgetAllStatusBits() {
	maps.DeleteFunc(m.watch, func(key watchKey, _ watched) bool { return key.kind == HintStatusBits })
}

func (m *Memory) note(key watchKey, w watched) {
	if m.watch == nil || len(m.watch) >= memoryLimit {
		m.watch = map[watchKey]watched{}
	}
	m.watch[key] = w
}

// composeHeader adds to the header of a packet to a locator of that mapping, which has a nonce, what the settings ask for.
func (x *XTR) composeHeader(h *wire.DataHeader, site Site, entry *Entry, to lisp.RLOC, now time.Time) {
	if x.Trusted.StatusBits && site.Known && !site.Quiet {
		h.LocatorStatusBits, h.StatusBits = true, site.StatusBits
		if h.Instance {
			h.StatusBits &= 0xff
		}
	}
	if x.Trusted.EchoNonce {
		if peer := x.Memory.Peer(to.Addr(), entry.EchoNonce); peer != nil {
			nonce, request, echo := peer.Send(now, h.Nonce, entry.EchoNonce)
			if h.Nonce, h.EchoNonce = nonce, request; request || echo {
				return
			}
		}
	}
	// RFC 9302 s.6.1: no versions towards who has none.
	if x.Trusted.MapVersions && entry.Version != lisp.NullMapVersion {
		h.NoncePresent, h.Nonce = false, 0
		h.MapVersion, h.SourceVersion, h.DestinationVersion = true, site.Version, entry.Version
	}
}

// judgeReceived judges what header and inner source of a packet from the core say. What an ITR tells the ETR of the
// destination is not for an RTR or PETR, which only reads what is between two RLOCs.
func (x *XTR) judgeReceived(o *Outcome, e *Encapsulated, as duty, now time.Time) DropReason {
	if x.Trusted.off() {
		return DropNone
	}
	known := x.Tables.MapCache(e.Instance, e.Header.Source)
	o.Miss = known == nil && x.Trusted.Source == SourceStrict
	if reason := x.checkSource(known, e.Outer.Source); reason != DropNone || x.Trusted.PublicInternet {
		return reason
	}
	if as == dutyETR {
		if reason := x.judgeSite(o, e, known, now); reason != DropNone {
			return reason
		}
	}
	if x.Trusted.EchoNonce {
		x.receiveEcho(o, e, now)
	}
	return DropNone
}

// judgeSite judges what the header of a packet for an own EID says of the mappings at both ends.
func (x *XTR) judgeSite(o *Outcome, e *Encapsulated, known *Entry, now time.Time) DropReason {
	if x.Trusted.Glean && known == nil {
		x.glean(o, e, now)
	}
	if x.Trusted.MapVersions && e.LISP.MapVersion {
		if reason := x.checkVersions(o, e, known, now); reason != DropNone {
			return reason
		}
	}
	if x.Trusted.StatusBits && e.LISP.LocatorStatusBits && known != nil && len(known.Locators) > 0 {
		x.receiveStatusBits(o, e, known, now)
	}
	return DropNone
}

func (x *XTR) checkSource(known *Entry, rloc netip.Addr) DropReason {
	if x.Trusted.Source == SourceUnchecked {
		return DropNone
	}
	located := known != nil && len(known.Locators) > 0
	if located {
		from := lisp.RLOCFromAddr(rloc)
		for _, l := range known.Locators {
			if l.Path().Index(from) >= 0 { // with a path, its last hop sends here, or another one that relays
				return DropNone
			}
		}
	}
	if located || x.Trusted.Source == SourceStrict {
		return DropSourceRLOC
	}
	return DropNone
}

// checkVersions obeys RFC 9302 s.7.1 and s.7.2.
func (x *XTR) checkVersions(o *Outcome, e *Encapsulated, known *Entry, now time.Time) DropReason {
	destination, source := e.LISP.DestinationVersion, e.LISP.SourceVersion
	own := x.Tables.Site(e.Instance, e.Header.Destination).Version
	if own == lisp.NullMapVersion || destination == lisp.NullMapVersion || lisp.CompareMapVersions(destination, own) > 0 {
		return DropDestinationVersion
	}
	if destination != own {
		o.Notes |= NoteStaleDestination
		if x.raiseVersion(o, e, HintDestinationVersion, now) > StaleEventsMax {
			return DropStaleVersion
		}
	}
	if known == nil {
		return DropNone
	}
	switch order := lisp.CompareMapVersions(source, known.Version); {
	case order < 0:
		return DropSourceVersion
	case order > 0:
		o.Notes |= NoteStaleSource
		x.raiseVersion(o, e, HintSourceVersion, now)
	}
	return DropNone
}

// raiseVersion raises a hint about a version unless one was raised just before, and
// returns how many were since the RLOC was last silent.
func (x *XTR) raiseVersion(o *Outcome, e *Encapsulated, kind HintKind, now time.Time) int {
	rloc := e.Outer.Source
	key := watchKey{kind: kind, instance: e.Instance, about: netip.PrefixFrom(rloc, rloc.BitLen())}
	last, found := x.Memory.watch[key]
	fresh := watched{raised: now}
	if found && now.Sub(last.raised) < StaleForget {
		fresh.count = last.count
	}
	if found && now.Sub(last.raised) < x.Trusted.HintInterval {
		return fresh.count
	}
	fresh.count++
	x.Memory.note(key, fresh)
	o.hint(Hint{Kind: kind, Value: uint32(e.LISP.SourceVersion), Other: uint32(e.LISP.DestinationVersion)}, e)
	return fresh.count
}

// receiveStatusBits finds changes of a mapping's bits. What was never heard of is as the
// mapping says (R).
// A change within the interval is not lost: it is still one when the interval is over.
func (x *XTR) receiveStatusBits(o *Outcome, e *Encapsulated, known *Entry, now time.Time) {
	room := uint32(32)
	if e.LISP.Instance {
		room = 8
	}
	mask := uint32(1)<<min(len(known.Locators), int(room)) - 1 // of 32 locators: all bits
	key := watchKey{kind: HintStatusBits, instance: e.Instance, about: known.Prefix}
	last, found := x.Memory.watch[key]
	were, bits := StatusBits(known.Locators)&mask, e.LISP.StatusBits&mask
	if found {
		were = last.value & mask
	}
	if bits == were && !last.anew || found && now.Sub(last.raised) < x.Trusted.HintInterval {
		return
	}
	x.Memory.note(key, watched{raised: now, value: bits})
	o.hint(Hint{Kind: HintStatusBits, Value: bits, Other: room}, e)
}

// glean tells by which RLOC an inner source without mapping sends (RFC 9300 s.9).
func (x *XTR) glean(o *Outcome, e *Encapsulated, now time.Time) {
	source := e.Header.Source
	key := watchKey{kind: HintGleaned, instance: e.Instance, about: netip.PrefixFrom(source, source.BitLen())}
	if last, found := x.Memory.watch[key]; found && now.Sub(last.raised) < x.Trusted.HintInterval {
		return
	}
	x.Memory.note(key, watched{raised: now})
	o.hint(Hint{Kind: HintGleaned}, e)
}

func (x *XTR) receiveEcho(o *Outcome, e *Encapsulated, now time.Time) {
	peer := x.Memory.Peer(e.Outer.Source, e.LISP.NoncePresent && e.LISP.EchoNonce)
	if peer == nil {
		return
	}
	asked := peer.Requested
	switch peer.Receive(now, e.LISP.Nonce, e.LISP.NoncePresent, e.LISP.EchoNonce, x.Trusted.Echo) {
	case EchoReturned:
		o.Notes |= NoteEchoReceived
	case EchoMissing:
		o.Notes |= NoteEchoMissing
		o.hint(Hint{Kind: HintEchoMissing, Value: asked, Other: e.LISP.Nonce}, e)
	}
}

func (o *Outcome) hint(h Hint, e *Encapsulated) {
	h.Instance, h.Source, h.Destination, h.RLOC = e.Instance, e.Header.Source, e.Header.Destination, e.Outer.Source
	o.Hints = append(o.Hints, h)
}

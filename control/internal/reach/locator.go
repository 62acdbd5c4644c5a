// SPDX-License-Identifier: Apache-2.0

package reach

// One row of the table of locators: an RLOC of the map-cache, its state and its RLOC-probes.

import (
	"slices"
	"time"

	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/timing"
	"loci/lisp"
)

// Locator is what the ITR knows about one RLOC.
type Locator struct {
	RLOC      lisp.RLOC
	Prefix    lisp.Prefix    // one of the mappings with this RLOC, for probes to name
	entry     uint32         // where in the map-cache that one was last
	sites     [2]lisp.Prefix // of the mappings with this RLOC, the last used of IPv4 and of other EIDs
	mappings  int            // of the map-cache with this RLOC
	paths     int            // that have it as a hop and watch it
	peer      bool           // of the configuration: it is probed though no mapping names it
	asHop     hopNote        // as those paths know it
	usedAt    timing.Instant // when one of them last forwarded, or was installed
	State     effect.LocatorState
	reason    effect.LocatorReason
	changedAt timing.Instant
	Told      effect.LocatorState // by the data plane: LocatorUp where it was told nothing
	certain   bool                // it was told anything by this run

	private   []privateUse // EID-Prefixes that have it beside an RTR, where it is private
	proven    bool         // it answered at least once
	downs     int          // falls within flapMemory of each other
	downAt    timing.Instant
	heldUntil timing.Instant // not up before
	answers   int            // in a row, since it fell
	alone     int            // mappings in which no other locator may be used
	loweredBy []lisp.Prefix  // mappings whose Locator-Status-Bits hold it down
	loweredAt timing.Instant // when the last of them did
	SentAt    timing.Instant // when packets were last sent that were for it, or for another one of its priority
	heardAt   timing.Instant // when packets last came from it
	silence   timing.Instant // heardAt when it was last probed for being silent since

	Probes probeState
	trips  RoundTrips
}

// serves notes that a mapping with this RLOC is in use.
func (l *Locator) serves(p lisp.Prefix) { l.sites[siteIndex(p)] = p }

// isNamed reports whether a mapping or a path has the row.
func (l *Locator) isNamed() bool { return l.mappings > 0 || l.paths > 0 }

// isNeeded reports whether it is of use.
func (l *Locator) isNeeded() bool { return l.isNamed() || l.peer }

// isFallen reports whether a locator is unconfirmed or down.
func (l *Locator) isFallen() bool {
	return l.State == effect.LocatorUnconfirmed || l.State == effect.LocatorDown
}

func siteIndex(p lisp.Prefix) int {
	if p.Kind() == lisp.EIDIPv4 {
		return 0
	}
	return 1
}

// hinted reports whether a hint, and not the lack of answers, holds the locator down.
func (l *Locator) hinted() bool {
	return l.State == effect.LocatorDown && (l.reason == effect.LocatorUnreachable || l.reason == effect.LocatorNonceMismatch)
}

// isSilent reports whether packets were sent to a locator for a while since it was last heard from, which was in
// the state that it has, and it was not probed for that yet.
func (l *Locator) isSilent() bool {
	return !l.isFallen() && l.heardAt > l.changedAt && l.silence != l.heardAt && l.SentAt-l.heardAt >= timing.Instant(LongSilence)
}

const (
	// LongSilence is for how long packets are sent to a locator that was heard from, and nothing comes from
	// it, before it is probed.
	LongSilence = 2 * time.Second
)

// ProbeNonces is how many unanswered probes of a locator may still be answered.
const ProbeNonces = 4

// probeState is the probes of one locator.
type probeState struct {
	askedProbes
	unanswered     int // probes since the last answer
	sent, answered uint64
	sentAt         timing.Instant
	answeredAt     timing.Instant
	Differing      lisp.LocatorSet // of an answer, asked about already
	cursor         uint32          // of the search for a mapping
	Renewal        Renewal
}

// askedProbes are the last RLOC-probes about one EID-Prefix.
type askedProbes struct {
	nonces  [ProbeNonces]uint64 // 0 for none
	sentAts [ProbeNonces]timing.Instant
	next    int // where the next nonce goes
}

func (s *askedProbes) sentAtOf(nonce uint64) timing.Instant {
	return s.sentAts[max(slices.Index(s.nonces[:], nonce), 0)]
}

func (s *askedProbes) has(nonce uint64) bool {
	return nonce != 0 && slices.Contains(s.nonces[:], nonce)
}

// forget lets no further answer count.
func (s *askedProbes) forget(byNonce map[uint64]uint32) {
	for i, nonce := range s.nonces {
		if nonce != 0 {
			delete(byNonce, nonce)
			s.nonces[i] = 0
		}
	}
}

func (l *Locator) forgetNonces(byNonce map[uint64]uint32) {
	l.Probes.forget(byNonce)
	for i := range l.private {
		l.private[i].asked.forget(byNonce)
	}
}

// AskedAt is when the last one was sent, 0 for never.
func (s *probeState) AskedAt() timing.Instant { return s.sentAt }

// Renewal is when the mapping of a locator is asked for again.
type Renewal struct {
	Prefix lisp.Prefix
	In     uint8 // RLOC-probes
	Gap    uint8
}

// EntryIn is the entry of the locator's mapping. It mostly stands where it stood before.
func (l *Locator) EntryIn(cached *mapcache.Cache) (*mapcache.Entry, bool) {
	if int(l.entry) < cached.Entries.Len() {
		if e := cached.Entries.At(l.entry); e.Mapping.Prefix == l.Prefix && !l.Prefix.IsZero() {
			return e, true
		}
	}
	id, e, ok := cached.Get(l.Prefix)
	l.entry = id
	return e, ok
}

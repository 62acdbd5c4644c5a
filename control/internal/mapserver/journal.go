// SPDX-License-Identifier: Apache-2.0

package mapserver

// The Map-Server's journal: what has to outlive a restart (RFC 9301 s.5.6: the last nonces,
// so that no replay is taken; s.8.2: the registrations), as octets that somebody else
// stores in order. An entry is one Map-Register that was taken, every entry absolute: to
// repeat one does no harm. Each has its length and a checksum, so that damage costs no more
// than the entries that it is in. A checkpoint says everything again, a piece a turn, between
// what goes on; what was said before it began is not needed any more once it ended. This
// file stores nothing and reads no clock.

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"time"

	"loci/control/internal/effect"
	"loci/control/internal/locatorset"
	"loci/control/internal/message"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// CheckpointRows and CheckpointNonces bound one piece of a checkpoint.
	CheckpointRows   = 256
	CheckpointNonces = 256 // nonces
	// checkpointOctets are enough for most pieces.
	checkpointOctets = 32 << 10
	// checkpointPause leaves the loop to others between two pieces.
	checkpointPause = time.Millisecond
	// journalClock is by how much times may be off that were said before the clock was set.
	journalClock = 5 * time.Second
	// maxEntryRecords fits 16 bits, and bounds what one entry makes the reader keep.
	maxEntryRecords = 4096
)

// An entry is entryMark, the length of what follows the checksum, its checksum (CRC-32C), the number of the entry's first record, and the
// rest. Records are numbered from one run to the next, so that who reads can tell how many are missing.
const (
	entryMark       = 0xa2 // another number is another format
	entryLengthAt   = 1
	entryChecksumAt = 5
	EntryBodyAt     = 9
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The flags of an entry.
const (
	entryProxyReply = 1 << iota
	entryUseTTL
	entryMergeRequest
	entryWantMapNotify
	entryXTRID
	entryFromIPv6
	entryNonce
)

const recordAuthoritative = 0x80 // beside the action

// journal collects what a turn has to say.
type journal struct {
	h        *system.System
	on       bool
	set      time.Duration // by how much the clock had been set when it began to say everything
	pending  effect.Journal
	open     *entryHead // the entry at the end of pending that may get more records
	head     entryHead
	entryAt  int  // where in pending the last entry begins
	unsealed bool // it has neither length nor checksum yet
	serial   uint32
	countAt  int
	count    int
	Timers   timing.Deadlines // one row: the next piece of a checkpoint
	row      uint32           // where the checkpoint is
	site     int
	nonce    int // of the site
	rowsDone bool
	read     journalRead
}

// entryHead is what all records of an entry share.
type entryHead struct {
	site   string
	xtr    XTR
	lastAt timing.Instant
	nonce  SeenNonce
	known  bool // nonce counts
}

// Poll takes what there is to store.
func (j *journal) Poll() (effect.Effect, bool) {
	if len(j.pending.Octets) == 0 && !j.pending.Begin && !j.pending.End {
		return nil, false
	}
	j.seal()
	e := j.pending
	j.pending, j.open = effect.Journal{}, nil
	return e, true
}

// seal ends the last entry: nothing is added to it any more.
func (j *journal) seal() {
	if j.unsealed {
		SealEntry(j.pending.Octets[j.entryAt:])
	}
	j.unsealed, j.open = false, nil
}

// SealEntry writes length and checksum of an entry.
func SealEntry(entry []byte) {
	body := entry[EntryBodyAt:]
	binary.BigEndian.PutUint32(entry[entryLengthAt:], uint32(len(body)))
	binary.BigEndian.PutUint32(entry[entryChecksumAt:], crc32.Checksum(body, castagnoli))
}

// entry begins an entry.
func (j *journal) entry(h entryHead) {
	j.seal()
	j.entryAt, j.unsealed = len(j.pending.Octets), true
	x := &h.xtr
	flags := locatorset.Bit(x.ProxyReply, entryProxyReply) | locatorset.Bit(x.useTTL, entryUseTTL) | locatorset.Bit(x.mergeRequest, entryMergeRequest) |
		locatorset.Bit(x.wantMapNotify, entryWantMapNotify) | locatorset.Bit(!x.ID.source.IsValid(), entryXTRID) |
		locatorset.Bit(!x.From.Addr().Is4(), entryFromIPv6) | locatorset.Bit(h.known, entryNonce)
	b := append(j.pending.Octets, entryMark, 0, 0, 0, 0, 0, 0, 0, 0)
	b = append(binary.BigEndian.AppendUint32(b, j.serial), flags)
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.site)))
	b = append(append(b, h.site...), x.keyID, x.algorithm, x.macOctets)
	b = append(b, x.ID.XTRID[:]...)
	b = binary.BigEndian.AppendUint64(b, x.ID.siteID)
	b = append(b, x.From.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, x.From.Port())
	b = j.appendTime(b, h.lastAt)
	if h.known {
		b = binary.BigEndian.AppendUint64(b, h.nonce.Nonce)
		b = append(b, h.nonce.mac[:]...)
	}
	j.head, j.countAt, j.count = h, len(b), 0
	j.open = &j.head
	j.pending.Octets = append(b, 0, 0)
}

// record adds what was registered for an EID-Prefix to the entry, and for how long from
// when the xTR registered last; 0 says that it was withdrawn.
func (j *journal) record(m lisp.Mapping, firstAt timing.Instant, lifetime time.Duration) {
	b := binary.BigEndian.AppendUint32(j.pending.Octets, uint32(m.Prefix.Instance()))
	octets := len(b) + 2
	b = append(b, uint8(m.Prefix.Kind()), uint8(m.Prefix.Bits()), 0)
	b = m.Prefix.EID().AppendOctets(b)
	b[octets] = uint8(len(b) - octets - 1)
	b = j.appendTime(b, firstAt)
	b = binary.BigEndian.AppendUint64(b, uint64(lifetime))
	b = binary.BigEndian.AppendUint32(b, m.TTLMinutes)
	b = binary.BigEndian.AppendUint16(b, m.Version)
	b = append(b, uint8(m.Action)|locatorset.Bit(m.Authoritative, recordAuthoritative))
	j.pending.Octets = locatorset.AppendLocators(b, m.Locators)
	j.count++
	j.serial++
	binary.BigEndian.PutUint16(j.pending.Octets[j.countAt:], uint16(j.count))
}

// continues reports whether a record of that head can go into the entry before.
func (j *journal) continues(h entryHead) bool {
	return j.open != nil && *j.open == h && j.count < maxEntryRecords
}

// appendTime appends an instant as nanoseconds since 1970, which outlive the process; 0
// for none.
func (j *journal) appendTime(b []byte, i timing.Instant) []byte {
	if i == 0 {
		return binary.BigEndian.AppendUint64(b, 0)
	}
	return binary.BigEndian.AppendUint64(b, uint64(j.h.Wall.UnixNano()-int64(j.h.Now-i)))
}

// Checkpoint begins to say everything again.
func (j *journal) Checkpoint() {
	if !j.on {
		return
	}
	j.pending = effect.Journal{Octets: j.pending.Octets, Begin: true} // what is pending is said again, or after
	j.open, j.row, j.site, j.nonce, j.rowsDone, j.set = nil, 0, 0, 0, false, j.h.Set
	j.Timers.Set(0, j.h.Now)
}

// HandleCheckpoint says a piece.
func (s *MapServer) HandleCheckpoint(uint32) {
	j := &s.Journal
	j.open = nil
	if cap(j.pending.Octets) == 0 {
		j.pending.Octets = make([]byte, 0, checkpointOctets)
	}
	if !j.rowsDone {
		end := min(j.row+CheckpointRows, uint32(s.Registrations.Rows.Len()))
		for ; j.row < end; j.row++ {
			s.journalRow(s.Registrations.Rows.At(j.row))
		}
		j.rowsDone = j.row >= uint32(s.Registrations.Rows.Len())
	} else {
		s.journalNonces()
	}
	if j.rowsDone && j.site >= len(s.Registrations.Sites.Numbered) {
		j.pending.End = true
		return
	}
	j.Timers.Set(0, j.h.After(checkpointPause))
}

// journalRow says who registered an EID-Prefix, in the order in which they did.
func (s *MapServer) journalRow(row *Registration) {
	if row.Prefix.IsZero() {
		return // a free row
	}
	var few [4]*Registrant
	for _, r := range slices.Backward(s.Registrations.appendEach(few[:0], row)) {
		s.journalRegistrant(row, r, time.Duration(r.ExpiresAt-r.LastAt))
	}
}

func (s *MapServer) journalRegistrant(row *Registration, r *Registrant, lifetime time.Duration) {
	h := entryHead{site: s.Registrations.SiteOf(row).Config.Name, xtr: *s.Registrations.Xtrs.At(r.XTR), lastAt: r.LastAt}
	if !s.Journal.continues(h) {
		s.Journal.entry(h)
	}
	s.Journal.record(s.Registrations.mapping(row.Prefix, r.Content), r.FirstAt, lifetime)
}

// journalNonces says some of the last nonces.
func (s *MapServer) journalNonces() {
	j, sites := &s.Journal, s.Registrations.Sites.Numbered
	for said := 0; said < CheckpointNonces && j.site < len(sites); said++ {
		site := sites[j.site]
		if site == nil || j.nonce >= len(site.nonceKeys) {
			j.site, j.nonce = j.site+1, 0
			continue
		}
		k := site.nonceKeys[j.nonce]
		j.nonce++
		j.nonceOf(site, k)
		if inUse, left := site.leftFor(k); left {
			j.nonceOf(site, inUse) // who reads takes the last key for the one in use
		}
	}
}

func (j *journal) nonceOf(site *siteState, k NonceKey) {
	x := XTR{ID: RegistrantID{XTRID: k.XTRID, siteID: k.SiteID}, keyID: k.KeyID, From: unspecified}
	j.entry(entryHead{site: site.Config.Name, xtr: x, nonce: site.Nonces[k], known: true})
}

// journalRegister says what a Map-Register that was taken has left.
func (s *MapServer) journalRegister(site *siteState, m *message.MapRegister, x XTR) {
	j := &s.Journal
	if !j.on {
		return
	}
	if (s.h.Set - j.set).Abs() > journalClock {
		j.Checkpoint() // or a restart would take what is said for old, or new
	}
	j.entry(entryHead{site: site.Config.Name, xtr: x, lastAt: s.h.Now, nonce: seenOf(m), known: !site.Config.AcceptAnyNonce})
	for i := range m.Mappings {
		mapping := &m.Mappings[i]
		firstAt, lifetime := timing.Instant(0), time.Duration(0)
		if mapping.TTLMinutes > 0 {
			lifetime = s.lifetime(m.UseTTL, mapping.TTLMinutes)
			if _, row, ok := s.Registrations.Get(mapping.Prefix); ok && row.newest != noRow {
				firstAt = s.Registrations.Registrants.At(row.newest).FirstAt
			}
		}
		j.record(*mapping, firstAt, lifetime)
	}
}

// SPDX-License-Identifier: Apache-2.0

package mapserver

// The Map-Server's journal: what has to outlive a restart (RFC 9301 s.5.6: the last nonces,
// so that no replay is taken; s.8.2: the registrations), as octets that the caller
// stores in order. An entry is one Map-Register that was taken, every entry absolute: to
// repeat one does no harm. Each has its length and a checksum, so that damage costs no more
// than the entries that it is in. A checkpoint says everything again, a piece per event-loop iteration, between
// what goes on; what was said before it began is not needed any more once it ended. This
// file stores nothing and reads no clock.

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"time"

	"loci/control/internal/batch"
	"loci/control/internal/effect"
	"loci/control/internal/locatorset"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// CheckpointBatch bounds the rows, or the nonces, of one piece of a checkpoint.
	CheckpointBatch = 256
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

// unspecified is the source address of entries that have none.
var unspecified = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)

// journal collects what an event-loop iteration has to say.
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
	Work     batch.Work // the next batch of a checkpoint
	row      uint32     // where the checkpoint is
	site     int
	nonce    int // of the site
	rowsDone bool
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
	j.Work.At(j.h.Now)
}

func (j *journal) nonceOf(site *siteState, k NonceKey) {
	x := XTR{ID: RegistrantID{XTRID: k.XTRID, siteID: k.SiteID}, keyID: k.KeyID, From: unspecified}
	j.entry(entryHead{site: site.Config.Name, xtr: x, nonce: site.Nonces[k], known: true})
}

// journalRead is how far the journal was read.
type journalRead struct {
	next    uint32 // number of the record that should come next
	known   bool   // it counts
	damaged bool   // something was left out since the last whole entry
}

// missingBefore returns how many records were lost before an entry, whose first one's number is given.
func (r *journalRead) missingBefore(first uint32) (missing int) {
	if r.known && r.damaged {
		missing = max(int(int32(first-r.next)), 0)
	}
	r.next, r.known, r.damaged = first, true, false
	return missing
}

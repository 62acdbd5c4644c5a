// SPDX-License-Identifier: Apache-2.0

package mapserver

// Reading the journal back at a start. Total: any octets give entries or an error. What the
// configuration does not allow any more, and what has expired, is not taken. Authentication
// was checked when it was written; who can write the journal owns the Map-Server.

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"

	"loci/control/internal/locatorset"
	"loci/control/internal/message"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

var (
	errJournalEnds     = errors.New("the journal ends inside an entry")
	errJournalChecksum = errors.New("the checksum of an entry is wrong")
	errJournalLonger   = errors.New("an entry is longer than its records")
	errJournalGap      = errors.New("entries before this one are missing")
)

// ReplayAhead is how many records of an entry are read before the first of them is taken over: what they need of a table
// of a million rows, the processor fetches for all of them at once.
const ReplayAhead = 64

// journalReader reads entries.
type journalReader struct {
	locatorset.Reader
	h *system.System

	records [ReplayAhead]replayed
	set     lisp.LocatorSet                       // read last,
	setAs   []byte                                // from these octets
	owners  [lisp.EIDName + 1]message.OwnedPrefix // found last, of each kind of EID
}

// replayed is a record of an entry.
type replayed struct {
	mapping  lisp.Mapping
	firstAt  timing.Instant
	lifetime timing.Instant
}

// time reads a time, not later than latest; 0 is none.
func (r *journalReader) time(latest timing.Instant) timing.Instant {
	nanoseconds := int64(r.U64())
	if nanoseconds == 0 {
		return 0
	}
	age := r.h.Wall.UnixNano() - nanoseconds // wraps for nonsense, which min and max then bound
	return max(min(r.h.Now-timing.Instant(age), latest), 1-timing.Instant(lisp.MaxLifetime))
}

// locators reads a locator-set, mostly the one that it read last: no set's octets begin like another's.
func (r *journalReader) locators() (lisp.LocatorSet, error) {
	if len(r.setAs) > 0 && bytes.HasPrefix(r.Octets, r.setAs) {
		r.Octets = r.Octets[len(r.setAs):]
		return r.set, nil
	}
	from := r.Octets
	set, err := r.Locators()
	if err != nil || r.Short {
		return set, err
	}
	r.set, r.setAs = set, from[:len(from)-len(r.Octets)]
	return set, nil
}

func (r *journalReader) prefix() (lisp.Prefix, error) {
	instance, kind, bits := lisp.InstanceID(r.U32()), lisp.EIDKind(r.U8()), int(r.U8())
	octets := r.Take(int(r.U8()))
	var e lisp.EID
	switch {
	case kind == lisp.EIDIPv4 && len(octets) == 4:
		e = lisp.EIDFromAddr(netip.AddrFrom4([4]byte(octets)))
	case kind == lisp.EIDIPv6 && len(octets) == 16:
		e = lisp.EIDFromAddr(netip.AddrFrom16([16]byte(octets)))
	case kind == lisp.EIDMAC && len(octets) == 6:
		e = lisp.EIDFromMAC([6]byte(octets))
	case kind == lisp.EIDName:
		name, err := lisp.EIDFromName(string(octets))
		if err != nil {
			return lisp.Prefix{}, err
		}
		e = name
	default:
		return lisp.Prefix{}, fmt.Errorf("EID of kind %d in %d octets", kind, len(octets))
	}
	return lisp.PrefixFrom(instance, e, bits)
}

// JournalDamage tells what of a piece of the journal could not be taken over.
type JournalDamage struct {
	Octets  int // that are in no whole entry
	Records int // that are known to be missing, before this piece too; there may be more at the journal's end
	Reason  error
}

func (d *JournalDamage) Error() string {
	return fmt.Sprintf("%d octets of the journal are damaged, %d records are missing: %v", d.Octets, d.Records, d.Reason)
}

// Unwrap returns the reason.
func (d *JournalDamage) Unwrap() error { return d.Reason }

// wholeEntry returns what the first entry holds, without mark, length and checksum.
func wholeEntry(octets []byte) (body []byte, err error) {
	if octets[0] != entryMark {
		return nil, fmt.Errorf("an entry begins with 0x%02x: want 0x%02x", octets[0], entryMark)
	}
	if len(octets) < EntryBodyAt+4 {
		return nil, errJournalEnds
	}
	length := binary.BigEndian.Uint32(octets[entryLengthAt:])
	if uint64(length) > uint64(len(octets)-EntryBodyAt) {
		return nil, errJournalEnds
	}
	body = octets[EntryBodyAt:][:length]
	if len(body) < 4 || crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(octets[entryChecksumAt:]) {
		return nil, errJournalChecksum
	}
	return body, nil
}

// nextWholeEntry returns where the next one begins, or the end.
func nextWholeEntry(octets []byte) int {
	for at := 0; ; at++ {
		next := bytes.IndexByte(octets[at:], entryMark)
		if next < 0 {
			return len(octets)
		}
		at += next
		if _, err := wholeEntry(octets[at:]); err == nil {
			return at
		}
	}
}

// readRecords reads so many records, up to one that is malformed.
func (r *journalReader) readRecords(count int, latest timing.Instant) (batch []replayed, err error) {
	for i := range count {
		if r.records[i], err = r.record(latest); err != nil {
			return r.records[:i], err
		}
	}
	return r.records[:count], nil
}

func (r *journalReader) record(latest timing.Instant) (replayed, error) {
	prefix, err := r.prefix()
	firstAt, lifetime := r.time(latest), min(r.U64(), uint64(lisp.MaxLifetime))
	m := lisp.Mapping{Prefix: prefix, TTLMinutes: r.U32(), Version: r.U16()}
	flags := r.U8()
	m.Action, m.Authoritative = lisp.Action(flags&^recordAuthoritative), flags&recordAuthoritative != 0
	locators, locatorsErr := r.locators()
	switch m.Locators = locators; {
	case r.Short:
		return replayed{}, errJournalEnds
	case err != nil || locatorsErr != nil:
		return replayed{}, fmt.Errorf("an entry of the journal: %w", cmp.Or(err, locatorsErr))
	}
	return replayed{mapping: m, firstAt: firstAt, lifetime: timing.Instant(lifetime)}, nil
}

// SPDX-License-Identifier: Apache-2.0

package mapserver

// Taking over the journal of an earlier run. What is not allowed any more, or has expired, is left out.

import (
	"cmp"
	"net/netip"

	"loci/control/internal/counter"
	"loci/control/internal/locatorset"
	"loci/control/internal/message"
	"loci/control/internal/system"
	"loci/lisp"
)

// replay takes over a journal for a Map-Server that begins, and knows what was missing in it. The journal that is
// written goes on where this one ends.
type replay struct {
	h             *system.System
	owners        *owners
	registrations *Registrations
	refusals      *refusals
	journal       *journal
	read          journalRead
}

// ReplayJournal takes over pieces of a journal; the error is a *JournalDamage.
func (s *MapServer) ReplayJournal(octets []byte) error {
	var damage JournalDamage
	for len(octets) > 0 {
		size, err := s.replay.replayFirst(octets, &damage)
		if err != nil {
			damage.Reason = cmp.Or(damage.Reason, err)
			damage.Octets += size
			s.replay.read.damaged = true
		}
		octets = octets[size:]
	}
	if damage.Octets == 0 && damage.Records == 0 {
		return nil
	}
	damage.Reason = cmp.Or(damage.Reason, errJournalGap)
	return &damage
}

// replayFirst takes over the first entry and returns its length. Where that is not whole, it is the octets up to the
// next one that is, or to the end.
func (y *replay) replayFirst(octets []byte, damage *JournalDamage) (size int, err error) {
	body, err := wholeEntry(octets)
	if err != nil {
		return 1 + nextWholeEntry(octets[1:]), err
	}
	size = EntryBodyAt + len(body)
	r := &journalReader{h: y.h, Reader: locatorset.Reader{Octets: body}}
	damage.Records += y.read.missingBefore(r.U32())
	records, err := y.entry(r)
	if err == nil && len(r.Octets) > 0 {
		err = errJournalLonger
	}
	if err != nil {
		return size, err
	}
	read := &y.read
	read.next += uint32(records)
	y.journal.serial = read.next
	return size, nil
}

// entry takes over one entry and returns how many records it has.
func (y *replay) entry(r *journalReader) (records int, err error) {
	flags := r.U8()
	name := r.Take(int(r.U16()))
	x := XTR{
		ProxyReply: flags&entryProxyReply != 0, useTTL: flags&entryUseTTL != 0, mergeRequest: flags&entryMergeRequest != 0,
		wantMapNotify: flags&entryWantMapNotify != 0, keyID: r.U8(), algorithm: r.U8(), macOctets: r.U8(),
	}
	x.ID.XTRID = [16]byte(r.Take(16))
	x.ID.siteID = r.U64()
	from := r.Addr(flags&entryFromIPv6 != 0)
	x.From = netip.AddrPortFrom(from, r.U16())
	if flags&entryXTRID == 0 {
		x.ID.source = from
	}
	lastAt := r.time(y.h.Now)
	site := y.registrations.Sites.Named(string(name))
	if flags&entryNonce != 0 {
		seen := SeenNonce{Nonce: r.U64(), mac: [16]byte(r.Take(16))}
		y.replayNonce(site, NonceKey{XTRID: x.ID.XTRID, SiteID: x.ID.siteID, KeyID: x.keyID}, seen, r.Short)
	}
	records = int(r.U16())
	if !r.Short {
		y.refusals.registered(from, lastAt)
	}
	id := y.registrations.Xtrs.Acquire(x)
	defer y.registrations.Xtrs.Release(id)
	for count := records; count > 0; {
		batch, err := r.readRecords(min(count, ReplayAhead), lastAt)
		if site != nil {
			y.replayRecords(r, batch, site, Registrant{XTR: id, LastAt: lastAt})
		}
		if err != nil {
			return records, err
		}
		count -= len(batch)
	}
	if r.Short {
		return records, errJournalEnds
	}
	return records, nil
}

func (y *replay) replayNonce(site *siteState, key NonceKey, seen SeenNonce, short bool) {
	if site == nil || short {
		return
	}
	last, known := site.Nonces[key]
	if known && last.Nonce <= seen.Nonce || !known && len(site.Nonces) < y.h.Limits.ReplayEntriesPerSite {
		site.Saw(key, seen)
	}
}

// replayRecords takes over records of one xTR.
func (y *replay) replayRecords(r *journalReader, batch []replayed, site *siteState, who Registrant) {
	for i := range batch {
		record := &batch[i]
		who.FirstAt, who.ExpiresAt = record.firstAt, who.LastAt+record.lifetime
		y.replayRecord(r, record.mapping, site, who)
	}
}

// replayRecord takes over one record.
func (y *replay) replayRecord(r *journalReader, m lisp.Mapping, site *siteState, who Registrant) {
	id, at := y.registrations.Xtrs.At(who.XTR).ID, y.registrations.PlaceOf(m.Prefix)
	if who.ExpiresAt <= y.h.Now || !y.ownerAllows(r, m.Prefix, site) {
		y.registrations.removeAt(at, id)
		return
	}
	if reason := y.noRoom(m.Prefix, at, site, id); reason != nil {
		y.h.Count(reason.Reason)
		return
	}
	y.registrations.Put(at, site, m, who)
}

// ownerAllows is allows for EID-Prefixes that mostly lie in the same configured one.
func (y *replay) ownerAllows(r *journalReader, p lisp.Prefix, site *siteState) bool {
	last := &r.owners[p.Kind()]
	if last.Wide || last.Prefix.IsZero() || !last.Prefix.Covers(p) {
		_, owner, ok := y.owners.Prefixes.Longest(p)
		if !ok {
			return false
		}
		*last = owner
	}
	return (last.Prefix == p || last.MoreSpecifics) && y.owners.siteAt(*last) == site
}

// noRoom says which limit stands against one more record; limits may have become smaller.
func (y *replay) noRoom(p lisp.Prefix, at Place, site *siteState, who RegistrantID) *message.Refusal {
	switch {
	case !at.known:
		return y.registrations.checkSizes(&y.h.Limits, site, 1)
	case y.registrations.find(at.row, who) == nil && y.registrations.Count(at.row) >= y.h.Limits.RegistrantsPerPrefix:
		return message.Refuse(counter.RefusedRegistrants, "%s", p)
	}
	return nil
}

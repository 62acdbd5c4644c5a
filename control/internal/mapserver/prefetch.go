// SPDX-License-Identifier: Apache-2.0

package mapserver

// Looking ahead: what Map-Requests that came together ask for is looked up for all of them before
// the first is handled. In a table of a million each lookup waits for memory several times; one
// right after the other, the processor does much of the waiting at once. Where registrations are
// found by hash (rowhash.go), buckets are fetched for all, then rows, then who registered. No answer
// depends on it: what was prefetched counts only while the table is as it was.

import (
	"loci/control/internal/message"
	"loci/lisp"
)

// maxAhead bounds what is read ahead, in lookups of one mask length.
const maxAhead = 128

// Prefetch has the processor fetch where the row's number is, or looks the row up where that is not known by hash.
func (t *Registrations) Prefetch(m *message.MapRequest) {
	lengths, ok := t.Exact.lengthsFor(&m.Prefixes[0])
	if !ok {
		t.lookUpAhead(m)
		return
	}
	if len(t.Awaited)+len(lengths) > maxAhead {
		return
	}
	for _, length := range lengths {
		_, hash := covering(&m.Prefixes[0], length)
		t.touched += t.Exact.touch(hash)
		t.Awaited = append(t.Awaited, prefetch{m, hash})
	}
}

// FinishPrefetch has the processor fetch the rows, and looks ahead for each message.
func (t *Registrations) FinishPrefetch() {
	for _, c := range t.Awaited {
		t.touched += t.Exact.touchRow(&t.Rows, c.hash)
	}
	var last *message.MapRequest
	for _, c := range t.Awaited {
		if c.m != last {
			t.lookUpAhead(c.m)
		}
		last = c.m
	}
	clear(t.Awaited)
	t.Awaited = t.Awaited[:0]
}

// lookUpAhead looks up what is asked for, and reads who registered it last where the Map-Server does not answer itself.
func (t *Registrations) lookUpAhead(m *message.MapRequest) {
	row, ok := t.Lookup(&m.Prefixes[0])
	m.Prefetched = message.Prefetched{Edits: t.Edits, Row: row, Ok: ok}
	if !ok {
		return
	}
	if r := t.Rows.At(row); !r.proxyReply && r.newest != noRow {
		t.touched += t.Registrants.At(r.newest).XTR
	}
}

// nearest is the registration that covers what is asked for most closely.
func (t *Registrations) nearest(asked lisp.Prefix, known message.Prefetched) (row uint32, ok bool) {
	if known.Edits == t.Edits {
		return known.Row, known.Ok
	}
	return t.Lookup(&asked)
}

// comes has the processor fetch where the number of an EID-Prefix's row is, which is registered soon.
func (t *Registrations) prefetchBucket(p *lisp.Prefix) {
	hash := HashOf(p)
	t.touched += t.Exact.touch(hash)
	t.hashes = append(t.hashes, hash)
}

// come has it fetch the rows of all that comes said, and who registered.
func (t *Registrations) prefetchRows() {
	for i, hash := range t.hashes {
		t.hashes[i] = t.Exact.touchRow(&t.Rows, hash)
	}
	for _, newest := range t.hashes {
		if int(newest) < t.Registrants.Len() {
			t.touched += t.Registrants.At(newest).XTR
		}
	}
	t.hashes = t.hashes[:0]
}

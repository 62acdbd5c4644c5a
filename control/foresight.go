// SPDX-License-Identifier: Apache-2.0

package control

// Looking ahead: what Map-Requests that came together ask for is looked up for all of them before
// the first is handled. In a table of a million each lookup waits for memory several times; one
// right after the other, the processor does much of the waiting at once. Where registrations are
// found by hash (rowhash.go), buckets are fetched for all, then rows, then who registered. No answer
// depends on it: what was foreseen counts only while the table is as it was.

import "loci/lisp"

// maxAhead bounds what is read ahead, in lookups of one mask length.
const maxAhead = 128

// toCome is a lookup to come: of a Map-Request, and what may be found by which hash.
type toCome struct {
	m    *mapRequest
	hash uint32
}

// foresee has the processor fetch where the row's number is, or looks the row up where that is not known by hash.
func (t *registrations) foresee(m *mapRequest) {
	lengths, ok := t.exact.lengthsFor(&m.prefixes[0])
	if !ok {
		t.lookAhead(m)
		return
	}
	if len(t.toCome)+len(lengths) > maxAhead {
		return
	}
	for _, length := range lengths {
		_, hash := covering(&m.prefixes[0], length)
		t.touched += t.exact.touch(hash)
		t.toCome = append(t.toCome, toCome{m, hash})
	}
}

// bring has the processor fetch the rows, and looks ahead for each message.
func (t *registrations) bring() {
	for _, c := range t.toCome {
		t.touched += t.exact.touchRow(&t.rows, c.hash)
	}
	var last *mapRequest
	for _, c := range t.toCome {
		if c.m != last {
			t.lookAhead(c.m)
		}
		last = c.m
	}
	clear(t.toCome)
	t.toCome = t.toCome[:0]
}

// lookAhead looks up what is asked for, and reads who registered it last where the Map-Server does not answer itself.
func (t *registrations) lookAhead(m *mapRequest) {
	row, ok := t.lookup(&m.prefixes[0])
	m.foreseen = foreseen{edits: t.edits, row: row, ok: ok}
	if !ok {
		return
	}
	if r := t.rows.at(row); !r.proxyReply && r.newest != noRow {
		t.touched += t.registrants.at(r.newest).xtr
	}
}

// nearest is the registration that covers what is asked for most closely.
func (t *registrations) nearest(asked lisp.Prefix, known foreseen) (row uint32, ok bool) {
	if known.edits == t.edits {
		return known.row, known.ok
	}
	return t.lookup(&asked)
}

// comes has the processor fetch where the number of an EID-Prefix's row is, which is registered soon.
func (t *registrations) comes(p *lisp.Prefix) {
	hash := hashOf(p)
	t.touched += t.exact.touch(hash)
	t.coming = append(t.coming, hash)
}

// come has it fetch the rows of all that comes said, and who registered.
func (t *registrations) come() {
	for i, hash := range t.coming {
		t.coming[i] = t.exact.touchRow(&t.rows, hash)
	}
	for _, newest := range t.coming {
		if int(newest) < t.registrants.len() {
			t.touched += t.registrants.at(newest).xtr
		}
	}
	t.coming = t.coming[:0]
}

// SPDX-License-Identifier: Apache-2.0

package control

// Looking ahead: what Map-Requests that came together ask for is looked up for all of them before
// the first is handled. In a table of a million each lookup waits for memory several times; one
// right after the other, the processor does much of the waiting at once. No answer depends on it:
// what was foreseen counts only while the table is as it was.

import "loci/lisp"

// maxAhead bounds what is read ahead.
const maxAhead = 64

// foreseen is a lookup that was made ahead.
type foreseen struct {
	edits uint64 // of the table until then
	row   uint32
	ok    bool
}

// Foresee looks up what a message will need. Call it for the messages of a batch, then
// HandleReceived for each. It has no effect but on how long those take.
func (n *Node) Foresee(r Received) {
	if m, ok := r.message.(*mapRequest); ok && n.mapServer != nil && m.ecm != nil && len(m.prefixes) == 1 {
		m.foreseen = n.mapServer.registrations.foresee(m.prefixes[0])
	}
}

// bring makes use of what was foreseen, if anything was.
func (n *Node) bring() {
	if n.mapServer != nil && len(n.mapServer.registrations.ahead) > 0 {
		n.mapServer.registrations.bring()
	}
}

func (t *registrations) foresee(asked lisp.Prefix) foreseen {
	row, ok := t.index.lookup(asked)
	if ok && len(t.ahead) < maxAhead {
		t.ahead = append(t.ahead, row)
	}
	return foreseen{edits: t.edits, row: row, ok: ok}
}

// bring reads the rows that were foreseen, and who registered last where the Map-Server does not
// answer itself, so that all of it is in the processor's cache.
func (t *registrations) bring() {
	for _, row := range t.ahead {
		t.touched += uint32(t.rows.at(row).turn)
	}
	for _, row := range t.ahead {
		if r := t.rows.at(row); !r.proxyReply && r.newest != noRow {
			t.touched += t.registrants.at(r.newest).xtr
		}
	}
	t.ahead = t.ahead[:0]
}

// nearest is the registration that covers what is asked for most closely.
func (t *registrations) nearest(asked lisp.Prefix, ahead foreseen) (row uint32, ok bool) {
	if ahead.edits == t.edits {
		return ahead.row, ahead.ok
	}
	return t.index.lookup(asked)
}

// SPDX-License-Identifier: Apache-2.0

package control

// Looking ahead: what Map-Requests that came together ask for is looked up for all of them before
// the first is handled. In a table of a million each lookup waits for memory several times; one
// right after the other, the processor does much of the waiting at once. No answer depends on it:
// what was foreseen counts only while the table is as it was.

import "loci/lisp"

// maxAhead bounds what is read ahead, in lookups of one mask length.
const maxAhead = 128

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
		n.mapServer.registrations.foresee(m)
	}
}

// bring makes use of what was foreseen, if anything was.
func (n *Node) bring() {
	if n.mapServer != nil && len(n.mapServer.registrations.ahead) > 0 {
		n.mapServer.registrations.bring()
	}
}

// ahead is a lookup to come: of a Map-Request, and what may be found by which hash.
type ahead struct {
	m    *mapRequest
	hash uint32
}

// foresee has the processor fetch where the row's number is.
func (t *registrations) foresee(m *mapRequest) {
	lengths, ok := t.exact.lengthsFor(&m.prefixes[0])
	if !ok || len(t.ahead)+len(lengths) > maxAhead {
		return
	}
	for _, length := range lengths {
		_, hash := covering(&m.prefixes[0], length)
		t.touched += t.exact.touch(hash)
		t.ahead = append(t.ahead, ahead{m, hash})
	}
}

// bring has the processor fetch the rows, looks them up, and reads who registered last where the Map-Server does not answer
// itself.
func (t *registrations) bring() {
	for _, a := range t.ahead {
		t.touched += t.exact.touchRow(&t.rows, a.hash)
	}
	for _, a := range t.ahead {
		row, ok := t.lookup(&a.m.prefixes[0])
		a.m.foreseen = foreseen{edits: t.edits, row: row, ok: ok}
		if !ok {
			continue
		}
		if r := t.rows.at(row); !r.proxyReply && r.newest != noRow {
			t.touched += t.registrants.at(r.newest).xtr
		}
	}
	clear(t.ahead)
	t.ahead = t.ahead[:0]
}

// nearest is the registration that covers what is asked for most closely.
func (t *registrations) nearest(asked lisp.Prefix, ahead foreseen) (row uint32, ok bool) {
	if ahead.edits == t.edits {
		return ahead.row, ahead.ok
	}
	return t.lookup(&asked)
}

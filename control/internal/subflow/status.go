// SPDX-License-Identifier: Apache-2.0

package subflow

// What is known of subflows, for `loci show`.

import (
	"loci/control/internal/status"
	"loci/lisp"
)

// pageRows bounds how many rows are looked at for a page.
const pageRows = 4096

// Size is how many subflows are known.
func (b *Binder) Size() int { return len(b.flows.byFlow) }

// Page is a part of the subflows, in no order: at most so many from where the last page ended, which is 0 at first.
// more is false after the last one.
func (b *Binder) Page(from uint32, most int) (page []status.Subflow, next uint32, more bool) {
	rows := uint32(b.flows.rows.Len())
	for next = from; next < rows && len(page) < most && next-from < pageRows; next++ {
		if r := b.flows.rows.At(next); r.flow.Protocol != 0 && r.state != expected {
			page = append(page, b.statusOf(r))
		}
	}
	return page, next, next < rows
}

// Of is what is known of one flow.
func (b *Binder) Of(f lisp.Flow) (status.Subflow, bool) {
	_, r, known := b.flows.get(f)
	if !known || r.state == expected {
		return status.Subflow{}, false
	}
	return b.statusOf(r), true
}

func (b *Binder) statusOf(r *row) status.Subflow {
	s := status.Subflow{Flow: r.flow, Path: r.path, Session: r.session, Why: r.why, OpenedAt: b.h.Time(r.openedAt)}
	s.State = map[state]status.SubflowState{opened: status.SubflowOpened, followed: status.SubflowEstablished,
		closing: status.SubflowClosing}[r.state]
	s.AnsweredBy = r.peer
	if r.heardAt != 0 {
		s.LastHeardAt = b.h.Time(r.heardAt)
	}
	if r.session != 0 {
		s.HasToken, s.Token = b.flows.session(r).hasToken, b.flows.session(r).token
	}
	return s
}

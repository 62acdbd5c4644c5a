// SPDX-License-Identifier: Apache-2.0

package control

// What an ITR or ETR leaves behind when the role is switched off: the data plane is emptied of its map-cache and
// of what it was told about locators, or of its Database, and its registrations are withdrawn, a batch a turn. A role that
// begins meanwhile has the last word on all that is its own.

import (
	"slices"

	"loci/lisp"
)

// retiredRows is one batch: each may be a change of the data plane.
const retiredRows = 512

// retirement is the pass over the tables of a role that is gone: of an ITR, or of an ETR.
type retirement struct {
	cache     *mapCache
	locators  *locatorTable
	entry     uint32 // where the pass is
	locator   uint32
	etr       *etr                      // nil for an ITR
	database  *database                 // what an ETR's pass was about to announce
	announced *chunked[DatabaseMapping] // and what was announced before
	listed    int
	was       int
	rounds    int     // of withdrawals
	at        instant // when it goes on
}

// retire begins to empty the data plane; little is done at once.
func (n *Node) retire(r retirement) {
	n.retired = append(n.retired, r)
	n.handleRetirement(0)
}

// handleRetirement does one batch.
func (n *Node) handleRetirement(uint32) {
	left, next, kept := retiredRows, never, n.retired[:0]
	for _, r := range n.retired {
		if !n.proceed(&r, &left) {
			kept = append(kept, r)
			next = min(next, max(r.at, n.host.now+1))
		}
	}
	clear(n.retired[len(kept):])
	n.retired = kept
	n.retiring.set(0, next)
}

// proceed does what is due of a retirement while any of the batch is left, and reports whether that was all.
func (n *Node) proceed(r *retirement, left *int) (ended bool) {
	if r.at > n.host.now {
		return false
	}
	for *left > 0 && r.step(n) {
		*left--
	}
	if *left == 0 || r.etr == nil {
		return *left > 0
	}
	*left = 0 // what follows is a batch
	return n.withdrawRetired(r)
}

// withdrawRetired withdraws what an ETR registered, all of it several times: nobody tells what arrived.
func (n *Node) withdrawRetired(r *retirement) (ended bool) {
	l := &r.etr.last
	before := l.sent
	more := r.etr.withdraw(n.registers)
	r.at = n.host.now + 1 + instant(l.sent-before)*n.host.limits.MapRegisters.interval()
	if more {
		return false
	}
	r.at += instant(registerRetransmitFirst << r.rounds)
	r.rounds++
	ended = l.sent == 0 || r.rounds == withdrawTries
	*l = withdrawing{}
	return ended
}

// endRetirements does a batch before the end of all, without a pause, and reports whether there was any. Nothing goes again.
func (n *Node) endRetirements() (more bool) {
	n.retired = slices.DeleteFunc(n.retired, func(r retirement) bool { return r.rounds > 0 })
	for i := range n.retired {
		n.retired[i].at = 0
	}
	more = len(n.retired) > 0
	n.handleRetirement(0)
	return more
}

// registers reports whether the ETR, if there is one, registers an EID-Prefix with that Map-Server.
func (n *Node) registers(with *registrationPeer, p lisp.Prefix) bool {
	return n.etr != nil && n.etr.wants(p, with)
}

// step looks at one row and reports whether there was any.
func (r *retirement) step(n *Node) bool {
	switch {
	case r.database != nil && r.listed < len(r.database.list):
		r.listed++
		n.forgetDatabase(r.database.list[r.listed-1].Prefix)
	case r.database != nil && r.was < r.announced.len():
		r.was++
		if p := r.announced.at(r.was - 1).Prefix; !r.database.holds(p) {
			n.forgetDatabase(p)
		}
	case r.cache == nil:
		return false
	case r.entry < uint32(r.cache.entries.len()):
		e := r.cache.entries.at(r.entry)
		r.entry++
		if !e.mapping.Prefix.IsZero() && !n.itr.hasMapping(e) {
			n.host.emit(RemoveMapping{Prefix: e.mapping.Prefix, Reason: RemoveConfigured})
		}
	case r.locator < uint32(r.locators.rows.len()):
		l := r.locators.rows.at(r.locator)
		r.locator++
		if l.told != LocatorUp && !n.itr.holdsBack(l) {
			n.host.emit(SetLocatorState{RLOC: l.rloc, State: LocatorUp})
		}
	default:
		return false
	}
	return true
}

// forgetDatabase takes an EID-Prefix out of the data plane's Database, unless the ETR, if there is one, has it.
func (n *Node) forgetDatabase(p lisp.Prefix) {
	if n.etr == nil || !n.etr.database.holds(p) {
		n.host.emit(RemoveDatabase{Prefix: p})
	}
}

// retirementOf is what an ETR leaves behind. Of a pass under way that is also what comes yet: an older
// retirement may have left it where it was.
func retirementOf(e *etr) retirement {
	for _, p := range e.registrar.peers {
		p.config.WantMapNotify = false // nobody would take them
	}
	r := retirement{etr: e, database: e.database, announced: &e.announced, was: e.announced.len()}
	if e.pass.walking {
		r.was = e.pass.was
	}
	return r
}

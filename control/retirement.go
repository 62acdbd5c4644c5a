// SPDX-License-Identifier: Apache-2.0

package control

// What an ITR or ETR leaves behind when the role is switched off: the data plane is emptied of its map-cache and
// of what it was told about locators, or of its Database, and its registrations are withdrawn, a batch per event-loop iteration. A role that
// begins meanwhile has the last word on all that is its own.

import (
	"slices"

	"loci/control/internal/database"
	"loci/control/internal/etr"
	"loci/control/internal/mapcache"
	"loci/control/internal/mapregister"
	"loci/control/internal/reach"
	"loci/control/internal/settings"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

// retiredRows is one batch: each may be a change of the data plane.
const retiredRows = 512

// retirement is the pass over the tables of a role that is gone: of an ITR, or of an ETR.
type retirement struct {
	cache     *mapcache.Cache
	locators  *reach.Table
	entry     uint32 // where the pass is
	locator   uint32
	path      uint32
	etr       *etr.ETR                        // nil for an ITR
	database  *database.Database              // what an ETR's pass was about to announce
	announced *table.Chunked[DatabaseMapping] // and what was announced before
	listed    int
	was       int
	rounds    int            // of withdrawals
	at        timing.Instant // when it goes on
}

// retire begins to empty the data plane; little is done at once.
func (n *Node) retire(r retirement) {
	n.retired = append(n.retired, r)
	n.handleRetirement()
}

// handleRetirement does one batch.
func (n *Node) handleRetirement() {
	at := 0
	n.retiring.Run(n.host.Now, retiredRows, func() (cost int, more bool) {
		for at < len(n.retired) && n.retired[at].at > n.host.Now {
			at++
		}
		if at == len(n.retired) {
			return 0, false
		}
		r := &n.retired[at]
		if r.step(n) {
			return 1, true
		}
		if r.etr != nil && !n.withdrawRetired(r) {
			at++
			return retiredRows, true // a batch of withdrawals is as much work
		}
		if r.etr != nil {
			cost = retiredRows
		}
		n.retired = slices.Delete(n.retired, at, at+1)
		return cost, true
	})
	next := timing.Never
	for i := range n.retired {
		next = min(next, max(n.retired[i].at, n.host.Now+1))
	}
	n.retiring.At(next)
}

// withdrawRetired withdraws what an ETR registered, all of it several times: no Map-Notify tells what arrived.
func (n *Node) withdrawRetired(r *retirement) (ended bool) {
	sent, more := r.etr.Withdraw(n.registers)
	r.at = n.host.Now + 1 + timing.Instant(sent)*n.host.Limits.MapRegisters.Interval()
	if more {
		return false
	}
	r.at += timing.Instant(settings.RegisterRetransmitFirst << r.rounds)
	r.rounds++
	return r.etr.WithdrawAgain() == 0 || r.rounds == mapregister.WithdrawTries
}

// endRetirements does a batch before the end of all, without a pause, and reports whether there was any. Nothing goes again.
func (n *Node) endRetirements() (more bool) {
	n.retired = slices.DeleteFunc(n.retired, func(r retirement) bool { return r.rounds > 0 })
	for i := range n.retired {
		n.retired[i].at = 0
	}
	more = len(n.retired) > 0
	n.handleRetirement()
	return more
}

// registers reports whether the ETR, if there is one, registers an EID-Prefix with that Map-Server.
func (n *Node) registers(with *mapregister.Peer, p lisp.Prefix) bool {
	return n.etr != nil && n.etr.Wants(p, with)
}

// step looks at one row and reports whether there was any.
func (r *retirement) step(n *Node) bool {
	switch {
	case r.database != nil && r.listed < len(r.database.List):
		r.listed++
		n.forgetDatabase(r.database.List[r.listed-1].Prefix)
	case r.database != nil && r.was < r.announced.Len():
		r.was++
		if p := r.announced.At(r.was - 1).Prefix; !r.database.Holds(p) {
			n.forgetDatabase(p)
		}
	case r.cache == nil:
		return false
	case r.entry < uint32(r.cache.Entries.Len()):
		e := r.cache.Entries.At(r.entry)
		r.entry++
		if !e.Mapping.Prefix.IsZero() && !n.itr.HasMapping(e) {
			n.host.Emit(RemoveMapping{Prefix: e.Mapping.Prefix, Reason: RemoveConfigured})
		}
	case r.locator < uint32(r.locators.Rows.Len()):
		l := r.locators.Rows.At(r.locator)
		r.locator++
		n.forgetState(lisp.PathTo(l.RLOC), l.Told)
	case r.path < uint32(r.locators.Paths.Rows.Len()):
		row := r.locators.Paths.Rows.At(r.path)
		r.path++
		n.forgetState(row.Path, row.Told)
	default:
		return false
	}
	return true
}

// forgetState makes the data plane use a locator again that it was told is not up, unless the ITR, if there is one, told it so.
func (n *Node) forgetState(p lisp.Path, told LocatorState) {
	if told != "" && told != LocatorUp && !n.itr.HoldsBack(p) {
		n.host.Emit(SetLocatorState{RLOC: p.RLOC, Behind: p.Behind, State: LocatorUp})
	}
}

// forgetDatabase takes an EID-Prefix out of the data plane's Database, unless the ETR, if there is one, has it.
func (n *Node) forgetDatabase(p lisp.Prefix) {
	if n.etr == nil || !n.etr.Database.Holds(p) {
		n.host.Emit(RemoveDatabase{Prefix: p})
	}
}

// retirementOf is what an ETR leaves behind. Of a pass under way that is also what comes yet: an older
// retirement may have left it where it was.
func retirementOf(e *etr.ETR) retirement {
	for _, p := range e.Registrar.Peers {
		p.Config.WantMapNotify = false // this role no longer receives them
	}
	r := retirement{etr: e, database: e.Database, announced: &e.Announced, was: e.Announced.Len()}
	if e.Pass.Walking {
		r.was = e.Pass.Was
	}
	return r
}

// SPDX-License-Identifier: Apache-2.0

package control

// The ETR's last words: Map-Registers with TTL 0 for what Map-Servers would keep until it expires (RFC 9301 s.5.6).
// What left the Database is withdrawn in any case, also where its Map-Register waits for its turn; what is in it, if that is
// configured. Each goes once, a batch a turn, and nothing is waited for: there is no time left to keep a pace. An ETR that is switched off
// says them, too, some times (retirement.go).

import (
	"slices"

	"loci/lisp"
)

// withdrawing is the pass over what Map-Servers may have of us.
type withdrawing struct {
	peer  int // number of the Map-Server, those that leave behind the others
	place int // in what that one may have
	sent  int // Map-Registers so far
	pack  packing
}

// shutdown does one batch, and reports whether there is more.
func (e *etr) shutdown() (more bool) {
	return e.withdraw(func(p *registrationPeer, gone lisp.Prefix) bool {
		return !e.config.WithdrawOnShutdown && e.wants(gone, p)
	})
}

// withdraw does one batch of what does not stay, and reports whether there is more.
func (e *etr) withdraw(stays func(*registrationPeer, lisp.Prefix) bool) (more bool) {
	for left := announceBatch; left > 0; {
		if e.last.peer == len(e.registrar.peers)+len(e.registrar.leaving) {
			return false
		}
		left -= e.withdrawNext(stays)
	}
	if l := &e.last; l.place > 0 { // or what is packed would go later than what an ETR registers that begins meanwhile
		e.sendWithdrawal(e.registrar.numbered(l.peer), l.pack.take())
	}
	return true
}

// withdrawNext looks at the next place, and returns what that costs.
func (e *etr) withdrawNext(stays func(*registrationPeer, lisp.Prefix) bool) (cost int) {
	l, p := &e.last, e.registrar.numbered(e.last.peer)
	if l.place == 0 {
		l.pack = e.registrar.packingFor(p)
	}
	cost = 1
	known := e.told(p, l.place, func(gone lisp.Prefix) {
		if cost++; !stays(p, gone) {
			cost += e.sendWithdrawal(p, l.pack.put(withdrawalOf(gone)))
		}
	})
	if l.place++; !known {
		cost += e.sendWithdrawal(p, l.pack.take())
		l.peer, l.place = l.peer+1, 0
	}
	return cost
}

func (e *etr) sendWithdrawal(p *registrationPeer, gone []lisp.Mapping) (cost int) {
	if len(gone) == 0 {
		return 0
	}
	e.last.sent++
	return e.registrar.withdrawNow(p, gone)
}

// wants reports whether an EID-Prefix is to be registered with a Map-Server, for whichever site, once all that is configured is in force.
func (e *etr) wants(p lisp.Prefix, peer *registrationPeer) bool {
	d := e.database
	if e.wanted != nil {
		d = e.wanted
	}
	m, ok := d.index.get(p)
	return ok && slices.ContainsFunc(e.config.MapServers, func(c MapServerPeer) bool { return c.Address == peer.config.Address && c.Site == m.Site })
}

// told yields what a place stands for in all that a Map-Server may have of us: withdrawals that are not acknowledged, those
// taken back to be sent anew, those of the pass under way, and what was announced, before that pass and by it. It reports
// false behind the last one.
func (e *etr) told(p *registrationPeer, place int, yield func(lisp.Prefix)) (ok bool) {
	if place < len(p.messages) {
		if m := e.registrar.messages.at(p.messages[place]); m.withdrawal || p.leaves {
			for i := range m.mappings {
				yield(m.mappings[i].Prefix)
			}
		}
		return true
	}
	place -= len(p.messages)
	under := e.registrar.under(p)
	if place < under.len() {
		yield(*under.at(place))
		return true
	}
	return !p.leaves && e.announcedTo(p, place-under.len(), yield)
}

// announcedTo is told for what the pass and its forerunners announced.
func (e *etr) announcedTo(p *registrationPeer, place int, yield func(lisp.Prefix)) (ok bool) {
	a := &e.pass
	if of := a.sites[p.config.Site]; of != nil {
		if place < of.withdrawn.len() {
			yield(*of.withdrawn.at(place))
			return true
		}
		place -= of.withdrawn.len()
	}
	if a.walking {
		place += a.was // those before have been compared
	}
	var m *DatabaseMapping
	switch {
	case place < e.announced.len():
		m = e.announced.at(place)
	case place < e.announced.len()+a.is.len():
		m = a.is.at(place - e.announced.len())
	default:
		return false
	}
	if m.Site == p.config.Site {
		yield(m.Prefix)
	}
	return true
}

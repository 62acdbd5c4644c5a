// SPDX-License-Identifier: Apache-2.0

package control

// The ETR's last words: Map-Registers with TTL 0 for what Map-Servers would keep until it expires (RFC 9301 s.5.6).
// What left the Database is withdrawn in any case, also where its Map-Register waits for its turn; what is in it, if that is
// configured. Each goes once, a batch a turn, and nothing is waited for: there is no time left to keep a pace.

import "loci/lisp"

// withdrawing is the pass over what Map-Servers may have of us.
type withdrawing struct {
	peer  int // number of the Map-Server
	place int // in what that one may have
	pack  packing
}

// shutdown does one batch, and reports whether there is more.
func (e *etr) shutdown() (more bool) {
	for left := announceBatch; left > 0; {
		if e.last.peer == len(e.registrar.peers) {
			return false
		}
		left -= e.withdrawNext()
	}
	return true
}

// withdrawNext looks at the next place, and returns what that costs.
func (e *etr) withdrawNext() (cost int) {
	l, p := &e.last, e.registrar.peers[e.last.peer]
	if l.place == 0 {
		l.pack = e.registrar.packingFor(p)
	}
	cost = 1
	known := e.told(p, l.place, func(gone lisp.Prefix) {
		if cost++; e.config.WithdrawOnShutdown || !e.wants(gone, p.config.Site) {
			cost += e.registrar.withdrawNow(p, l.pack.put(withdrawalOf(gone)))
		}
	})
	if l.place++; !known {
		cost += e.registrar.withdrawNow(p, l.pack.take())
		l.peer, l.place = l.peer+1, 0
	}
	return cost
}

// wants reports whether an EID-Prefix is configured for a site.
func (e *etr) wants(p lisp.Prefix, site string) bool {
	d := e.database
	if e.wanted != nil {
		d = e.wanted
	}
	m, ok := d.index.get(p)
	return ok && m.Site == site
}

// told yields what a place stands for in all that a Map-Server may have of us: withdrawals that are not acknowledged, those
// taken back to be sent anew, those of the pass under way, and what was announced, before that pass and by it. It reports
// false behind the last one.
func (e *etr) told(p *registrationPeer, place int, yield func(lisp.Prefix)) (ok bool) {
	if place < len(p.messages) {
		if m := e.registrar.messages.at(p.messages[place]); m.withdrawal {
			for i := range m.mappings {
				yield(m.mappings[i].Prefix)
			}
		}
		return true
	}
	place -= len(p.messages)
	under := e.registrar.under(p)
	if place < len(under) {
		yield(under[place])
		return true
	}
	return e.announcedTo(p, place-len(under), yield)
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

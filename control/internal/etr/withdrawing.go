// SPDX-License-Identifier: Apache-2.0

package etr

// The ETR's last words: Map-Registers with TTL 0 for what Map-Servers would keep until it expires (RFC 9301 s.5.6).
// What left the Database is withdrawn in any case, also where its Map-Register waits to be sent; what is in it, if that is
// configured. Each goes once, a batch per event-loop iteration, and nothing is waited for: there is no time left to keep a pace. An ETR that is switched off
// says them, too, some times (retirement.go).

import (
	"slices"

	"loci/control/internal/batch"
	"loci/control/internal/mapregister"
	"loci/control/internal/registrar"
	"loci/control/internal/settings"
	"loci/lisp"
)

// withdrawal is the pass over what Map-Servers may have of us.
type withdrawal struct {
	peer  int // number of the Map-Server, those that leave behind the others
	place int // in what that one may have
	sent  int // Map-Registers so far
	pack  mapregister.Packing
}

// withdraw does one batch of what does not stay, and reports whether there is more.
func (w *withdrawal) withdraw(a *Announcer, stays func(*mapregister.Peer, lisp.Prefix) bool) (more bool) {
	more = batch.Steps(AnnounceBatch, func() (cost int, more bool) {
		if w.peer == len(a.Registrar.Peers)+len(a.Registrar.Leaving) {
			return 0, false
		}
		return w.step(a, stays), true
	})
	if more && w.place > 0 { // or what is packed would go later than what an ETR registers that begins meanwhile
		w.send(a.Registrar, a.Registrar.Numbered(w.peer), w.pack.Take())
	}
	return more
}

// step looks at the next place, and returns what that costs.
func (w *withdrawal) step(a *Announcer, stays func(*mapregister.Peer, lisp.Prefix) bool) (cost int) {
	p := a.Registrar.Numbered(w.peer)
	if w.place == 0 {
		w.pack = p.Packing()
	}
	cost = 1
	known := a.told(p, w.place, func(gone lisp.Prefix) {
		if cost++; !stays(p, gone) {
			cost += w.send(a.Registrar, p, w.pack.Put(mapregister.WithdrawalOf(gone)))
		}
	})
	if w.place++; !known {
		cost += w.send(a.Registrar, p, w.pack.Take())
		w.peer, w.place = w.peer+1, 0
	}
	return cost
}

func (w *withdrawal) send(r *registrar.Registrar, p *mapregister.Peer, gone []lisp.Mapping) (cost int) {
	if len(gone) == 0 {
		return 0
	}
	w.sent++
	return r.WithdrawNow(p, gone)
}

// Wants reports whether an EID-Prefix is to be registered with a Map-Server, for any site, once all that is configured is announced.
func (e *Announcer) Wants(p lisp.Prefix, peer *mapregister.Peer) bool {
	d := e.Database
	if e.wanted != nil {
		d = e.wanted
	}
	m, ok := d.Index.Get(p)
	return ok && slices.ContainsFunc(e.Config.MapServers, func(c settings.MapServerPeer) bool { return c.Address == peer.Config.Address && c.Site == m.Site })
}

// told yields what a place stands for in all that a Map-Server may have of us: withdrawals that are not acknowledged, those
// taken back to be sent anew, those of the pass under way, and what was announced, before that pass and by it. It reports
// false behind the last one.
func (e *Announcer) told(p *mapregister.Peer, place int, yield func(lisp.Prefix)) (ok bool) {
	if place < len(p.Messages) {
		if m := e.Registrar.Sender.Messages.At(p.Messages[place]); m.Withdrawal || p.Leaves {
			for i := range m.Mappings {
				yield(m.Mappings[i].Prefix)
			}
		}
		return true
	}
	place -= len(p.Messages)
	under := e.Registrar.Under(p)
	if place < under.Len() {
		yield(*under.At(place))
		return true
	}
	return !p.Leaves && e.announcedTo(p, place-under.Len(), yield)
}

// announcedTo is told for what the pass and its forerunners announced.
func (e *Announcer) announcedTo(p *mapregister.Peer, place int, yield func(lisp.Prefix)) (ok bool) {
	a := &e.Pass
	if of := a.sites[p.Config.Site]; of != nil {
		if place < of.Withdrawn.Len() {
			yield(*of.Withdrawn.At(place))
			return true
		}
		place -= of.Withdrawn.Len()
	}
	if a.Walking {
		place += a.Was // those before have been compared
	}
	var m *settings.DatabaseMapping
	switch {
	case place < e.Announced.Len():
		m = e.Announced.At(place)
	case place < e.Announced.Len()+a.is.Len():
		m = a.is.At(place - e.Announced.Len())
	default:
		return false
	}
	if m.Site == p.Config.Site {
		yield(m.Prefix)
	}
	return true
}

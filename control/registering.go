// SPDX-License-Identifier: Apache-2.0

package control

// Registering a Database anew, piece by piece: for each Map-Server what it was told is forgotten, then
// withdrawals go, then what changed, then the rest. Until its turn comes a Map-Server's registration
// goes on as it was. The registrar is given the next announcement when this one is through.

import (
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

const (
	// forgetCost and messageCost compare a Map-Register that is forgotten, or made, with a row of announceBatch.
	forgetCost  = 2
	messageCost = 8
)

// announcement is what a site of the ETR wants registered.
type announcement struct {
	site      string
	all       *chunked[DatabaseMapping] // in order, other sites' too
	changed   chunked[int]              // numbers of all, in order: they go first, and count for registered
	withdrawn chunked[lisp.Prefix]
	anew      bool // send everything, whatever changed
}

// find looks for an EID-Prefix among all, whichever site it is of.
func (a *announcement) find(p lisp.Prefix) (m *DatabaseMapping, ok bool) {
	low, high := 0, a.all.len()
	for low < high {
		if middle := (low + high) / 2; a.all.at(middle).Prefix.Compare(p) < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == a.all.len() || a.all.at(low).Prefix != p {
		return nil, false
	}
	return a.all.at(low), true
}

// registering is what is left to be done for one Map-Server.
type registering struct {
	*announcement // of a Map-Server that leaves nothing is announced
	peer          *registrationPeer
	under         chunked[lisp.Prefix] // withdrawals that are under way, and go on; all that it was told for a Map-Server that leaves
	forgotten     bool                 // what it was told before
	place         int                  // among under, then withdrawn, then changed, then all
	stage         registerStage
	skip          int // place in changed while the rest goes
	pack          packing
	first         bool              // what is being packed begins with what changed
	held          []registerMessage // until it is known whether they are few
	many          bool              // they are not
	prefixes      int
}

type registerStage uint8

const (
	stageUnder registerStage = iota
	stageWithdrawn
	stageChanged
	stageRest
	stageEnd
)

// configure takes over the Map-Servers; step brings the registrations into line: a peer is left alone unless
// it or the mappings of its site changed, or something is being withdrawn there that another site of it may have now. From one that
// is configured no more, all is withdrawn.
func (r *registrar) configure(peers []MapServerPeer, quick time.Duration, of func(site string) *announcement) {
	known := append(r.peers, r.leaving...)
	r.quick = quick
	r.peers, r.leaving = make([]*registrationPeer, len(peers)), nil
	for i, config := range peers {
		a := of(config.Site)
		at := slices.IndexFunc(known, func(p *registrationPeer) bool { return p.config.id() == config.id() })
		if at < 0 {
			r.peers[i] = &registrationPeer{config: config}
			r.work = append(r.work, &registering{announcement: a, peer: r.peers[i]})
			continue
		}
		p := known[at]
		r.peers[i] = p
		same := p.config.equal(config) && !p.leaves
		p.config, p.leaves = config, false
		if !same || a.anew || a.changed.len()+a.withdrawn.len() > 0 || p.withdrawals > 0 && p.hasAnother(peers) {
			r.work = append(r.work, &registering{announcement: a, peer: p})
		}
	}
	for _, p := range known {
		if !slices.Contains(r.peers, p) {
			r.leave(p, peers, of(p.config.Site).all)
		}
	}
}

// leave begins to withdraw all from a Map-Server. Its Map-Notifies are not asked for: its keys are gone with it.
func (r *registrar) leave(p *registrationPeer, stay []MapServerPeer, all *chunked[DatabaseMapping]) {
	r.leaving = append(r.leaving, p)
	if p.leaves && !p.hasAnother(stay) {
		return
	}
	p.leaves, p.config.WantMapNotify = true, false
	r.work = append(r.work, &registering{announcement: &announcement{site: p.config.Site, all: all}, peer: p})
}

// hasAnother reports whether the same Map-Server is configured for another site.
func (p *registrationPeer) hasAnother(peers []MapServerPeer) bool {
	return slices.ContainsFunc(peers, func(c MapServerPeer) bool { return c.Address == p.config.Address && c.Site != p.config.Site })
}

// keeps reports whether an EID-Prefix goes on being registered with that Map-Server, for this site or another one: there
// it is one registration, which the withdrawal for any of them would end.
func (r *registrar) keeps(w *registering, gone lisp.Prefix) bool {
	m, ok := w.find(gone)
	return ok && slices.ContainsFunc(r.peers, func(p *registrationPeer) bool {
		return p.config.Address == w.peer.config.Address && p.config.Site == m.Site
	})
}

// forget ends what is known of a Map-Server that leaves when nothing is left to be withdrawn.
func (r *registrar) forget(p *registrationPeer) {
	if p.leaves && len(p.messages) == 0 && !slices.ContainsFunc(r.work, func(w *registering) bool { return w.peer == p }) {
		r.leaving = slices.DeleteFunc(r.leaving, func(l *registrationPeer) bool { return l == p })
	}
}

// busy reports whether registrations are being brought into line.
func (r *registrar) busy() bool { return len(r.work) > 0 }

// step does the least piece of that and returns what it costs.
func (r *registrar) step() (cost int) {
	w := r.work[0]
	switch {
	case !w.forgotten:
		return r.forgetNext(w)
	case w.stage == stageEnd:
		w.peer.refused = nil
		r.work[0] = nil // or what it was about would stay
		r.work = r.work[1:]
		r.forget(w.peer)
		return 1
	}
	before := len(w.peer.messages)
	r.registerNext(w)
	return 1 + messageCost*(len(w.peer.messages)-before)
}

// forgetNext drops the next message to a Map-Server, and returns what that costs. Withdrawals that are under way go on; of one that leaves, all is withdrawn.
func (r *registrar) forgetNext(w *registering) (cost int) {
	p := w.peer
	if len(p.messages) == 0 {
		p.messages, p.cut, p.unacknowledged, w.forgotten = nil, 0, 0, true
		w.pack = r.packingFor(p)
		return forgetCost
	}
	cost = forgetCost
	id := p.messages[0]
	p.messages, p.cut = p.messages[1:], p.cut+1
	m := r.messages.at(id)
	p.keepRefused(m)
	if m.withdrawal || p.leaves {
		cost += len(m.mappings)
		for _, gone := range m.mappings {
			if !r.keeps(w, gone.Prefix) {
				w.under.push(gone.Prefix)
			}
		}
	}
	r.drop(id)
	return cost
}

// registerNext packs the next EID-Prefix.
func (r *registrar) registerNext(w *registering) {
	m, ok := w.next()
	switch {
	case ok:
		r.put(w, m)
	case w.stage == stageWithdrawn:
		r.flush(w, w.pack.take())
	case w.stage == stageRest:
		r.flush(w, w.pack.take())
		r.decide(w, false)
		w.peer.prefixes = w.prefixes
	}
	if !ok {
		w.stage, w.place = w.stage+1, 0
	}
}

// next is the next mapping of the stage; ok is false where that is at its end. A zero mapping is to be passed over.
func (w *registering) next() (m lisp.Mapping, ok bool) {
	at := w.place
	w.place++
	switch {
	case w.stage == stageUnder && at < w.under.len():
		return withdrawalOf(*w.under.at(at)), true
	case w.stage == stageWithdrawn && at < w.withdrawn.len():
		return withdrawalOf(*w.withdrawn.at(at)), true
	case w.stage == stageChanged && at < w.changed.len():
		return w.all.at(*w.changed.at(at)).mapping(), true
	case w.stage != stageRest || w.peer.leaves || at >= w.all.len():
		return lisp.Mapping{}, false
	case w.skip < w.changed.len() && *w.changed.at(w.skip) == at:
		w.skip++
		return lisp.Mapping{}, true
	case w.all.at(at).Site != w.site:
		return lisp.Mapping{}, true
	}
	return w.all.at(at).mapping(), true
}

// withdrawalOf is the record that withdraws an EID-Prefix.
func withdrawalOf(p lisp.Prefix) lisp.Mapping { return lisp.Mapping{Prefix: p, Authoritative: true} }

// put packs a mapping; what was packed before goes when that is full.
func (r *registrar) put(w *registering, m lisp.Mapping) {
	if m.Prefix.IsZero() || w.stage == stageWithdrawn && r.keeps(w, m.Prefix) {
		return
	}
	if w.stage >= stageChanged {
		w.prefixes++
	}
	if since, refused := w.peer.takeRefused(m.Prefix); refused {
		r.release(w, registerMessage{peer: w.peer, mappings: []lisp.Mapping{m}, alone: true, refused: true, since: since})
		return
	}
	r.flush(w, w.pack.put(m))
	if len(w.pack.open) == 1 {
		w.first = w.stage == stageChanged
	}
}

// flush makes a message.
func (r *registrar) flush(w *registering, mappings []lisp.Mapping) {
	if len(mappings) > 0 {
		r.release(w, registerMessage{peer: w.peer, mappings: mappings, awaited: w.first})
	}
}

// release lets a message go. Those of the Database are held until it is known whether they are few.
func (r *registrar) release(w *registering, m registerMessage) {
	switch {
	case w.stage <= stageWithdrawn:
		m.withdrawal, m.awaited, m.alone, m.refused = true, !w.peer.leaves, false, false
		r.add(m)
	case w.many:
		r.add(m)
	default:
		w.held = append(w.held, m)
		if len(w.held) > quickMessages {
			r.decide(w, true)
		}
	}
}

// decide lets the messages go that were held: the quick interval is for few.
func (r *registrar) decide(w *registering, many bool) {
	if w.many {
		return
	}
	w.many, w.peer.quickUntil = many, 0
	if r.quick > 0 && !many {
		w.peer.quickUntil = r.h.after(quickPeriod)
	}
	for _, m := range w.held {
		r.add(m)
	}
	w.held = nil
}

// packing groups mappings so that each Map-Register stays within the size of control
// messages; a mapping that is too large for that goes alone.
type packing struct {
	room, used int
	open       []lisp.Mapping
}

// packingFor is an empty packing of the size that a Map-Register to the peer may have.
func (r *registrar) packingFor(p *registrationPeer) packing {
	const headOctets, xtrIDOctets = 16, 24
	return packing{room: controlOctets(p.config.Address.Addr()) - headOctets - xtrIDOctets - p.config.Key.macOctets()}
}

// put takes a mapping; full is what was packed before where that has no room for it.
func (k *packing) put(m lisp.Mapping) (full []lisp.Mapping) {
	octets := recordOctets(m)
	if len(k.open) > 0 && (k.used+octets > k.room || len(k.open) == wire.MaxRecords) {
		full = k.take()
	}
	k.open = append(k.open, m)
	k.used += octets
	return full
}

// take empties it.
func (k *packing) take() []lisp.Mapping {
	full := k.open
	k.open, k.used = nil, 0
	return full
}

// SPDX-License-Identifier: Apache-2.0

package registrar

// Registering a Database anew, piece by piece: for each Map-Server what it was told is forgotten, then
// withdrawals go, then what changed, then the rest. Until then a Map-Server's registration goes
// on as it was. The registrar is given the next announcement when this one is through.

import (
	"slices"
	"time"

	"loci/control/internal/mapregister"
	"loci/control/internal/settings"
	"loci/control/internal/table"
	"loci/lisp"
)

const (
	// quickPeriod is how long after a start or a change Map-Registers come at the
	// quick interval (RFC 9301 s.8.2), QuickMessages up to how many of them: a large
	// Database relies on Map-Notifies.
	quickPeriod   = 5 * time.Minute
	QuickMessages = 64 // Map-Registers
	// forgetCost and messageCost compare a Map-Register that is forgotten, or made, with a row of AnnounceBatch.
	forgetCost  = 2
	messageCost = 8
)

// Configure takes over the Map-Servers; step brings the registrations into line: a peer is left alone unless
// it or the mappings of its site changed, or something is being withdrawn there that another site of it may have now.
// From one that is configured no more, all is withdrawn.
func (r *Registrar) Configure(peers []settings.MapServerPeer, quick time.Duration, of func(site string) *Announcement) {
	known := append(r.Peers, r.Leaving...)
	r.Sender.Quick = quick
	r.Peers, r.Leaving = make([]*mapregister.Peer, len(peers)), nil
	for i, config := range peers {
		a := of(config.Site)
		at := slices.IndexFunc(known, func(p *mapregister.Peer) bool { return p.Config.ID() == config.ID() })
		if at < 0 {
			r.Peers[i] = &mapregister.Peer{Config: config}
			r.Work = append(r.Work, &registering{Announcement: a, peer: r.Peers[i]})
			continue
		}
		p := known[at]
		r.Peers[i] = p
		same := p.Config.Equal(config) && !p.Leaves
		p.Config, p.Leaves = config, false
		if !same || a.Anew || a.Changed.Len()+a.Withdrawn.Len() > 0 || p.HasWithdrawals() && p.HasAnother(peers) {
			r.Work = append(r.Work, &registering{Announcement: a, peer: p})
		}
	}
	for _, p := range known {
		if !slices.Contains(r.Peers, p) {
			r.leave(p, peers, of(p.Config.Site).All)
		}
	}
}

// leave begins to withdraw all from a Map-Server. Its Map-Notifies are not asked for: its keys are gone with it.
func (r *Registrar) leave(p *mapregister.Peer, stay []settings.MapServerPeer, all *table.Chunked[settings.DatabaseMapping]) {
	r.Leaving = append(r.Leaving, p)
	if p.Leaves && !p.HasAnother(stay) {
		return
	}
	p.Leaves, p.Config.WantMapNotify = true, false
	r.Work = append(r.Work, &registering{Announcement: &Announcement{Site: p.Config.Site, All: all}, peer: p})
}

// keeps reports whether an EID-Prefix goes on being registered with that Map-Server, for this site or another one:
// there it is one registration, which the withdrawal for any of them would end.
func (r *Registrar) keeps(w *registering, gone lisp.Prefix) bool {
	m, ok := w.find(gone)
	return ok && slices.ContainsFunc(r.Peers, func(p *mapregister.Peer) bool {
		return p.Config.Address == w.peer.Config.Address && p.Config.Site == m.Site
	})
}

// Busy reports whether registrations are being brought into line.
func (r *Registrar) Busy() bool { return len(r.Work) > 0 }

// Step does the least piece of that and returns what it costs.
func (r *Registrar) Step() (cost int) {
	w := r.Work[0]
	switch {
	case !w.forgotten:
		return r.forgetNext(w)
	case w.stage == stageEnd:
		w.peer.Refused = nil
		r.Work[0] = nil // or what it was about would stay
		r.Work = r.Work[1:]
		r.forget(w.peer)
		return 1
	}
	before := len(w.peer.Messages)
	r.registerNext(w)
	return 1 + messageCost*(len(w.peer.Messages)-before)
}

// forgetNext drops the next message to a Map-Server, and returns what that costs. Withdrawals that are under way go
// on; of one that leaves, all is withdrawn.
func (r *Registrar) forgetNext(w *registering) (cost int) {
	p := w.peer
	if len(p.Messages) == 0 {
		p.StartAnew()
		w.forgotten, w.pack = true, p.Packing()
		return forgetCost
	}
	cost = forgetCost
	if m := r.Sender.DropFirst(p); m.Withdrawal || p.Leaves {
		cost += len(m.Mappings)
		for _, gone := range m.Mappings {
			if !r.keeps(w, gone.Prefix) {
				w.Under.Push(gone.Prefix)
			}
		}
	}
	return cost
}

// registerNext packs the next EID-Prefix.
func (r *Registrar) registerNext(w *registering) {
	m, ok := w.next()
	switch {
	case ok:
		r.put(w, m)
	case w.stage == stageWithdrawn:
		r.flush(w, w.pack.Take())
	case w.stage == stageRest:
		r.flush(w, w.pack.Take())
		r.decide(w, false)
		w.peer.Prefixes = w.prefixes
	}
	if !ok {
		w.stage, w.place = w.stage+1, 0
	}
}

// put packs a mapping; what was packed before goes when that is full.
func (r *Registrar) put(w *registering, m lisp.Mapping) {
	if m.Prefix.IsZero() || w.stage == stageWithdrawn && r.keeps(w, m.Prefix) {
		return
	}
	if w.stage >= stageChanged {
		w.prefixes++
	}
	if refused, ok := w.peer.TakeRefused(m); ok {
		r.release(w, refused)
		return
	}
	r.flush(w, w.pack.Put(m))
	if w.pack.Len() == 1 {
		w.first = w.stage == stageChanged
	}
}

// flush makes a message.
func (r *Registrar) flush(w *registering, mappings []lisp.Mapping) {
	if len(mappings) > 0 {
		r.release(w, mapregister.NewMessage(w.peer, mappings, w.first))
	}
}

// release lets a message go. Those of the Database are held until it is known whether they are few.
func (r *Registrar) release(w *registering, m mapregister.Message) {
	switch {
	case w.stage <= stageWithdrawn:
		r.Sender.Add(m.AsWithdrawal())
	case w.many:
		r.Sender.Add(m)
	default:
		w.held = append(w.held, m)
		if len(w.held) > QuickMessages {
			r.decide(w, true)
		}
	}
}

// decide lets the messages go that were held: the quick interval is for few.
func (r *Registrar) decide(w *registering, many bool) {
	if w.many {
		return
	}
	w.many, w.peer.QuickUntil = many, 0
	if r.Sender.Quick > 0 && !many {
		w.peer.QuickUntil = r.h.After(quickPeriod)
	}
	for _, m := range w.held {
		r.Sender.Add(m)
	}
	w.held = nil
}

// WithdrawNow sends a Map-Register with TTL 0, never again and whatever comes of it, and returns what that costs.
func (r *Registrar) WithdrawNow(p *mapregister.Peer, gone []lisp.Mapping) (cost int) {
	r.Sender.WithdrawNow(p, gone)
	return messageCost
}

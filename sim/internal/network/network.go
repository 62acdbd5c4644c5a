// SPDX-License-Identifier: Apache-2.0

// Package network is the core between the routers of a simulated run: delay, jitter, loss, duplication, reordering, cut
// links and partitions. It carries control messages and encapsulated packets alike, and gives each to the router that has
// the address when it arrives. It reads no packet, and knows of a router its number, its site and its addresses.
package network

import (
	"net/netip"
	"time"

	"loci/sim/internal/addresses"
	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

// maxMailQueued bounds what may be under way for each router: a network that fills up
// by itself is a message storm.
const maxMailQueued = 400

// insideDelay is how long a message takes inside a site.
const insideDelay = time.Millisecond

// Surroundings is what the network has of the run that it is part of.
type Surroundings[R any] struct {
	Now    *time.Duration
	Random virtual.Random
	Stats  *report.Stats
	// Queue puts the arrival of mail at a router into the queue of events.
	Queue func(at time.Duration, to R, m *Mail)
	// Lose hears of each encapsulated packet that is lost on the way.
	Lose func(m *Mail)
	// Crowd hears that more is under way than routers can have sent.
	Crowd func(underWay int)
}

// Network carries mail between stations, whose addresses are in its Book.
type Network[R any] struct {
	addresses.Book[*Station[R]]
	Conditions
	Routers   int  // how many there are
	Parted    int  // partitions in force
	Divide    uint // how a partition divides
	LostHeavy int  // faults of heavy loss in force

	surroundings Surroundings[R]
	underWay     int
	severed      map[[2]int]int // faults that cut the path between two routers, by their numbers
	controlCuts  []*ControlCut[R]
	spare        []*Mail
}

// Conditions are how bad the network is.
type Conditions struct {
	Loss, Duplicate, Reorder float64
	Jitter                   time.Duration
	MaxDelay                 time.Duration
}

// New makes a network of no router yet.
func New[R any](s Surroundings[R]) Network[R] { return Network[R]{surroundings: s} }

// NewMail is mail that says nothing yet.
func (n *Network[R]) NewMail() *Mail {
	if last := len(n.spare) - 1; last >= 0 {
		m := n.spare[last]
		n.spare = n.spare[:last]
		return m
	}
	return newMail()
}

// Release takes mail back that is not needed any more, unless a copy of it has yet to arrive.
func (n *Network[R]) Release(m *Mail) {
	if m.copies == 0 && m.room != nil { // those of other senders than Nodes have none
		*m = Mail{room: m.room}
		n.spare = append(n.spare, m)
	}
}

// Attach makes a station's addresses its own.
func (n *Network[R]) Attach(s *Station[R]) {
	for _, l := range s.Links {
		n.SetOwner(l.Addr, s)
	}
	if s.Inside.Addr.IsValid() {
		n.SetOwner(s.Inside.Addr, s)
	}
}

// RouterAt is the router that has an address, the zero value for none.
func (n *Network[R]) RouterAt(a netip.Addr) (r R) {
	if at := n.Owner(a); at != nil {
		r = at.Router
	}
	return r
}

// Carry brings mail from a station, or from an attacker when it is nil, on its way. Nothing is known of it afterwards.
func (n *Network[R]) Carry(from *Station[R], m *Mail) {
	n.dispatch(from, m)
	n.Release(m)
}

// dispatch puts the copies of mail that come through into the queue.
func (n *Network[R]) dispatch(from *Station[R], m *Mail) {
	to := n.Owner(m.To.Addr())
	if to == nil || from != nil && from.IsCut(m.From.Addr()) {
		n.lose(m)
		return
	}
	if to.IsInside(m.To.Addr()) {
		n.carryInside(from, to, m)
		return
	}
	r := n.surroundings.Random
	copies := 1
	if r.Chance(n.Duplicate) {
		copies = 2
	}
	for range copies {
		if r.Chance(n.Loss) || n.LostHeavy > 0 && r.Chance(0.7) {
			n.lose(m)
			continue
		}
		n.queue(n.delay(from, to), to, m)
	}
	if limit := maxMailQueued * (n.Routers + 10); n.underWay > limit {
		n.surroundings.Crowd(n.underWay)
	}
}

// queue lets mail arrive later.
func (n *Network[R]) queue(later time.Duration, to *Station[R], m *Mail) {
	n.underWay++
	m.copies++
	n.surroundings.Queue(*n.surroundings.Now+later, to.Router, m)
}

// carryInside brings mail from one sibling to another. No other router is on that link.
func (n *Network[R]) carryInside(from, to *Station[R], m *Mail) {
	if from == nil || from.Site != to.Site {
		n.lose(m)
		return
	}
	n.queue(insideDelay, to, m)
}

// delay depends on the two routers, with jitter; what is reordered comes much later.
func (n *Network[R]) delay(from, to *Station[R]) time.Duration {
	sender := uint64(1 << 20)
	if from != nil {
		sender = uint64(from.Number)
	}
	r := n.surroundings.Random
	pair := (sender + 1) * uint64(to.Number+1) * 0x9e3779b97f4a7c15
	delay := time.Millisecond + time.Duration(pair>>20)%n.MaxDelay
	if n.Jitter > 0 {
		delay += r.Between(0, n.Jitter)
	}
	if r.Chance(n.Reorder) {
		delay += r.Between(0, 300*time.Millisecond)
	}
	return delay
}

func (n *Network[R]) lose(m *Mail) {
	if !m.Data {
		n.surroundings.Stats.MessagesLost++
		return
	}
	n.surroundings.Lose(m)
}

// Arrive takes mail for a station out of the network, and says who has its address by now; false when it is lost.
func (n *Network[R]) Arrive(at *Station[R], m *Mail) (r R, arrives bool) {
	n.underWay--
	m.copies--
	to := m.To.Addr()
	if !at.Has(to) {
		at = n.Owner(to)
	}
	if at == nil || at.IsCut(to) || !at.IsInside(to) && (n.Apart(m.From.Addr(), at) || !m.Data && n.losesControl(m.From.Addr(), at)) {
		n.lose(m)
		return r, false
	}
	return at.Router, true
}

// Apart reports whether a partition lies between two stations. The attacker is on both
// sides.
func (n *Network[R]) Apart(from netip.Addr, to *Station[R]) bool {
	if n.Parted == 0 && len(n.severed) == 0 {
		return false
	}
	sender := n.Owner(from)
	return sender != nil && (n.Parted > 0 && n.side(sender) != n.side(to) || n.severed[pairOf(sender, to)] > 0)
}

// Sever cuts the path between two stations, whichever addresses they have, or mends it again.
func (n *Network[R]) Sever(a, b *Station[R], by int) {
	if n.severed == nil {
		n.severed = map[[2]int]int{}
	}
	n.severed[pairOf(a, b)] += by
}

func pairOf[R any](a, b *Station[R]) [2]int {
	return [2]int{min(a.Number, b.Number), max(a.Number, b.Number)}
}

func (n *Network[R]) side(s *Station[R]) bool { return n.Divide>>(uint(s.Number)%32)&1 == 1 }

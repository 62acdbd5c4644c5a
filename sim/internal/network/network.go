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

// Station is a router as the network sees it.
type Station[R any] interface {
	comparable
	// Number tells it from others.
	Number() int
	// Has reports whether an address is its own.
	Has(a netip.Addr) bool
	// IsCut reports whether nothing leaves or reaches it by that address.
	IsCut(a netip.Addr) bool
	// IsInside reports whether an address of its own is on a link inside its site.
	IsInside(a netip.Addr) bool
	// IsBeside reports whether both are of one site.
	IsBeside(other R) bool
}

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
	Crowd func(from R, underWay int)
}

// Network carries mail between routers, whose addresses are in its Book.
type Network[R Station[R]] struct {
	addresses.Book[R]
	Conditions
	Routers   int  // how many there are
	Parted    int  // partitions in force
	Divide    uint // how a partition divides
	LostHeavy int  // faults of heavy loss in force

	surroundings Surroundings[R]
	underWay     int
	severed      map[[2]int]int // faults that cut the path between two routers, by their numbers
	spare        []*Mail
}

// Conditions are how bad the network is.
type Conditions struct {
	Loss, Duplicate, Reorder float64
	Jitter                   time.Duration
	MaxDelay                 time.Duration
}

// New makes a network of no router yet.
func New[R Station[R]](s Surroundings[R]) Network[R] { return Network[R]{surroundings: s} }

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

// Carry brings mail from a router, or from an attacker when it is none, on its way. Nothing is known of it afterwards.
func (n *Network[R]) Carry(from R, m *Mail) {
	n.dispatch(from, m)
	n.Release(m)
}

// dispatch puts the copies of mail that come through into the queue.
func (n *Network[R]) dispatch(from R, m *Mail) {
	var none R
	to := n.Owner(m.To.Addr())
	if to == none || from != none && from.IsCut(m.From.Addr()) {
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
		n.surroundings.Crowd(from, n.underWay)
	}
}

// queue lets mail arrive later.
func (n *Network[R]) queue(later time.Duration, to R, m *Mail) {
	n.underWay++
	m.copies++
	n.surroundings.Queue(*n.surroundings.Now+later, to, m)
}

// carryInside brings mail from one sibling to another. No other router is on that link.
func (n *Network[R]) carryInside(from, to R, m *Mail) {
	var none R
	if from == none || !from.IsBeside(to) {
		n.lose(m)
		return
	}
	n.queue(insideDelay, to, m)
}

// delay depends on the two routers, with jitter; what is reordered comes much later.
func (n *Network[R]) delay(from, to R) time.Duration {
	var none R
	sender := uint64(1 << 20)
	if from != none {
		sender = uint64(from.Number())
	}
	r := n.surroundings.Random
	pair := (sender + 1) * uint64(to.Number()+1) * 0x9e3779b97f4a7c15
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

// Arrive takes mail for a router out of the network, and says who has its address by now; false when it is lost.
func (n *Network[R]) Arrive(to R, m *Mail) (at R, arrives bool) {
	n.underWay--
	m.copies--
	var none R
	a := m.To.Addr()
	if !to.Has(a) {
		to = n.Owner(a)
	}
	if to == none || to.IsCut(a) || !to.IsInside(a) && n.Apart(m.From.Addr(), to) {
		n.lose(m)
		return none, false
	}
	return to, true
}

// Apart reports whether a partition lies between two routers. The attacker is on both
// sides.
func (n *Network[R]) Apart(from netip.Addr, to R) bool {
	if n.Parted == 0 && len(n.severed) == 0 {
		return false
	}
	var none R
	sender := n.Owner(from)
	return sender != none && (n.Parted > 0 && n.side(sender) != n.side(to) || n.severed[pairOf(sender, to)] > 0)
}

// Sever cuts the path between two routers, whichever addresses they have, or mends it again.
func (n *Network[R]) Sever(a, b R, by int) {
	if n.severed == nil {
		n.severed = map[[2]int]int{}
	}
	n.severed[pairOf(a, b)] += by
}

func pairOf[R Station[R]](a, b R) [2]int {
	return [2]int{min(a.Number(), b.Number()), max(a.Number(), b.Number())}
}

func (n *Network[R]) side(r R) bool { return n.Divide>>(uint(r.Number())%32)&1 == 1 }

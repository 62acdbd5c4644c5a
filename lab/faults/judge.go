// SPDX-License-Identifier: Apache-2.0

package faults

// What was lost, and what of it a fault excuses.

import (
	"slices"
	"time"
)

const (
	// recovery is how soon after a fault ended all has to be as before.
	recovery = 5 * time.Second
	// learning is how long hosts and routers may take to learn of a smaller MTU: Packet Too Big has to reach the
	// host.
	learning = time.Second
	// remembered is how long the kernel of a router remembers the smaller MTU of a path
	// (net.ipv4.route.mtu_expires). A host that comes to that path within this time, because another router or
	// another locator has its packets now, loses the first large one.
	remembered = 10 * time.Minute
)

// An excuse says which losses a fault explains: datagrams sent in its time, from or to its site.
type excuse struct {
	from, to  time.Duration // since the beginning of the run
	site      int           // -1: of all
	largeOnly bool
	// discovery is of one large datagram of each stream, whose next large one arrives: the one that Packet Too
	// Big answers.
	discovery bool
	// towardsOnly leaves out what the site sends.
	towardsOnly bool
	// senders are sites whose packets are meant; none: those of all.
	senders []int
}

func (e excuse) covers(s *stream, number int) bool {
	at := s.sent[number]
	ofSite := e.site < 0 || s.to == e.site || s.from == e.site && !e.towardsOnly
	bySender := len(e.senders) == 0 || slices.Contains(e.senders, s.from)
	return at >= e.from && at <= e.to && ofSite && bySender && (!e.largeOnly || isLarge(number))
}

// Loss are datagrams of one stream, one after the other, that did not arrive and that no fault excuses.
type Loss struct {
	Stream   string
	At       time.Duration // when the first of them was sent, since the beginning
	Packets  int
	Large    int    // of them: those that a smaller MTU does not carry
	LastDone string // the fault that began last before
}

// losses lists what no excuse covers. Datagrams sent before known belong to mappings that are being asked for.
func losses(streams []*stream, known time.Duration, excuses []excuse, done []Done) (list []Loss, sent, excused int) {
	for _, s := range streams {
		ofStream, sentOfStream, excusedOfStream := s.losses(known, excuses, done)
		list, sent, excused = append(list, ofStream...), sent+sentOfStream, excused+excusedOfStream
	}
	return list, sent, excused
}

// losses lists those of one stream.
func (s *stream) losses(known time.Duration, excuses []excuse, done []Done) (list []Loss, sent, excused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, discovered := -2, make([]bool, len(excuses))
	for number := range s.sent {
		if s.sent[number] < known {
			continue
		}
		sent++
		if s.arrived[number] != 0 {
			continue
		}
		if isExcused(s, number, excuses, discovered) {
			excused++
			continue
		}
		if number != last+1 {
			sent := s.sent[number]
			list = append(list, Loss{Stream: s.source.String() + " to " + s.destination.String(), At: sent, LastDone: before(done, sent)})
		}
		loss := &list[len(list)-1]
		if loss.Packets++; isLarge(number) {
			loss.Large++
		}
		last = number
	}
	return list, sent, excused
}

// isExcused reports whether an excuse covers a datagram. An excuse for discoveries covers one, which is noted in
// discovered.
func isExcused(s *stream, number int, excuses []excuse, discovered []bool) bool {
	for i, e := range excuses {
		switch {
		case !e.covers(s, number):
		case !e.discovery:
			return true
		case !discovered[i] && s.nextLargeArrived(number):
			discovered[i] = true
			return true
		}
	}
	return false
}

func (s *stream) nextLargeArrived(number int) bool {
	next := number + largeEach
	return next < len(s.arrived) && s.arrived[next] != 0
}

// before names the fault that began last before a moment.
func before(done []Done, at time.Duration) string {
	name, begun := "none", time.Duration(0)
	for _, d := range done { // in the order of their ends
		if d.From <= at && d.From >= begun {
			name, begun = d.name(), d.From
		}
	}
	return name
}

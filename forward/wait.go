// SPDX-License-Identifier: Apache-2.0

package forward

// The queue of packets that wait for a mapping. It is bounded in packets, octets
// and time; the oldest stay and the newest is refused, because the first packet of
// a flow matters most. It knows no clock and takes no lock: the caller has both.

import (
	"time"

	"loci/lisp"
)

// WaitBounds bound a WaitQueue.
type WaitBounds struct {
	PacketsPerDestination int
	PacketsTotal          int
	OctetsTotal           int
	Time                  time.Duration // how long a packet waits at most
}

// oneDestinationShare: no destination takes more than this part of the octets,
// so that one host that sends to nowhere leaves room for the others.
const oneDestinationShare = 2

// No source takes more packets or octets than it leaves free: a host that floods alone
// fills half of the queue, two a third each, and there is always room for another
// host's first packet. All of its network take networkShare times what is left free, all
// of its Instance-ID and family instanceShare times: forged sources leave room to others.
const (
	networkShare  = 3
	instanceShare = 7

	networkBits4 = 24
	networkBits6 = 64
)

// Destination is what packets wait for: an EID in an Instance-ID.
type Destination struct {
	Instance lisp.InstanceID
	EID      lisp.EID
}

// Waiting is a packet that waits, whatever form the engine keeps it in.
type Waiting[P any] struct {
	Source      lisp.EID // in the Destination's Instance-ID; zero: counts for no share
	Destination Destination
	Since       time.Time
	Octets      int
	Packet      P
}

// WaitQueue holds packets by destination, first in, first out. The zero value
// refuses everything: use NewWaitQueue.
type WaitQueue[P any] struct {
	bounds       WaitBounds
	destinations map[Destination]*waitList[P]
	shares       map[lisp.Prefix]*waitShare // of sources and those they are among
	oldest       *waitNode[P]               // of all destinations
	newest       *waitNode[P]
	packets      int
	octets       int
}

// waitNode is in two lists: of all packets, and of those of its destination.
type waitNode[P any] struct {
	Waiting[P]
	shares       sharesOf
	older, newer *waitNode[P]
	next         *waitNode[P] // of the same destination
}

// waitShare is what of the queue all sources of a prefix take.
type waitShare struct {
	prefix          lisp.Prefix
	packets, octets int
}

// sharesOf are the shares that a packet is a part of: those of its source, of the
// source's network, and of its Instance-ID and family; nil for none.
type sharesOf [3]*waitShare

// shareTimes is how many times what is left free each of them may be.
var shareTimes = [...]int{1, networkShare, instanceShare}

type waitList[P any] struct {
	first, last *waitNode[P]
	packets     int
	octets      int
}

// NewWaitQueue makes an empty queue.
func NewWaitQueue[P any](bounds WaitBounds) *WaitQueue[P] {
	return &WaitQueue[P]{bounds: bounds, destinations: make(map[Destination]*waitList[P]), shares: make(map[lisp.Prefix]*waitShare)}
}

// SetBounds changes the bounds. Packets beyond them stay until they are released
// or expire by the new time.
func (q *WaitQueue[P]) SetBounds(bounds WaitBounds) { q.bounds = bounds }

// Add takes a packet of so many octets, or says which bound refuses it. first
// reports that no other packet waits for that destination.
func (q *WaitQueue[P]) Add(now time.Time, to Destination, octets int, packet P) (first bool, reason DropReason) {
	return q.AddFrom(now, lisp.EID{}, to, octets, packet)
}

// AddFrom is Add for a packet whose source counts: beyond its share it is refused.
func (q *WaitQueue[P]) AddFrom(now time.Time, from lisp.EID, to Destination, octets int, packet P) (first bool, reason DropReason) {
	list := q.destinations[to]
	if list == nil {
		list = &waitList[P]{}
	}
	switch {
	case list.packets >= q.bounds.PacketsPerDestination, q.packets >= q.bounds.PacketsTotal:
		return false, DropWaitingPacketsLimit
	case octets > q.bounds.OctetsTotal-q.octets, octets > q.bounds.OctetsTotal/oneDestinationShare-list.octets:
		return false, DropWaitingOctetsLimit
	}
	shares := q.sharesOf(to.Instance, from)
	if !q.hasPlace(shares, octets) {
		q.shareOut(shares, 0, 0)
		return false, DropWaitingSourceLimit
	}
	first = list.packets == 0
	q.destinations[to] = list
	n := &waitNode[P]{Waiting: Waiting[P]{Source: from, Destination: to, Since: now, Octets: octets, Packet: packet}, shares: shares}
	list.push(n)
	q.push(n)
	return first, DropNone
}

// Release takes out every packet whose destination the prefix covers, oldest
// first.
func (q *WaitQueue[P]) Release(prefix lisp.Prefix) []Waiting[P] { return q.ReleaseReady(prefix, nil) }

// ReleaseReady is Release for the destinations that ready says yes to: a mapping
// may cover a prefix and yet not decide for all of it, where a more specific one
// that still waits for an answer stands before it.
func (q *WaitQueue[P]) ReleaseReady(prefix lisp.Prefix, ready func(Destination) bool) []Waiting[P] {
	if q.packets == 0 {
		return nil
	}
	if prefix.IsHost() {
		return q.releaseList(Destination{Instance: prefix.Instance(), EID: prefix.EID()}, ready)
	}
	var released []Waiting[P]
	for n := q.oldest; n != nil; {
		newer := n.newer
		if prefix.Contains(n.Destination.Instance, n.Destination.EID) && (ready == nil || ready(n.Destination)) {
			released = append(released, q.take(n))
		}
		n = newer
	}
	return released
}

func (q *WaitQueue[P]) releaseList(to Destination, ready func(Destination) bool) []Waiting[P] {
	list := q.destinations[to]
	if list == nil || ready != nil && !ready(to) {
		return nil
	}
	released := make([]Waiting[P], 0, list.packets)
	for list.packets > 0 {
		released = append(released, q.take(list.first))
	}
	return released
}

// Expire takes out the packets that have waited for their time at now, oldest
// first; each counts as dropped by DropWaitingTimeLimit.
func (q *WaitQueue[P]) Expire(now time.Time) []Waiting[P] {
	var expired []Waiting[P]
	for q.oldest != nil && now.Sub(q.oldest.Since) >= q.bounds.Time {
		expired = append(expired, q.take(q.oldest))
	}
	return expired
}

// NextExpiry is when Expire has something to do; false while nothing waits.
func (q *WaitQueue[P]) NextExpiry() (time.Time, bool) {
	if q.oldest == nil {
		return time.Time{}, false
	}
	return q.oldest.Since.Add(q.bounds.Time), true
}

// Packets is how many packets wait.
func (q *WaitQueue[P]) Packets() int { return q.packets }

// Octets is how many octets wait.
func (q *WaitQueue[P]) Octets() int { return q.octets }

// Destinations is how many destinations are waited for.
func (q *WaitQueue[P]) Destinations() int { return len(q.destinations) }

// Waits reports whether packets wait for a destination.
func (q *WaitQueue[P]) Waits(to Destination) bool { return q.destinations[to] != nil }

func (q *WaitQueue[P]) push(n *waitNode[P]) {
	n.older = q.newest
	if q.newest == nil {
		q.oldest = n
	} else {
		q.newest.newer = n
	}
	q.newest = n
	q.packets++
	q.octets += n.Octets
	q.shareOut(n.shares, 1, n.Octets)
}

// sharesOf finds the shares of a source, and makes those that are not there.
func (q *WaitQueue[P]) sharesOf(instance lisp.InstanceID, source lisp.EID) (all sharesOf) {
	if source == (lisp.EID{}) {
		return all
	}
	network := networkBits4
	if source.Kind() == lisp.EIDIPv6 {
		network = networkBits6
	}
	for i, bits := range [...]int{source.BitLen(), min(network, source.BitLen()), 0} {
		prefix, _ := lisp.PrefixFrom(instance, source, bits)
		share := q.shares[prefix]
		if share == nil {
			share = &waitShare{prefix: prefix}
			q.shares[prefix] = share
		}
		all[i] = share
	}
	return all
}

// hasPlace reports whether each share may grow by a packet.
func (q *WaitQueue[P]) hasPlace(shares sharesOf, octets int) bool {
	freePackets, freeOctets := q.bounds.PacketsTotal-q.packets, q.bounds.OctetsTotal-q.octets
	for i, share := range shares {
		if share != nil && (share.packets >= shareTimes[i]*freePackets || share.octets+octets > shareTimes[i]*freeOctets) {
			return false
		}
	}
	return true
}

// shareOut adds packets to shares, or takes them out with less than 0; empty ones go.
func (q *WaitQueue[P]) shareOut(shares sharesOf, packets, octets int) {
	for _, share := range shares {
		if share == nil {
			continue
		}
		share.packets += packets
		share.octets += octets
		if share.packets == 0 {
			delete(q.shares, share.prefix)
		}
	}
}

func (l *waitList[P]) push(n *waitNode[P]) {
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	l.packets++
	l.octets += n.Octets
}

// take removes a packet, which must be the oldest of its destination. The caller
// walks the queue from its oldest end meets each destination's oldest first.
func (q *WaitQueue[P]) take(n *waitNode[P]) Waiting[P] {
	list := q.destinations[n.Destination]
	list.first = n.next
	list.packets--
	list.octets -= n.Octets
	if list.packets == 0 {
		delete(q.destinations, n.Destination)
	}
	if n.older == nil {
		q.oldest = n.newer
	} else {
		n.older.newer = n.newer
	}
	if n.newer == nil {
		q.newest = n.older
	} else {
		n.newer.older = n.older
	}
	q.packets--
	q.octets -= n.Octets
	q.shareOut(n.shares, -1, -n.Octets)
	return n.Waiting
}

// SPDX-License-Identifier: Apache-2.0

// This file counts what is in the TAP's queue, together with the programs
// (bpf/abi_backlog.h): they add what they send there, and let no source take more of
// it than it leaves free; here is taken off what was read. It judges no packet.

package pending

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/tap"
)

const (
	backlogShares = 16384 // LISP_BACKLOG_SHARES
	backlogOctets = 4096  // LISP_BACKLOG_OCTETS
	hashFactor    = 0x9E3779B1

	// lostAfter is how long what was counted may be on its way until it counts as lost, seen so often. Programs
	// take microseconds; the kernel's queue before the TAP may be served later on a busy machine.
	lostAfter = 100 * time.Millisecond
	lostLooks = 16
)

// Backlog is the memory of that map.
type Backlog struct{ numbers *abi.Backlog }

// NewBacklog is the backlog in the memory of its map.
func NewBacklog(numbers *abi.Backlog) Backlog { return Backlog{numbers} }

// begin sets how many places there are, and counts anew.
func (u Backlog) begin(limit uint32) {
	u.numbers.Seed = rand.Uint32() // a sender cannot choose a source that is at another one's place
	u.forget()
	atomic.StoreUint32(&u.numbers.Limit, limit)
}

// forget says that nothing is in the queue. Packets on their way there are then taken
// off though they do not count: remove does not go below 0.
func (u Backlog) forget() {
	for i := range u.numbers.Shares {
		atomic.StoreInt32(&u.numbers.Shares[i], 0)
	}
	atomic.StoreInt32(&u.numbers.Places, 0)
}

// IsZero reports whether nothing that is counted is in the queue.
func (u Backlog) IsZero() bool { return atomic.LoadInt32(&u.numbers.Places) == 0 }

// overdue is since when packets were on their way to an empty TAP, each time it was looked at: not the same ones,
// mostly.
type overdue struct {
	since time.Time
	looks int
}

// isLost takes another look, and reports whether what is on its way now will not come.
func (o *overdue) isLost(now time.Time, isUnderWay bool) bool {
	if o.looks == 0 {
		o.since = now
	}
	o.looks++
	lost := isUnderWay && o.looks >= lostLooks && now.Sub(o.since) >= lostAfter
	if !isUnderWay || lost {
		o.looks = 0
	}
	return lost
}

// A backlogEntry is what a frame takes of the queue; of none of ours, nothing.
type backlogEntry struct {
	places int32
	shares [3]uint32
}

// entryOf is what a frame takes that was read.
func (u Backlog) entryOf(f tap.Frame) backlogEntry {
	if f.Magic() != abi.TAPWaiting {
		return backlogEntry{}
	}
	return backlogEntry{places: 1 + int32(len(f.Packet())/backlogOctets), shares: u.sharesOf(f)}
}

// remove takes off what a frame took.
func (u Backlog) remove(e backlogEntry) {
	if e.places == 0 {
		return
	}
	takeOff(&u.numbers.Places, e.places)
	for _, share := range e.shares {
		takeOff(&u.numbers.Shares[share], e.places)
	}
}

func takeOff(number *int32, places int32) {
	if had := atomic.LoadInt32(number); had > 0 {
		atomic.AddInt32(number, -min(places, had))
	}
}

// sharesOf returns where the shares of a frame's interface, network and source are.
func (u Backlog) sharesOf(f tap.Frame) [3]uint32 {
	ofInterface := hashStep(u.numbers.Seed, f.Origin())
	ofNetwork, ofSource := ofInterface, ofInterface
	packet := f.Packet()
	switch protocol := binary.BigEndian.Uint16(f.Ethernet()[12:]); {
	case protocol == unix.ETH_P_IP && len(packet) >= 20:
		source := binary.BigEndian.Uint32(packet[12:])
		ofNetwork = hashStep(ofInterface, source>>8)
		ofSource = hashStep(ofNetwork, source&255)
	case protocol == unix.ETH_P_IPV6 && len(packet) >= 40:
		ofNetwork = hashStep(hashStep(ofInterface, binary.BigEndian.Uint32(packet[8:])), binary.BigEndian.Uint32(packet[12:]))
		ofSource = hashStep(hashStep(ofNetwork, binary.BigEndian.Uint32(packet[16:])), binary.BigEndian.Uint32(packet[20:]))
	}
	return [3]uint32{ofInterface % backlogShares, ofNetwork % backlogShares, ofSource % backlogShares}
}

// hashStep is the step of the flow hash (bpf/abi.h).
func hashStep(h, word uint32) uint32 {
	h ^= word
	h *= hashFactor
	return h ^ h>>15
}

// SPDX-License-Identifier: Apache-2.0

package user

// Datagrams on their way to the core: those that may leave together are collected to a train.

import "loci/dataplane/user/underlay"

// trains collects datagrams for a sender. One goroutine uses it.
type trains struct {
	sender sender
	heads  []byte // headers of datagrams that have not left, at which the sender's pieces point
	train  train
}

// train are datagrams that may leave together: the same outer headers, all but the last of one length.
type train struct {
	outer   underlay.Outer
	pieces  [][]byte
	count   int
	octets  int
	segment int
	closed  bool
}

// add puts a datagram into the train, or begins a new one with it.
func (t *trains) add(o underlay.Outer, head, payload []byte) {
	now, octets := &t.train, len(head)+len(payload)
	fits := now.count > 0 && !now.closed && now.outer == o && octets <= now.segment && now.octets+octets <= underlay.MaxTrainOctets && now.count < underlay.MaxSegments &&
		t.sender.Cuts()
	if !fits {
		t.endTrain()
		now.outer, now.segment = o, octets
	}
	now.pieces = append(now.pieces, head, payload)
	now.count, now.octets, now.closed = now.count+1, now.octets+octets, octets < now.segment
}

// addOf is add for a packet of a flow, with these marks in the outer header.
func (t *trains) addOf(f *flow, n *nonces, m underlay.Marks, packet []byte) {
	at := len(t.heads)
	header := f.headerFor(n)
	t.heads = append(t.heads, header[:]...)
	o := f.outer
	o.Marks = m
	t.add(o, t.heads[at:], packet)
}

func (t *trains) endTrain() {
	now := &t.train
	if now.count == 0 {
		return
	}
	if now.count > 1 {
		now.outer.Segment = now.segment
	}
	t.sender.Add(&now.outer, now.pieces...)
	clear(now.pieces)
	*now = train{pieces: now.pieces[:0]}
}

// send sends all.
func (t *trains) send() {
	t.endTrain()
	t.sender.Flush()
	t.heads = t.heads[:0]
}

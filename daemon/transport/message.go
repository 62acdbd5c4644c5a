// SPDX-License-Identifier: Apache-2.0

package transport

// A message on its way from a socket to the event loop, and the batches that it travels in.

import "loci/control"

// Message is one message for the loop: one of the first two is set.
type Message struct {
	Received control.Received
	Refusal  *control.Refusal
	room     *control.Scratch // where received may be; no other element of any batch has it
}

// roomFor is where a message is read into; nil for new memory.
func (i *Message) roomFor(message []byte) *control.Scratch {
	if len(message) > roomOctets {
		return nil
	}
	return i.room
}

// roomOctets is the longest message that is read into a room. A room keeps what its last message
// needed, and there are thousands.
const roomOctets = 192

// emptied is a batch that its messages are done with. It keeps their rooms.
func emptied(b []Message) []Message {
	for i := range b {
		b[i] = Message{room: b[i].room}
	}
	return b[:0]
}

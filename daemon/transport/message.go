// SPDX-License-Identifier: Apache-2.0

package transport

// A message on its way from a socket to the event loop, and the batches that it travels in.

import "loci/control"

// Message is one message for the loop: one of the first two is set.
type Message struct {
	Received control.Received
	Refusal  *control.Refusal
	scratch  *control.Scratch // where received may be; no other element of any batch has it
}

// scratchFor is where a message is read into; nil for new memory.
func (i *Message) scratchFor(message []byte) *control.Scratch {
	if len(message) > scratchOctets {
		return nil
	}
	return i.scratch
}

// scratchOctets is the longest message that is read into a scratch buffer. A buffer keeps what its last message
// needed, and there are thousands.
const scratchOctets = 192

// emptied is a batch that its messages are done with. It keeps their buffers.
func emptied(b []Message) []Message {
	for i := range b {
		b[i] = Message{scratch: b[i].scratch}
	}
	return b[:0]
}

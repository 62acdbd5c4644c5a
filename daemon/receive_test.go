// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"testing"

	"loci/control"
)

// What is left to the loop of a batch keeps its rooms, and no two messages of any batch share one.
func TestRoomsOfABatch(t *testing.T) {
	const all, handled = 7, 3
	s := &sockets{in: make(chan []inbound, 1), done: make(chan []inbound, 1)}
	s.direct = func(_ *stint, batch []inbound) []inbound { return batch[handled:] }
	r := &receiver{s: s, batch: s.freeInbound()}
	var rooms []*control.Room
	for range all {
		next := r.next()
		next.refusal = &control.Refusal{}
		rooms = append(rooms, next.room)
	}
	r.enqueue()
	left := <-s.in
	if len(left) != all-handled {
		t.Fatalf("%d messages are left, want %d", len(left), all-handled)
	}
	for i := range left {
		if left[i].room != rooms[handled+i] || left[i].refusal == nil {
			t.Errorf("message %d came to another room, or empty", i)
		}
	}
	s.release(left)
	seen := map[*control.Room]bool{}
	for _, one := range s.freeInbound()[:all] {
		if one.refusal != nil {
			t.Error("a message is left in a batch that is free")
		}
		if seen[one.room] {
			t.Error("two messages share a room")
		}
		seen[one.room] = true
	}
}

// While half of the queue is taken, messages gather in the sockets.
func TestMessagesGatherWhileTheQueueIsLong(t *testing.T) {
	const places = 8
	s := &sockets{in: make(chan []inbound, places)}
	for waiting := range places + 1 {
		if pause := s.gatherPause(); pause > 0 != (waiting > places/2) {
			t.Errorf("with %d batches of %d: %v", waiting, places, pause)
		}
		if waiting < places {
			s.in <- nil
		}
	}
}

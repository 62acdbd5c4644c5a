// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"log/slog"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"loci/control"
)

// A socket takes what one sender sends in a piece where many messages wait, and only there: the kernel looks for a socket for every
// packet that an interface aggregates while any has that option.
func TestMessagesAreAggregatedUnderLoad(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		s, err := Listen([]netip.Addr{netip.MustParseAddr(address)}, 0, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := newReceiver(s.keyring, s.inbox, s.families[0], s.log)
		heeds := func(datagrams int) (option int) {
			r.aggregate(datagrams)
			if err := r.f.socket.Control(func(fd uintptr) { option, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_UDP, udpGRO) }); err != nil {
				t.Fatal(err)
			}
			return option
		}
		for _, datagrams := range []int{receiveBatch, receiveBatch, receiveBatch, 1, receiveBatch, receiveBatch, receiveBatch} {
			if option := heeds(datagrams); option != 0 {
				t.Errorf("%s: aggregates before four batches in a row were full", address)
			}
		}
		if heeds(receiveBatch) != 1 || heeds(1) != 1 {
			t.Errorf("%s: does not aggregate after four full batches", address)
		}
	}
}

// What is left to the loop of a batch keeps its scratch buffers, and no two messages of any batch share one.
func TestScratchBuffersOfABatch(t *testing.T) {
	const all, handled = 7, 3
	s := newInbox()
	s.direct = func(_ *Activity, batch []Message) []Message { return batch[handled:] }
	r := &receiver{inbox: s, batch: s.free()}
	var buffers []*control.Scratch
	for range all {
		next := r.next()
		next.Refusal = &control.Refusal{}
		buffers = append(buffers, next.scratch)
	}
	r.enqueue()
	left := <-s.in
	if len(left) != all-handled {
		t.Fatalf("%d messages are left, want %d", len(left), all-handled)
	}
	for i := range left {
		if left[i].scratch != buffers[handled+i] || left[i].Refusal == nil {
			t.Errorf("message %d came to another buffer, or empty", i)
		}
	}
	s.release(left)
	seen := map[*control.Scratch]bool{}
	for _, one := range s.free()[:all] {
		if one.Refusal != nil {
			t.Error("a message is left in a batch that is free")
		}
		if seen[one.scratch] {
			t.Error("two messages share a buffer")
		}
		seen[one.scratch] = true
	}
}

// While half of the queue is taken, messages gather in the sockets.
func TestMessagesGatherWhileTheQueueIsLong(t *testing.T) {
	const places = 8
	s := &inbox{in: make(chan []Message, places)}
	for waiting := range places + 1 {
		if pause := s.gatherPause(); pause > 0 != (waiting > places/2) {
			t.Errorf("with %d batches of %d: %v", waiting, places, pause)
		}
		if waiting < places {
			s.in <- nil
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/lisp"
)

// TestDirectTurns has turns taken by who brings an event where nobody else is in one, and only there.
func TestDirectTurns(t *testing.T) {
	d := runningDaemon(t)
	var s activity
	try := func() (taken bool) {
		done := d.loop.tryTurn(&s, turnOfCall, func(time.Time) { taken = true })
		if done != taken {
			t.Fatalf("reported %v, taken %v", done, taken)
		}
		return taken
	}
	untilTaken := func() { // the loop's goroutine begins, or takes a turn of its own
		for !try() {
			time.Sleep(time.Millisecond)
		}
	}
	untilTaken()
	d.sockets.queued.Add(1) // a batch that came before waits
	if try() {
		t.Error("a turn was taken before messages that came earlier")
	}
	d.sockets.queued.Add(-1)
	untilTaken()
	d.loop.mu.Lock() // as in a turn
	if try() {
		t.Error("two were in a turn")
	}
	d.loop.mu.Unlock()
	untilTaken()
	d.loop.setRunning(false)
	if try() {
		t.Error("a turn was taken after the loop's end")
	}
}

// TestDirectMessages has a batch that is long left to the loop, where there is more than one processor.
func TestDirectMessages(t *testing.T) {
	d := runningDaemon(t)
	var s activity
	for len(d.loop.receiveDirectly(&s, make([]inbound, directMessages))) > 0 {
		time.Sleep(time.Millisecond)
	}
	long := make([]inbound, directMessages+1)
	if left := d.loop.receiveDirectly(&s, long); !oneProcessor && len(left) != len(long) {
		t.Errorf("%d of %d messages are left to the loop", len(left), len(long))
	}
}

func TestActivityRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a activity
		if !a.rested() {
			t.Error("has worked before it began")
		}
		if a.worked(); a.rested() {
			t.Error("rests right after its work")
		}
		time.Sleep(directRest + 1)
		if !a.rested() {
			t.Error("does not rest when nothing came")
		}
	})
}

func TestUntilRing(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ deadline, want time.Duration }{
		{-time.Hour, 0}, {0, 0}, {1, timerPause}, {timerPause, timerPause}, {time.Hour, time.Hour},
	} {
		if got := untilRing(now, now.Add(c.deadline)); got != c.want {
			t.Errorf("deadline in %v: rings in %v, want %v", c.deadline, got, c.want)
		}
	}
}

// promptPlane is a data plane that is busy or not.
type promptPlane struct {
	slowPlane
	busy bool
}

func (p *promptPlane) TryApply(operations ...dataplane.Operation) ([]error, bool) {
	if p.busy {
		return nil, false
	}
	return p.Apply(operations...), true
}

func (p *promptPlane) TellAtOnce(func([]dataplane.Event) bool) {}

func TestChangesOfADirectTurn(t *testing.T) {
	plane := &promptPlane{}
	w := newPlaneWorker(plane, slog.New(slog.DiscardHandler))
	a, b := lisp.MustParsePrefix("10.1.0.0/16"), lisp.MustParsePrefix("10.2.0.0/16")
	remove := func(p lisp.Prefix) { w.queue(changeKey{prefix: p}, dataplane.DeleteMapping{Prefix: p}) }
	woken := func() bool {
		select {
		case <-w.wake:
			return true
		default:
			return false
		}
	}
	remove(a)
	if w.applyHere(); len(plane.batches) != 1 || w.waiting() != 0 || woken() {
		t.Errorf("at rest: %d batches applied, %d changes wait", len(plane.batches), w.waiting())
	}
	plane.busy = true
	remove(a)
	remove(b)
	if w.applyHere(); len(plane.batches) != 1 || w.waiting() != 2 || !woken() {
		t.Errorf("busy: %d batches applied, %d changes wait", len(plane.batches), w.waiting())
	}
	plane.busy = false
	w.applying.Lock()
	if w.applyHere(); len(plane.batches) != 1 || !woken() {
		t.Error("changes were applied beside others")
	}
	w.applying.Unlock()
	for range appliedHere {
		remove(lisp.MustParsePrefix("10.3.0.0/16"))
	}
	if w.applyHere(); len(plane.batches) != 2 || len(plane.batches[1]) != 3 || woken() {
		t.Errorf("afterwards: batches %v", plane.batches)
	}
}

// TestChangesPutBack come before those that were queued meanwhile, and give way to newer ones.
func TestChangesPutBack(t *testing.T) {
	plane := &promptPlane{}
	w := newPlaneWorker(plane, slog.New(slog.DiscardHandler))
	a, b, c := lisp.MustParsePrefix("10.1.0.0/16"), lisp.MustParsePrefix("10.2.0.0/16"), lisp.MustParsePrefix("10.3.0.0/16")
	put := func(p lisp.Prefix) dataplane.Operation {
		return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: lisp.Mapping{Prefix: p}}}
	}
	w.queue(changeKey{prefix: a}, put(a))
	w.queue(changeKey{prefix: b}, put(b))
	keys, operations := w.take()
	w.queue(changeKey{prefix: c}, put(c))
	w.queue(changeKey{prefix: a}, dataplane.DeleteMapping{Prefix: a})
	w.putBack(keys, operations)
	if !w.applyBatch() || w.applyBatch() {
		t.Fatal("not one batch")
	}
	got := plane.batches[0]
	if len(got) != 3 {
		t.Fatalf("applied %v", got)
	}
	if first, ok := got[0].(dataplane.PutMapping); !ok || first.Entry.Mapping.Prefix != b {
		t.Errorf("first came %v", got[0])
	}
	if last, ok := got[2].(dataplane.DeleteMapping); !ok || last.Prefix != a {
		t.Errorf("last came %v", got[2])
	}
}

// TestDatagramSocketsStop ends the waiting of a receiver that nothing comes to.
func TestDatagramSocketsStop(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		s, err := listen([]netip.Addr{netip.MustParseAddr(address)}, 0, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s.keyring.Store(&control.Keyring{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.run(ctx); close(ended) }()
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), s.families[0].port))
		conn, err := net.DialUDP("udp", nil, to)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("no message of LISP")); err != nil {
			t.Fatal(err)
		}
		if batch := <-s.in; len(batch) != 1 || batch[0].refusal == nil {
			t.Errorf("%s: received %v", address, batch)
		}
		stop()
		<-ended
		_ = conn.Close()
	}
}

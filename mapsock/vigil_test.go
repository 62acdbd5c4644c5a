// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"testing"
	"time"
)

// vigilOf counts what is kept.
func vigilOf(kept, released *int) *vigil {
	return &vigil{keep: func() func() { *kept++; return func() { *released++ } }}
}

func TestVigil(t *testing.T) {
	var kept, released int
	v := vigilOf(&kept, &released)
	now := time.Now()
	v.enough(now)
	v.enough(now.Add(vigilWindow))
	if kept != 0 {
		t.Fatal("awake for notes that come slowly")
	}
	v.enough(now.Add(vigilWindow + vigilWindow/2))
	v.enough(now.Add(vigilWindow + vigilWindow/2))
	if kept != 1 {
		t.Fatalf("kept %d times for notes that come quickly, want once", kept)
	}
	v.mu.Lock()
	v.timer.Stop() // the test looks itself
	v.mu.Unlock()
	v.notes.Store(vigilNotes)
	v.look()
	if released > 0 {
		t.Fatal("the vigil ends while notes come")
	}
	v.mu.Lock()
	v.timer.Stop()
	v.mu.Unlock()
	v.notes.Store(vigilNotes - 1)
	v.look()
	v.look()
	if released != 1 {
		t.Fatalf("released %d times when notes had ceased, want once", released)
	}
}

func TestVigilEndsWithItsServer(t *testing.T) {
	var kept, released int
	v := vigilOf(&kept, &released)
	now := time.Now()
	v.enough(now)
	v.enough(now)
	v.close()
	v.enough(now)
	v.look()
	if kept != 1 || released != 1 {
		t.Errorf("kept %d times, released %d times, want once each", kept, released)
	}
	(&vigil{}).note() // of a server that nobody gave the means
}

// A client in lock step begins a vigil, and one that has ceased ends it. By the server's
// clock, which stands still, its requests come at once however slow this machine is.
func TestServerStaysAwake(t *testing.T) {
	began, ended := make(chan struct{}, 100), make(chan struct{}, 100)
	start := time.Now()
	s := serve(t, Options{
		Now: func() time.Time { return start },
		StayAwake: func() func() {
			began <- struct{}{}
			return func() { ended <- struct{}{} }
		},
	})
	c := s.dial(t)
	late := time.After(patience)
	for waiting := true; waiting; {
		apply(t, c, to("10.2.0.0/24", "192.0.2.2"))
		select {
		case <-began:
			waiting = false
		case <-late:
			t.Fatal("requests come one after another, and the processors may sleep")
		default:
		}
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("nothing comes, and the processors are kept awake")
	}
}

// SPDX-License-Identifier: Apache-2.0

package eventloop

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestIterationClock has iterations that began in the past by one of the clocks: no time goes by here.
func TestIterationClock(t *testing.T) {
	var c iterationClock
	interrupted := beginIteration(ofMessages)
	interrupted.wall = interrupted.wall.Add(-time.Hour) // others had the processor
	c.end(interrupted)
	if got := time.Duration(c.longest.Load()); got < time.Hour || c.long.Load() != 1 {
		t.Errorf("by the wall: %v, %d long iterations; an hour went by", got, c.long.Load())
	}
	if got := time.Duration(c.longestWork.Load()); got > time.Minute {
		t.Errorf("of processor time: %v, in which nothing was done", got)
	}
	parallel := beginIteration(ofTimeout)
	parallel.wall, parallel.work = parallel.wall.Add(-time.Minute), parallel.work-2*time.Hour // two processors at work
	c.end(parallel)
	if got := time.Duration(c.longestWork.Load()); got < time.Minute || got > time.Hour || c.longWork.Load() == 0 {
		t.Errorf("of processor time: %v, %d long iterations; a minute went by", got, c.longWork.Load())
	}
	if got := time.Duration(c.longestOwn.Load()); got > time.Minute {
		t.Errorf("of the thread's processor time: %v; others had all of it", got)
	}
	own := beginIteration(ofMessages)
	own.wall, own.thread.Utime.Sec = own.wall.Add(-time.Minute), own.thread.Utime.Sec-60
	c.end(own)
	if got := time.Duration(c.longestOwn.Load()); got < time.Minute || c.longOwn.Load() == 0 {
		t.Errorf("of the thread's processor time: %v, %d long iterations; it had a minute", got, c.longOwn.Load())
	}
}

// TestIterationHasItsThread lets others run in the middle of an iteration: none of them has the iteration's thread.
func TestIterationHasItsThread(t *testing.T) {
	var c iterationClock
	start := beginIteration(ofCall)
	thread := unix.Gettid()
	others := make(chan int)
	for range 8 {
		go func() { others <- unix.Gettid() }()
	}
	for range 8 {
		if other := <-others; other == thread {
			t.Error("another goroutine has the iteration's thread")
		}
	}
	if unix.Gettid() != thread {
		t.Error("the iteration went on in another thread")
	}
	c.end(start)
}

// TestClockTellsKinds looks at which kind the longest iteration is told of, and what it had.
func TestClockTellsKinds(t *testing.T) {
	var c iterationClock
	for _, kind := range []kind{ofCall, ofMessages, ofPlane} {
		s := beginIteration(kind)
		length := int64(60 * (1 + kind%4)) // by all three clocks
		s.wall, s.work = s.wall.Add(-time.Duration(length)*time.Second), s.work-time.Hour
		s.thread.Utime.Sec -= length
		s.thread.Minflt -= 1000 * length
		s.thread.Nivcsw -= 10 * length
		c.end(s)
	}
	times := c.times()
	for kind, c := range []struct {
		KindTimes
		least time.Duration
	}{
		{times.Messages, time.Minute}, {times.Plane, 2 * time.Minute}, {times.Call, 4 * time.Minute},
		{times.Usage, 0}, {times.Timeout, 0}, {times.Shutdown, 0},
	} {
		w, o, least := c.Processor, c.Thread, c.least
		if w < least || o < least || least > 0 && (w >= 2*least || o >= 2*least) || least == 0 && o != 0 {
			t.Errorf("kind %d: %v, %v of the thread, want at least %v", kind, w, o, least)
		}
	}
	if times.Processor.Longest != times.Call.Processor || times.Thread.Longest != times.Call.Thread || times.Thread.Long != 3 {
		t.Errorf("of all: %v, %v of the thread, %d long ones", times.Processor.Longest, times.Thread.Longest, times.Thread.Long)
	}
	if faults, switches := times.PageFaults, times.Switches; faults < 240_000 || faults > 290_000 || switches < 2400 || switches > 2900 {
		t.Errorf("the longest had %d page faults and %d switches", faults, switches)
	}
}

func TestCollectionDue(t *testing.T) {
	const mega = 1 << 20
	for _, c := range []struct {
		alive, allocated uint64
		listing, want    bool
	}{
		{0, 0, false, false},
		{4 * mega, 9 * mega, false, false}, // little garbage is not worth it
		{4 * mega, 11 * mega, false, true},
		{200 * mega, 300 * mega, false, false},
		{200 * mega, 341 * mega, false, true},
		{200 * mega, 100 * mega, false, false}, // the last collection is not swept yet
		{200 * mega, 240 * mega, true, false},
		{200 * mega, 249 * mega, true, true},
		{4 * mega, 9 * mega, true, false},
		{4 * mega, 11 * mega, true, true},
		{200 * mega, 100 * mega, true, false},
	} {
		if got := collectionDue(c.alive, c.allocated, c.listing); got != c.want {
			t.Errorf("%d MiB of which %d are alive: %v", c.allocated/mega, c.alive/mega, got)
		}
	}
	read := newCollector()
	read.look()
	for _, sample := range read.heap {
		if sample.Value.Kind() != metrics.KindUint64 {
			t.Errorf("the runtime does not tell %s", sample.Name)
		}
	}
}

// TestCollectorCollects asks for a collection and waits until there was one.
func TestCollectorCollects(t *testing.T) {
	t.Setenv("GOGC", "")
	forced := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
	cycles := func() uint64 { metrics.Read(forced); return forced[0].Value.Uint64() }
	before, percent := cycles(), debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
	c := newCollector()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.run(ctx); close(ended) }()
	c.begin.Set()
	for deadline := time.Now().Add(time.Minute); cycles() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was collected")
		}
	}
	stop()
	<-ended
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("the runtime's percentage is left at %d", got)
	}
	t.Setenv("GOGC", "50")
	newCollector().run(t.Context()) // returns at once
}

// SPDX-License-Identifier: Apache-2.0

package eventloop

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestIterationClock has iterations that began in the past: no time goes by here.
func TestIterationClock(t *testing.T) {
	var c iterationClock
	c.end(time.Now().Add(-time.Hour))
	c.end(time.Now().Add(-time.Minute))
	c.end(time.Now())
	if got := c.times(); got.Longest < time.Hour || got.Longest > 2*time.Hour || got.Long != 2 {
		t.Errorf("the longest took %v, %d were long; want an hour and 2", got.Longest, got.Long)
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

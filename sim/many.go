// SPDX-License-Identifier: Apache-2.0

package sim

// Many seeds, on all cores; and one run that is measured.

import (
	"context"
	"runtime"
	"sync"
)

// RunMany runs count seeds from first on, each with those options, and hands every
// result to each in the order in which runs end. It stops early when the context ends
// or when each says false.
func RunMany(ctx context.Context, o Options, count int, each func(Result) bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seeds := make(chan uint64)
	results := make(chan Result)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), max(count, 1)) {
		workers.Go(func() {
			for seed := range seeds {
				run := o
				run.Seed = seed
				results <- Run(run)
			}
		})
	}
	go func() {
		defer func() { close(seeds); workers.Wait(); close(results) }()
		for i := range count {
			select {
			case seeds <- o.Seed + uint64(i):
			case <-ctx.Done():
				return
			}
		}
	}()
	for r := range results {
		if ctx.Err() == nil && !each(r) {
			stop()
		}
	}
}

// RunMeasured is Run that also says how much memory the run holds at its end.
func RunMeasured(o Options) Result {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r, kept := run(o)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc {
		r.Stats.HeapPerRouter = (after.HeapAlloc - before.HeapAlloc) / uint64(r.Stats.Routers)
	}
	runtime.KeepAlive(kept)
	return r
}

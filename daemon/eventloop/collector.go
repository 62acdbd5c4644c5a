// SPDX-License-Identifier: Apache-2.0

package eventloop

// When garbage is collected: between iterations of the event loop. Go's runtime begins a collection wherever memory
// is allocated. On one processor that is mostly inside an iteration, which is then interrupted for 10 to 25 ms at a
// million registrations. So the loop looks between iterations how much was allocated, and starts a collection
// in a goroutine, somewhat earlier than the runtime would. The runtime starts one by itself, somewhat later than usual, only
// when other goroutines allocate much while the loop is idle. docs/decisions/0031 has what this saves.

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"

	"loci/internal/wakeup"
)

const (
	// collectAt is for how much garbage a collection begins, of what is alive: with what is allocated
	// until it ends, the heap grows as by the runtime's 100 %.
	collectAt = 0.7
	// collectLeast is the least garbage that is worth a collection.
	collectLeast = 6 << 20
	// collectList is for how much garbage one begins while a table is listed: a list of a million entries needs no more.
	collectList = 48 << 20
	// runtimePercent is when the runtime begins by itself.
	runtimePercent = 150
)

// collector begins collections.
type collector struct {
	heap  [3]metrics.Sample // what the last collection left, what there is now, and how many there were
	asked uint64            // how many there are when the one has ended that was asked for
	lists atomic.Int64      // that are under way
	begin wakeup.Signal
}

func newCollector() *collector {
	return &collector{
		heap: [3]metrics.Sample{
			{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/cycles/total:gc-cycles"},
		},
		begin: wakeup.New(),
	}
}

// look has a collection begin when it is time for one; the loop calls it between iterations. It takes half
// a microsecond.
func (c *collector) look() {
	metrics.Read(c.heap[:])
	ended := c.heap[2].Value.Uint64()
	if ended >= c.asked && collectionDue(c.heap[0].Value.Uint64(), c.heap[1].Value.Uint64(), c.lists.Load() > 0) {
		c.asked = ended + 1
		c.begin.Set()
	}
}

func collectionDue(alive, allocated uint64, listing bool) bool {
	most := max(collectLeast, uint64(collectAt*float64(alive)))
	if listing {
		most = min(most, collectList)
	}
	return allocated > alive+most
}

// run collects until the context ends. An operator's GOGC leaves everything to the runtime.
func (c *collector) run(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(runtimePercent))
	for {
		select {
		case <-c.begin:
			go runtime.GC() // it returns when all is swept, for which the next collection does not wait
		case <-ctx.Done():
			return
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// This file reports what programs remember of other routers: echoed nonces, and from which RLOCs packets come.

package entries

import (
	"errors"
	"iter"
	"time"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/bootclock"
	"loci/lisp"
)

// EchoNonce answers what dataplane.EchoReporter asks.
func (e *Entries) EchoNonce(rloc lisp.RLOC) dataplane.EchoState {
	e.mu.Lock()
	defer e.mu.Unlock()
	var peer abi.Peer
	if err := e.store.Map(abi.MapPeers).Lookup(abi.KeyOf(rloc), &peer); err != nil {
		return dataplane.EchoState{}
	}
	e.guarded.followClock()
	return dataplane.EchoState{
		AskedAt:   e.guarded.clock.FromBoot(peer.AskedNs),
		EchoedAt:  e.guarded.clock.FromBoot(peer.EchoedNs),
		MissingAt: e.guarded.clock.FromBoot(peer.MissingNs),
	}
}

// sourcesPiece is how many sources are read at once: more than are in one bucket of the kernel's table.
const sourcesPiece = 1024

// Sources answers what dataplane.SourceReporter asks.
func (e *Entries) Sources() iter.Seq2[lisp.RLOC, time.Time] {
	return func(yield func(lisp.RLOC, time.Time) bool) {
		var cursor ebpf.MapBatchCursor
		keys, times := make([]abi.RLOCKey, sourcesPiece), make([]uint64, sourcesPiece)
		for more := true; more; {
			var n int
			var ahead uint64
			n, ahead, more = e.sourcesFrom(&cursor, keys, times)
			for i := range n {
				if !yield(abi.RLOC(keys[i]), bootclock.DayOf(times[i], ahead)) {
					return
				}
			}
		}
	}
}

// sourcesFrom reads the next sources, how far the time of day is ahead of their times, and whether there are others
// behind them.
func (e *Entries) sourcesFrom(
	cursor *ebpf.MapBatchCursor, keys []abi.RLOCKey, times []uint64,
) (n int, ahead uint64, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed {
		return 0, 0, false
	}
	e.guarded.followClock()
	n, err := e.store.Map(abi.MapSources).BatchLookup(cursor, keys, times, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		e.log.Error("from which RLOCs packets come cannot be read", "error", err)
	}
	return n, e.guarded.clock.Ahead(), err == nil
}

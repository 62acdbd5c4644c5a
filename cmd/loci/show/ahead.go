// SPDX-License-Identifier: Apache-2.0

package show

// Lists are read ahead of what prints them, and outlast an output that stands still.

import (
	"iter"
	"time"

	"loci/daemon/api"
	"loci/lisp"
)

// chunkEntries is how many entries are read before they are handed on to be printed.
const chunkEntries = 256

// stillTime is how long the output may stand still until the command frees its place at the daemon, which would take
// it after a minute.
const stillTime = 10 * time.Second

// chunk is what ahead hands over: entries, all those of an EID-Prefix together, and the error that came after them.
type chunk[T any] struct {
	entries []T
	err     error
}

// ahead reads entries in a goroutine of its own while those before them are printed. Where the caller takes none for
// a while, as a pager does, that goroutine ends its question to the daemon, and later asks for the entries that
// follow. Where he takes no more, it ends at its next chunk, or with the context of what it reads.
func ahead[T any](ask func(api.ListQuery) iter.Seq2[T, error], prefixOf func(T) lisp.Prefix, query api.ListQuery) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := aheadReader[T]{ask: ask, prefixOf: prefixOf, chunks: make(chan chunk[T]), stop: make(chan struct{})}
		defer close(r.stop)
		go func() {
			defer close(r.chunks)
			r.read(query)
		}()
		for c := range r.chunks {
			for _, entry := range c.entries {
				if !yield(entry, nil) {
					return
				}
			}
			if c.err != nil {
				yield(*new(T), c.err)
				return
			}
		}
	}
}

// aheadReader is the goroutine of ahead.
type aheadReader[T any] struct {
	ask      func(api.ListQuery) iter.Seq2[T, error]
	prefixOf func(T) lisp.Prefix
	chunks   chan chunk[T]
	stop     chan struct{} // closed when no more is taken
}

// read hands over chunks until the entries or the wish for them ends.
func (r *aheadReader[T]) read(query api.ListQuery) {
	for more := true; more; {
		var last chunk[T]
		last, more = r.readChunks(&query)
		select {
		case r.chunks <- last:
		case <-r.stop:
			return
		}
	}
}

// readChunks asks once and hands chunks over, all but the last: the one at the end of the list, or the one that was
// not taken for too long. In the latter case there are more entries, and query becomes the one for them.
func (r *aheadReader[T]) readChunks(query *api.ListQuery) (next chunk[T], more bool) {
	var prefix lisp.Prefix
	began := time.Now()
	for entry, err := range r.ask(*query) {
		if err != nil {
			next.err = err
			break
		}
		p, isDue := r.prefixOf(entry), len(next.entries) >= chunkEntries || time.Since(began) >= firstRows/2
		if isDue && p != prefix && len(next.entries) > 0 {
			query.After, query.Limit = prefix, max(query.Limit-len(next.entries), 0)
			if !r.hand(next) {
				return next, true
			}
			next, began = chunk[T]{entries: make([]T, 0, chunkEntries)}, time.Now()
		}
		prefix = p
		next.entries = append(next.entries, entry)
	}
	return next, false
}

// hand reports whether a chunk was taken within stillTime.
func (r *aheadReader[T]) hand(c chunk[T]) bool {
	still := time.NewTimer(stillTime)
	defer still.Stop()
	select {
	case r.chunks <- c:
		return true
	case <-r.stop:
	case <-still.C:
	}
	return false
}

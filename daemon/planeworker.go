// SPDX-License-Identifier: Apache-2.0

package daemon

// The worker that brings table changes to the data plane, outside the Node's
// goroutine. Changes of one prefix that wait are merged into the last, so that
// the queue never holds more than the tables do and no change is ever lost.

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/lisp"
)

const (
	// maxBatch bounds one Apply, so that a miss is not held up behind a reload.
	maxBatch = 1024
	// usageInterval is how often entries' use is reported to the Node.
	usageInterval = 5 * time.Second
	// reconcileEvery is at how many reports everything is told that the data plane holds, so that the Node
	// takes out what it does not know. The others tell what was used, which with a million entries costs a
	// fraction of that.
	reconcileEvery = 12
	// usedMargin is for clocks that are exact to a second (dataplane.Usage).
	usedMargin = 2 * time.Second
	// usageChunk bounds one report, so that the Node's turn stays short.
	usageChunk = 1024
)

// changeKey names what a change is about: one entry of one table.
type changeKey struct {
	database bool
	prefix   lisp.Prefix
}

// planeWorker owns the queue of changes for one Plane.
type planeWorker struct {
	plane dataplane.Plane
	log   *slog.Logger
	usage chan []control.Usage

	refused atomic.Uint64 // changes that the data plane did not take

	mu      sync.Mutex
	pending map[changeKey]dataplane.Operation
	order   []changeKey // as first queued
	wake    chan struct{}
}

func newPlaneWorker(plane dataplane.Plane, log *slog.Logger) *planeWorker {
	return &planeWorker{
		plane: plane, log: log, usage: make(chan []control.Usage),
		pending: map[changeKey]dataplane.Operation{}, wake: make(chan struct{}, 1),
	}
}

// queue takes one change; it never blocks.
func (w *planeWorker) queue(key changeKey, operation dataplane.Operation) {
	w.mu.Lock()
	if _, waiting := w.pending[key]; !waiting {
		w.order = append(w.order, key)
	}
	w.pending[key] = operation
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run applies changes until the context ends and all that waited are applied.
func (w *planeWorker) run(ctx context.Context) {
	for {
		for w.applyBatch() {
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			for w.applyBatch() {
			}
			return
		}
	}
}

// applyBatch reports whether there was anything to apply.
func (w *planeWorker) applyBatch() bool {
	operations := w.take()
	if len(operations) == 0 {
		return false
	}
	for i, err := range w.plane.Apply(operations...) {
		if err != nil && !isGone(operations[i], err) {
			w.refused.Add(1)
			w.log.Error("the data plane refused a change", "change", operations[i], "error", err)
		}
	}
	return true
}

// isGone reports that what was to be removed was not there.
func isGone(o dataplane.Operation, err error) bool {
	switch o.(type) {
	case dataplane.DeleteMapping, dataplane.DeleteDatabase:
		return errors.Is(err, dataplane.ErrNotFound)
	}
	return false
}

func (w *planeWorker) take() []dataplane.Operation {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.order), maxBatch)
	operations := make([]dataplane.Operation, 0, n)
	for _, key := range w.order[:n] {
		operations = append(operations, w.pending[key])
		delete(w.pending, key)
	}
	if w.order = w.order[n:]; len(w.order) == 0 {
		w.order = nil // the array goes with its last entry
	}
	return operations
}

// reportUsage tells the Node what is in use, until the context ends.
func (w *planeWorker) reportUsage(ctx context.Context) {
	ticker := time.NewTicker(usageInterval)
	defer ticker.Stop()
	var before time.Time // when the report before began
	for reports := 0; ; reports++ {
		select {
		case <-ticker.C:
			if reports%reconcileEvery == 0 {
				before = time.Time{}
			}
			began := time.Now()
			w.reportOnce(ctx, before)
			before = began.Add(-usedMargin)
		case <-ctx.Done():
			return
		}
	}
}

// reportOnce tells of the entries that were used since then, or of all for the zero time.
func (w *planeWorker) reportOnce(ctx context.Context, since time.Time) {
	chunk := make([]control.Usage, 0, usageChunk)
	for entry := range w.plane.Mappings() {
		if entry.Usage.LastUsedAt.Before(since) {
			continue
		}
		chunk = append(chunk, control.Usage{Prefix: entry.Mapping.Prefix, LastUsedAt: entry.Usage.LastUsedAt})
		if len(chunk) < usageChunk {
			continue
		}
		if !w.report(ctx, chunk) {
			return
		}
		chunk = make([]control.Usage, 0, usageChunk)
	}
	if len(chunk) > 0 {
		w.report(ctx, chunk)
	}
}

func (w *planeWorker) report(ctx context.Context, chunk []control.Usage) bool {
	select {
	case w.usage <- chunk:
		return true
	case <-ctx.Done():
		return false
	}
}

// SPDX-License-Identifier: Apache-2.0

package planeworker

// The worker that brings table changes to the data plane, outside the iterations of the event loop. Waiting changes of
// one entry are merged into the last, so the queue never holds more than the tables do and no change is lost.
// A few changes are applied in the goroutine that caused them, when the data plane is idle.

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/internal/nodeplane"
	"loci/internal/wakeup"
	"loci/lisp"
)

const (
	// maxBatch bounds one Apply, so that a miss is not held up behind a reload.
	maxBatch = 1024
	// appliedHere is how many changes ApplyHere applies at most: so few that a receiver is soon back at its socket.
	appliedHere = 64
	// usageShortest and usageLongest bound how long it is from one report of use to the Node to the next,
	// usageShare is how many times as long as the report took it is: many entries take one second in a hundred.
	usageShortest = time.Second
	usageLongest  = 5 * time.Second
	usageShare    = 100
	// reconcileInterval is how often everything is told that the data plane holds, so that the Node takes
	// out what it does not know. The reports between tell what was used, which with a million entries costs
	// a fraction of that.
	reconcileInterval = time.Minute
	// usedMargin is for clocks that are exact to a second (dataplane.Usage).
	usedMargin = 2 * time.Second
	// usageChunk bounds one report, so that the iteration stays short.
	usageChunk = 1024
)

// changeKey names what a change is about: one entry of one table.
type changeKey struct {
	database bool
	port     uint16 // of a locator, or the source port of a flow
	prefix   lisp.Prefix
	rest     string // the other hops of a locator that is a path, or a whole flow
}

// Worker owns the queue of changes for one Plane.
type Worker struct {
	plane  dataplane.Plane
	prompt dataplane.PromptPlane // the same, nil where it has no such way
	log    *slog.Logger
	Usage  chan []control.Usage
	Heard  chan []control.Heard
	Flows  chan []control.BoundFlow
	// Used takes each entry that was used lately, before the Node does; nil for none. It must not wait.
	Used func(*dataplane.MapCacheEntry)

	refused  atomic.Uint64 // changes that the data plane did not take
	noFlows  sync.Once     // that it binds no flows is logged once
	applying sync.Mutex    // who holds it takes changes and applies them, in order

	mu      sync.Mutex
	pending map[changeKey]dataplane.Operation
	order   []changeKey             // as first queued
	failing map[changeKey]time.Time // since when the data plane refuses what the Node wants
	wake    wakeup.Signal
}

// New returns a Worker with an empty queue.
func New(plane dataplane.Plane, log *slog.Logger) *Worker {
	prompt, _ := plane.(dataplane.PromptPlane)
	return &Worker{
		plane: plane, prompt: prompt, log: log, Usage: make(chan []control.Usage),
		Heard: make(chan []control.Heard), Flows: make(chan []control.BoundFlow),
		pending: map[changeKey]dataplane.Operation{}, failing: map[changeKey]time.Time{}, wake: wakeup.New(),
	}
}

// Events is the data plane's channel of events.
func (w *Worker) Events() <-chan dataplane.Event { return w.plane.Events() }

// TellAtOnce has the data plane offer events to take first, where it can.
func (w *Worker) TellAtOnce(take func([]dataplane.Event) bool) {
	if w.prompt != nil {
		w.prompt.TellAtOnce(take)
	}
}

// Refused is how many changes the data plane did not take since the start.
func (w *Worker) Refused() uint64 { return w.refused.Load() }

// Failing is of how many entries the data plane did not take the last change, and since when of the first.
func (w *Worker) Failing() (count int, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.failing {
		if since.IsZero() || at.Before(since) {
			since = at
		}
	}
	return len(w.failing), since
}

// Forget forgets what was refused, for a data plane that is told everything again.
func (w *Worker) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.failing)
}

// queue takes one change; it never blocks. WakeUp or ApplyHere follows at the end of the iteration.
func (w *Worker) queue(key changeKey, operation dataplane.Operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, waiting := w.pending[key]; !waiting {
		w.order = append(w.order, key)
	}
	w.pending[key] = operation
}

// Waiting is how many changes wait.
func (w *Worker) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.order)
}

// WakeUp has the worker's goroutine apply what waits.
func (w *Worker) WakeUp() {
	if w.Waiting() > 0 {
		w.wake.Set()
	}
}

// ApplyHere applies a few changes in the caller's goroutine; it does not wait for the data plane.
// Others, and those beside which others are being applied, are the worker's.
func (w *Worker) ApplyHere() {
	waiting := w.Waiting()
	if waiting == 0 {
		return
	}
	if w.prompt != nil && waiting <= appliedHere && w.applying.TryLock() {
		w.tryApply()
		w.applying.Unlock()
	}
	w.WakeUp()
}

// tryApply applies what waits, unless the data plane is busy. The caller holds applying.
func (w *Worker) tryApply() {
	keys, operations := w.take()
	if len(operations) == 0 {
		return
	}
	errs, done := w.prompt.TryApply(operations...)
	if !done {
		w.putBack(keys, operations)
		return
	}
	w.judge(keys, operations, errs)
}

// Run applies changes until the context ends and all that waited are applied.
func (w *Worker) Run(ctx context.Context) {
	for {
		for w.ApplyBatch() {
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			for w.ApplyBatch() {
			}
			return
		}
	}
}

// ApplyBatch reports whether there was anything to apply.
func (w *Worker) ApplyBatch() bool {
	w.applying.Lock()
	defer w.applying.Unlock()
	keys, operations := w.take()
	if len(operations) == 0 {
		return false
	}
	w.judge(keys, operations, w.plane.Apply(operations...))
	return true
}

// judge counts and tells what the data plane refused. No errors at all are nil. A data plane that has ended is not said to refuse: that
// is told apart, and the next one is told everything.
func (w *Worker) judge(keys []changeKey, operations []dataplane.Operation, errs []error) {
	for i, err := range errs {
		if err == nil {
			continue
		}
		if isGone(operations[i], err) {
			errs[i] = nil
			continue
		}
		if isUnsupportedFlow(operations[i], err) {
			errs[i] = nil
			w.noFlows.Do(func() { w.log.Warn("the data plane cannot bind flows to paths: itr.mptcp has no effect") })
			continue
		}
		w.refused.Add(1)
		w.log.Error("the data plane refused a change", "change", operations[i], "error", err)
		if errors.Is(err, dataplane.ErrClosed) {
			errs[i] = nil
		}
	}
	w.note(keys, errs)
}

// note remembers which entries the data plane did not take.
func (w *Worker) note(keys []changeKey, errs []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errs == nil && len(w.failing) == 0 {
		return
	}
	for i, key := range keys {
		if errs == nil || errs[i] == nil {
			delete(w.failing, key)
		} else if _, known := w.failing[key]; !known {
			w.failing[key] = time.Now()
		}
	}
}

// isGone reports that what was to be removed was not there.
func isGone(o dataplane.Operation, err error) bool {
	switch o.(type) {
	case dataplane.DeleteMapping, dataplane.DeleteDatabase, dataplane.DeleteFlow:
		return errors.Is(err, dataplane.ErrNotFound)
	}
	return false
}

// isUnsupportedFlow reports that the data plane knows nothing of flows that are bound to paths.
func isUnsupportedFlow(o dataplane.Operation, err error) bool {
	switch o.(type) {
	case dataplane.PutFlow, dataplane.DeleteFlow:
		return errors.Is(err, dataplane.ErrUnsupported)
	}
	return false
}

// BindsFlows reports whether a data plane can bind flows to paths. It asks with a flow that none takes.
func BindsFlows(plane dataplane.Plane) bool {
	errs := plane.Apply(dataplane.PutFlow{})
	return len(errs) == 0 || !errors.Is(errs[0], dataplane.ErrUnsupported)
}

func (w *Worker) take() ([]changeKey, []dataplane.Operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.order), maxBatch)
	keys := w.order[:n:n]
	operations := make([]dataplane.Operation, 0, n)
	for _, key := range keys {
		operations = append(operations, w.pending[key])
		delete(w.pending, key)
	}
	if w.order = w.order[n:]; len(w.order) == 0 {
		w.order = nil // the array goes with its last entry
	}
	return keys, operations
}

// putBack queues changes again, before those that came since: what was said later of the same
// entry stands.
func (w *Worker) putBack(keys []changeKey, operations []dataplane.Operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	order := make([]changeKey, 0, len(keys)+len(w.order))
	for i, key := range keys {
		if _, newer := w.pending[key]; !newer {
			w.pending[key] = operations[i]
			order = append(order, key)
		}
	}
	w.order = append(order, w.order...)
}

// ReportUsage tells the Node what is in use, and then from whom packets come, until the context ends.
func (w *Worker) ReportUsage(ctx context.Context) {
	pause := time.NewTimer(usageShortest)
	defer pause.Stop()
	var before, reconciled time.Time // when the report before began, zero to have everything told, and the last of everything
	for {
		select {
		case <-pause.C:
			began := time.Now()
			if began.Sub(reconciled) >= reconcileInterval {
				before, reconciled = time.Time{}, began
			}
			w.reportOnce(ctx, usedSince(began, before))
			w.reportHeard(ctx)
			w.reportFlows(ctx, usedSince(began, before))
			before = began
			pause.Reset(usagePause(time.Since(began)))
		case <-ctx.Done():
			return
		}
	}
}

// usedSince is since when what was used is told; before that a report began. The data plane knows the time of day alone, which may
// have been set meanwhile.
func usedSince(now, before time.Time) time.Time {
	if before.IsZero() {
		return time.Time{}
	}
	return now.Round(0).Add(-now.Sub(before) - usedMargin)
}

// usagePause is how long nothing is reported after a report that took so long.
func usagePause(took time.Duration) time.Duration {
	return min(max(usageShare*took, usageShortest), usageLongest)
}

// reportHeard tells from which RLOCs packets come. It follows the use, so that an RLOC that answered packets which were
// counted in between does not seem silent.
func (w *Worker) reportHeard(ctx context.Context) {
	reporter, ok := w.plane.(dataplane.SourceReporter)
	if !ok {
		return
	}
	tellAll(ctx, w.Heard, func(yield func(control.Heard) bool) {
		for rloc, at := range reporter.Sources() {
			if !yield(control.Heard{RLOC: rloc, LastHeardAt: at}) {
				return
			}
		}
	})
}

// reportFlows tells of the bound flows that were used since then, or of all for the zero time.
func (w *Worker) reportFlows(ctx context.Context, since time.Time) {
	tellAll(ctx, w.Flows, func(yield func(control.BoundFlow) bool) {
		for f := range w.plane.Flows() {
			if !f.LastUsedAt.Before(since) && !yield(nodeplane.NodeFlow(f)) {
				return
			}
		}
	})
}

// reportOnce tells of the entries that were used since then, or of all for the zero time.
func (w *Worker) reportOnce(ctx context.Context, since time.Time) {
	tellAll(ctx, w.Usage, func(yield func(control.Usage) bool) {
		for entry := range w.plane.Mappings() {
			if entry.Usage.LastUsedAt.Before(since) {
				continue
			}
			if w.Used != nil {
				w.Used(&entry)
			}
			if !yield(control.Usage{Prefix: entry.Mapping.Prefix, LastUsedAt: entry.Usage.LastUsedAt}) {
				return
			}
		}
	})
}

// tellAll hands reports over, a chunk at a time, until the context ends.
func tellAll[T any](ctx context.Context, to chan<- []T, all iter.Seq[T]) {
	chunk := make([]T, 0, usageChunk)
	for report := range all {
		if chunk = append(chunk, report); len(chunk) < usageChunk {
			continue
		}
		if !tell(ctx, to, chunk) {
			return
		}
		chunk = make([]T, 0, usageChunk)
	}
	if len(chunk) > 0 {
		tell(ctx, to, chunk)
	}
}

// tell hands a report over; false when the context ends first.
func tell[T any](ctx context.Context, to chan<- T, report T) bool {
	select {
	case to <- report:
		return true
	case <-ctx.Done():
		return false
	}
}

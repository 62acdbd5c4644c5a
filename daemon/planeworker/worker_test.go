// SPDX-License-Identifier: Apache-2.0

package planeworker

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/lisp"
)

// slowPlane keeps every batch it is given.
type slowPlane struct {
	dataplane.Plane
	batches [][]dataplane.Operation
	answer  error // to every operation, nil for success
}

func (p *slowPlane) Apply(operations ...dataplane.Operation) []error {
	p.batches = append(p.batches, operations)
	if p.answer == nil {
		return nil
	}
	return slices.Repeat([]error{p.answer}, len(operations))
}

func TestRefusedChangesAreCounted(t *testing.T) {
	p := lisp.MustParsePrefix("10.1.0.0/16")
	for _, c := range []struct {
		answer    error
		operation dataplane.Operation
		want      uint64
	}{
		{dataplane.ErrFull, dataplane.PutMapping{}, 1},
		{dataplane.ErrNotFound, dataplane.DeleteMapping{Prefix: p}, 0}, // what was to go is gone
		{dataplane.ErrClosed, dataplane.DeleteMapping{Prefix: p}, 1},
		{dataplane.ErrNotFound, dataplane.DeleteFlow{}, 0},
		{dataplane.ErrUnsupported, dataplane.PutFlow{}, 0}, // `loci status` tells of that once
		{dataplane.ErrUnsupported, dataplane.DeleteFlow{}, 0},
		{dataplane.ErrFull, dataplane.PutFlow{}, 1},
		{dataplane.ErrUnsupported, dataplane.PutMapping{}, 1},
		{nil, dataplane.PutMapping{}, 0},
	} {
		w := New(&slowPlane{answer: c.answer}, slog.New(slog.DiscardHandler))
		w.queue(changeKey{prefix: p}, c.operation)
		w.ApplyBatch()
		if got := w.refused.Load(); got != c.want {
			t.Errorf("%T answered by %v: %d refusals counted, want %d", c.operation, c.answer, got, c.want)
		}
	}
}

// TestFailingEntries are those whose last change was refused, until another one is taken.
func TestFailingEntries(t *testing.T) {
	a, b := lisp.MustParsePrefix("10.1.0.0/16"), lisp.MustParsePrefix("2001:db8::/32")
	plane := &slowPlane{answer: dataplane.ErrFull}
	w := New(plane, slog.New(slog.DiscardHandler))
	apply := func(operation dataplane.Operation, prefixes ...lisp.Prefix) {
		for _, p := range prefixes {
			w.queue(changeKey{prefix: p}, operation)
		}
		w.ApplyBatch()
	}
	began := time.Now()
	apply(dataplane.PutMapping{}, a)
	first := time.Now()
	apply(dataplane.PutMapping{}, a, b)
	if count, since := w.Failing(); count != 2 || since.Before(began) || since.After(first) {
		t.Errorf("%d entries fail since %v, want 2 since the first refusal", count, since)
	}
	plane.answer = dataplane.ErrNotFound
	apply(dataplane.DeleteMapping{}, a) // what was never taken cannot be removed
	if count, since := w.Failing(); count != 1 || since.Before(first) {
		t.Errorf("%d entries fail since %v, want the second alone", count, since)
	}
	plane.answer = nil
	apply(dataplane.PutMapping{}, b)
	plane.answer = dataplane.ErrClosed
	apply(dataplane.DeleteMapping{}, b) // of a data plane that has ended
	if count, since := w.Failing(); count != 0 || !since.IsZero() || w.Refused() != 4 {
		t.Errorf("%d entries fail since %v, %d refusals are counted; want none since the zero time, and 4", count, since, w.Refused())
	}
	plane.answer = dataplane.ErrFull
	apply(dataplane.PutMapping{}, a)
	w.Forget()
	if count, _ := w.Failing(); count != 0 {
		t.Errorf("%d entries fail of a data plane that is told everything again", count)
	}
}

func TestWaitingChangesOfOnePrefixMerge(t *testing.T) {
	plane := &slowPlane{}
	w := New(plane, slog.New(slog.DiscardHandler))
	a, b := lisp.MustParsePrefix("10.1.0.0/16"), lisp.MustParsePrefix("10.2.0.0/16")
	w.queue(changeKey{prefix: a}, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: lisp.Mapping{Prefix: a}}})
	w.queue(changeKey{prefix: b}, dataplane.DeleteMapping{Prefix: b})
	w.queue(changeKey{prefix: a}, dataplane.DeleteMapping{Prefix: a})
	w.queue(changeKey{database: true, prefix: a}, dataplane.DeleteDatabase{Prefix: a})
	stopped, stop := context.WithCancel(t.Context())
	stop()
	w.Run(stopped) // what waits is applied even so
	if len(plane.batches) != 1 {
		t.Fatalf("%d batches, want one", len(plane.batches))
	}
	want := []dataplane.Operation{dataplane.DeleteMapping{Prefix: a}, dataplane.DeleteMapping{Prefix: b}, dataplane.DeleteDatabase{Prefix: a}}
	if got := plane.batches[0]; len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("applied %v, want %v", got, want)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	plane := &slowPlane{}
	w := New(plane, slog.New(slog.DiscardHandler))
	for i := range maxBatch + 1 {
		p := lisp.HostPrefix(lisp.InstanceID(i), lisp.MustParsePrefix("10.1.0.1").EID())
		w.queue(changeKey{prefix: p}, dataplane.DeleteMapping{Prefix: p})
	}
	for w.ApplyBatch() {
	}
	if len(plane.batches) != 2 || len(plane.batches[0]) != maxBatch || len(plane.batches[1]) != 1 {
		t.Errorf("%d batches, the first of %d", len(plane.batches), len(plane.batches[0]))
	}
}

// heldPlane holds mappings of known use.
type heldPlane struct {
	dataplane.Plane
	held []dataplane.MapCacheEntry
}

func (p *heldPlane) Mappings() iter.Seq[dataplane.MapCacheEntry] { return slices.Values(p.held) }

func TestReportsOfUse(t *testing.T) {
	now := time.Now()
	var plane heldPlane
	for i, usedAt := range []time.Time{{}, now.Add(-time.Minute), now} {
		p := lisp.HostPrefix(lisp.InstanceID(i), lisp.MustParsePrefix("10.1.0.1").EID())
		plane.held = append(plane.held, dataplane.MapCacheEntry{Mapping: lisp.Mapping{Prefix: p}, Usage: dataplane.Usage{LastUsedAt: usedAt}})
	}
	for _, c := range []struct {
		name  string
		since time.Time
		want  []int
	}{
		{"all, so that the Node finds what it does not know", time.Time{}, []int{0, 1, 2}},
		{"what was used", now.Add(-time.Second), []int{2}},
		{"nothing was", now.Add(time.Second), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(&plane, slog.New(slog.DiscardHandler))
			w.Usage = make(chan []control.Usage, 1)
			w.reportOnce(t.Context(), c.since)
			close(w.Usage)
			var told []int
			for _, u := range <-w.Usage {
				told = append(told, int(u.Prefix.Instance()))
			}
			if !slices.Equal(told, c.want) {
				t.Errorf("told of %v, want %v", told, c.want)
			}
		})
	}
}

// hearingPlane knows from whom packets came.
type hearingPlane struct {
	dataplane.Plane
	heard map[lisp.RLOC]time.Time
}

func (p *hearingPlane) Sources() iter.Seq2[lisp.RLOC, time.Time] { return maps.All(p.heard) }

func TestReportsOfHearing(t *testing.T) {
	now := time.Now()
	for _, sources := range []int{0, 1, usageChunk, usageChunk + 1} {
		plane := &hearingPlane{heard: map[lisp.RLOC]time.Time{}}
		for i := range sources {
			plane.heard[lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}))] = now.Add(time.Duration(i))
		}
		w := New(plane, slog.New(slog.DiscardHandler))
		w.Heard = make(chan []control.Heard, 2)
		w.reportHeard(t.Context())
		close(w.Heard)
		told := map[lisp.RLOC]time.Time{}
		for chunk := range w.Heard {
			if len(chunk) == 0 || len(chunk) > usageChunk {
				t.Errorf("a report of %d", len(chunk))
			}
			for _, h := range chunk {
				told[h.RLOC] = h.LastHeardAt
			}
		}
		if !maps.Equal(told, plane.heard) {
			t.Errorf("told of %d sources, want %d with their times", len(told), sources)
		}
	}
}

// A plane that cannot tell from whom packets come is not asked, and the worker does not wait for it.
func TestNoReportOfHearing(t *testing.T) {
	New(&heldPlane{}, slog.New(slog.DiscardHandler)).reportHeard(t.Context())
}

func TestPauseBetweenReports(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: usageShortest, 10 * time.Millisecond: usageShortest, 20 * time.Millisecond: 2 * time.Second, time.Minute: usageLongest,
	} {
		if got := usagePause(took); got != want {
			t.Errorf("%s after a report of %s, want %s", got, took, want)
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

func TestChangesOfADirectIteration(t *testing.T) {
	plane := &promptPlane{}
	w := New(plane, slog.New(slog.DiscardHandler))
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
	if w.ApplyHere(); len(plane.batches) != 1 || w.Waiting() != 0 || woken() {
		t.Errorf("at rest: %d batches applied, %d changes wait", len(plane.batches), w.Waiting())
	}
	plane.busy = true
	remove(a)
	remove(b)
	if w.ApplyHere(); len(plane.batches) != 1 || w.Waiting() != 2 || !woken() {
		t.Errorf("busy: %d batches applied, %d changes wait", len(plane.batches), w.Waiting())
	}
	plane.busy = false
	w.applying.Lock()
	if w.ApplyHere(); len(plane.batches) != 1 || !woken() {
		t.Error("changes were applied beside others")
	}
	w.applying.Unlock()
	for range appliedHere {
		remove(lisp.MustParsePrefix("10.3.0.0/16"))
	}
	if w.ApplyHere(); len(plane.batches) != 2 || len(plane.batches[1]) != 3 || woken() {
		t.Errorf("afterwards: batches %v", plane.batches)
	}
}

// TestChangesPutBack come before those that were queued meanwhile, and give way to newer ones.
func TestChangesPutBack(t *testing.T) {
	plane := &promptPlane{}
	w := New(plane, slog.New(slog.DiscardHandler))
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
	if !w.ApplyBatch() || w.ApplyBatch() {
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

// TestChangesOfOneFlowMerge, and of different ones do not.
func TestChangesOfOneFlowMerge(t *testing.T) {
	plane := &slowPlane{}
	w := New(plane, slog.New(slog.DiscardHandler))
	flow := lisp.Flow{
		Source:      lisp.EIDFromAddr(netip.MustParseAddr("10.1.0.1")),
		Destination: lisp.EIDFromAddr(netip.MustParseAddr("10.2.0.1")),
		Protocol:    6, SourcePort: 40000, DestinationPort: 443,
	}
	other, elsewhere := flow, flow
	other.DestinationPort, elsewhere.Instance = 444, 7
	path := lisp.PathTo(lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")))
	w.Change(control.BindFlow{Flow: flow, Path: path})
	w.Change(control.BindFlow{Flow: other, Path: path})
	w.Change(control.BindFlow{Flow: elsewhere, Path: path})
	w.Change(control.SetLocatorState{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("10.1.0.1")),
		State: control.LocatorDown})
	w.Change(control.UnbindFlow{Flow: flow})
	w.ApplyBatch()
	if got := plane.batches[0]; len(got) != 4 || got[0] != (dataplane.DeleteFlow{Flow: flow}) ||
		got[1] != (dataplane.PutFlow{Flow: other, Path: path}) {
		t.Errorf("applied %v", got)
	}
}

// flowPlane has a bound flow.
type flowPlane struct {
	dataplane.Plane
	flow dataplane.FlowEntry
}

func (p *flowPlane) Flows() iter.Seq[dataplane.FlowEntry] {
	return slices.Values([]dataplane.FlowEntry{p.flow})
}

// TestUsedFlowsAreReported, those that were not used lately with a report of everything alone.
func TestUsedFlowsAreReported(t *testing.T) {
	now := time.Now()
	plane := &flowPlane{flow: dataplane.FlowEntry{Flow: lisp.Flow{Protocol: 6, SourcePort: 1}, CreatedAt: now,
		LastUsedAt: now}}
	w := New(plane, slog.New(slog.DiscardHandler))
	report := func(since time.Time) (got []control.BoundFlow) {
		done := make(chan struct{})
		go func() { w.reportFlows(t.Context(), since); close(done) }()
		for {
			select {
			case f := <-w.Flows:
				got = append(got, f...)
			case <-done:
				return got
			}
		}
	}
	if got := report(now.Add(-time.Second)); len(got) != 1 || got[0].Flow != plane.flow.Flow ||
		!got[0].LastUsedAt.Equal(now) {
		t.Errorf("reported %v", got)
	}
	if got := report(now.Add(time.Second)); len(got) != 0 {
		t.Errorf("reported %v, which was not used since", got)
	}
	if got := report(time.Time{}); len(got) != 1 {
		t.Errorf("reported %v of everything", got)
	}
}

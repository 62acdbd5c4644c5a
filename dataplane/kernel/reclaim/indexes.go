// SPDX-License-Identifier: Apache-2.0

// This file hands out indexes of BPF arrays. An index given back rests for a while
// before it is handed out again, because a program that runs on another CPU may
// still hold it (bpf/abi.h, "Forwarding table"). It never touches the arrays.

package reclaim

import "time"

// A Indexes hands out the indexes from 0 to limit-1.
type Indexes struct {
	fresh   uint32 // indexes from here on were never handed out
	limit   uint32
	ready   []uint32
	resting Queue[uint32]
	Now     func() time.Duration
	wait    func() // returns when no program holds a retired index any more
}

// NewIndexes makes a recycler for indexes below limit. now is any clock that only
// grows; wait is called when only resting indexes are left.
func NewIndexes(limit uint32, now func() time.Duration, wait func()) *Indexes {
	return &Indexes{limit: limit, Now: now, wait: wait}
}

// Take returns an unused index. reused says that it was in use before, so that
// what belongs to it may need clearing; ok is false when all are in use.
func (r *Indexes) Take() (index uint32, reused, ok bool) {
	r.wake(r.Now())
	if len(r.ready) == 0 && r.fresh == r.limit && r.resting.Len() > 0 {
		r.wait()
		r.rested()
	}
	if n := len(r.ready); n > 0 {
		index = r.ready[n-1]
		r.ready = r.ready[:n-1]
		return index, true, true
	}
	if r.fresh == r.limit {
		return 0, false, false
	}
	r.fresh++
	return r.fresh - 1, false, true
}

// GiveBack retires an index.
func (r *Indexes) GiveBack(index uint32) {
	r.resting.Push(index, r.Now()+RestTime)
}

// rested makes all retired indexes usable: the caller knows that no program can
// hold one.
func (r *Indexes) rested() {
	for index, ok := r.resting.Pop(Never); ok; index, ok = r.resting.Pop(Never) {
		r.ready = append(r.ready, index)
	}
}

// Available is how many indexes take could return.
func (r *Indexes) Available() int {
	return len(r.ready) + r.resting.Len() + int(r.limit-r.fresh)
}

// InUse is how many indexes are handed out.
func (r *Indexes) InUse() int {
	return int(r.fresh) - len(r.ready) - r.resting.Len()
}

// Adopt marks the indexes for which used holds as handed out. All others count as
// used before, by an earlier owner.
func (r *Indexes) Adopt(used func(index uint32) bool) {
	r.fresh, r.ready, r.resting = r.limit, nil, Queue[uint32]{}
	for index := r.limit; index > 0; index-- {
		if !used(index - 1) {
			r.ready = append(r.ready, index-1)
		}
	}
}

func (r *Indexes) wake(now time.Duration) {
	for index, ok := r.resting.Pop(now); ok; index, ok = r.resting.Pop(now) {
		r.ready = append(r.ready, index)
	}
}

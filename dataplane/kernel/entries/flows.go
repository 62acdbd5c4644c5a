// SPDX-License-Identifier: Apache-2.0

// This file binds flows to paths, as operations ask, and reads back which are bound (dataplane/flows.go). Programs
// obey.

package entries

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/bootclock"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/store"
	"loci/lisp"
)

func (c *contents) putFlow(o dataplane.PutFlow) error {
	if err := checkFlow(o); err != nil {
		return err
	}
	if err := c.store.Bindings().Put(o.Flow, o.Path, c.clock.ToBoot(time.Now())); err != nil {
		return fmt.Errorf("flow %s: %w", o.Flow, err)
	}
	c.flowChanged(o.Flow)
	return nil
}

// checkFlow says why a flow cannot be bound to a path.
func checkFlow(o dataplane.PutFlow) error {
	if err := o.Flow.Valid(); err != nil {
		return fmt.Errorf("%w: %w", dataplane.ErrInvalid, err)
	}
	if err := o.Path.Valid(); err != nil {
		return fmt.Errorf("flow %s: %w: %w", o.Flow, dataplane.ErrInvalid, err)
	}
	return nil
}

func (c *contents) deleteFlow(o dataplane.DeleteFlow) error {
	if o.Flow.Valid() != nil { // it was never bound
		return fmt.Errorf("flow: %w", dataplane.ErrNotFound)
	}
	existed, err := c.store.Bindings().Delete(o.Flow)
	if err == nil && !existed {
		err = dataplane.ErrNotFound
	}
	if existed {
		c.flowChanged(o.Flow)
	}
	if err != nil {
		return fmt.Errorf("flow %s: %w", o.Flow, err)
	}
	return nil
}

// flowChanged has programs forget what they keep of packets to the flow's destination.
func (c *contents) flowChanged(flow lisp.Flow) {
	a := flow.Destination.Addr()
	c.store.Changed.Of(&lpm.Key{Kind: abi.RootMapCache, Family: abi.Family(a), Bits: uint8(a.BitLen()),
		Address: abi.Octets(a)})
}

func (c *contents) flushFlows() error {
	err := c.store.Bindings().Clear()
	c.store.Changed.All()
	return err
}

// Flows answers what dataplane.Plane asks.
func (e *Entries) Flows() iter.Seq[dataplane.FlowEntry] {
	return func(yield func(dataplane.FlowEntry) bool) {
		var at store.Cursor
		for !at.Done {
			for _, entry := range e.flowsFrom(&at) {
				if !yield(entry) {
					return
				}
			}
		}
	}
}

// flowsFrom reads the next flows that are bound.
func (e *Entries) flowsFrom(at *store.Cursor) (entries []dataplane.FlowEntry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed {
		at.Done = true
		return nil
	}
	e.guarded.followClock()
	ahead := e.guarded.clock.Ahead()
	now := uint64(time.Now().UnixNano()) - ahead
	bindings, unreadable, err := e.guarded.store.Bindings().Read(at)
	if err != nil {
		e.log.Error("flows that are bound cannot be read", "error", err)
		at.Done = true
		return nil
	}
	e.removeUnreadable(unreadable)
	for i := range bindings {
		b := &bindings[i]
		entries = append(entries, dataplane.FlowEntry{
			Flow: b.Flow, Path: b.Path, CreatedAt: bootclock.DayOf(b.CreatedNs, ahead),
			LastUsedAt: bootclock.DayOf(b.LastUsedNs(now), ahead),
		})
	}
	return entries
}

// removeUnreadable ends bindings of whose path nothing is known: the control plane could not.
func (e *Entries) removeUnreadable(bindings []store.Unreadable) {
	for i := range bindings {
		u := &bindings[i]
		err := errors.Join(u.Why, e.guarded.store.Bindings().Remove(u))
		e.guarded.flowChanged(u.Flow)
		e.log.Error("a flow was bound to a path that cannot be read, and no longer is", "flow", u.Flow, "error",
			err)
	}
}

// SPDX-License-Identifier: Apache-2.0

// This file has the lock of the entries, opens them, and puts settings in force that they obey.

package entries

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/bootclock"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/reclaim"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tables"
)

// Parts are what entries are made of.
type Parts struct {
	Log         *slog.Logger
	Space       *netspace.Space
	Store       *store.Store
	TableOctets int                   // limit of the forwarding table
	Expired     func(dataplane.Event) // called when a mapping is deleted that had expired
}

// Entries are the map-cache, the Database and the states of locators that are in force.
type Entries struct {
	log    *slog.Logger
	space  *netspace.Space
	store  *store.Store
	clock  bootclock.Clock
	graces *reclaim.Clock

	mu      sync.Mutex
	guarded contents // by mu
}

// contents are entries without their lock: who calls a method holds it.
type contents struct {
	log      *slog.Logger
	store    *store.Store
	expired  func(dataplane.Event)
	tables   *tables.Tables
	clock    bootclock.Clock
	adjusted bootclock.Moment   // when the clocks were compared last
	settings dataplane.Settings // that are in force
	closed   bool               // the records are no longer in memory
}

// Open reads back what is in force and puts it in force again, by a forwarding table of this process.
func Open(p Parts) (*Entries, error) {
	clock := bootclock.Clock{Offset: &p.Store.Words[store.WordClockOffset], Sample: bootclock.Sample}
	if err := clock.Adjust(); err != nil {
		return nil, err
	}
	e := &Entries{log: p.Log, space: p.Space, store: p.Store, clock: clock, graces: reclaim.NewClock()}
	e.guarded = contents{log: p.Log, store: p.Store, expired: p.Expired, clock: clock}
	started := time.Now()
	var err error
	e.guarded.tables, err = tables.New(tables.Parts{
		Memory: p.Store.FIB, ClearUsage: p.Store.ClearUsage, Changed: p.Store.Changed,
		Records: p.Store.Records, Runs: p.Store.Runs, Sets: p.Store.Sets,
		Locators: p.Store.Locators, Paths: p.Store, CellLimit: p.TableOctets / lpm.CellOctets,
		Now:  func() time.Duration { return time.Since(started) },
		Wait: reclaim.WaitForPrograms, Passed: e.graces.Now, Hurry: e.graces.Hurry,
	})
	if err != nil {
		return nil, err
	}
	return e, e.guarded.adopt()
}

// adopt takes over what an earlier process left.
func (c *contents) adopt() error {
	if err := c.restoreStates(); err != nil {
		return err
	}
	refused, err := c.tables.Adopt()
	if err != nil {
		return fmt.Errorf("adopting the tables in force: %w", err)
	}
	tables.LogRefused(c.log, refused)
	if err := c.store.Bindings().Adopt(); err != nil {
		return fmt.Errorf("flows that are bound: %w", err)
	}
	if err := c.tables.GoOnline(); err != nil {
		return err
	}
	if n := c.tables.Entries.Count; n > 0 {
		c.log.Info("adopted the tables in force", "entries", n)
	}
	return nil
}

// restoreStates reads back what was known of locators.
func (c *contents) restoreStates() error {
	settings, _, err := c.store.SavedSettings()
	if err != nil {
		return err
	}
	c.tables.Sets.Source4 = tables.SourceOf(settings.LocalRLOCs, true)
	c.tables.Sets.Source6 = tables.SourceOf(settings.LocalRLOCs, false)
	c.tables.Sets.SetOwn(settings.LocalRLOCs)
	c.tables.Sets.SetNamed(settings.PathIdentification >= dataplane.PathsByNumber)
	c.tables.Sets.SetDepth(settings.RecursionDepth)
	if err := c.store.SavedStates(c.tables.Sets.SetState); err != nil {
		return fmt.Errorf("locator states: %w", err)
	}
	return nil
}

// Run makes indexes usable again that programs held, until stop.
func (e *Entries) Run(stop <-chan struct{}) { e.graces.Run(stop, reclaim.WaitForPrograms) }

// Close ends the use of the store's memory, which goes after that; false when that was done before. Marks can still
// be taken away.
func (e *Entries) Close() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.guarded.closed
	e.guarded.closed = true
	return !was
}

// Obey has entries obey settings. After an error the earlier ones are to be obeyed again.
func (e *Entries) Obey(s dataplane.Settings) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.guarded.tables.Sets.SetEncapsulation(s.EncapsulationTo)
	e.guarded.tables.Sets.SetOwn(s.LocalRLOCs)
	e.guarded.tables.Sets.SetNamed(s.PathIdentification >= dataplane.PathsByNumber)
	e.guarded.tables.Sets.SetDepth(s.RecursionDepth)
	source4, source6 := tables.SourceOf(s.LocalRLOCs, true), tables.SourceOf(s.LocalRLOCs, false)
	if err := e.guarded.tables.SetSources(source4, source6); err != nil {
		return err
	}
	e.guarded.settings = s
	return nil
}

// Settings are those in force.
func (e *Entries) Settings() dataplane.Settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.guarded.settings.Clone()
}

// State sums up the tables.
func (e *Entries) State() (dataplane.TableState, dataplane.LocatorSetsState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.guarded.tables.State()
}

// Shrink lets a table become small that was kept because it grew, where no entry goes any more. It stores roots,
// whose places are also looked for while programs learn of interfaces: the caller sees to it that nothing of the
// instance changes meanwhile.
func (e *Entries) Shrink() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.guarded.closed {
		e.guarded.tables.Shrink()
	}
}

// clockInterval is how often the time of day is compared with the time since boot: to read that is a system call,
// which takes longer than many an operation. A clock that takes none shows that the time of day was set in between.
const clockInterval = time.Second

// AdjustClock is called before operations.
func (e *Entries) AdjustClock() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := bootclock.Now()
	if now.Running-e.guarded.adjusted.Running < clockInterval && !now.Stepped(e.guarded.adjusted) {
		return
	}
	e.guarded.followClock()
	e.guarded.adjusted = now
}

// followClock has times follow the time of day as it is set now.
func (c *contents) followClock() {
	if err := c.clock.Adjust(); err != nil {
		c.log.Error("the clocks cannot be read", "error", err)
	}
}

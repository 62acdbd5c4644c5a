// SPDX-License-Identifier: Apache-2.0

package lispnat

// The table through the life of a daemon: made, found again, restored when somebody removed it, removed.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"loci/internal/wakeup"
)

const (
	// checkInterval is how often table and connection tracking are looked at. News of rules come at once.
	checkInterval = time.Second
	// settleTime gathers changes of rules that come together.
	settleTime = 50 * time.Millisecond
)

// Translator keeps the table of a router.
type Translator struct {
	log      *slog.Logger
	restored func(time.Time) // called when the table was made anew because it was gone
	changed  wakeup.Signal   // the rules of the host changed

	mu         sync.Mutex
	beside     string // the LISP interface beside which a table may be
	followed   bool   // wanted is what was asked for
	wanted     *Spec
	installed  bool // the table of wanted was made, or found
	problem    error
	since      time.Time
	restores   uint64
	restoredAt time.Time
	last       []counts // of the table that is there
	earlier    []counts // of those that are gone
	limits     limits
}

// New returns a Translator that translates nothing yet. An earlier run may have left a table beside the LISP interface.
// restored is called whenever a table had to be made anew.
func New(lispInterface string, log *slog.Logger, restored func(time.Time)) *Translator {
	return &Translator{beside: lispInterface, log: log, restored: restored, changed: wakeup.New()}
}

// Follow makes the table what s says; nil: there is none, also none of an earlier run. A table that is right already
// stays, with its counters, and so do the sessions of connection tracking.
func (t *Translator) Follow(s *Spec) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.followed && s.equal(t.wanted) && t.problem == nil {
		return nil
	}
	if t.wanted != nil {
		t.count()
	}
	if s == nil || s.LISP != t.beside {
		if err := t.removeFormer(); err != nil {
			t.followed = false
			t.log.Error("LISP-NAT: the former table stays", "error", err)
			return fmt.Errorf("LISP-NAT: %w", err)
		}
	}
	before := t.wanted
	t.wanted, t.followed, t.installed = s, true, false
	t.changed.Set()
	if s == nil {
		t.note(nil)
		return nil
	}
	t.beside = s.LISP
	t.carry(before)
	return t.bring()
}

// carry gives each entry the counts that it had. The caller holds mu.
func (t *Translator) carry(before *Spec) {
	last, earlier := make([]counts, len(t.wanted.Entries)), make([]counts, len(t.wanted.Entries))
	for i, e := range t.wanted.Entries {
		if before == nil {
			break
		}
		if was := slices.Index(before.Entries, e); was >= 0 {
			last[i], earlier[i] = t.last[was], t.earlier[was]
		}
	}
	t.last, t.earlier = last, earlier
}

// bring brings the table about. The caller holds mu.
func (t *Translator) bring() (err error) {
	intact, found, err := t.wanted.read()
	switch {
	case err == nil && intact:
		t.last = found
	case err == nil:
		for i := range t.last {
			t.earlier[i].sessions += t.last[i].sessions
			t.earlier[i].unsolicited += t.last[i].unsolicited
			t.last[i] = counts{}
		}
		err = t.wanted.install()
	}
	t.note(err)
	if err != nil {
		return fmt.Errorf("LISP-NAT: %w", err)
	}
	if t.installed && !intact {
		t.restores++
		t.restoredAt = time.Now()
		t.log.Warn("the table of LISP-NAT was removed or changed by someone else: it is back",
			"table", tableName(t.wanted.LISP))
		t.restored(t.restoredAt)
	}
	t.installed = true
	return nil
}

// note notes whether translation works.
func (t *Translator) note(err error) {
	switch {
	case err != nil && t.problem == nil:
		t.since = time.Now()
		t.log.Error("LISP-NAT does not work: packets leave untranslated", "error", err)
	case err == nil && t.problem != nil:
		t.log.Info("over: LISP-NAT did not work")
	}
	t.problem = err
}

// Run keeps the table in place until the context ends.
func (t *Translator) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	begin := sync.OnceFunc(func() { watching.Go(func() { watch(ctx, t.changed, t.log) }) })
	for {
		var again <-chan time.Time
		if t.isWanted() {
			begin()
			again = time.After(checkInterval)
			t.check()
		}
		select {
		case <-t.changed:
			time.Sleep(settleTime)
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

func (t *Translator) isWanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wanted != nil
}

// check looks whether the table is there, and brings it back.
func (t *Translator) check() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wanted == nil {
		return
	}
	_ = t.bring() // it was noted
	t.limits.look(time.Now(), t.begun(), t.log)
}

// begun is how many sessions began, in all. The caller holds mu.
func (t *Translator) begun() (sessions uint64) {
	for i := range t.last {
		sessions += t.last[i].sessions + t.earlier[i].sessions
	}
	return sessions
}

// Remove ends translation: the table goes. Sessions of connection tracking end by themselves.
func (t *Translator) Remove() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.removeFormer()
	t.wanted, t.followed = nil, false
	return err
}

// removeFormer removes the table that may be there. The caller holds mu. A daemon without rights is no error as long as
// it is to translate nothing: those before it had none, either.
func (t *Translator) removeFormer() error {
	err := remove(t.beside)
	if t.wanted == nil && errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Remove removes what a daemon left beside a LISP interface. It is not an error that nothing is left.
func Remove(lispInterface string) error { return remove(lispInterface) }

// SPDX-License-Identifier: Apache-2.0

package world

// The store of a Map-Server: its journal on a disk that takes its time. What was written
// less than storeDelay ago is lost by a crash, all of it by one that takes the disk too. After
// a restart with the store, what was registered before is there again, and the Map-Server is
// held to what its store has: it does not go back behind that (RFC 9301 s.5.6).

import (
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/virtual"
)

const (
	// storeDelay is how long what a Map-Server says takes until it is durable: what the daemon
	// promises.
	storeDelay = time.Second
	// checkpointPieces is how many pieces a store takes after a checkpoint before it asks for
	// all of it anew.
	checkpointPieces = 50
	// storeMargin leaves out what expires at about the time of a restart, whose clock may be set.
	storeMargin = 5 * time.Second
)

// store takes a piece of the journal. As in the daemon's store a checkpoint has to be
// durable before what stands before it is forgotten, and before the next one is asked for.
func (r *Router) store(j control.Journal) {
	d := &r.disk
	d.pieces = append(d.pieces, storedPiece{r.W.Now + storeDelay, j})
	if j.End {
		d.cutAt = r.W.Now + storeDelay
	}
	if d.cutAt > 0 && d.cutAt <= r.W.Now {
		d.cut(r.W.Now)
		d.base, d.asked, d.cutAt = len(d.pieces), false, 0
	}
	if len(d.pieces) > d.base+checkpointPieces && !d.asked {
		d.asked = true
		r.Node.Checkpoint(r.time())
	}
}

// cut forgets what stands before the last checkpoint that ended and is durable.
func (d *diskStore) cut(now time.Duration) {
	ended := -1
	for i, p := range d.pieces {
		if p.End && p.durableAt <= now {
			ended = i
		}
	}
	for i := ended; i >= 0; i-- {
		if d.pieces[i].Begin {
			d.pieces = slices.Clone(d.pieces[i:])
			return
		}
	}
}

// CrashWithStore loses what is not durable yet, and notes what has to be there after the restart.
func (r *Router) CrashWithStore() {
	d := &r.disk
	if r.Node != nil {
		d.expects = nil
		for g := range r.Node.Registrations() {
			if r.time().Sub(g.LastRegisteredAt) > storeDelay {
				d.expects = append(d.expects, g)
			}
		}
	}
	r.Kill()
	d.pieces = slices.DeleteFunc(d.pieces, func(p storedPiece) bool { return p.durableAt > r.W.Now })
	d.base, d.asked, d.cutAt = 0, false, 0
}

// LoseStore takes the disk away as well.
func (r *Router) LoseStore() {
	r.Kill()
	r.disk = diskStore{}
}

// restore gives a Node that starts what the disk has.
func (r *Router) restore() {
	d := &r.disk
	if r.Site != nil {
		return
	}
	for i, p := range d.pieces {
		if err := r.Node.ReplayJournal(r.time(), p.Octets); err != nil {
			r.W.Fail(r, invariantStored, "piece %d of %d of its journal: %v", i, len(d.pieces), err)
			return
		}
	}
	checkRestored(r)
	d.expects = nil
	checkRegistrations(r.W, r) // what it has now it may not go back behind
}

// checkRestored wants everything that was durable, unless its site is barred or its time is
// over.
func checkRestored(r *Router) {
	type stored struct {
		prefix   lisp.Prefix
		xtr      [16]byte
		locators uint64
	}
	has := map[stored]bool{}
	for g := range r.Node.Registrations() {
		has[stored{g.Prefix, g.XTRID, hashLocators(g.Mapping.Locators)}] = true
	}
	for _, g := range r.disk.expects {
		owner, known := r.W.Truth.prefixes[g.Prefix]
		if !known || owner.Site.Barred > 0 || g.ExpiresAt.Sub(r.time()) < storeMargin {
			continue
		}
		if !has[stored{g.Prefix, g.XTRID, hashLocators(g.Mapping.Locators)}] {
			r.W.Fail(r, invariantStored, "after the restart it lacks %s of xTR %x, registered at %s", g.Mapping, g.XTRID[:2], g.LastRegisteredAt.Sub(virtual.Epoch))
			return
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package sim

// The store of a Map-Server: its journal on a disk that takes its time. What was written
// less than storeDelay ago is lost by a crash, all of it by one that takes the disk too. After
// a restart with the store, what was registered before is there again, and the Map-Server is
// held to what its store has: it does not go back behind that (RFC 9301 s.5.6).

import (
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
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

// diskStore is the disk of one Map-Server.
type diskStore struct {
	pieces  []storedPiece
	base    int           // how many pieces the last checkpoint left
	asked   bool          // for a checkpoint that is not durable yet
	cutAt   time.Duration // when that one is, 0 while it has not ended
	expects []control.Registration
}

type storedPiece struct {
	durableAt time.Duration
	control.Journal
}

// store takes a piece of the journal. As in the daemon's store a checkpoint has to be
// durable before what stands before it is forgotten, and before the next one is asked for.
func (r *router) store(j control.Journal) {
	d := &r.disk
	d.pieces = append(d.pieces, storedPiece{r.w.now + storeDelay, j})
	if j.End {
		d.cutAt = r.w.now + storeDelay
	}
	if d.cutAt > 0 && d.cutAt <= r.w.now {
		d.cut(r.w.now)
		d.base, d.asked, d.cutAt = len(d.pieces), false, 0
	}
	if len(d.pieces) > d.base+checkpointPieces && !d.asked {
		d.asked = true
		r.node.Checkpoint(r.time())
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

// crash loses what is not durable yet, and notes what has to be there after the restart.
func (r *router) crashWithStore() {
	d := &r.disk
	if r.node != nil {
		d.expects = nil
		for g := range r.node.Registrations() {
			if r.time().Sub(g.LastRegisteredAt) > storeDelay {
				d.expects = append(d.expects, g)
			}
		}
	}
	r.kill()
	d.pieces = slices.DeleteFunc(d.pieces, func(p storedPiece) bool { return p.durableAt > r.w.now })
	d.base, d.asked, d.cutAt = 0, false, 0
}

// loseStore takes the disk away as well.
func (r *router) loseStore() {
	r.kill()
	r.disk = diskStore{}
}

// restore gives a Node that starts what the disk has.
func (r *router) restore() {
	d := &r.disk
	if r.site != nil {
		return
	}
	for i, p := range d.pieces {
		if err := r.node.ReplayJournal(r.time(), p.Octets); err != nil {
			r.w.fail(r, invariantStored, "piece %d of %d of its journal: %v", i, len(d.pieces), err)
			return
		}
	}
	r.checkRestored()
	d.expects = nil
	r.w.checkRegistrations(r) // what it has now it may not go back behind
}

// checkRestored wants everything that was durable, unless its site is barred or its time is
// over.
func (r *router) checkRestored() {
	type stored struct {
		prefix   lisp.Prefix
		xtr      [16]byte
		locators uint64
	}
	has := map[stored]bool{}
	for g := range r.node.Registrations() {
		has[stored{g.Prefix, g.XTRID, hashLocators(g.Mapping.Locators)}] = true
	}
	for _, g := range r.disk.expects {
		owner, known := r.w.truth.prefixes[g.Prefix]
		if !known || owner.site.barred > 0 || g.ExpiresAt.Sub(r.time()) < storeMargin {
			continue
		}
		if !has[stored{g.Prefix, g.XTRID, hashLocators(g.Mapping.Locators)}] {
			r.w.fail(r, invariantStored, "after the restart it lacks %s of xTR %x, registered at %s", g.Mapping, g.XTRID[:2], g.LastRegisteredAt.Sub(epoch))
			return
		}
	}
}

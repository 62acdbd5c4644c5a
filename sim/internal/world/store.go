// SPDX-License-Identifier: Apache-2.0

package world

// The store of a Map-Server: its journal on a disk that takes its time. What was written
// less than disk.Delay ago is lost by a crash, all of it by one that takes the disk too. After
// a restart with the store, what was registered before is there again, and the Map-Server is
// held to what its store has: it does not go back behind that (RFC 9301 s.5.6).

import (
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/disk"
	"loci/sim/internal/mirror"
	"loci/sim/internal/virtual"
)

// storeMargin leaves out what expires at about the time of a restart, whose clock may be set.
const storeMargin = 5 * time.Second

// store takes a piece of the journal.
func (r *Router) store(j control.Journal) {
	if r.disk.Store(r.W.Now, j) {
		r.Node.Checkpoint(r.time())
	}
}

// CrashWithStore loses what is not durable yet, and notes what has to be there after the restart.
func (r *Router) CrashWithStore() {
	if r.Node != nil {
		r.expects = nil
		for g := range r.Node.Registrations() {
			if r.time().Sub(g.LastRegisteredAt) > disk.Delay {
				r.expects = append(r.expects, g)
			}
		}
	}
	r.Kill()
	r.disk.Crash(r.W.Now)
}

// LoseStore takes the disk away as well.
func (r *Router) LoseStore() {
	r.Kill()
	r.disk, r.expects = disk.Disk{}, nil
}

// restore gives a Node that starts what the disk has.
func (r *Router) restore() {
	if !r.IsServer() {
		return
	}
	for i, p := range r.disk.Pieces {
		if err := r.Node.ReplayJournal(r.time(), p.Octets); err != nil {
			r.W.Fail(r, invariantStored, "piece %d of %d of its journal: %v", i, len(r.disk.Pieces), err)
			return
		}
	}
	checkRestored(r)
	r.expects = nil
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
		has[stored{g.Prefix, g.XTRID, mirror.Hash(g.Mapping.Locators)}] = true
	}
	for _, g := range r.expects {
		owner, known := r.W.Owners.Exactly(g.Prefix)
		if !known || owner.Site.Barred > 0 || g.ExpiresAt.Sub(r.time()) < storeMargin {
			continue
		}
		if !has[stored{g.Prefix, g.XTRID, mirror.Hash(g.Mapping.Locators)}] {
			r.W.Fail(r, invariantStored, "after the restart it lacks %s of xTR %x, registered at %s", g.Mapping, g.XTRID[:2], g.LastRegisteredAt.Sub(virtual.Epoch))
			return
		}
	}
}

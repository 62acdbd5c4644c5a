// SPDX-License-Identifier: Apache-2.0

package world

// The store of a Map-Server: its journal on a disk that takes its time. What was written
// less than disk.Delay ago is lost by a crash, all of it by one that takes the disk too. After
// a restart with the store, what was registered before is there again, and the Map-Server is
// held to what its store has: it does not go back behind that (RFC 9301 s.5.6).

import (
	"loci/control"
	"loci/sim/internal/checks"
	"loci/sim/internal/disk"
)

// store takes a piece of the journal.
func (r *Router) store(j control.Journal) {
	if r.disk.Store(r.W.Now, j) {
		r.Node.Checkpoint(r.Time())
	}
}

// CrashWithStore loses what is not durable yet, and notes what has to be there after the restart.
func (r *Router) CrashWithStore() {
	if r.Node != nil {
		r.Expects = nil
		for g := range r.Node.Registrations() {
			if r.Time().Sub(g.LastRegisteredAt) > disk.Delay {
				r.Expects = append(r.Expects, g)
			}
		}
	}
	r.Kill()
	r.disk.Crash(r.W.Now)
}

// LoseStore takes the disk away as well.
func (r *Router) LoseStore() {
	r.Kill()
	r.disk, r.Expects = disk.Disk{}, nil
}

// restore gives a Node that starts what the disk has.
func (r *Router) restore() {
	if !r.IsServer() {
		return
	}
	for i, p := range r.disk.Pieces {
		if err := r.Node.ReplayJournal(r.Time(), p.Octets); err != nil {
			r.W.Fail(r, checks.InvariantStored, "piece %d of %d of its journal: %v", i, len(r.disk.Pieces), err)
			return
		}
	}
	r.CheckRestored()
	r.Expects = nil
	r.CheckRegistrations() // what it has now it may not go back behind
}

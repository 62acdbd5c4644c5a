// SPDX-License-Identifier: Apache-2.0

// Package disk is the disk of a simulated Map-Server: its journal, which takes its time to be durable.
package disk

import (
	"slices"
	"time"

	"loci/control"
)

const (
	// Delay is how long what a Map-Server says takes until it is durable: what the daemon
	// promises.
	Delay = time.Second
	// checkpointPieces is how many pieces a store takes after a checkpoint before it asks for
	// all of it anew.
	checkpointPieces = 50
)

// Disk holds a journal.
type Disk struct {
	Pieces []Piece
	base   int           // how many pieces the last checkpoint left
	asked  bool          // for a checkpoint that is not durable yet
	cutAt  time.Duration // when that one is, 0 while it has not ended
}

// Piece is what one event-loop iteration added.
type Piece struct {
	durableAt time.Duration
	control.Journal
}

// Store takes a piece of the journal, and reports whether it wants a checkpoint. As in the daemon's store that has to be
// durable before what stands before it is forgotten, and before the next one is asked for.
func (d *Disk) Store(now time.Duration, j control.Journal) (wantsCheckpoint bool) {
	d.Pieces = append(d.Pieces, Piece{now + Delay, j})
	if j.End {
		d.cutAt = now + Delay
	}
	if d.cutAt > 0 && d.cutAt <= now {
		d.cut(now)
		d.base, d.asked, d.cutAt = len(d.Pieces), false, 0
	}
	if len(d.Pieces) > d.base+checkpointPieces && !d.asked {
		d.asked = true
		return true
	}
	return false
}

// cut forgets what stands before the last checkpoint that ended and is durable.
func (d *Disk) cut(now time.Duration) {
	ended := -1
	for i, p := range d.Pieces {
		if p.End && p.durableAt <= now {
			ended = i
		}
	}
	for i := ended; i >= 0; i-- {
		if d.Pieces[i].Begin {
			d.Pieces = slices.Clone(d.Pieces[i:])
			return
		}
	}
}

// Crash loses what is not durable yet.
func (d *Disk) Crash(now time.Duration) {
	d.Pieces = slices.DeleteFunc(d.Pieces, func(p Piece) bool { return p.durableAt > now })
	d.base, d.asked, d.cutAt = 0, false, 0
}

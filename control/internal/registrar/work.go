// SPDX-License-Identifier: Apache-2.0

package registrar

// What is left to be registered with one Map-Server, and how mappings are packed into Map-Registers.

import (
	"loci/control/internal/mapregister"
	"loci/control/internal/settings"
	"loci/control/internal/table"
	"loci/lisp"
)

// Announcement is what a site of the ETR wants registered.
type Announcement struct {
	Site      string
	All       *table.Chunked[settings.DatabaseMapping] // in order, other sites' too
	Changed   table.Chunked[int]                       // numbers of all, in order: they go first, and count for registered
	Withdrawn table.Chunked[lisp.Prefix]
	Anew      bool // send everything, whatever changed
}

// registering is what is left to be done for one Map-Server.
type registering struct {
	*Announcement // of a Map-Server that leaves nothing is announced
	peer          *mapregister.Peer
	Under         table.Chunked[lisp.Prefix] // withdrawals that are under way, and go on; all that it was told for a Map-Server that leaves
	forgotten     bool                       // what it was told before
	place         int                        // among under, then withdrawn, then changed, then all
	stage         registerStage
	skip          int // place in changed while the rest goes
	pack          mapregister.Packing
	first         bool                  // what is being packed begins with what changed
	held          []mapregister.Message // until it is known whether they are few
	many          bool                  // they are not
	prefixes      int
}

type registerStage uint8

const (
	stageUnder registerStage = iota
	stageWithdrawn
	stageChanged
	stageRest
	stageEnd
)

// find looks for an EID-Prefix among all, of any site.
func (a *Announcement) find(p lisp.Prefix) (m *settings.DatabaseMapping, ok bool) {
	low, high := 0, a.All.Len()
	for low < high {
		if middle := (low + high) / 2; a.All.At(middle).Prefix.Compare(p) < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == a.All.Len() || a.All.At(low).Prefix != p {
		return nil, false
	}
	return a.All.At(low), true
}

// next is the next mapping of the stage; ok is false where that is at its end. A zero mapping is to be passed over.
func (w *registering) next() (m lisp.Mapping, ok bool) {
	at := w.place
	w.place++
	switch {
	case w.stage == stageUnder && at < w.Under.Len():
		return mapregister.WithdrawalOf(*w.Under.At(at)), true
	case w.stage == stageWithdrawn && at < w.Withdrawn.Len():
		return mapregister.WithdrawalOf(*w.Withdrawn.At(at)), true
	case w.stage == stageChanged && at < w.Changed.Len():
		return w.All.At(*w.Changed.At(at)).Mapping(), true
	case w.stage != stageRest || w.peer.Leaves || at >= w.All.Len():
		return lisp.Mapping{}, false
	case w.skip < w.Changed.Len() && *w.Changed.At(w.skip) == at:
		w.skip++
		return lisp.Mapping{}, true
	case w.All.At(at).Site != w.Site:
		return lisp.Mapping{}, true
	}
	return w.All.At(at).Mapping(), true
}

// SPDX-License-Identifier: Apache-2.0

package daemon

// What an earlier run left in the data plane.

import (
	"time"

	"loci/control"
	"loci/daemon/plan"
	"loci/dataplane"
	"loci/internal/nodeplane"
	"loci/lisp"
)

// forgetDatabase removes EID-Prefixes that an earlier configuration had, in one change.
func (d *daemon) forgetDatabase(p plan.Plan) {
	wanted := map[lisp.Prefix]bool{}
	if p.Control.ETR != nil {
		for _, m := range p.Control.ETR.Database {
			wanted[m.Prefix] = true
		}
	}
	var gone []dataplane.Operation
	for entry := range d.plane.Database() {
		if !wanted[entry.Prefix] {
			gone = append(gone, dataplane.DeleteDatabase{Prefix: entry.Prefix})
		}
	}
	if len(gone) > 0 {
		d.plane.Apply(gone...)
	}
}

// adoptPiece is how many mappings are taken over at a time.
const adoptPiece = 1 << 10

// adoptMapCache gives the Node the mappings that the data plane kept.
func (d *daemon) adoptMapCache(node *control.Node, now time.Time) {
	entries := 0
	piece := make([]control.MapCacheEntry, 0, adoptPiece)
	adopt := func() {
		d.supervisor.atWork("taking over the mappings that the data plane kept")
		node.AdoptMapCache(now, piece)
		entries += len(piece)
		piece = piece[:0]
	}
	for e := range d.plane.Mappings() {
		piece = append(piece, nodeplane.NodeEntry(e))
		if len(piece) == adoptPiece {
			adopt()
		}
	}
	adopt()
	if entries > 0 {
		d.log.Info("took over the mappings that the data plane kept", "entries", entries)
	}
	var kept []control.SetLocatorState
	for path, state := range d.plane.LocatorStates() {
		if state != dataplane.LocatorUp {
			kept = append(kept, control.SetLocatorState{RLOC: path.RLOC, Behind: path.Behind, State: nodeplane.NodeState(state)})
		}
	}
	node.AdoptLocatorStates(now, kept)
	var bound []control.BoundFlow
	for f := range d.plane.Flows() {
		bound = append(bound, nodeplane.NodeFlow(f))
	}
	node.AdoptFlows(now, bound)
}

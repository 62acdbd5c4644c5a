// SPDX-License-Identifier: Apache-2.0

// This file tells what the engine has in force: programs at their hooks, maps with
// their memory, the forwarding table, locator-sets, and what the kernel lacks. It
// changes nothing.

package kernel

import (
	"cmp"
	"slices"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/features"
)

// Datapath implements dataplane.DatapathReporter.
func (e *Engine) Datapath() (dataplane.DatapathState, error) {
	e.changing.Lock()
	defer e.changing.Unlock()
	if e.closed {
		return dataplane.DatapathState{}, dataplane.ErrClosed
	}
	state := dataplane.DatapathState{Layout: abi.Version}
	for _, f := range features.Probe() {
		if !f.Present {
			state.Missing = append(state.Missing, dataplane.MissingFeature{Name: f.Name, Lost: f.Lost})
		}
	}
	lists := e.entries.Settings().Lists
	state.Lists.Lists = len(lists)
	for _, l := range lists {
		state.Lists.Prefixes += len(l.Allow) + len(l.Deny)
	}
	state.Table, state.Sets = e.entries.State()
	state.Table.SingleNextHops = e.ways.Count()
	state.Programs = e.interfaces.Programs()
	slices.SortFunc(state.Programs, func(a, b dataplane.ProgramState) int {
		return cmp.Or(cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Name, b.Name))
	})
	var err error
	state.Maps, err = e.store.States()
	return state, err
}

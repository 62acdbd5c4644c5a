// SPDX-License-Identifier: Apache-2.0

// This file tells what the engine has in force: programs at their hooks, maps with
// their memory, the forwarding table, locator-sets, and what the kernel lacks. It
// changes nothing.

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
)

// Datapath implements dataplane.DatapathReporter.
func (e *Engine) Datapath() (dataplane.DatapathState, error) {
	e.changing.Lock()
	defer e.changing.Unlock()
	if e.closed {
		return dataplane.DatapathState{}, dataplane.ErrClosed
	}
	state := dataplane.DatapathState{Layout: abi.Version}
	for _, f := range Probe() {
		if !f.Present {
			state.Missing = append(state.Missing, dataplane.MissingFeature{Name: f.Name, Lost: f.Lost})
		}
	}
	state.Lists.Lists = len(e.settings.Lists)
	for _, l := range e.settings.Lists {
		state.Lists.Prefixes += len(l.Allow) + len(l.Deny)
	}
	e.mu.Lock()
	state.Table, state.Sets = e.tables.state()
	state.Table.OneWays = e.oneWays()
	e.mu.Unlock()
	for at := range e.hooks.links {
		p := e.hooks.state(at)
		p.Interface = e.interfaceName(at.ifindex)
		state.Programs = append(state.Programs, p)
	}
	slices.SortFunc(state.Programs, func(a, b dataplane.ProgramState) int {
		return cmp.Or(cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Name, b.Name))
	})
	var err error
	state.Maps, err = e.store.states()
	return state, err
}

// state sums up the tables.
func (t *tables) state() (dataplane.TableState, dataplane.LocatorSetsState) {
	state := t.table.State()
	state.Entries, state.EntryLimit = t.entries.count, len(t.records)
	return state, dataplane.LocatorSetsState{
		Sets: t.sets.indexes.InUse(), SetLimit: len(t.sets.records),
		Locators: int(t.sets.places.InUse()), LocatorLimit: len(t.sets.locators),
	}
}

// state describes what is attached at a hook point.
func (h *hooks) state(at hookPoint) dataplane.ProgramState {
	p := dataplane.ProgramState{Name: at.program}
	direction := "ingress"
	if egressPrograms[at.program] {
		direction = "egress"
	}
	switch l := h.links[at]; {
	case at.program == abi.ProgramXDP:
		p.Hook = "xdp"
	case l == nil:
		p.Hook = "clsact " + direction
	default:
		p.Hook = "tcx " + direction
	}
	if l := h.links[at]; l != nil {
		if info, err := l.Info(); err == nil {
			p.LinkID = uint32(info.ID)
		}
	}
	program := h.program(at.program)
	if info, err := program.Info(); err == nil {
		id, _ := info.ID()
		p.ID = uint32(id)
	}
	if stats, err := program.Stats(); err == nil {
		p.Runs, p.RunNs = stats.RunCount, uint64(stats.Runtime/time.Nanosecond)
	}
	return p
}

// states describes all maps; the forwarding table in force stands as "fib table".
func (s *mapStore) states() ([]dataplane.MapState, error) {
	all := make([]dataplane.MapState, 0, len(s.maps)+1)
	add := func(name string, m *ebpf.Map) error {
		info, err := m.Info()
		if err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
		octets, _ := info.Memlock()
		all = append(all, dataplane.MapState{Name: name, Type: m.Type().String(), MaxEntries: m.MaxEntries(), Octets: octets})
		return nil
	}
	var errs []error
	for name, m := range s.maps {
		errs = append(errs, add(name, m))
	}
	if s.table != nil {
		errs = append(errs, add(abi.MapFib+" table", s.table.m))
	}
	slices.SortFunc(all, func(a, b dataplane.MapState) int { return cmp.Compare(a.Name, b.Name) })
	return all, errors.Join(errs...)
}

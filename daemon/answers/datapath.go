// SPDX-License-Identifier: Apache-2.0

package answers

// What the control socket tells about the data plane in the kernel. It asks the engine and changes nothing.

import (
	"context"
	"errors"
	"time"

	"loci/daemon/api"
	"loci/dataplane"
	"loci/internal/jsondoc"
)

// errNoDatapath is told by a daemon whose data plane is elsewhere.
var errNoDatapath = errors.New("the data plane of this daemon is not in this process: ask the daemon that runs it")

// Datapath answers `loci show datapath`.
func (a *Answers) Datapath(context.Context) (api.Datapath, error) {
	engine, ok := a.Engine.(dataplane.DatapathReporter)
	if !ok {
		return api.Datapath{}, errNoDatapath
	}
	state, err := engine.Datapath()
	if err != nil {
		return api.Datapath{}, err
	}
	return describeDatapath(state), nil
}

func describeDatapath(s dataplane.DatapathState) api.Datapath {
	told := api.Datapath{
		Layout:   s.Layout,
		Programs: make([]api.DatapathProgram, 0, len(s.Programs)),
		Maps:     make([]api.DatapathMap, 0, len(s.Maps)), Missing: make([]api.MissingFeature, 0, len(s.Missing)),
		Table: api.ForwardingTable{
			Entries: s.Table.Entries, EntryLimit: s.Table.EntryLimit, SingleNextHops: s.Table.SingleNextHops, Roots: s.Table.Roots, Octets: s.Table.Octets,
			UsedOctets: s.Table.UsedOctets, FreeOctets: s.Table.FreeOctets, LimitOctets: s.Table.LimitOctets,
		},
		LocatorSets: api.LocatorSetUse(s.Sets), AccessLists: api.AccessListUse(s.Lists),
	}
	for _, p := range s.Programs {
		told.Programs = append(told.Programs, api.DatapathProgram{
			Interface: p.Interface, Hook: p.Hook, Name: p.Name, ID: p.ID, LinkID: p.LinkID, Runs: p.Runs, RunTime: jsondoc.SecondsOf(time.Duration(p.RunNs)),
		})
	}
	for _, m := range s.Maps {
		told.Maps = append(told.Maps, api.DatapathMap(m))
		told.Octets += m.Octets
	}
	for _, f := range s.Missing {
		told.Missing = append(told.Missing, api.MissingFeature(f))
	}
	return told
}

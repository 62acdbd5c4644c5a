// SPDX-License-Identifier: Apache-2.0

// What an engine tells of itself is what it has in force. The test needs root.

package kernel

import (
	"net/netip"
	"slices"
	"testing"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
)

func TestDatapathTellsWhatIsInForce(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a := n.routers[0]
	n.mapBoth(t, rloc4)
	settings := a.Settings()
	settings.Lists = []dataplane.AccessList{{Deny: []netip.Prefix{netip.MustParsePrefix("10.66.0.0/16")}}}
	a.apply(t, dataplane.SetSettings{Settings: settings})
	state, err := a.Datapath()
	must(t, err)
	a.putProgramSettings() // as when routes change
	var programs abi.Settings
	must(t, a.store.Map(abi.MapSettings).Lookup(uint32(0), &programs))
	if programs.Lists != 1 || programs.ListGeneration == 0 || programs.Flags&abi.SettingLists == 0 {
		t.Errorf("the programs are told %+v", programs)
	}
	if want := (dataplane.ListsState{Lists: 1, Prefixes: 1}); state.Lists != want {
		t.Errorf("lists %+v, want %+v", state.Lists, want)
	}
	entries := 0
	for range a.records() {
		entries++
	}
	if state.Layout != abi.Version || state.Table.Entries != entries || state.Table.UsedOctets == 0 ||
		state.Table.UsedOctets+state.Table.FreeOctets != state.Table.Octets || state.Sets.Sets == 0 || state.Sets.Locators < state.Sets.Sets {
		t.Errorf("tables %+v, %+v", state.Table, state.Sets)
	}
	for _, want := range []string{abi.ProgramSiteIngress, abi.ProgramCoreIngress, abi.ProgramCoreEgress, abi.ProgramLispIngress, abi.ProgramLispEgress} {
		if !slices.ContainsFunc(state.Programs, func(p dataplane.ProgramState) bool {
			return p.Name == want && p.ID != 0 && p.Hook != "" && p.Interface != ""
		}) {
			t.Errorf("no program %s in %+v", want, state.Programs)
		}
	}
	names := map[string]uint64{}
	for _, m := range state.Maps {
		names[m.Name] = m.Octets
	}
	for _, want := range []string{"fib", "fib table", "mappings", "mapping_counters", "locator_sets", "locators", "user_words"} {
		if names[want] == 0 {
			t.Errorf("no memory of map %s", want)
		}
	}
	must(t, a.Close())
	if _, err := a.Datapath(); err == nil {
		t.Error("an engine that is closed tells something")
	}
	a.open(t, Options{})
}

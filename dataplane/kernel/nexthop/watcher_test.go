// SPDX-License-Identifier: Apache-2.0

package nexthop

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

// plainSlots is the memory of a forwarding table that programs do not know.
type plainSlots struct{ lpm.Memory }

func (plainSlots) NewTable(cells int) ([]uint32, error) {
	return make([]uint32, cells*lpm.CellSlots), nil
}
func (plainSlots) PrepareTable(cells int) int                     { return cells }
func (plainSlots) PreparedCells() int                             { return 0 }
func (plainSlots) DropTable([]uint32)                             {}
func (plainSlots) PrepareFirstLevel()                             {}
func (plainSlots) SwitchTable(map[lpm.RootKey]lpm.Begin) error    { return nil }
func (plainSlots) ExtendTable(map[lpm.RootKey]lpm.Begin) error    { return nil }
func (plainSlots) PutRoot(key lpm.RootKey, begin lpm.Begin) error { return nil }

// plainEntries are tables that nothing else uses.
type plainEntries struct{ *tables.Tables }

func (p plainEntries) DatabaseEdits() (uint64, bool) { return p.Tables.DatabaseEdits, true }
func (p plainEntries) DatabaseEntries(limit int) ([]tables.DatabaseEntry, []lisp.RLOC, uint64) {
	return p.Tables.DatabaseEntries(limit), nil, p.Tables.DatabaseEdits
}
func (p plainEntries) MarkSingleNextHops(entries []tables.DatabaseEntry) []tables.DatabaseEntry {
	return slices.DeleteFunc(entries, func(e tables.DatabaseEntry) bool { return !p.MarkSingleNextHop(e) })
}

// TestMarksThatNobodyJudges has more entries of the Database than are judged: none of those left out keeps a mark, which no news would end.
func TestMarksThatNobodyJudges(t *testing.T) {
	changed := tables.Generations{Numbers: new(abi.Generations)}
	p, err := tables.New(tables.Parts{
		Memory: plainSlots{}, ClearUsage: func(uint32) {}, Changed: changed, Records: make([]abi.Mapping, 3*limit), Runs: make([]uint64, tables.RunWords(3*limit)),
		Sets: make([]abi.LocatorSet, 4), Locators: make([]abi.Locator, tables.LocatorsBeside(4)), CellLimit: 1 << 18, Now: func() time.Duration { return 0 }, Wait: func() {},
	})
	must(t, err)
	must(t, p.GoOnline())
	e := NewWatcher(Parts{Entries: plainEntries{p}, Changed: changed, TAP: "loci0"})
	e.listening = true
	put := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			key, err := lpm.KeyOf(abi.RootDatabase, lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)))
			must(t, err)
			_, _, err = p.Put(tables.Entry{Key: key, Flags: abi.MappingDatabase})
			must(t, err)
		}
	}
	look := func() {
		t.Helper()
		candidates, edits, news := e.candidates()
		if len(candidates) != limit {
			t.Fatalf("%d candidates", len(candidates))
		}
		e.judged.takeRoute(route{table: unix.RT_TABLE_MAIN, kind: unix.RTN_UNICAST, prefix: netip.MustParsePrefix("10.0.0.0/8"), gateway: true})
		e.markAll(candidates, edits, news)
	}
	put(0, limit)
	look()
	put(limit, 2*limit)
	look()
	for index := range p.Database {
		key := tables.KeyOf(&p.Records[index])
		prefix, err := key.Prefix()
		must(t, err)
		if p.Records[index].Flags&abi.MappingSingleNextHop != 0 && e.judged.verdicts[prefix.Netip()] == nil {
			t.Fatalf("%v is marked, and not judged", prefix)
		}
	}
	if n := e.Count(); n != limit {
		t.Errorf("%d entries are marked, want %d", n, limit)
	}
	e.lockAndTake(routeNews{prefix: netip.MustParsePrefix("10.0.0.0/9")})
	for index := range p.Database {
		if p.Records[index].Flags&abi.MappingSingleNextHop != 0 {
			t.Fatalf("entry %d is marked after news of its route", index)
		}
	}
}

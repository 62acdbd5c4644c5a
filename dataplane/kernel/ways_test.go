// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
)

// TestMarksThatNobodyJudges has more entries of the Database than are judged: none of those left out keeps a mark, which no news would end.
func TestMarksThatNobodyJudges(t *testing.T) {
	p := newPlainTables(t, 3*wayLimit, 4, 1<<18)
	e := &Engine{tables: p.tables, store: &mapStore{changed: p.parts.changed}, tap: &tap{index: 1, name: "loci0"}}
	e.ways.listening = true
	put := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			must(t, p.putPrefix(t, abi.RootDatabase, fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), nil))
		}
	}
	look := func() {
		t.Helper()
		candidates, edits, news := e.wayCandidates()
		if len(candidates) != wayLimit {
			t.Fatalf("%d candidates", len(candidates))
		}
		e.ways.judged.takeRoute(siteRoute{table: unix.RT_TABLE_MAIN, kind: unix.RTN_UNICAST, prefix: netip.MustParsePrefix("10.0.0.0/8"), gateway: true})
		e.markWays(candidates, edits, news)
	}
	put(0, wayLimit)
	look()
	put(wayLimit, 2*wayLimit)
	look()
	for index := range p.database {
		key := keyOfRecord(&p.records[index])
		prefix, err := key.Prefix()
		must(t, err)
		if p.records[index].Flags&abi.MappingOneWay != 0 && e.ways.judged.verdicts[prefix.Netip()] == nil {
			t.Fatalf("%v is marked, and not judged", prefix)
		}
	}
	e.takeAllWayNews(wayNews{prefix: netip.MustParsePrefix("10.0.0.0/9")})
	for index := range p.database {
		if p.records[index].Flags&abi.MappingOneWay != 0 {
			t.Fatalf("entry %d is marked after news of its route", index)
		}
	}
}

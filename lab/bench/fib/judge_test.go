// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"testing"

	"loci/lab/bench/report"
)

func TestLookupsAreJudgedByTheFloorAndTheTrieOfTheirRound(t *testing.T) {
	for _, one := range []struct {
		caseName         string
		fib, array, trie float64
		met              [2]bool
	}{
		{"ipv4-1m/random", 50, 20, 750, [2]bool{true, true}},
		{"ipv4-1m/random", 51, 20, 750, [2]bool{false, false}},
		{"ipv6-200k/random", 80, 20, 960, [2]bool{true, true}},
		{"ipv6-200k/random", 81, 20, 960, [2]bool{false, false}},
	} {
		r := &report.Report{}
		for _, faster := range []float64{1, 0.5, 2} {
			for arm, ns := range map[string]float64{armFIB: one.fib, armArray: one.array, armTrie: one.trie} {
				r.Add(one.caseName, arm, []report.Sample{report.Figure("lookup", "ns", ns*faster)})
			}
		}
		r.SumUp()
		judgeFIB(r)
		if len(r.Targets) != 2 || r.Targets[0].Met != one.met[0] || r.Targets[1].Met != one.met[1] {
			t.Errorf("%+v: targets %+v", one, r.Targets)
		}
	}
}

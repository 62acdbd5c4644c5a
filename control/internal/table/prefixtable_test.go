// SPDX-License-Identifier: Apache-2.0

package table

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"loci/lisp"
)

// randomPrefix makes few, overlapping prefixes of every kind in two Instance-IDs.
func randomPrefix(r *rand.Rand) lisp.Prefix {
	instance := lisp.InstanceID(r.IntN(2))
	var e lisp.EID
	switch r.IntN(4) {
	case 0:
		e = lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(4)) << 6}))
	case 1:
		e = lisp.EIDFromAddr(netip.AddrFrom16([16]byte{0x20, 1, byte(r.IntN(4)), byte(r.IntN(4)) << 6}))
	case 2:
		e = lisp.EIDFromMAC([6]byte{2, byte(r.IntN(4)), byte(r.IntN(4)) << 6})
	default:
		e, _ = lisp.EIDFromName("ietf.lisp.nexus"[:r.IntN(16)])
		p, _ := lisp.PrefixFrom(instance, e, 8*r.IntN(e.BitLen()/8+1))
		return p
	}
	p, _ := lisp.PrefixFrom(instance, e, r.IntN(min(e.BitLen(), 32)+1))
	return p
}

// TestPrefixTable compares the table with a list that is searched from end to end.
func TestPrefixTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var table Prefixes[int]
	model := make(map[lisp.Prefix]int)
	for step := range 3000 {
		p := randomPrefix(r)
		if r.IntN(3) == 0 {
			table.Remove(p)
			delete(model, p)
		} else {
			table.Insert(p, step)
			model[p] = step
		}
		q := randomPrefix(r)
		compareTables(t, &table, model, q)
	}
	var all []lisp.Prefix
	for p, v := range table.All() {
		all = append(all, p)
		if model[p] != v {
			t.Errorf("%s is %d, want %d", p, v, model[p])
		}
	}
	if len(all) != len(model) || !slices.IsSortedFunc(all, lisp.Prefix.Compare) {
		t.Errorf("%d of %d, sorted: %v", len(all), len(model), slices.IsSortedFunc(all, lisp.Prefix.Compare))
	}
}

func compareTables(t *testing.T, table *Prefixes[int], model map[lisp.Prefix]int, q lisp.Prefix) {
	t.Helper()
	var best lisp.Prefix
	found, overlaps := false, false
	var within []lisp.Prefix
	for p := range model {
		if p.Covers(q) && (!found || p.Bits() > best.Bits()) {
			best, found = p, true
		}
		if q.Covers(p) {
			within = append(within, p)
		}
		overlaps = overlaps || p.Overlaps(q)
	}
	slices.SortFunc(within, lisp.Prefix.Compare)
	if match, v, ok := table.Longest(q); ok != found || match != best || v != model[best] {
		t.Fatalf("longest of %s is %s %v, want %s %v", q, match, ok, best, found)
	}
	var subtree []lisp.Prefix
	for p := range table.Subtree(q) {
		subtree = append(subtree, p)
	}
	if !slices.Equal(subtree, within) {
		t.Fatalf("subtree of %s is %v, want %v", q, subtree, within)
	}
	compareOverlapping(t, table, model, q)
	if table.Overlaps(q) != overlaps || table.Size != len(model) {
		t.Fatalf("overlaps of %s: want %v; size %d, want %d", q, overlaps, table.Size, len(model))
	}
}

// compareOverlapping lists what overlaps with q, and everything, in pages of three.
func compareOverlapping(t *testing.T, table *Prefixes[int], model map[lisp.Prefix]int, q lisp.Prefix) {
	t.Helper()
	for _, within := range []lisp.Prefix{q, {}} {
		var want, got []lisp.Prefix
		for p := range model {
			if within.IsZero() || p.Overlaps(within) {
				want = append(want, p)
			}
		}
		slices.SortFunc(want, lisp.Prefix.Compare)
		for after, more := (lisp.Prefix{}), true; more; {
			more = false
			for p, v := range table.Overlapping(within, after) {
				if more = len(got)%3 == 2; v != model[p] {
					t.Fatalf("%s is %d, want %d", p, v, model[p])
				}
				if got, after = append(got, p), p; more {
					break
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("what overlaps with %s: %v, want %v", within, got, want)
		}
	}
}

// Shows RFC 9301 s.8.4 (1).
func TestLeastSpecificHole(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var known Prefixes[int]
		for range r.IntN(20) {
			known.Insert(randomPrefix(r), 0)
		}
		asked := randomPrefix(r)
		asked = lisp.HostPrefix(asked.Instance(), asked.EID())
		if known.Overlaps(asked) {
			continue
		}
		hole := LeastSpecificHole(asked, 0, known.Overlaps)
		if !hole.Covers(asked) || known.Overlaps(hole) {
			t.Fatalf("hole %s around %s", hole, asked)
		}
		step := 1
		if hole.Kind() == lisp.EIDName {
			step = 8
		}
		if hole.Bits() == 0 {
			continue
		}
		if wider, err := lisp.PrefixFrom(hole.Instance(), asked.EID(), hole.Bits()-step); err == nil && !known.Overlaps(wider) {
			t.Fatalf("hole %s around %s, but %s is one too", hole, asked, wider)
		}
	}
}

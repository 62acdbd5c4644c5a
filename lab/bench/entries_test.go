// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"io"
	"net/netip"
	"strings"
	"testing"
)

func TestEntriesAreDifferentAndWithinTheirBase(t *testing.T) {
	k, err := entriesBench(4003)
	must(t, err)
	sets := drawEntries(k.cases, 4003)
	if len(sets) != len(pairs) {
		t.Fatalf("%d sets, want %d", len(sets), len(pairs))
	}
	next := 0
	for _, s := range sets {
		if s.first != next || len(s.offsets) != 1000 {
			t.Errorf("%s: %d entries from place %d on, want 1000 from %d", s.pair.name, len(s.offsets), s.first, next)
		}
		next += len(s.offsets)
		known := map[netip.Prefix]bool{}
		for i := range s.offsets {
			p := s.prefix(i)
			if known[p] || p != p.Masked() || !entryBases[s.pair.name].Contains(p.Addr()) {
				t.Errorf("%s: entry %d is %v", s.pair.name, i, p)
			}
			known[p] = true
		}
	}
	if one := drawEntries([]string{"ipv6-in-ipv4/1-flow"}, 4003); len(one) != 1 || len(one[0].offsets) != 4003 {
		t.Errorf("one case has %d sets", len(one))
	}
}

func TestEntriesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		bench   string
		entries int
		says    string
	}{
		{"forwarding", -1, "from 4 to 2097152"},
		{"forwarding", 3, "from 4 to 2097152"},
		{"forwarding", 1 << 22, "from 4 to 2097152"},
		{"tcp", 1000, "is for the bench forwarding"},
	} {
		_, err := Run(t.Context(), c.bench, Options{Entries: c.entries, Out: io.Discard, Err: io.Discard})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %d entries: %v, want %q", c.bench, c.entries, err, c.says)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package policyroute

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func prefixes(text string) (list []netip.Prefix) {
	for field := range strings.FieldsSeq(text) {
		list = append(list, netip.MustParsePrefix(field))
	}
	return list
}

func TestCoverOf(t *testing.T) {
	for _, c := range []struct {
		prefixes, keepOut string
		limit             int
		want              string
	}{
		{"10.9.0.0/24 10.1.0.0/24", "", 2, "10.9.0.0/24 10.1.0.0/24"}, // as they are
		{"10.1.1.0/24 10.1.0.0/24 10.9.0.0/24", "", 2, "10.1.0.0/23 10.9.0.0/24"},
		{"10.1.0.0/24 10.1.3.0/24 10.9.0.0/24", "", 1, "10.0.0.0/12"},
		{"10.1.0.0/24 10.1.3.0/24 10.9.0.0/24", "10.2.0.1", 1, "10.1.0.0/22 10.9.0.0/24"},
		{"10.1.0.0/24 10.1.3.0/24 10.9.0.0/24", "10.1.1.1 172.16.0.1", 1, "10.1.0.0/24 10.1.3.0/24 10.9.0.0/24"},
		{"10.1.0.0/16 10.1.3.0/24 10.2.0.0/16", "", 2, "10.1.0.0/16 10.2.0.0/16"},
		{"2001:db8:a::/64 2001:db8:a:1::/64 2001:db8:b::/64", "", 2, "2001:db8:a::/63 2001:db8:b::/64"},
		{"2001:db8:a::/64 2001:db8:a:2::/64 2001:db8:b::1/128", "2001:db8:a:1::1", 2, "2001:db8:a::/64 2001:db8:a:2::/64 2001:db8:b::1/128"},
		{"::/0 2001:db8::/32", "", 1, "::/0"},
		{"0.0.0.0/1 128.0.0.0/1", "", 1, "0.0.0.0/0"},
	} {
		var keepOut []netip.Addr
		for field := range strings.FieldsSeq(c.keepOut) {
			keepOut = append(keepOut, netip.MustParseAddr(field))
		}
		if got := coverOf(prefixes(c.prefixes), c.limit, keepOut); !slices.Equal(got, prefixes(c.want)) {
			t.Errorf("%s, at most %d without %q: %v, want %s", c.prefixes, c.limit, c.keepOut, got, c.want)
		}
	}
}

// TestCoverOfCoversAll, and no address that it should not, whatever the prefixes; few prefixes do.
func TestCoverOfCoversAll(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	address := func(six bool) netip.Addr {
		var a [16]byte
		for i := range a {
			a[i] = byte(random.IntN(4)) // so that many have much in common
		}
		if six {
			return netip.AddrFrom16(a)
		}
		return netip.AddrFrom4([4]byte(a[:4]))
	}
	for round := range 200 {
		six := round%2 == 1
		var list []netip.Prefix
		for range 300 {
			a := address(six)
			list = append(list, netip.PrefixFrom(a, 1+random.IntN(a.BitLen())).Masked())
		}
		var keepOut []netip.Addr
		for range 3 {
			if a := address(six); !isEID(a, list) {
				keepOut = append(keepOut, a)
			}
		}
		covers := coverOf(list, 16, keepOut)
		for _, p := range list {
			if !slices.ContainsFunc(covers, func(c netip.Prefix) bool { return c.Bits() <= p.Bits() && c.Contains(p.Addr()) }) {
				t.Fatalf("round %d: %s is not covered by %v", round, p, covers)
			}
		}
		for _, a := range keepOut {
			if isEID(a, covers) {
				t.Fatalf("round %d: %s is covered by %v", round, a, covers)
			}
		}
		if most := 16 + len(keepOut)*keepOutCost(six); len(covers) > most {
			t.Fatalf("round %d: %d prefixes, want %d at most", round, len(covers), most)
		}
	}
}

// keepOutCost is how many prefixes more an address can make it: one for each bit.
func keepOutCost(six bool) int {
	if six {
		return 128
	}
	return 32
}

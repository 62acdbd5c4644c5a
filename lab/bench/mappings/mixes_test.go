// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"loci/lab/bench/testbed"
)

// everyPair are beginnings of cases.
func everyPair() (cases []string) {
	for _, p := range testbed.Pairs {
		cases = append(cases, p.Name+"/")
	}
	return cases
}

func TestEntriesAreDifferentAndWithinTheirBases(t *testing.T) {
	for _, lengths := range []string{LengthsInternet, LengthsHosts} {
		mix, err := MixOf(lengths)
		must(t, err)
		sets := DrawEntries(mix, everyPair(), 4003)
		if len(sets) != len(testbed.Pairs) {
			t.Fatalf("%d sets, want %d", len(sets), len(testbed.Pairs))
		}
		next, known := 0, map[netip.Prefix]bool{}
		for _, s := range sets {
			if s.First != next || len(s.Prefixes) != 1000 {
				t.Errorf("%s: %d entries from place %d on, want 1000 from %d", s.Pair.Name, len(s.Prefixes), s.First, next)
			}
			next += len(s.Prefixes)
			for i, p := range s.Prefixes {
				if known[p] || p != p.Masked() || p.Addr().Is4() != s.Pair.Inner4() || within(mix.Bases(), p.Addr()) != 1 {
					t.Errorf("%s: entry %d is %v", s.Pair.Name, i, p)
				}
				known[p] = true
			}
		}
		if one := DrawEntries(mix, []string{"ipv6-in-ipv4/1-flow"}, 4003); len(one) != 1 || len(one[0].Prefixes) != 4003 {
			t.Errorf("one case has %d sets", len(one))
		}
	}
}

// Each destination is in its own entry, and in none of another pair.
func TestDestinationsOfEntries(t *testing.T) {
	for _, lengths := range []string{LengthsInternet, LengthsHosts} {
		mix, err := MixOf(lengths)
		must(t, err)
		sets := DrawEntries(mix, everyPair(), 4000)
		for i, s := range sets {
			found := map[netip.Prefix]bool{}
			for _, half := range s.Destinations() {
				to := addressOf(s.Prefixes[0].Addr(), half, mix.Upper)
				for j, other := range sets {
					for _, p := range other.Prefixes {
						if p.Contains(to) && i != j {
							t.Fatalf("%s: %v is in %v of %s", s.Pair.Name, to, p, other.Pair.Name)
						} else if p.Contains(to) {
							found[p] = true
						}
					}
				}
			}
			if len(found) != len(s.Prefixes) {
				t.Errorf("%s, %s: packets go to %d of %d entries", lengths, s.Pair.Name, len(found), len(s.Prefixes))
			}
		}
	}
}

// addressOf is what the generator makes of the half that differs, beside the other one of an address.
func addressOf(other netip.Addr, half uint64, upper bool) netip.Addr {
	octets := other.AsSlice()
	switch {
	case other.Is4():
		binary.BigEndian.PutUint32(octets, uint32(half))
	case upper:
		binary.BigEndian.PutUint64(octets, half)
	default:
		binary.BigEndian.PutUint64(octets[8:], half)
	}
	address, _ := netip.AddrFromSlice(octets)
	return address
}

func within(bases []netip.Prefix, a netip.Addr) (count int) {
	for _, base := range bases {
		if base.Contains(a) {
			count++
		}
	}
	return count
}

// What is the bench's own is no destination of an entry.
func TestBasesLeaveOutWhatIsNoEntry(t *testing.T) {
	for _, mix := range entryMixes {
		own := []netip.Addr{testbed.Core4Enc.Addr(), testbed.Core6Enc.Addr(), SiteRLOC(0).Addr(), SiteRLOC(999).Addr()}
		for _, p := range testbed.Pairs {
			own = append(own, p.Source(), p.Destination())
		}
		for _, a := range own {
			if within(mix.Bases(), a) > 0 {
				t.Errorf("%s: %v is in a base", mix.name, a)
			}
		}
	}
	covered := 0
	for octet := 1; octet < 224; octet++ {
		covered += within(internetBases(), netip.AddrFrom4([4]byte{byte(octet), 1, 2, 3}))
	}
	if covered != 223-len(otherOctets) {
		t.Errorf("%d first octets are covered, want %d", covered, 223-len(otherOctets))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

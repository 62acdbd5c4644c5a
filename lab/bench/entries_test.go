// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"io"
	"net/netip"
	"strings"
	"testing"
)

func TestEntriesAreDifferentAndWithinTheirBases(t *testing.T) {
	for _, lengths := range []string{LengthsInternet, LengthsHosts} {
		k, err := entriesBench(4003, lengths)
		must(t, err)
		mix, err := mixOf(lengths)
		must(t, err)
		sets := drawEntries(mix, k.cases, 4003)
		if len(sets) != len(pairs) {
			t.Fatalf("%d sets, want %d", len(sets), len(pairs))
		}
		next, known := 0, map[netip.Prefix]bool{}
		for _, s := range sets {
			if s.first != next || len(s.prefixes) != 1000 {
				t.Errorf("%s: %d entries from place %d on, want 1000 from %d", s.pair.name, len(s.prefixes), s.first, next)
			}
			next += len(s.prefixes)
			for i, p := range s.prefixes {
				if known[p] || p != p.Masked() || p.Addr().Is4() != s.pair.inner4() || within(mix.bases(), p.Addr()) != 1 {
					t.Errorf("%s: entry %d is %v", s.pair.name, i, p)
				}
				known[p] = true
			}
		}
		if one := drawEntries(mix, []string{"ipv6-in-ipv4/1-flow"}, 4003); len(one) != 1 || len(one[0].prefixes) != 4003 {
			t.Errorf("one case has %d sets", len(one))
		}
	}
}

// Each destination is in its own entry, and in none of another pair.
func TestDestinationsOfEntries(t *testing.T) {
	for _, lengths := range []string{LengthsInternet, LengthsHosts} {
		k, err := entriesBench(4000, lengths)
		must(t, err)
		mix, err := mixOf(lengths)
		must(t, err)
		sets := drawEntries(mix, k.cases, 4000)
		for i, s := range sets {
			found := map[netip.Prefix]bool{}
			for _, half := range s.destinations() {
				to := addressOf(s.prefixes[0].Addr(), half, mix.upper)
				for j, other := range sets {
					for _, p := range other.prefixes {
						if p.Contains(to) && i != j {
							t.Fatalf("%s: %v is in %v of %s", s.pair.name, to, p, other.pair.name)
						} else if p.Contains(to) {
							found[p] = true
						}
					}
				}
			}
			if len(found) != len(s.prefixes) {
				t.Errorf("%s, %s: packets go to %d of %d entries", lengths, s.pair.name, len(found), len(s.prefixes))
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
		own := []netip.Addr{core4Enc.Addr(), core6Enc.Addr(), siteRLOC(0).Addr(), siteRLOC(999).Addr()}
		for _, p := range pairs {
			own = append(own, p.source(), p.destination())
		}
		for _, a := range own {
			if within(mix.bases(), a) > 0 {
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

func TestEntriesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		bench   string
		entries int
		lengths string
		says    string
	}{
		{"forwarding", -1, "", "from 4 to 2097152"},
		{"forwarding", 3, "", "from 4 to 2097152"},
		{"forwarding", 1 << 22, "", "from 4 to 2097152"},
		{"forwarding", 0, "hosts", "from 4 to 2097152"},
		{"forwarding", 1000, "short", "there are internet and hosts"},
		{"tcp", 1000, "", "is for the bench forwarding"},
	} {
		_, err := Run(t.Context(), c.bench, Options{Entries: c.entries, Lengths: c.lengths, Out: io.Discard, Err: io.Discard})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %d entries: %v, want %q", c.bench, c.entries, err, c.says)
		}
	}
}

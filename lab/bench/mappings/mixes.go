// SPDX-License-Identifier: Apache-2.0

// Which prefixes `loci bench forwarding --entries N` has in the map-cache: lengths as in the Internet's tables, drawn as `loci bench
// fib` draws them, or those of mobile nodes and small sites. Each pair of families has addresses of its own, so that no entry of one covers
// destinations of another.

package mappings

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"loci/lab/bench/testbed"
)

// entryMix is one of those.
type entryMix struct {
	name, Title string
	Upper       bool // IPv6 addresses differ in their first 64 bits, not in the last
	// draw takes a prefix for a pair.
	draw func(random *rand.Rand, p testbed.Pair) netip.Prefix
	// Bases are the EID-Prefixes of Dec that have all of them, and nothing of the bench that is no entry.
	Bases func() []netip.Prefix
}

// LengthsInternet and LengthsHosts name the mixes.
const (
	LengthsInternet = "internet"
	LengthsHosts    = "hosts"
)

var entryMixes = []entryMix{
	{name: LengthsInternet, Title: "lengths as in the Internet's tables", Upper: true, draw: drawInternet, Bases: internetBases},
	{name: LengthsHosts, Title: "host routes and small sites", draw: drawHosts, Bases: hostsBases},
}

// MixOf is the first one for an empty name.
func MixOf(name string) (entryMix, error) {
	i := slices.IndexFunc(entryMixes, func(m entryMix) bool { return m.name == name })
	if i < 0 && name != "" {
		return entryMix{}, fmt.Errorf("lengths %q: there are %s and %s", name, LengthsInternet, LengthsHosts)
	}
	return entryMixes[max(i, 0)], nil
}

// addressIn is any address of a prefix, as the generator has it. That half of an IPv6 address that does not differ is the prefix's own.
func (m *entryMix) addressIn(random *rand.Rand, p netip.Prefix) uint64 {
	bits, _ := testbed.HalvesOf(p.Addr(), m.Upper)
	open := p.Addr().BitLen() - p.Bits()
	if m.Upper && p.Addr().Is6() {
		open = max(open-64, 0)
	}
	return bits | random.Uint64()&(1<<open-1)
}

// DestinationOf is the neighbour of Dec towards destinations of a family.
func DestinationOf(ipv4 bool) netip.Addr {
	i := slices.IndexFunc(testbed.Pairs, func(p testbed.Pair) bool { return p.Inner4() == ipv4 })
	return testbed.Pairs[i].Destination()
}

// ---- as in the Internet's tables ----

// otherOctets begin addresses of IPv4 that the bench, or everybody, uses otherwise: sites, this host, links, both cores' RLOCs and those
// that mappings name.
var otherOctets = []byte{10, 127, 169, 172, 192, 198}

// drawInternet gives the pairs of a family every other address: of IPv4 by the first octet, of IPv6 by the second. None of IPv6 is in
// 2001::/16, where the bench's own are.
func drawInternet(random *rand.Rand, p testbed.Pair) netip.Prefix {
	parity := byte(0)
	if !p.Outer4() {
		parity = 1
	}
	for {
		if !p.Inner4() {
			drawn := drawPrefix6(random)
			if a := drawn.Addr().As16(); a[1] == parity && (a[0] != 0x20 || a[1] != 1) {
				return firstHalf(drawn)
			}
			continue
		}
		drawn := drawPrefix4(random)
		if first := drawn.Addr().As4()[0]; first&1 == parity && !slices.Contains(otherOctets, first) {
			return drawn
		}
	}
}

// firstHalf clears the last 64 bits of a longer prefix, in which no address of the mix differs.
func firstHalf(p netip.Prefix) netip.Prefix {
	octets := p.Addr().As16()
	clear(octets[8:])
	return netip.PrefixFrom(netip.AddrFrom16(octets), p.Bits())
}

func internetBases() []netip.Prefix {
	var bases []netip.Prefix
	for first, octet := 1, 1; octet <= 224; octet++ {
		if octet < 224 && !slices.Contains(otherOctets, byte(octet)) {
			continue
		}
		bases = append(bases, coverOctets(first, octet)...)
		first = octet + 1
	}
	for _, first := range registries6 {
		for second := range byte(2) {
			if first != 0x20 || second == 0 {
				bases = append(bases, netip.PrefixFrom(netip.AddrFrom16([16]byte{first, second}), 18))
			}
		}
	}
	return bases
}

// coverOctets are the fewest prefixes that have all addresses of IPv4 with first octets from `first` up to, not including, `end`.
func coverOctets(first, end int) (cover []netip.Prefix) {
	for first < end {
		open := 0
		for first&(1<<(open+1)-1) == 0 && first+1<<(open+1) <= end {
			open++
		}
		cover = append(cover, netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(first)}), 8-open))
		first += 1 << open
	}
	return cover
}

// ---- mobile nodes and small sites ----

// hostsBase hold the EIDs of each pair: the low 24 bits are free.
var hostsBase = map[string]netip.Prefix{
	"ipv4-in-ipv4": netip.MustParsePrefix("11.0.0.0/8"),
	"ipv4-in-ipv6": netip.MustParsePrefix("12.0.0.0/8"),
	"ipv6-in-ipv4": netip.MustParsePrefix("2001:db8:e:4::/104"),
	"ipv6-in-ipv6": netip.MustParsePrefix("2001:db8:e:6::/104"),
}

// hostsLengths are bits that an entry leaves open, in permille.
var hostsLengths = []share{{500, 0}, {200, 2}, {300, 4}}

func drawHosts(random *rand.Rand, p testbed.Pair) netip.Prefix {
	octets := hostsBase[p.Name].Addr().AsSlice()
	low := octets[len(octets)-4:]
	open := drawLength(random, hostsLengths)
	binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+random.Uint32N(1<<24)>>open<<open)
	address, _ := netip.AddrFromSlice(octets)
	return netip.PrefixFrom(address, address.BitLen()-open)
}

func hostsBases() []netip.Prefix {
	var bases []netip.Prefix
	for _, p := range testbed.Pairs {
		bases = append(bases, hostsBase[p.Name])
	}
	return bases
}

// SPDX-License-Identifier: Apache-2.0

// Prefixes: lengths as often as the Internet's tables have them, addresses at random but
// the same in every run. Nothing here measures.

package mappings

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
)

// share is how many of 1000 prefixes have a length.
type share struct{ permille, length int }

// What a full table of 2024 had, rounded; a few host routes stand for mobile nodes.
var (
	lengths4 = []share{{590, 24}, {110, 23}, {115, 22}, {50, 21}, {45, 20}, {25, 19}, {15, 18}, {8, 17}, {14, 16}, {4, 14}, {2, 12}, {2, 9}, {10, 28}, {10, 32}}
	lengths6 = []share{{470, 48}, {130, 32}, {80, 44}, {90, 40}, {70, 36}, {40, 29}, {30, 46}, {20, 33}, {30, 64}, {10, 56}, {10, 128}, {20, 30}}
)

func drawLength(random *rand.Rand, shares []share) int {
	draw := random.IntN(1000)
	for _, s := range shares {
		if draw -= s.permille; draw < 0 {
			return s.length
		}
	}
	return shares[0].length
}

// BenchPrefixes are different from each other.
func BenchPrefixes(count int, v6 bool) []netip.Prefix {
	random := rand.New(rand.NewPCG(4, 341))
	prefixes := make([]netip.Prefix, 0, count)
	known := make(map[netip.Prefix]struct{}, count)
	for len(prefixes) < count {
		p := drawPrefix4(random)
		if v6 {
			p = drawPrefix6(random)
		}
		if _, twice := known[p]; !twice {
			known[p] = struct{}{}
			prefixes = append(prefixes, p)
		}
	}
	return prefixes
}

// drawPrefix4 is within 1.0.0.0 to 223.255.255.255.
func drawPrefix4(random *rand.Rand) netip.Prefix {
	address := [4]byte{byte(1 + random.IntN(223)), byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32())}
	return netip.PrefixFrom(netip.AddrFrom4(address), drawLength(random, lengths4)).Masked()
}

// registries6 begin what is given to sites.
var registries6 = []byte{0x20, 0x24, 0x26, 0x28, 0x2A, 0x2C}

// drawPrefix6 is within one of 512 prefixes of /22 of the five registries, which is how dense IPv6 is where it is used at all.
func drawPrefix6(random *rand.Rand) netip.Prefix {
	var address [16]byte
	binary.BigEndian.PutUint64(address[:], random.Uint64())
	binary.BigEndian.PutUint64(address[8:], random.Uint64())
	address[0], address[1] = registries6[random.IntN(6)], byte(random.IntN(2))
	address[2] &= 0x3F
	return netip.PrefixFrom(netip.AddrFrom16(address), drawLength(random, lengths6)).Masked()
}

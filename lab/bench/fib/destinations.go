// SPDX-License-Identifier: Apache-2.0

// Which addresses are looked up: at random but the same in every run. Nothing here measures.

package fib

import (
	"math/rand/v2"
	"net/netip"
)

// zipfExponent is how uneven destinations are: with a million of them, the first one gets a tenth of all packets.
const zipfExponent = 1.1

// drawDestinations draws addresses, in the order in which they are looked up. The first address of a prefix stands for it, so that a
// table of whole addresses can be asked for the same.
func drawDestinations(kind string, prefixes []netip.Prefix) []netip.Addr {
	random := rand.New(rand.NewPCG(4, 342))
	zipf := rand.NewZipf(random, zipfExponent, 1, uint64(len(prefixes)-1))
	destinations := make([]netip.Addr, lookupAddresses)
	for i := range destinations {
		at := 0
		switch kind {
		case destinationsRandom:
			at = random.IntN(len(prefixes))
		case destinationsZipf:
			at = int(zipf.Uint64())
		}
		destinations[i] = prefixes[at].Addr()
	}
	return destinations
}

// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

// A prefix beside a full part of the table parts from it within a comparison: what is below that stays where it is. When it
// was copied, the edit needed as much room as all of it, and found none.
func TestAPrefixBesideMany(t *testing.T) {
	for _, c := range []struct{ many, beside string }{
		{"11.%d.%d.%d/32", "10.2.4.0/24"}, {"11.%d.%d.%d/32", "139.2.4.0/24"}, {"2001:db8:%02x%02x:%02x00::/128", "2001:db9::/32"},
	} {
		t.Run(c.beside, func(t *testing.T) {
			random := rand.New(rand.NewPCG(5, 6))
			p := newPlainTable(t, 10000, 1<<18)
			key, err := KeyOf(abi.RootMapCache, lisp.MustParsePrefix(c.beside))
			must(t, err)
			put := func(prefix string) {
				t.Helper()
				must(t, p.putPrefix(t, abi.RootMapCache, prefix))
			}
			for i := range 8000 {
				put(fmt.Sprintf(c.many, random.IntN(256), random.IntN(256), random.IntN(256)))
				if i%97 != 0 {
					continue
				}
				put(c.beside)
				if found, ok := p.find(abi.RootMapCache, key.Family, 0, key.Address[:abi.AddressOctets(key.Family)]); !ok || found != key {
					t.Fatalf("beside %d prefixes, %s is not found", i, c.beside)
				}
				if existed, err := p.delete(key); !existed || err != nil {
					t.Fatalf("delete: %v, %v", existed, err)
				}
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"
	"testing"

	"loci/dataplane/kernel/abi"
	"loci/internal/attributes"
	"loci/lisp"
)

// TestRecordsCarryAttributes: the pinned records have everything of a locator, for the process after this one. All
// locator-sets stand beside one another, because equal ones share a record: those that differ in one attribute do
// not.
func TestRecordsCarryAttributes(t *testing.T) {
	without := map[string]string{"Address": "a Map-Server's only: no packet can be sent to it"}
	p := newPlainTables(t, 256, 256, 1<<14)
	cases := 0
	attributes.Check(t, without, func(l lisp.Locator) (lisp.Locator, bool) {
		host := netip.AddrFrom4([4]byte{10, byte(cases), 0, 1})
		cases++
		must(t, p.putPrefix(t, abi.RootMapCache, netip.PrefixFrom(host, 24).Masked().String(), lisp.LocatorSet{l}))
		p.reopen(t)
		record, ok := p.Lookup(abi.RootMapCache, abi.Family(host), 0, host.AsSlice())
		if !ok {
			return lisp.Locator{}, false // it has no RLOC
		}
		return p.Sets.Of(record.LocatorSet)[0], true
	})
}

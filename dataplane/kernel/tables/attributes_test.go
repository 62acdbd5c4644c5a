// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"
	"testing"

	"loci/dataplane/kernel/abi"
	"loci/internal/attributes"
	"loci/lisp"
)

// TestRecordsCarryAttributes: the pinned records have everything of a locator, for the process after this one.
func TestRecordsCarryAttributes(t *testing.T) {
	without := map[string]string{"Address": "a Map-Server's only: no packet can be sent to it"}
	attributes.Check(t, without, func(l lisp.Locator) (lisp.Locator, bool) {
		p := newPlainTables(t, 4, 4, 1<<10)
		must(t, p.putPrefix(t, abi.RootMapCache, "10.2.0.0/16", lisp.LocatorSet{l}))
		if refused := p.reopen(t); len(refused) > 0 {
			return lisp.Locator{}, false // it has no RLOC
		}
		host := netip.MustParseAddr("10.2.0.1")
		record, ok := p.Lookup(abi.RootMapCache, abi.Family(host), 0, host.AsSlice())
		if !ok {
			t.Fatal("the mapping is not there")
		}
		return p.Sets.Of(record.LocatorSet)[0], true
	})
}

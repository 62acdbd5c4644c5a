// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"loci/lisp"
)

// TestLocatorsOfSaysAddresses: an explicit locator path is told in words, and has no RLOC.
func TestLocatorsOfSaysAddresses(t *testing.T) {
	path := "\x40\x03\x00\x00\x0a\x00\x00\x10\x00\x05\x00\x01\xcb\x00\x71\x01\x00\x02\x00\x01\xcb\x00\x71\x02"
	set, err := lisp.NewLocatorSet(lisp.Locator{Address: path, Reachable: true}, lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))})
	if err != nil {
		t.Fatal(err)
	}
	list := LocatorsOf(set)
	if list[0].Name() != "192.0.2.1" || list[0].Address != "" || list[1].Name() != "elp(203.0.113.1 -> 203.0.113.2)" {
		t.Errorf("%+v", list)
	}
	encoded, err := json.Marshal(list)
	if err != nil || !strings.Contains(string(encoded), `"rloc":"","address":"elp(203.0.113.1 -\u003e 203.0.113.2)"`) {
		t.Errorf("%s, %v", encoded, err)
	}
}

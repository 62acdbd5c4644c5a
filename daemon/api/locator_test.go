// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/netip"
	"strings"
	"testing"

	"loci/internal/jsondoc"
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
	encoded, err := jsondoc.Append(nil, &list)
	if err != nil || !strings.Contains(string(encoded), `"rloc":null,"explicit_locator_path":[],"next_hop":null,"address":"elp(203.0.113.1 -> 203.0.113.2)"`) {
		t.Errorf("%s, %v", encoded, err)
	}
}

// TestLocatorsOfPaths: a path has its hops with their bits, and the hop that packets go to.
func TestLocatorsOfPaths(t *testing.T) {
	hop := func(a string) lisp.RLOC { return lisp.RLOCFromAddr(netip.MustParseAddr(a)) }
	path, err := lisp.NewPath(hop("203.0.113.1"), hop("2001:db8::1"), hop("203.0.113.2").WithPort(40001))
	if err != nil {
		t.Fatal(err)
	}
	l := lisp.Locator{RLOC: path.RLOC, Behind: path.Behind, Next: 1, Bits: lisp.PathBits{lisp.HopExplicit | lisp.HopStrict | lisp.HopProbe, lisp.HopExplicit | lisp.HopLookup}}
	list := LocatorsOf(lisp.LocatorSet{l, {RLOC: path.RLOC, Bits: lisp.PathBits{lisp.HopExplicit}}, {RLOC: path.RLOC}})
	if list[0].Name() != "203.0.113.1(PS) -> 2001:db8::1(L) -> 203.0.113.2:40001" || list[0].NextHop.String() != "2001:db8::1" {
		t.Errorf("%s by %s", list[0].Name(), list[0].NextHop)
	}
	if len(list[1].Path) != 1 || list[2].Path != nil || list[2].NextHop != nil {
		t.Errorf("a path of one hop %+v, a plain RLOC %+v", list[1], list[2])
	}
	encoded, err := jsondoc.Append(nil, &list[0])
	if want := `"explicit_locator_path":[{"rloc":"203.0.113.1","lrs_bits":["rloc-probe","strict"]},{"rloc":"2001:db8::1","lrs_bits":["lookup"]},{"rloc":"203.0.113.2:40001","lrs_bits":[]}],"next_hop":"2001:db8::1"`; err != nil || !strings.Contains(string(encoded), want) {
		t.Errorf("%s, %v", encoded, err)
	}
}

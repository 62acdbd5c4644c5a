// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"net/netip"
	"testing"

	"loci/lisp"
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func TestAccessListDenies(t *testing.T) {
	for name, c := range map[string]struct {
		list   AccessList
		denied map[string]bool
	}{
		"empty":     {AccessList{}, map[string]bool{"10.0.0.1": false, "2001:db8::1": false}},
		"deny":      {AccessList{Deny: prefixes("10.1.0.0/16")}, map[string]bool{"10.1.2.3": true, "10.2.0.0": false, "2001:db8::1": false}},
		"allow":     {AccessList{Allow: prefixes("10.1.0.0/16")}, map[string]bool{"10.1.2.3": false, "10.2.0.0": true, "2001:db8::1": true}},
		"both":      {AccessList{Allow: prefixes("10.1.0.0/16"), Deny: prefixes("10.1.2.0/24")}, map[string]bool{"10.1.2.3": true, "10.1.3.3": false, "10.2.0.0": true}},
		"exception": {AccessList{Allow: prefixes("10.1.2.0/24"), Deny: prefixes("10.1.0.0/16")}, map[string]bool{"10.1.2.3": false, "10.1.3.3": true, "11.0.0.0": true}},
		"all else":  {AccessList{Allow: prefixes("0.0.0.0/0", "::/0"), Deny: prefixes("2001:db8::/32")}, map[string]bool{"10.1.2.3": false, "2001:db8::1": true, "2001:db9::": false}},
	} {
		for address, want := range c.denied {
			if got := c.list.Denies(netip.MustParseAddr(address)); got != want {
				t.Errorf("%s: %s denied is %t, want %t", name, address, got, want)
			}
		}
	}
}

func TestCheckLists(t *testing.T) {
	one := AccessList{Deny: prefixes("10.0.0.0/8")}
	many := AccessList{}
	for i := range MaxListPrefixes + 1 {
		many.Deny = append(many.Deny, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)}), 24))
	}
	for name, lists := range map[string][]AccessList{
		"twice":              {one, one},
		"too many lists":     make([]AccessList, MaxLists+1),
		"too many prefixes":  {many},
		"unknown packets":    {{Packets: 2}},
		"unknown address":    {{Address: 4}},
		"Instance-ID":        {{Instance: lisp.MaxInstanceID + 1}},
		"outer in instance":  {{Address: ListOuterSource, Instance: 1}},
		"host bits":          {{Deny: prefixes("10.0.0.1/8")}},
		"no prefix":          {{Deny: make([]netip.Prefix, 1)}},
		"IPv4-mapped":        {{Deny: prefixes("::ffff:10.0.0.0/104")}},
		"twice in one":       {{Deny: prefixes("10.0.0.0/8", "10.0.0.0/8")}},
		"allowed and denied": {{Allow: prefixes("10.0.0.0/8"), Deny: prefixes("10.0.0.0/8")}},
	} {
		if err := (&Settings{Lists: lists}).CheckLists(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := one
	other.Instance = 7
	good := Settings{Lists: []AccessList{one, other, {Packets: ListDecapsulated, Address: ListOuterDestination, Allow: prefixes("192.0.2.1/32")}}}
	if err := good.CheckLists(); err != nil {
		t.Error(err)
	}
}

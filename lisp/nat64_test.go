// SPDX-License-Identifier: Apache-2.0

package lisp

import (
	"net/netip"
	"testing"
)

// TestNAT64 has the addresses of RFC 6052 s.2.4, and addresses that lead to no IPv4 address, or to another one.
func TestNAT64(t *testing.T) {
	v4 := netip.MustParseAddr("192.0.2.33")
	for _, c := range []struct{ address, prefix string }{
		{"2001:db8:c000:221::", "2001:db8::/32"},
		{"2001:db8:1c0:2:21::", "2001:db8:100::/40"},
		{"2001:db8:122:c000:2:2100::", "2001:db8:122::/48"},
		{"2001:db8:122:3c0:0:221::", "2001:db8:122:300::/56"},
		{"2001:db8:122:344:c0:2:2100:0", "2001:db8:122:344::/64"},
		{"2001:db8:122:344::192.0.2.33", "2001:db8:122:344::/96"},
		{"64:ff9b::192.0.2.33", "64:ff9b::/96"},
		{"64:ff9b::192.0.2.34", ""},
		{"2001:db8:122:344:c0:2:2100:1", ""},
		{"::ffff:192.0.2.33", ""},
		{"192.0.2.33", ""},
	} {
		p, ok := NAT64Prefix(netip.MustParseAddr(c.address), v4)
		if ok != (c.prefix != "") || ok && p != netip.MustParsePrefix(c.prefix) {
			t.Errorf("%s: %s, %t", c.address, p, ok)
		}
	}
	if p, ok := NAT64Prefix(netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::1")); ok {
		t.Errorf("an IPv6 address stands for another one by %s", p)
	}
}

// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"net/netip"
	"testing"
)

// The address of the next message is in the memory of the one before, whatever the families.
func TestRemoteAddr(t *testing.T) {
	var a net.Addr
	for _, s := range []string{"192.0.2.1:4342", "[2001:db8::1]:4343", "192.0.2.2:1", "[fe80::1%eth0]:4342", "[2001:db8::2]:4342"} {
		to := netip.MustParseAddrPort(s)
		next := remoteAddr(a, to)
		if got := next.(*net.UDPAddr).AddrPort(); got != to {
			t.Errorf("%s became %s", to, got)
		}
		if a != nil && next != a {
			t.Errorf("%s has new memory", to)
		}
		a = next
	}
}

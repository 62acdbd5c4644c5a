// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"net/netip"
	"testing"

	"loci/control/internal/message"
	"loci/control/internal/settings"
)

// TestRTRsByNAT64: the prefix of the NAT64 follows from a Map-Server's address as the node has it, and its own. Where
// they do not fit, RTRs stay as they are.
func TestRTRsByNAT64(t *testing.T) {
	for _, c := range []struct{ configured, own, rtr, want, ipv4 string }{
		{"2001:db8:64::192.0.2.1", "192.0.2.1", "192.0.2.9", "2001:db8:64::192.0.2.9", "192.0.2.9"},
		{"2001:db8:64::192.0.2.1", "192.0.2.1", "2001:db8::9", "2001:db8::9", ""},
		{"2001:db8:64::192.0.2.1", "10.0.0.1", "192.0.2.9", "192.0.2.9", ""},
		{"2001:db8:64::192.0.2.1", "", "192.0.2.9", "192.0.2.9", ""},
		{"192.0.2.1", "192.0.2.1", "192.0.2.9", "192.0.2.9", ""},
	} {
		address := func(text string) (a netip.Addr) {
			if text != "" {
				a = netip.MustParseAddr(text)
			}
			return a
		}
		q := &inquiry{peer: settings.MapServerPeer{Address: netip.AddrPortFrom(address(c.configured), 4342)}}
		q.take(&message.InfoReply{MapServer: address(c.own), RTRs: []netip.Addr{address(c.rtr)}})
		if want := (offered{address(c.want), address(c.ipv4)}); len(q.rtrs) != 1 || q.rtrs[0] != want {
			t.Errorf("%+v: %v", c, q.rtrs)
		}
	}
}

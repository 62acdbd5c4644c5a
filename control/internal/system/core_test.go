// SPDX-License-Identifier: Apache-2.0

package system

import (
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/timing"
	"loci/lisp"
)

// TestCoreAnswered: by family both ways, since it is awaited, not this host itself, and the first answer counts.
func TestCoreAnswered(t *testing.T) {
	const v4, v6, own = "192.0.2.7", "2001:db8:f::7", "192.0.2.1"
	for _, c := range []struct {
		what, asked, from string
		sentAgo           time.Duration
		want              [Families]bool
	}{
		{"IPv4", v4, "192.0.2.8", 0, [Families]bool{true, false}},
		{"IPv6", v6, v6, time.Second, [Families]bool{false, true}},
		{"IPv4 as IPv6 sockets show it", "::ffff:" + v4, v4, 0, [Families]bool{true, false}},
		{"sent before", v4, v4, 2 * time.Second, [Families]bool{}},
		{"IPv6 for IPv4", v4, v6, 0, [Families]bool{}},
		{"IPv4 for IPv6", v6, v4, 0, [Families]bool{}},
		{"this host asked", own, v4, 0, [Families]bool{}},
		{"this host answers", v4, own, 0, [Families]bool{}},
	} {
		h := New(time.Now(), func([]byte) {})
		h.RLOCs = []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr(own))}
		h.Now = timing.Instant(time.Minute)
		h.AwaitCore()
		h.Now += timing.Instant(time.Second)
		asked, from, sentAt := netip.MustParseAddr(c.asked), netip.MustParseAddr(c.from), h.Now-timing.Instant(c.sentAgo)
		h.CoreAnswered(asked, from, sentAt)
		first := h.Now
		h.Now += timing.Instant(time.Second)
		h.CoreAnswered(asked, from, sentAt)
		for family, want := range c.want {
			if at := h.Core.At[family]; want && at != first || !want && at != 0 {
				t.Errorf("%s: family %d answered at %d, want one: %t", c.what, family, at, want)
			}
		}
	}
}

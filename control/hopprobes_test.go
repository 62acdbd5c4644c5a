// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"testing"
	"time"

	"loci/lisp"
	"loci/wire"
)

// probedBy are the addresses that a node has sent RLOC-probes to.
func probedBy(d *testNode) map[string]bool {
	d.net.t.Helper()
	probed := map[string]bool{}
	for _, p := range d.sent {
		m, err := wire.Parse(p.Payload)
		if err != nil {
			d.net.t.Fatal(err)
		}
		if request, is := m.(*wire.MapRequest); is && request.Probe {
			probed[p.Remote.Addr().String()] = true
		}
	}
	return probed
}

// Shows RFC 8060 s.4.6 (3): a hop with the bit P is probed by a router that is not the one before it; a later hop without it is not.
func TestLaterHopsAreProbedByTheirBit(t *testing.T) {
	for _, c := range []struct {
		bits []lisp.HopBits
		want []string
	}{
		{nil, []string{rtr1}},
		{[]lisp.HopBits{0, lisp.HopProbe}, []string{rtr1, rtr2}},
		{[]lisp.HopBits{0, lisp.HopStrict | lisp.HopLookup}, []string{rtr1}},
		{[]lisp.HopBits{lisp.HopProbe, 0, lisp.HopProbe}, []string{rtr1, "192.0.2.2"}},
	} {
		n, x1, _, _, _ := pathSites(t, c.bits...)
		n.run(2 * time.Minute)
		probed := probedBy(x1)
		for _, hop := range []string{rtr1, rtr2, "192.0.2.2"} {
			if want := slices.Contains(c.want, hop); probed[hop] != want {
				t.Errorf("bits %v: %s is probed: %t, want %t", c.bits, hop, probed[hop], want)
			}
		}
	}
}

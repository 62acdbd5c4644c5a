// SPDX-License-Identifier: Apache-2.0

package control

import (
	"testing"
	"time"

	"loci/lisp"
)

// TestWitnessOfBeforeIsGone: a deaf router whose map-cache has no locator that ever answered it names its sibling the
// last one that did. That one may be gone, and the core answers the sibling all the same: it gets the packets.
func TestWitnessOfBeforeIsGone(t *testing.T) {
	for family, ipv6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		n := newDeafNetworkOf(t, ipv6)
		const rlocE = "192.0.2.5"
		n.add("e", xtrConfig(9, n.of("192.0.2.100"), []string{n.of(rlocE)}, n.of("10.3.0.0/16")), n.of(rlocE))
		carry := func(x *testNode, d time.Duration) {
			for range int(d / time.Second) {
				n.run(time.Second)
				if _, there := x.cache[lisp.MustParsePrefix(n.of("10.3.0.0/16"))]; there {
					x.use(n.of("10.3.0.0/16"))
				} else {
					x.miss(n.of("10.1.0.11"), n.of("10.3.0.10"))
				}
			}
		}
		c := n.a.config
		c.ITR.IdleTimeout = 30 * time.Second
		n.a.configure(c)
		n.deaf = []string{rlocA}
		n.forward(5*time.Second, nil, n.a)
		n.wantPath(n.a, linkB, family+": a is deaf")
		n.deaf = []string{rlocA, rlocC, rlocD} // the site of a's witness is gone for good
		carry(n.b, 2*time.Minute)
		if got := n.a.cachedPrefixes(); len(got) > 0 {
			t.Fatalf("%s: a has mappings yet: %v", family, got)
		}
		n.linkOf(n.b, false)
		carry(n.b, 10*time.Second)
		n.wantPath(n.a, "", family+": b has no link")
		n.linkOf(n.b, true)
		carry(n.a, time.Minute)
		n.wantPath(n.a, linkB, family+": the core answers b")
	}
}

// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"net/netip"
	"testing"

	"loci/control/internal/timing"
	"loci/lisp"
)

// TestNoncesThatDoNotGrow: such a node moves with any new nonce; of the old ones the last 64 are known.
func TestNoncesThatDoNotGrow(t *testing.T) {
	here, there := netip.MustParseAddrPort("198.51.100.1:4000"), netip.MustParseAddrPort("203.0.113.66:4341")
	var n nonces
	for i := range uint64(100) {
		n.saw(i*7919%101+1, here)
	}
	if !n.shrank || len(n.recent) != recentNonces {
		t.Fatalf("shrank %t, %d are known", n.shrank, len(n.recent))
	}
	if n.isReplay(500, there) || !n.isReplay(99*7919%101+1, there) || n.isReplay(99*7919%101+1, here) {
		t.Error("a new one is a replay, or an old one is none")
	}
}

// TestEndedBindingsAreBounded: the oldest is forgotten, and all after ten minutes.
func TestEndedBindingsAreBounded(t *testing.T) {
	e := ended{byClaim: map[claim]endedBinding{}}
	claimOf := func(i int) claim {
		return claim{lisp.MustParsePrefix("10.1.0.0/16"), nodeID{site: uint64(i)}}
	}
	for i := range maxEnded + 10 {
		e.add(claimOf(i), nonces{greatest: 7}, timing.Instant(i+1))
	}
	if len(e.byClaim) != maxEnded || e.of(claimOf(0), maxEnded+11).greatest != 0 || e.of(claimOf(10), maxEnded+11).greatest != 7 {
		t.Errorf("%d are known", len(e.byClaim))
	}
	e.add(claimOf(11), nonces{greatest: 8}, maxEnded+20)
	e.of(claimOf(0), timing.Instant(endedLasts)+maxEnded+15)
	if len(e.byClaim) != 1 || e.of(claimOf(11), timing.Instant(endedLasts)+maxEnded+15).greatest != 8 {
		t.Errorf("%d are known after ten minutes", len(e.byClaim))
	}
}

// SPDX-License-Identifier: Apache-2.0

// The forwarding table is edited as fast as it goes while packets pass: none is lost, none
// goes by a mapping that is not its own. The test needs root.

package kernel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
)

// decoysOf are prefixes around a host of site B that do not cover it, or cover more than its
// own mapping does, each with a locator that no router has.
func decoysOf(t *testing.T, host netip.Addr) (edits []dataplane.PutMapping) {
	t.Helper()
	texts := []string{"10.0.0.0/8", "10.2.0.0/16", "10.2.0.128/25", "10.2.0.8/31", "10.2.0.11/32", "10.2.1.0/24", "10.2.0.64/26", "8.0.0.0/5"}
	if host.Is6() {
		texts = []string{"2001::/16", "2001:db8::/32", "2001:db8:2:0:8000::/65", "2001:db8:2::8/127", "2001:db8:2::11/128", "2001:db8:2:1::/64", "2001:db8:3::/48", "2001:db8:2::/47"}
	}
	for _, text := range texts {
		edits = append(edits, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
			Mapping:   lisp.Mapping{Prefix: lisp.MustParsePrefix(text), Locators: locators(netip.MustParseAddr("192.0.2.99")), TTLMinutes: 10},
			CreatedAt: time.Now(), ExpiresAt: time.Now().Add(10 * time.Minute),
		}})
	}
	return edits
}

func TestEditsUnderTraffic(t *testing.T) {
	n := newNetwork(t)
	n.mapBoth(t, rloc4)
	a := n.routers[0]
	for _, p := range pairs[:2] {
		t.Run(p.name, func(t *testing.T) {
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10)) // neighbours are known from here on
			before := a.Counters()
			decoys := decoysOf(t, p.inner(1, 10))
			stop, edited := make(chan struct{}), make(chan int)
			go func() {
				edits := 0
				defer func() { edited <- edits }()
				for {
					for _, d := range decoys {
						a.Apply(d)
					}
					for _, d := range decoys {
						a.Apply(dataplane.DeleteMapping{Prefix: d.Entry.Mapping.Prefix})
					}
					edits += 2 * len(decoys)
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
			ping := testnet.Ping{Namespace: n.hosts[0], Source: p.inner(0, 10), Destination: p.inner(1, 10), Count: 1000, Interval: time.Millisecond, Timeout: 30 * time.Second}
			result, err := ping.Run(t.Context())
			close(stop)
			edits := <-edited
			must(t, err)
			if result.Received != result.Sent || result.Sent == 0 {
				t.Errorf("%d of %d packets arrived during %d edits;%s", result.Received, result.Sent, edits, n.report())
			}
			after := a.Counters()
			if wrong := after.MissPackets - before.MissPackets; wrong != 0 || fmt.Sprint(after.Drops) != fmt.Sprint(before.Drops) {
				t.Errorf("%d packets missed, drops %v, before %v", wrong, after.Drops, before.Drops)
			}
			t.Logf("%d packets during %d edits", result.Received, edits)
		})
	}
}

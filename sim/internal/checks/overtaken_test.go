// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"net/netip"
	"testing"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/network"
	"loci/sim/internal/virtual"
)

// A refresh that is overtaken may wait for its Map-Notify until it has been sent again. One that is refused may not.
func TestOvertakenRefreshesAreRepeated(t *testing.T) {
	prefix := func(third byte) lisp.Prefix {
		p, err := lisp.PrefixFromNetip(0, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, third, 0}), 24))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	since := func(third byte, ago time.Duration) control.UnacknowledgedEID {
		return control.UnacknowledgedEID{Prefix: prefix(third), Since: virtual.Epoch.Add(time.Hour - ago)}
	}
	lately, forLong, strange := since(1, 3*time.Second), since(2, 2*time.Minute), since(9, time.Hour)
	for name, c := range map[string]struct {
		reorder float64
		lacking []control.UnacknowledgedEID
		more    int // that are not listed
		want    bool
	}{
		"lately":                {0.2, []control.UnacknowledgedEID{lately, since(2, time.Minute)}, 0, true},
		"one for long":          {0.2, []control.UnacknowledgedEID{lately, forLong}, 0, false},
		"nothing is overtaken":  {0, []control.UnacknowledgedEID{lately}, 0, false},
		"beside one of no site": {0.2, []control.UnacknowledgedEID{lately, strange}, 0, true},
		"that one only":         {0.2, []control.UnacknowledgedEID{strange}, 0, false},
		"too many to list":      {0.2, []control.UnacknowledgedEID{lately}, 1, false},
		"none that is listed":   {0.2, nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			at := &control.MapServerStatus{Lacking: c.lacking, LackingCount: len(c.lacking) + c.more}
			conditions := &network.Conditions{Reorder: c.reorder}
			if got := isRepeated(prefix(9), at, conditions, virtual.Epoch.Add(time.Hour)); got != c.want {
				t.Errorf("isRepeated is %t, want %t", got, c.want)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"
)

// Seeds in which the better proxy ETR of a site dies: no packet to a host outside LISP is lost once RLOC-probes have
// had the time to find out.
func TestDeadProxyETR(t *testing.T) {
	for fault, seed := range map[string]uint64{"proxy-etr-lost-for-good": 62, "proxy-etr-lost": 22} {
		t.Run(fault, func(t *testing.T) {
			r := Run(Options{Seed: seed, Routers: 24, Duration: 5 * time.Minute})
			if r.Violation != nil {
				t.Error(r.Violation)
			}
			if r.Stats.Faults[fault] != 1 {
				t.Errorf("seed %d has the faults %v", seed, r.Stats.Faults)
			}
		})
	}
}

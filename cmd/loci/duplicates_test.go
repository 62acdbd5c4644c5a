// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
)

// TestTwoRoutersWithOneEID: both are told of it, and that it is over when one of them gives the EID-Prefix up. That takes 15 minutes.
func TestTwoRoutersWithOneEID(t *testing.T) {
	if os.Getenv(longTests) != "1" {
		t.Skip("takes 15 minutes: set " + longTests + "=1")
	}
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.xtr(1))
	second := strings.NewReplacer(siteKey(2), siteKey(1), testSite{2}.eid4(), testSite{1}.eid4(), testSite{2}.eid6(), testSite{1}.eid6()).Replace(n.xtr(2))
	n.run("xtr2", second)
	prefixes := []string{testSite{1}.eid4(), testSite{1}.eid6()}
	told := func(name string) (list []api.HealthProblem) {
		h, _ := n.status(name)
		for _, p := range h.Problems {
			if p.Kind == "duplicate-eid" {
				list = append(list, p)
			}
		}
		return list
	}
	n.awaitWithin(15*time.Minute, "one of them is told of another router with both EID-Prefixes", func(context.Context) bool {
		return len(told("xtr1")) == len(prefixes) || len(told("xtr2")) == len(prefixes)
	})
	name, other := "xtr1", "xtr2"
	if len(told(name)) == 0 {
		name, other = other, name
	}
	if p := n.awaitProblem(name, "duplicate-eid", prefixes[0]); p.Urgency != api.UrgencyWarning || !strings.Contains(p.Remedy, "etr.local-eids") {
		t.Errorf("%+v", p)
	}
	n.kill(other)
	n.awaitWithin(12*time.Minute, "it is over", func(context.Context) bool { return len(told(name)) == 0 })
}

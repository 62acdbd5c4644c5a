// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
)

// TestStatusSaysThatNoRLOCIsUp beside ready, which keeps its meaning.
func TestStatusSaysThatNoRLOCIsUp(t *testing.T) {
	for want, own := range map[string][]api.OwnRLOC{
		"ready, up": {{State: "down"}, {State: "up"}}, "ready, no RLOC up, up": {{State: "down"}, {State: "down"}}, "ready, up 0s": nil,
	} {
		var out bytes.Buffer
		if err := printStatus(&out, api.Status{Ready: true, StartedAt: time.Now()}, own); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %s, %v", own, &out, err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package counter

import (
	"strings"
	"testing"
)

func TestCounterList(t *testing.T) {
	names := make(map[string]bool)
	for _, c := range CounterList() {
		if c.Name == "_total" || c.Name == "refused__total" || c.Description == "" || names[c.Name] {
			t.Errorf("counter %q: %q", c.Name, c.Description)
		}
		if strings.ContainsAny(c.Name, "- ") {
			t.Errorf("counter name %q", c.Name)
		}
		names[c.Name] = true
	}
	for _, name := range []string{"map_request_received_total", "refused_replay_total", "refused_unknown_afi_total"} {
		if !names[name] {
			t.Errorf("no counter %s", name)
		}
	}
}

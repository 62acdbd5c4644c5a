// SPDX-License-Identifier: Apache-2.0

package tidy

import "testing"

// TestRouterReachesNoLab: the router's binary contains nothing of the demo, the benches and the simulator, by any number of arrows.
func TestRouterReachesNoLab(t *testing.T) {
	reached := map[string]bool{}
	for next := []string{"cmd/loci"}; len(next) > 0; next = next[1:] {
		if !reached[next[0]] {
			reached[next[0]] = true
			next = append(next, arrows[next[0]]...)
		}
	}
	if !reached["daemon"] || !reached["lisp"] {
		t.Errorf("cmd/loci reaches only %v", reached)
	}
	for _, room := range []string{"lab", "sim", "cmd/loci-lab", "internal/testnet"} {
		if reached[room] {
			t.Errorf("cmd/loci reaches %s", room)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"
	"time"
)

// TestFirstAnswersOfOneRouter: while a hundred locators of one router are looked for, it answers few checks. One that
// it answered before and does not answer now is not lost, though it answers others for the first time.
func TestFirstAnswersOfOneRouter(t *testing.T) {
	for phase := range 10 {
		w, peers := hundred(t)
		for _, p := range peers[1:] {
			p.rate, p.limit = 0, &limiter{1} // one answer each
		}
		w.until(peers[0], Passes, 30*time.Second)
		w.run(20*time.Second + time.Duration(phase)*time.Second)
		peers[0].limit = &limiter{}
		found := 0
		w.each = func() {
			for range 3 {
				if found++; found < len(peers) {
					peers[found].rate = 50
				}
			}
		}
		w.run(25 * time.Second)
		if len(w.news) > 0 || w.state(peers[20]).Outcome != Passes {
			t.Errorf("phase %d: reported %v; another one: %+v", phase, w.news, w.state(peers[20]))
		}
		if !w.watch.slow {
			t.Errorf("phase %d: the checks are not slower", phase)
		}
	}
}

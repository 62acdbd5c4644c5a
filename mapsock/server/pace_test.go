// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"
	"time"
)

// A client that sends at once is waited for awake; one that does not costs less and less.
func TestPace(t *testing.T) {
	var p pace
	if p.worthIt() {
		t.Fatal("awake for a client that nothing is known of")
	}
	p.soon = true
	for range 3 {
		if !p.worthIt() {
			t.Fatal("asleep for a client that sends at once")
		}
		p.came()
	}
	awake := 0
	for range 10 * maxVainPause { // it never comes in time, but soon enough to try again
		p.soon = true
		if p.worthIt() {
			awake++
			p.vain()
		}
	}
	if awake < 10 || awake > 30 {
		t.Errorf("%d of %d waits were awake", awake, 10*maxVainPause)
	}
	for p.pause > 0 {
		p.worthIt()
	}
	p.soon = true
	if !p.worthIt() {
		t.Fatal("a client that became quick is not tried again")
	}
	p.came()
	p.vain()
	if p.pause != 1 {
		t.Errorf("a pause of %d after the first wait in vain", p.pause)
	}
}

// Only a client whose last datagram came soon is waited for in the system call.
func TestPaceOfAClient(t *testing.T) {
	for _, test := range []struct {
		wait         time.Duration
		soon, lively bool
	}{{0, true, true}, {eager, false, true}, {lively, false, false}, {time.Hour, false, false}} {
		var p pace
		p.took(test.wait)
		if p.soon != test.soon || p.lively != test.lively {
			t.Errorf("after %s: %+v", test.wait, p)
		}
	}
}

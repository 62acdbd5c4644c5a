// SPDX-License-Identifier: Apache-2.0

package lispers

import (
	"regexp"
	"testing"
)

// TestCounterNames: names of counters are in one spelling, by which metrics and scripts find them.
func TestCounterNames(t *testing.T) {
	var counts tally
	spelling := regexp.MustCompile("^lispers(_[a-z]+)+$")
	counts.each(func(name string, _ uint64) {
		if !spelling.MatchString(name) {
			t.Errorf("%q is no name of a counter", name)
		}
	})
}

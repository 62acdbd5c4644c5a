// SPDX-License-Identifier: Apache-2.0

// What is left by an engine that could not be opened. The tests need root.

package kernel

import "testing"

// TestOpenThatFailsLeavesNothing opens an engine for which there is no room: of what it made until then nothing stays, and the next one opens.
func TestOpenThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	a := newLinks(t).routers[0]
	for _, options := range []Options{{TableOctets: 1}, {TAP: "a-name-that-is-too-long"}} {
		options.Instance, options.Logger = a.instance, testLogger()
		must(t, a.ns.Do(func() error {
			e, err := Open(options)
			if err == nil {
				t.Errorf("%+v: it opens", options)
				return e.Close()
			}
			t.Log(err)
			return nil
		}))
		a.expectNothing(t)
	}
	a.open(t, Options{})
}

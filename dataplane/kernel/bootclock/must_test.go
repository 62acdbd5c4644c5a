// SPDX-License-Identifier: Apache-2.0

package bootclock

import "testing"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

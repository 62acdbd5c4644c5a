// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestActivityRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Activity
		if !a.Rested() {
			t.Error("has worked before it began")
		}
		if a.Worked(); a.Rested() {
			t.Error("rests right after its work")
		}
		time.Sleep(directRest + 1)
		if !a.Rested() {
			t.Error("does not rest when nothing came")
		}
	})
}

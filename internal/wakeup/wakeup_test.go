// SPDX-License-Identifier: Apache-2.0

package wakeup_test

import (
	"testing"

	"loci/internal/wakeup"
)

func TestSeveralWakeUpsBeforeOneIsTakenAreOne(t *testing.T) {
	s := wakeup.New()
	s.Set()
	s.Set()
	<-s
	select {
	case <-s:
		t.Fatal("the second wake-up was kept")
	default:
	}
	s.Set()
	<-s
}

// SPDX-License-Identifier: Apache-2.0

package atonce

import (
	"runtime"
	"testing"
	"time"
)

// TestThreadTime has the time of this thread go on while it works, and not while others do.
func TestThreadTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const piece = time.Millisecond
	began := ThreadTime()
	if began <= 0 {
		t.Fatalf("began at %v", began)
	}
	for ThreadTime() < began+piece { // it ends because the clock goes on
	}
	own := ThreadTime()
	other := make(chan time.Duration)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		first := ThreadTime()
		for ThreadTime() < first+own+piece {
		}
		other <- ThreadTime() - first
	}()
	if theirs := <-other; ThreadTime()-own >= theirs {
		t.Errorf("%v while another thread had %v", ThreadTime()-own, theirs)
	}
}

// SPDX-License-Identifier: Apache-2.0

// This file waits for the programs that run now. It knows nothing of what they do.

package reclaim

import (
	"time"

	"golang.org/x/sys/unix"
)

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL, which waits for an RCU grace period:
// for every program that runs now.
const membarrierGlobal = 1

// WaitForPrograms returns when no program runs any more that ran when it was called.
func WaitForPrograms() {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		time.Sleep(RestTime) // a kernel with nohz_full refuses
	}
}

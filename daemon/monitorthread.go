// SPDX-License-Identifier: Apache-2.0

package daemon

// The thread of Go's runtime that watches the others. While anything runs it wakes every
// 20 µs, to see whether a system call or a goroutine takes long, and it is woken by the
// first system call after each rest: on a core that is busy it took a quarter of the time
// of a resolution. It may be late by a millisecond (proc_pid_timerslack_ns(5)), and takes no
// core from a thread that has work (SCHED_BATCH, sched(7)). No other thread is changed.

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// monitorSlack is how late the runtime's monitor may wake. A goroutine in a system call
// that blocks holds up those behind it so long, where no other processor is idle.
const monitorSlack = time.Millisecond

// slowMonitor makes the monitor wake less often, which needs CAP_SYS_NICE, and yield to the
// others, which needs nothing.
func slowMonitor() error {
	// Of another PID namespace the numbers would be those of strangers.
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return err
	}
	if self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("/proc is not of this PID namespace: it calls this process %s rather than %d", self, os.Getpid())
	}
	thread, err := monitorThread("/proc/self/task", os.Getpid())
	if err != nil {
		return err
	}
	batch := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH}
	return errors.Join(unix.SchedSetAttr(thread, batch, 0),
		os.WriteFile(fmt.Sprintf("/proc/%d/timerslack_ns", thread), []byte(strconv.FormatInt(int64(monitorSlack), 10)), 0))
}

// monitorThread returns the runtime's monitor: the first thread that it starts.
func monitorThread(tasks string, process int) (int, error) {
	entries, err := os.ReadDir(tasks)
	if err != nil {
		return 0, err
	}
	var threads []int
	for _, entry := range entries {
		if id, err := strconv.Atoi(entry.Name()); err == nil && id > process {
			threads = append(threads, id)
		}
	}
	if len(threads) == 0 {
		return 0, fmt.Errorf("%s: no thread that was started after %d", tasks, process)
	}
	return slices.Min(threads), nil
}

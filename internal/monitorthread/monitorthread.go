// SPDX-License-Identifier: Apache-2.0

// Package monitorthread keeps the thread of Go's runtime that watches the others from waking for nothing. While anything
// runs it wakes every 20 µs, to see whether a system call or a goroutine takes long, and it is woken by the first system
// call after each rest: on a core that is busy it took a quarter of the time of a resolution. Late by a millisecond
// (proc_pid_timerslack_ns(5)) it serves as well, and takes no core from a thread that has work (SCHED_BATCH, sched(7)).
// No other thread is changed.
package monitorthread

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// slack is how late the runtime's monitor may wake. A goroutine in a system call that
// blocks holds up those behind it so long, where no other processor is idle.
const slack = time.Millisecond

// Slow makes the monitor of this process wake less often, which needs CAP_SYS_NICE, and
// yield to the others, which needs nothing. What could not be done is the error; restore
// is never nil and undoes the rest.
func Slow() (restore func() error, err error) {
	thread, err := own()
	if err != nil {
		return func() error { return nil }, err
	}
	restore = func() error { return set(thread, unix.SCHED_NORMAL, 0) }
	return restore, set(thread, unix.SCHED_BATCH, slack)
}

// set changes the thread's policy and slack; no slack stands for what the system gives.
func set(thread int, policy uint32, slack time.Duration) error {
	attributes := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}
	return errors.Join(unix.SchedSetAttr(thread, attributes, 0),
		os.WriteFile(fmt.Sprintf("/proc/%d/timerslack_ns", thread), []byte(strconv.FormatInt(int64(slack), 10)), 0))
}

// own finds the monitor of this process.
func own() (thread int, err error) {
	// Of another PID namespace the numbers would be those of strangers.
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return 0, err
	}
	if self != strconv.Itoa(os.Getpid()) {
		return 0, fmt.Errorf("/proc is not of this PID namespace: it calls this process %s rather than %d", self, os.Getpid())
	}
	return first("/proc/self/task", os.Getpid())
}

// first returns the runtime's monitor: the first thread that it starts.
func first(tasks string, process int) (int, error) {
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

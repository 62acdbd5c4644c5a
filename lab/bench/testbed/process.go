// SPDX-License-Identifier: Apache-2.0

// What /proc tells of a process: memory and processor time.

package testbed

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is USER_HZ, which is 100 on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// ProcessorTime is what a process has had, in user space and in the kernel.
func ProcessorTime(pid int) (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, errors.New("/proc tells no processor time")
	}
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, errors.Join(userErr, systemErr)
}

// ResidentOctets is what a process has in memory, maps of the kernel that it has mapped included.
func ResidentOctets(pid int) (float64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(status))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of %d: %q", pid, status)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()), err
}

// OwnOctets is what a process has resident beside files and the kernel's maps.
func OwnOctets(pid int) (float64, error) { return statusOctets(pid, "RssAnon:") }

// PeakOctets is the most that a process has had resident.
func PeakOctets(pid int) (float64, error) { return statusOctets(pid, "VmHWM:") }

// statusOctets is an amount of memory that /proc tells in KiB.
func statusOctets(pid int, key string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			kibibytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kibibytes * 1024, err
		}
	}
	return 0, fmt.Errorf("/proc has no %s of process %d", key, pid)
}

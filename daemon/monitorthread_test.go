// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMonitorThreadIsTheFirstThatWasStarted(t *testing.T) {
	for _, one := range []struct {
		name  string
		tasks []string
		want  int // 0: an error
	}{
		{"the process and others", []string{"1000", "1009", "1003", "1004"}, 1003},
		{"numbers began anew", []string{"1000", "12", "13"}, 0},
		{"alone", []string{"1000"}, 0},
		{"no number", []string{"1000", "x"}, 0},
	} {
		directory := t.TempDir()
		for _, task := range one.tasks {
			if err := os.Mkdir(filepath.Join(directory, task), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		got, err := monitorThread(directory, 1000)
		if got != one.want || (err != nil) != (one.want == 0) {
			t.Errorf("%s: %d, %v; want %d", one.name, got, err, one.want)
		}
	}
	if _, err := monitorThread(filepath.Join(t.TempDir(), strconv.Itoa(os.Getpid())), 1); err == nil {
		t.Error("a directory that is not there has a thread")
	}
}

// The kernel takes what is asked of it, and the process goes on.
func TestSlowMonitor(t *testing.T) {
	if err := slowMonitor(); errors.Is(err, fs.ErrPermission) && os.Getenv("CI") == "" {
		t.Skipf("needs CAP_SYS_NICE: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	thread, err := monitorThread("/proc/self/task", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	attributes, err := unix.SchedGetAttr(thread, 0)
	if err != nil || attributes.Policy != unix.SCHED_BATCH {
		t.Errorf("policy %+v, %v", attributes, err)
	}
	slack, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", thread))
	if err != nil || strings.TrimSpace(string(slack)) != strconv.FormatInt(int64(monitorSlack), 10) {
		t.Errorf("slack %q, %v", slack, err)
	}
}

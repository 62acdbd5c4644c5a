// SPDX-License-Identifier: Apache-2.0

package monitorthread

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
		got, err := first(directory, 1000)
		if got != one.want || (err != nil) != (one.want == 0) {
			t.Errorf("%s: %d, %v; want %d", one.name, got, err, one.want)
		}
	}
	if _, err := first(filepath.Join(t.TempDir(), strconv.Itoa(os.Getpid())), 1); err == nil {
		t.Error("a directory that is not there has a thread")
	}
}

// The kernel takes what is asked of it, the process goes on, and nothing of it stays.
func TestSlow(t *testing.T) {
	thread, err := own()
	if err != nil {
		t.Fatal(err)
	}
	_, before := settingsOf(t, thread)
	restore, err := Slow()
	if errors.Is(err, fs.ErrPermission) && os.Getenv("CI") == "" {
		t.Skipf("needs CAP_SYS_NICE: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if policy, late := settingsOf(t, thread); policy != unix.SCHED_BATCH || late != strconv.FormatInt(int64(slack), 10) {
		t.Errorf("policy %d, slack %s", policy, late)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if policy, late := settingsOf(t, thread); policy != unix.SCHED_NORMAL || late != before {
		t.Errorf("restored: policy %d, slack %s, was %s", policy, late, before)
	}
}

func settingsOf(t *testing.T, thread int) (policy uint32, slack string) {
	t.Helper()
	attributes, err := unix.SchedGetAttr(thread, 0)
	if err != nil {
		t.Fatal(err)
	}
	told, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", thread))
	if err != nil {
		t.Fatal(err)
	}
	return attributes.Policy, strings.TrimSpace(string(told))
}

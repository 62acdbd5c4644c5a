// SPDX-License-Identifier: Apache-2.0

package throughput

// A share of a processor for the processes of a router, by a control group (cgroups(7)) of version 1 or 2: what a small device has.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
)

const (
	// period is short, so that a router sleeps for a moment alone, as a slow one would not sleep at all.
	periodMicroseconds = 5000
	groupPrefix        = "loci-lab-"
)

// hierarchy is a cgroup file system with the controller cpu.
type hierarchy struct {
	path    string
	unified bool // version 2
}

// processorGroups finds it.
func processorGroups() (hierarchy, error) {
	for _, path := range []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"} {
		if _, err := os.Stat(path + "/cpu.cfs_quota_us"); err == nil {
			return hierarchy{path: path}, nil
		}
		if _, err := os.Stat(path + "/cgroup.procs"); err == nil {
			return hierarchy{path: path}, nil // the root group has no quota
		}
	}
	controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil || !strings.Contains(" "+strings.TrimSpace(string(controllers))+" ", " cpu ") {
		return hierarchy{}, errors.New("no control group limits processor time")
	}
	return hierarchy{"/sys/fs/cgroup", true}, nil
}

// limit gives the processes of each router so many per cent of a processor.
func limit(b *testbed.Run, l *testbed.Line, perCent int) error {
	h, err := processorGroups()
	if err != nil {
		return err
	}
	for _, router := range []*testnet.Namespace{l.Enc, l.Dec} {
		group := filepath.Join(h.path, groupPrefix+router.Name())
		if err := h.make(group, perCent, l); err != nil {
			return err
		}
		for _, p := range b.ProcessesAt(router) {
			if err := os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(p.PID())), 0); err != nil {
				return fmt.Errorf("limit the processor time of %s: %w", p.Name, err)
			}
		}
	}
	return nil
}

// sweep removes the groups of runs that are dead: their names have the process that made them.
func (h hierarchy) sweep() {
	groups, _ := filepath.Glob(filepath.Join(h.path, groupPrefix+testbed.Runs.Prefix+"-*"))
	for _, group := range groups {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(group), groupPrefix+testbed.Runs.Prefix+"-"), "-")
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			_ = unix.Rmdir(group) // one with processes stays
		}
	}
}

// make makes a group that is not there yet. It goes with the line; the processes in it have ended then.
func (h hierarchy) make(group string, perCent int, l *testbed.Line) error {
	err := os.Mkdir(group, 0o755)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	h.sweep()
	l.Closers = append(l.Closers, func() error { return unix.Rmdir(group) })
	quota := strconv.Itoa(periodMicroseconds * perCent / 100)
	if h.unified {
		_ = os.WriteFile(h.path+"/cgroup.subtree_control", []byte("+cpu"), 0) // it may be on
		return os.WriteFile(group+"/cpu.max", fmt.Appendf(nil, "%s %d", quota, periodMicroseconds), 0)
	}
	return errors.Join(os.WriteFile(group+"/cpu.cfs_period_us", []byte(strconv.Itoa(periodMicroseconds)), 0),
		os.WriteFile(group+"/cpu.cfs_quota_us", []byte(quota), 0))
}

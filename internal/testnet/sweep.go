// SPDX-License-Identifier: Apache-2.0

// Leftovers: who made a namespace, and the removal of namespaces whose maker is gone. A record beside each namespace
// names the creating process by id, start time and boot, because a process id alone is used again.
//
// It never removes a namespace whose creator lives, nor one that was kept on purpose (SweepKept does), and never signals
// a process that is not inside a namespace it removes.

package testnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// recordDirectory holds one record for each namespace. It lies outside namespaceDirectory, where `ip netns list` would
// take the records for namespaces.
const recordDirectory = "/run/loci-testnet"

const recordSuffix = ".json"

// killWait bounds the wait for the processes of a removed namespace to end.
const killWait = 2 * time.Second

// Creator identifies a process beyond the reuse of its id.
type Creator struct {
	Pid        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"` // field 22 of /proc/PID/stat
	BootID     string `json:"boot_id"`
}

type record struct {
	Creator
	Kept bool `json:"kept"`
}

// Self returns the calling process as a Creator.
func Self() (Creator, error) {
	boot, err := bootID()
	if err != nil {
		return Creator{}, err
	}
	ticks, err := startTicks(os.Getpid())
	if err != nil {
		return Creator{}, err
	}
	return Creator{Pid: os.Getpid(), StartTicks: ticks, BootID: boot}, nil
}

// Alive reports whether the very process still exists; a later process with the same id does not count.
func (c Creator) Alive() bool {
	boot, err := bootID()
	if err != nil || boot != c.BootID {
		return false
	}
	ticks, err := startTicks(c.Pid)
	return err == nil && ticks == c.StartTicks
}

// Sweep removes the namespaces that New(prefix) networks of dead processes left behind, and ends the processes that
// still run in them. It returns the names it removed.
func Sweep(prefix string) ([]string, error) {
	return sweep(prefix, func(r record) bool { return !r.Kept && !r.Alive() })
}

// SweepKept removes what Sweep removes, and the networks that Keep left on purpose by processes that are gone.
func SweepKept(prefix string) ([]string, error) {
	return sweep(prefix, func(r record) bool { return !r.Alive() })
}

func sweep(prefix string, due func(record) bool) ([]string, error) {
	entries, err := os.ReadDir(recordDirectory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("testnet: sweep: %w", err)
	}
	var removed []string
	var all []error
	for _, entry := range entries {
		name, isRecord := strings.CutSuffix(entry.Name(), recordSuffix)
		if !isRecord || !ofPrefix(name, prefix) {
			continue
		}
		r, err := readRecord(name)
		if err != nil || !due(r) {
			continue // another sweep was faster, or it is in use
		}
		if err := removeNamespace(name); err != nil {
			all = append(all, err)
			continue
		}
		removed = append(removed, name)
	}
	return removed, errors.Join(all...)
}

// ofPrefix tells prefix "loci" from prefix "loci-demo": after the prefix the process id must follow.
func ofPrefix(name, prefix string) bool {
	rest, found := strings.CutPrefix(name, prefix+"-")
	if !found {
		return false
	}
	pid, _, found := strings.Cut(rest, "-")
	_, err := strconv.Atoi(pid)
	return found && err == nil
}

// removeNamespace ends what runs in the namespace, takes its name away and forgets its record, in this order: whatever
// fails, the record stays for the next sweep. What is already gone is no error.
func removeNamespace(name string) error {
	path := filepath.Join(namespaceDirectory, name)
	if err := killInside(path); err != nil {
		return err
	}
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("testnet: unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("testnet: remove %s: %w", path, err)
	}
	err = os.Remove(recordPath(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("testnet: forget %s: %w", name, err)
	}
	return nil
}

// killInside kills every process in the namespace and waits for its end, because a process holds the namespace, and what
// it pinned, beyond the unmount.
func killInside(path string) error {
	deadline := time.Now().Add(killWait)
	for {
		left, err := killRound(path)
		if err != nil || left == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("testnet: %d processes in %s do not end", left, path)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func killRound(path string) (int, error) {
	var target unix.Stat_t
	if err := unix.Stat(path, &target); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return 0, nil
		}
		return 0, fmt.Errorf("testnet: stat %s: %w", path, err)
	}
	if _, err := os.Stat("/proc/self/ns/net"); err != nil {
		return 0, fmt.Errorf("testnet: processes cannot be listed: %w", err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("testnet: list processes: %w", err)
	}
	left := 0
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || pid <= 1 {
			continue
		}
		if killIfInside(pid, target) {
			left++
		}
	}
	return left, nil
}

// killIfInside holds the process by a descriptor while it looks and signals, so that a reused id is never hit.
func killIfInside(pid int, target unix.Stat_t) bool {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(handle)
	var own unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &own) != nil {
		return false // ended, or a zombie: it holds no namespace any more
	}
	if own.Dev != target.Dev || own.Ino != target.Ino {
		return false
	}
	return unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0) == nil
}

func recordPath(name string) string { return filepath.Join(recordDirectory, name+recordSuffix) }

func writeRecord(name string) error {
	self, err := Self()
	if err != nil {
		return err
	}
	return storeRecord(name, record{Creator: self})
}

func markKept(name string) error {
	r, err := readRecord(name)
	if err != nil {
		return fmt.Errorf("testnet: keep %s: %w", name, err)
	}
	r.Kept = true
	return storeRecord(name, r)
}

// storeRecord renames a finished file into place: a sweep of another process never reads half a record.
func storeRecord(name string, r record) error {
	if err := os.MkdirAll(recordDirectory, 0o755); err != nil {
		return err
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		return err
	}
	unfinished := recordPath(name) + ".new"
	if err := os.WriteFile(unfinished, encoded, 0o644); err != nil {
		return err
	}
	return os.Rename(unfinished, recordPath(name))
}

func readRecord(name string) (record, error) {
	encoded, err := os.ReadFile(recordPath(name))
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(encoded, &r); err != nil {
		return record{}, fmt.Errorf("record of %s: %w", name, err)
	}
	return r, nil
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// startTicks reads field 22 of /proc/PID/stat. Field 2, the command, may hold spaces and parentheses: the fields are
// counted after its last parenthesis. A zombie counts as gone.
func startTicks(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := cutLast(string(stat), ")")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has no start time", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func cutLast(s, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}
	return s, "", false
}

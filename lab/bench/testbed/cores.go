// SPDX-License-Identifier: Apache-2.0

// The machine of `loci bench control`: which core does what, and the queues between the server and its load.

package testbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

// The load of a bench has one core, the daemon that is measured another.
const (
	LoadCPU   = 0
	ServerCPU = 1
)

// Pin keeps a process on one core.
func Pin(pid, cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return setAffinity(pid, &set)
}

// Unpin lets a process run on every core.
func Unpin(pid int) error {
	var set unix.CPUSet
	for cpu := range runtime.NumCPU() {
		set.Set(cpu)
	}
	return setAffinity(pid, &set)
}

func setAffinity(pid int, set *unix.CPUSet) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, set); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("keep thread %d on its core: %w", id, err)
		}
	}
	return nil
}

// ReceiveOn lets one core do what the kernel does for packets that a link receives. The setting is in a view of /sys that
// only the namespace has.
func ReceiveOn(mountPoint string, ns *testnet.Namespace, link string, cpu int) error {
	return ns.DoWithSys(mountPoint, func() error {
		file := filepath.Join(mountPoint, "class/net", link, "queues/rx-0/rps_cpus")
		return os.WriteFile(file, fmt.Appendf(nil, "%x", 1<<cpu), 0)
	})
}

// ReceiveByThreadOn lets a thread of the kernel on one core receive what comes by a link, as from a card: what the load has to do
// to receive is no work of who sends. A kernel that does not tell its threads (before Linux 6.8) receives as by receiveOn, where
// who sends interrupts the other core for each packet.
func ReceiveByThreadOn(mountPoint string, ns *testnet.Namespace, link string, cpu int) error {
	threads, err := ns.ReceiveByThread(mountPoint, link)
	if err != nil {
		return ReceiveOn(mountPoint, ns, link, cpu)
	}
	for _, thread := range threads {
		err = errors.Join(err, Pin(thread, cpu))
	}
	return err
}

// QueueAt gives a link the queue that a card has in front of its ring: what finds the ring full waits there. A veth has none of
// itself, and what finds its ring of 256 packets full is lost. (Before Linux 6.16 it is lost behind a queue too.)
func QueueAt(ns *testnet.Namespace, link string) error {
	found, err := ns.Netlink().LinkByName(link)
	if err != nil {
		return err
	}
	return ns.Netlink().QdiscReplace(&netlink.GenericQdisc{QdiscType: "pfifo_fast", QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: found.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT,
	}})
}

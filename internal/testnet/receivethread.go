// SPDX-License-Identifier: Apache-2.0

// An interface that receives in a thread of the kernel (threaded NAPI), as a card does whose interrupts go to another core:
// who sends to it only puts packets into its ring. Without it, what a veth receives is received by who sends, or for each
// packet an interrupt is sent to another core.

package testnet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/internal/genetlink"
)

// The part of the family `netdev` about NAPI instances (since Linux 6.8).
const (
	netdevFamily  = "netdev"
	netdevVersion = 1
	napiGet       = 11 // NETDEV_CMD_NAPI_GET
	napiIfindex   = 1  // NETDEV_A_NAPI_IFINDEX
	napiPID       = 4  // NETDEV_A_NAPI_PID
)

const (
	// receivePause is what cards wait at most, as a rule, before they tell of a packet.
	receivePause = 50 * time.Microsecond
	// receivePauses in a row without a packet end the looking.
	receivePauses = 20
)

// ReceiveByThread makes a veth receive in threads of the kernel, and returns their process ids. sys is where a view of /sys of
// the namespace is mounted meanwhile.
func (ns *Namespace) ReceiveByThread(sys, link string) (threads []int, err error) {
	// A veth has NAPI where GRO is on, and uses it for local senders where it joins UDP datagrams.
	if err := errors.Join(ns.SetOffload(link, GRO, true), ns.SetOffload(link, UDPGROForwarding, true)); err != nil {
		return nil, err
	}
	err = ns.DoWithSys(sys, func() error {
		if err := moderate(filepath.Join(sys, "class/net", link)); err != nil {
			return err
		}
		if threads, err = napiThreads(link); err != nil {
			return err
		}
		return preferAll(threads)
	})
	if err != nil {
		return nil, fmt.Errorf("testnet: receive of %s in %s by a thread: %w", link, ns.name, err)
	}
	return threads, nil
}

// moderate makes an interface receive by a thread, which looks into the ring again after receivePause instead of being woken for
// each packet: the interrupt moderation of a card.
func moderate(directory string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(directory, "threaded"), []byte("1"), 0),
		os.WriteFile(filepath.Join(directory, "napi_defer_hard_irqs"), fmt.Append(nil, receivePauses), 0),
		os.WriteFile(filepath.Join(directory, "gro_flush_timeout"), fmt.Append(nil, receivePause.Nanoseconds()), 0))
}

// preferAll lets threads run before all that is not of real time, as interrupts do.
func preferAll(threads []int) (err error) {
	for _, thread := range threads {
		attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
		err = errors.Join(err, unix.SchedSetAttr(thread, &attributes, 0))
	}
	return err
}

// DoWithSys is Do while a view of /sys with the namespace's interfaces is mounted.
func (ns *Namespace) DoWithSys(mountPoint string, f func() error) error {
	return ns.Do(func() error {
		if err := os.MkdirAll(mountPoint, 0o700); err != nil {
			return err
		}
		if err := unix.Mount("sysfs", mountPoint, "sysfs", 0, ""); err != nil {
			return fmt.Errorf("mount /sys of a namespace: %w", err)
		}
		return errors.Join(f(), unix.Unmount(mountPoint, 0))
	})
}

// napiThreads are the threads of an interface.
func napiThreads(link string) (threads []int, err error) {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return nil, err
	}
	family, err := genetlink.Find(netdevFamily)
	if err != nil {
		return nil, err
	}
	index := nl.NewRtAttr(napiIfindex, nl.Uint32Attr(uint32(l.Attrs().Index)))
	answers, err := family.Request(unix.NLM_F_DUMP, napiGet, netdevVersion, index)
	if err != nil {
		return nil, err
	}
	for _, answer := range answers {
		err := genetlink.EachAttribute(answer, genetlink.HeaderOctets, func(kind uint16, value []byte) {
			if kind == napiPID && len(value) == 4 {
				threads = append(threads, int(nl.NativeEndian().Uint32(value)))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if len(threads) == 0 {
		return nil, errors.New("the interface has no such thread")
	}
	return threads, nil
}

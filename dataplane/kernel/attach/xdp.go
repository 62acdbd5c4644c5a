// SPDX-License-Identifier: Apache-2.0

// This file puts the choice of hooks in force: what XDP programs may send to, where
// they are attached, and what is reported about it. Where XDP fails, tc does its work, so
// nothing here is an error.

package attach

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/features"
)

// loadXDP loads the XDP program; nil where the kernel refuses it, which is asked once.
func (l *Interfaces) loadXDP() *ebpf.Program {
	if l.noXDP != nil {
		return nil
	}
	program, err := l.Store.XdpProgram()
	if err != nil {
		l.Log.Warn("XDP cannot be used", "error", err)
		l.noXDP = fmt.Errorf("the kernel refuses the XDP program")
	}
	return program
}

// chooseHook decides about an interface and sets what the programs need for XDP.
func (l *Interfaces) chooseHook(wanted map[uint32]attached, i dataplane.Interface, link netlink.Link) {
	ifindex := uint32(link.Attrs().Index)
	found, err := features.OfLink(l.Space, ifindex)
	a := wanted[ifindex]
	c := candidate{wanted: i.Hook, link: link, features: found, problem: errors.Join(l.noXDP, err)}
	a.choice = choose(c)
	if a.choice.hook == dataplane.HookXDP && l.hooks.program(abi.ProgramXDP) == nil {
		c.problem = l.noXDP
		a.choice = choose(c)
	}
	if found.XDP&features.XDPTakesFrames != 0 {
		a.record.Flags |= abi.InterfaceTakesFrames
	}
	if isVirtual(link) {
		a.record.Flags |= abi.InterfaceChecksumPartial
	}
	wanted[ifindex] = a
}

// attachXDP attaches the program where XDP was chosen, adds to the points in use, and
// chooses tc where the kernel refuses.
func (l *Interfaces) attachXDP(wanted map[uint32]attached, points map[hookPoint]bool) {
	for ifindex, a := range wanted {
		if a.choice.hook != dataplane.HookXDP {
			continue
		}
		at := hookPoint{ifindex, abi.ProgramXDP}
		err := l.hooks.attach(at)
		if err == nil {
			points[at] = true
		} else {
			a.choice = hookChoice{hook: dataplane.HookTC, reason: "XDP cannot be attached: " + attachProblem(err)}
			a.choice.warning = a.choice.reason
			wanted[ifindex] = a
		}
		if c := a.choice; l.choiceOf(ifindex) != c && c.warning != "" {
			l.Log.Warn("the hook of an interface",
				"interface", a.name, "hook", c.hook, "warning", c.warning)
		}
	}
}

// attachProblem says what the kernel's answer means.
func attachProblem(err error) string {
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return "the interface has a foreign XDP program"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, ebpf.ErrNotSupported):
		return "the driver refuses (its MTU or queues may not allow it)"
	}
	return err.Error()
}

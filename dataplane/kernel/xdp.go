// SPDX-License-Identifier: Apache-2.0

// This file puts the choice of hooks in force: what XDP programs may send to, where
// they are attached, and what is told about it. Where XDP fails, tc does its work, so
// nothing here is an error.

package kernel

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/features"
	"loci/internal/genetlink"
)

// loadXDP loads the XDP program; nil where the kernel refuses it, which is asked once.
func (e *Engine) loadXDP() *ebpf.Program {
	if e.noXDP != nil {
		return nil
	}
	program, err := e.store.XdpProgram()
	if err != nil {
		e.log.Warn("XDP cannot be used", "error", err)
		e.noXDP = fmt.Errorf("the kernel refuses the XDP program")
	}
	return program
}

// chooseHook decides about an interface and tells the programs what concerns XDP.
func (e *Engine) chooseHook(wanted map[uint32]attached, i dataplane.Interface, link netlink.Link) {
	ifindex := uint32(link.Attrs().Index)
	found, err := features.OfLink(e.space, ifindex)
	a := wanted[ifindex]
	c := candidate{wanted: i.Hook, link: link, features: found, problem: errors.Join(e.noXDP, err)}
	a.choice = choose(c)
	if a.choice.hook == dataplane.HookXDP && e.hooks.program(abi.ProgramXDP) == nil {
		c.problem = e.noXDP
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
func (e *Engine) attachXDP(wanted map[uint32]attached, points map[hookPoint]bool) {
	for ifindex, a := range wanted {
		if a.choice.hook != dataplane.HookXDP {
			continue
		}
		at := hookPoint{ifindex, abi.ProgramXDP}
		err := e.hooks.attach(at)
		if err == nil {
			points[at] = true
		} else {
			a.choice = hookChoice{hook: dataplane.HookTC, reason: "XDP cannot be attached: " + attachProblem(err)}
			a.choice.warning = a.choice.reason
			wanted[ifindex] = a
		}
		if e.choiceOf(ifindex) != a.choice && a.choice.warning != "" {
			e.log.Warn("the hook of an interface", "interface", a.name, "hook", a.choice.hook, "warning", a.choice.warning)
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

func (e *Engine) choiceOf(ifindex uint32) hookChoice {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.interfaces[ifindex].choice
}

// InterfaceStates implements dataplane.InterfaceReporter.
func (e *Engine) InterfaceStates() []dataplane.InterfaceState {
	e.mu.Lock()
	defer e.mu.Unlock()
	var states []dataplane.InterfaceState
	for _, i := range e.settings.Interfaces {
		state := dataplane.InterfaceState{Name: i.Name}
		for ifindex, a := range e.interfaces {
			if a.name == i.Name && ifindex != e.tap.Index {
				state.Present, state.Hook = true, a.choice.hook
				state.Reason, state.Warning = a.choice.reason, a.choice.warning
			}
		}
		states = append(states, state)
	}
	return slices.Clip(states)
}

// watchFeatures follows what interfaces can do with frames until the engine ends: a
// veth takes them only while its other end is ready for them.
func (e *Engine) watchFeatures() {
	socket, err := features.Subscribe(e.space)
	if err != nil {
		e.log.Warn("the kernel does not tell of changed XDP features", "error", err)
	}
	if socket == nil {
		return
	}
	defer socket.Close()
	_ = socket.SetReceiveTimeout(&unix.Timeval{Usec: int64(featurePoll / time.Microsecond)})
	for {
		messages, _, err := socket.Receive()
		select {
		case <-e.stop:
			return
		default:
		}
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS):
			e.resync() // messages are lost
		case err != nil:
			e.log.Warn("the kernel does not tell of changed XDP features any more", "error", err)
			return
		case slices.ContainsFunc(messages, e.concernsFeatures):
			e.resync()
		}
	}
}

// concernsFeatures reports whether a message is about an interface of ours.
func (e *Engine) concernsFeatures(m syscall.NetlinkMessage) bool {
	ours := false
	_ = genetlink.EachAttribute(m.Data, genetlink.HeaderOctets, func(kind uint16, value []byte) {
		if kind != features.NetdevIfindex || len(value) != 4 {
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		_, ours = e.interfaces[nl.NativeEndian().Uint32(value)]
	})
	return ours
}

// featurePoll is how often the reader of changes looks whether the engine has ended.
const featurePoll = 200 * time.Millisecond

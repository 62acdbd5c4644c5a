// SPDX-License-Identifier: Apache-2.0

// This file attaches the programs to interfaces and replaces those of an earlier
// process in place, without a packet passing in between: by pinned tcx links, or on
// kernels before 6.6 by filters of the clsact queueing discipline. It never removes
// what others attached.

package kernel

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AttachMode says how programs are attached.
type AttachMode uint8

// AttachAuto takes tcx where the kernel has it; AttachClsact always takes filters.
const (
	AttachAuto AttachMode = iota
	AttachClsact
)

// A hookPoint is a program at an interface.
type hookPoint struct {
	ifindex uint32
	program string
}

// egressPrograms are attached to the way out, all others to the way in.
var egressPrograms = map[string]bool{lisptcProgCoreEgress: true, lisptcProgLispEgress: true}

// filterPriority is ours among clsact filters: behind those of a user who counts
// from 1.
const filterPriority = 4341

// hooks are the attachments of an instance.
type hooks struct {
	space     *space
	directory string // of pinned links
	instance  string
	programs  map[string]*ebpf.Program
	clsact    bool
	links     map[hookPoint]link.Link // nil for a filter
}

// openHooks takes over the links that an earlier process pinned, with the new
// programs. Links of interfaces that are gone are removed.
func openHooks(s *space, pins *pinDirectory, instance string, programs *lisptcPrograms) (*hooks, error) {
	h := &hooks{
		space: s, directory: pins.links(), instance: instance, links: map[hookPoint]link.Link{},
		programs: map[string]*ebpf.Program{
			lisptcProgSiteIngress: programs.SiteIngress, lisptcProgCoreIngress: programs.CoreIngress,
			lisptcProgCoreEgress: programs.CoreEgress, lisptcProgLispIngress: programs.LispIngress,
			lisptcProgLispEgress: programs.LispEgress,
		},
	}
	if err := os.MkdirAll(h.directory, 0o700); err != nil {
		return nil, fmt.Errorf("directory of links: %w", err)
	}
	pinned, err := os.ReadDir(h.directory)
	if err != nil {
		return nil, fmt.Errorf("directory of links: %w", err)
	}
	for _, entry := range pinned {
		if err := h.takeOver(entry.Name()); err != nil {
			return nil, errors.Join(err, h.close())
		}
	}
	return h, nil
}

// takeOver makes a pinned link run the new program.
func (h *hooks) takeOver(name string) error {
	path := filepath.Join(h.directory, name)
	var at hookPoint
	_, scanErr := fmt.Sscanf(name, "%d-%s", &at.ifindex, &at.program)
	program, known := h.programs[at.program]
	if scanErr != nil || !known || !linkAlive(path) {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("removing an old link: %w", err)
		}
		return nil
	}
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return fmt.Errorf("opening link %s: %w", name, err)
	}
	if err := l.Update(program); err != nil {
		_ = l.Close()
		return fmt.Errorf("replacing the program of link %s: %w", name, err)
	}
	h.links[at] = l
	return nil
}

// linkAlive reports whether a pinned link's interface still exists.
func linkAlive(path string) bool {
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return false
	}
	defer l.Close()
	info, err := l.Info()
	return err == nil && info.TCX() != nil && info.TCX().Ifindex != 0
}

// anyLinkAlive reports whether an instance's programs are attached anywhere.
func anyLinkAlive(pins *pinDirectory) bool {
	entries, _ := os.ReadDir(pins.links()) // none when there is no directory
	for _, entry := range entries {
		if linkAlive(filepath.Join(pins.links(), entry.Name())) {
			return true
		}
	}
	return false
}

// attach attaches a program, unless it is attached.
func (h *hooks) attach(at hookPoint) error {
	if l, ok := h.links[at]; ok {
		if l == nil || linkAlive(h.pinOf(at)) {
			return nil
		}
		if err := h.detach(at); err != nil {
			return err
		}
	}
	return h.space.do(func() error {
		if !h.clsact {
			err := h.attachTCX(at)
			if !errors.Is(err, ebpf.ErrNotSupported) {
				return err
			}
			h.clsact = true
		}
		return h.attachFilter(at)
	})
}

func (h *hooks) attachTCX(at hookPoint) error {
	direction := ebpf.AttachTCXIngress
	if egressPrograms[at.program] {
		direction = ebpf.AttachTCXEgress
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: int(at.ifindex), Program: h.programs[at.program], Attach: direction})
	if err != nil {
		return fmt.Errorf("attaching %s to interface %d: %w", at.program, at.ifindex, err)
	}
	if err := l.Pin(h.pinOf(at)); err != nil {
		_ = l.Close()
		return fmt.Errorf("pinning the link of %s at interface %d: %w", at.program, at.ifindex, err)
	}
	h.links[at] = l
	return nil
}

func (h *hooks) attachFilter(at hookPoint) error {
	discipline := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: int(at.ifindex), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := h.space.netlink.QdiscAdd(discipline); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("adding clsact to interface %d: %w", at.ifindex, err)
	}
	if err := h.space.netlink.FilterReplace(h.filter(at)); err != nil {
		return fmt.Errorf("attaching %s to interface %d: %w", at.program, at.ifindex, err)
	}
	h.links[at] = nil
	return nil
}

// filter describes the filter of a hook point. Its handle is the instance's own, so
// that a later process replaces it in place.
func (h *hooks) filter(at hookPoint) *netlink.BpfFilter {
	parent := uint32(netlink.HANDLE_MIN_INGRESS)
	if egressPrograms[at.program] {
		parent = netlink.HANDLE_MIN_EGRESS
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(h.instance + "/" + at.program))
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: int(at.ifindex), Parent: parent, Handle: hash.Sum32() | 1,
			Protocol: unix.ETH_P_ALL, Priority: filterPriority,
		},
		Fd: h.programs[at.program].FD(), Name: "loci/" + at.program, DirectAction: true,
	}
}

// detach ends an attachment. An interface that is gone is no error.
func (h *hooks) detach(at hookPoint) error {
	l, ok := h.links[at]
	if !ok {
		return nil
	}
	delete(h.links, at)
	if l == nil {
		err := h.space.netlink.FilterDel(h.filter(at))
		if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("detaching %s from interface %d: %w", at.program, at.ifindex, err)
		}
		return nil
	}
	if err := os.Remove(h.pinOf(at)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unpinning the link of %s at interface %d: %w", at.program, at.ifindex, err)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("detaching %s from interface %d: %w", at.program, at.ifindex, err)
	}
	return nil
}

// keepOnly detaches everything that is not wanted.
func (h *hooks) keepOnly(wanted map[hookPoint]bool) error {
	var errs []error
	for at := range h.links {
		if !wanted[at] {
			errs = append(errs, h.detach(at))
		}
	}
	return errors.Join(errs...)
}

// close lets go of the links and programs, which stay attached.
func (h *hooks) close() error {
	var errs []error
	for _, l := range h.links {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	for _, program := range h.programs {
		errs = append(errs, program.Close())
	}
	return errors.Join(errs...)
}

func (h *hooks) pinOf(at hookPoint) string {
	return filepath.Join(h.directory, fmt.Sprintf("%d-%s", at.ifindex, at.program))
}

// SPDX-License-Identifier: Apache-2.0

// This file attaches programs on kernels without tcx: as filters of the clsact
// queueing discipline, found again by priority and handle, because nothing of them
// can be pinned. A discipline that we added is noted in the pin directory and goes
// when no filter is left in it. It never touches filters of others.

package attach

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/pins"
)

const (
	// filterPriority is ours among clsact filters: behind those of a user who counts
	// from 1.
	filterPriority = 4341
	// filterName stands before the program in a filter's name.
	filterName = "loci/"
)

// filterParents are where a clsact discipline has filters.
var filterParents = []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS}

// filters are the clsact filters of an instance in a network namespace.
type filters struct {
	space    *netspace.Space
	instance string
	notes    string // directory with a directory for each interface whose discipline we added
}

// attach adds the filter of a hook point, or replaces its program in place.
func (f filters) attach(at hookPoint, program *ebpf.Program) error {
	discipline := clsactOf(at.ifindex)
	switch err := f.space.Netlink.QdiscAdd(discipline); {
	case errors.Is(err, fs.ErrExist):
	case err != nil:
		return fmt.Errorf("adding clsact to interface %d: %w", at.ifindex, err)
	default:
		if err := os.MkdirAll(f.noteOf(at.ifindex), 0o700); err != nil {
			return fmt.Errorf("noting that clsact of interface %d is ours: %w", at.ifindex, err)
		}
	}
	filter := f.filter(at)
	filter.Fd = program.FD()
	if err := f.space.Netlink.FilterReplace(filter); err != nil {
		return fmt.Errorf("attaching %s to interface %d: %w", at.program, at.ifindex, err)
	}
	return nil
}

func clsactOf(ifindex uint32) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: int(ifindex), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

func (f filters) noteOf(ifindex uint32) string {
	return filepath.Join(f.notes, strconv.FormatUint(uint64(ifindex), 10))
}

// filter describes the filter of a hook point, but for its program.
func (f filters) filter(at hookPoint) *netlink.BpfFilter {
	parent := uint32(netlink.HANDLE_MIN_INGRESS)
	if egressPrograms[at.program] {
		parent = netlink.HANDLE_MIN_EGRESS
	}
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: int(at.ifindex), Parent: parent, Handle: f.handle(at.program),
			Protocol: unix.ETH_P_ALL, Priority: filterPriority,
		},
		Fd: -1, Name: filterName + at.program, DirectAction: true,
	}
}

// handle tells the instance's filter of a program from all others of our priority.
func (f filters) handle(program string) uint32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(f.instance + "/" + program))
	return hash.Sum32() | 1
}

// own lists the instance's filters, with programs of any version.
func (f filters) own() ([]*netlink.BpfFilter, error) {
	disciplines, err := f.space.Netlink.QdiscList(nil)
	if err != nil {
		return nil, fmt.Errorf("queueing disciplines: %w", err)
	}
	var own []*netlink.BpfFilter
	for _, d := range disciplines {
		if d.Type() != "clsact" {
			continue
		}
		present, err := f.list(uint32(d.Attrs().LinkIndex))
		if err != nil {
			return nil, err
		}
		for _, filter := range present {
			if b, ok := filter.(*netlink.BpfFilter); ok && f.isOwn(b) {
				own = append(own, b)
			}
		}
	}
	return own, nil
}

// list returns all filters at an interface; none when it is gone.
func (f filters) list(ifindex uint32) ([]netlink.Filter, error) {
	link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: int(ifindex)}}
	var all []netlink.Filter
	for _, parent := range filterParents {
		present, err := f.space.Netlink.FilterList(link, parent)
		if err != nil && !noSuchFilter(err) {
			return nil, fmt.Errorf("filters at interface %d: %w", ifindex, err)
		}
		all = append(all, present...)
	}
	return all, nil
}

func (f filters) isOwn(b *netlink.BpfFilter) bool {
	program, named := strings.CutPrefix(b.Name, filterName)
	return named && b.Priority == filterPriority && b.Handle == f.handle(program)
}

// has reports whether the filter of a hook point is there, as it is not after somebody removed the discipline, or moved the interface to another
// network namespace and back. When that cannot be told, it is.
func (f filters) has(at hookPoint) bool {
	present, err := f.list(at.ifindex)
	return err != nil || slices.ContainsFunc(present, func(filter netlink.Filter) bool {
		b, ok := filter.(*netlink.BpfFilter)
		return ok && f.isOwn(b) && b.Name == filterName+at.program
	})
}

// remove removes a filter. One that is gone is no error.
func (f filters) remove(filter *netlink.BpfFilter) error {
	if err := f.space.Netlink.FilterDel(filter); err != nil && !noSuchFilter(err) {
		return fmt.Errorf("detaching %s from interface %d: %w", filter.Name, filter.LinkIndex, err)
	}
	return nil
}

// RemoveFilters removes the filters of an instance whose process is gone; its pinned links go with their directory.
func RemoveFilters(s *netspace.Space, directory *pins.Directory, instance string) error {
	return filters{space: s, instance: instance, notes: directory.Disciplines()}.removeAll()
}

// removeAll removes the instance's filters, then the disciplines it added.
func (f filters) removeAll() error {
	own, err := f.own()
	errs := []error{err}
	for _, filter := range own {
		errs = append(errs, f.remove(filter))
	}
	return errors.Join(append(errs, f.removeDisciplines())...)
}

// removeDisciplines removes those that we added and that have no filter.
func (f filters) removeDisciplines() error {
	noted, err := os.ReadDir(f.notes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("disciplines of ours: %w", err)
	}
	var errs []error
	for _, note := range noted {
		ifindex, err := strconv.ParseUint(note.Name(), 10, 32)
		if err == nil {
			err = f.removeDiscipline(uint32(ifindex))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (f filters) removeDiscipline(ifindex uint32) error {
	users, err := f.list(ifindex)
	if err != nil || len(users) > 0 {
		return err
	}
	if err := f.space.Netlink.QdiscDel(clsactOf(ifindex)); err != nil && !noSuchFilter(err) {
		return fmt.Errorf("removing clsact from interface %d: %w", ifindex, err)
	}
	if err := os.Remove(f.noteOf(ifindex)); err != nil {
		return fmt.Errorf("disciplines of ours: %w", err)
	}
	return nil
}

// noSuchFilter reports whether there is no such filter, discipline or interface.
func noSuchFilter(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL)
}

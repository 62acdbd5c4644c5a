// SPDX-License-Identifier: Apache-2.0

// This file attaches the programs to interfaces and replaces those of an earlier
// process in place, without a packet passing in between: by pinned tcx and XDP links, or
// on kernels before 6.6 by filters (filters.go) instead of tcx. It never removes what others attached.

package attach

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/pins"
)

// A hookPoint is a program at an interface.
type hookPoint struct {
	ifindex uint32
	program string
}

// egressPrograms are attached at egress, all others at ingress.
var egressPrograms = map[string]bool{abi.ProgramCoreEgress: true, abi.ProgramLispEgress: true}

// hooks are the attachments of an instance.
type hooks struct {
	space     *netspace.Space
	directory string // of pinned links
	filters   filters
	programs  map[string]*ebpf.Program // at tc; never changes
	// programIDs are those of programs, found once.
	programIDs func() map[ebpf.ProgramID]bool
	xdp        *ebpf.Program        // nil until it is wanted
	loadXDP    func() *ebpf.Program // nil where the kernel refuses it
	clsact     bool
	links      map[hookPoint]link.Link // nil for a filter
}

// openHooks takes over the links that an earlier process pinned and the filters that
// it left, with the programs they have. Links of interfaces that are gone are removed.
func openHooks(p *Parts, loadXDP func() *ebpf.Program) (*hooks, error) {
	h := &hooks{
		space: p.Space, directory: p.Pins.Links(), links: map[hookPoint]link.Link{},
		loadXDP: loadXDP, clsact: p.Clsact,
		filters: filters{space: p.Space, instance: p.Instance, notes: p.Pins.Disciplines()},
		programs: map[string]*ebpf.Program{
			abi.ProgramSiteIngress: p.TCPrograms.SiteIngress,
			abi.ProgramCoreIngress: p.TCPrograms.CoreIngress,
			abi.ProgramCoreEgress:  p.TCPrograms.CoreEgress,
			abi.ProgramLispIngress: p.TCPrograms.LispIngress,
			abi.ProgramLispEgress:  p.TCPrograms.LispEgress,
		},
	}
	h.programIDs = sync.OnceValue(h.findProgramIDs)
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
	if err := h.takeOverFilters(); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// program returns a program, nil when there is none. That of XDP is loaded when it is
// asked for first: most routers never attach it, and it takes the kernel as long to
// verify as all others.
func (h *hooks) program(name string) *ebpf.Program {
	if name != abi.ProgramXDP {
		return h.programs[name]
	}
	if h.xdp == nil {
		h.xdp = h.loadXDP()
	}
	return h.xdp
}

// takeOver finds a pinned link, which runs the old program until replacePrograms.
func (h *hooks) takeOver(name string) error {
	path := filepath.Join(h.directory, name)
	var at hookPoint
	_, scanErr := fmt.Sscanf(name, "%d-%s", &at.ifindex, &at.program)
	if scanErr != nil || !linkAlive(path) || h.program(at.program) == nil {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("removing an old link: %w", err)
		}
		return nil
	}
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return fmt.Errorf("opening link %s: %w", name, err)
	}
	h.links[at] = l
	return nil
}

// replacePrograms makes everything that was taken over run the new programs: what
// they need is in the maps by now.
func (h *hooks) replacePrograms() error {
	for at, l := range h.links {
		if l == nil {
			if err := h.filters.attach(at, h.program(at.program)); err != nil && !isGone(err) {
				return err
			}
		} else if err := l.Update(h.program(at.program)); err != nil && linkAlive(h.pinOf(at)) {
			return fmt.Errorf("replacing the program of %s at interface %d: %w", at.program, at.ifindex, err)
		}
	}
	return nil
}

// takeOverFilters finds the filters of an earlier process.
func (h *hooks) takeOverFilters() error {
	own, err := h.filters.own()
	if err != nil {
		return err
	}
	for _, filter := range own {
		at := hookPoint{uint32(filter.LinkIndex), strings.TrimPrefix(filter.Name, filterName)}
		_, known := h.programs[at.program]
		if _, linked := h.links[at]; linked || !known {
			if err := h.filters.remove(filter); err != nil {
				return err
			}
			continue
		}
		h.links[at] = nil
	}
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
	if err != nil {
		return false
	}
	if xdp := info.XDP(); xdp != nil {
		return xdp.Ifindex != 0
	}
	return info.TCX() != nil && info.TCX().Ifindex != 0
}

// AttachedAnywhere reports whether programs that use an instance's maps are attached,
// in whichever network namespace. A filter holds its program until its namespace
// ends; a link does so for as long as it is pinned, and a map of programs for as long
// as that one is, which says nothing.
func AttachedAnywhere(pins *pins.Directory, maps map[string]*ebpf.Map) (bool, error) {
	idle := map[ebpf.ProgramID]bool{}
	entries, _ := os.ReadDir(pins.Links()) // none when there is no directory
	for _, entry := range entries {
		path := filepath.Join(pins.Links(), entry.Name())
		if linkAlive(path) {
			return true, nil
		}
		idle[programOfLink(path)] = true
	}
	for place := range uint32(abi.XDPPlaces) {
		if behind := maps[abi.MapXDPPrograms]; behind != nil {
			var id uint32 // 0 when there is none
			_ = behind.Lookup(place, &id)
			idle[ebpf.ProgramID(id)] = true
		}
	}
	own := map[ebpf.MapID]bool{}
	for name, m := range maps {
		info, err := m.Info()
		if err != nil {
			return false, fmt.Errorf("map %s: %w", name, err)
		}
		id, _ := info.ID()
		own[id] = true
	}
	return anyProgramUses(own, idle)
}

// programOfLink is the program of a pinned link, 0 when it cannot be found out.
func programOfLink(path string) ebpf.ProgramID {
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return 0
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return 0
	}
	return info.Program
}

// anyProgramUses reports whether a program is loaded that uses one of the maps, not
// counting some programs.
func anyProgramUses(maps map[ebpf.MapID]bool, not map[ebpf.ProgramID]bool) (bool, error) {
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("programs of the kernel: %w", err)
		}
		id = next
		if not[id] {
			continue
		}
		used, err := mapsOfProgram(id)
		if err != nil {
			return false, fmt.Errorf("program %d of the kernel: %w", id, err)
		}
		if slices.ContainsFunc(used, func(m ebpf.MapID) bool { return maps[m] }) {
			return true, nil
		}
	}
}

// mapsOfProgram returns the maps that a program uses; none when it ended meanwhile.
func mapsOfProgram(id ebpf.ProgramID) ([]ebpf.MapID, error) {
	program, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	used, _ := info.MapIDs()
	return used, nil
}

// attach attaches a program, unless it is attached.
func (h *hooks) attach(at hookPoint) error {
	if l, ok := h.links[at]; ok {
		if l == nil && h.filters.has(at) || l != nil && linkAlive(h.pinOf(at)) {
			return nil
		}
		if err := h.detach(at); err != nil {
			return err
		}
	}
	return h.space.Do(func() error {
		if at.program == abi.ProgramXDP {
			return h.attachXDP(at)
		}
		if !h.clsact {
			err := h.attachTCX(at)
			if !errors.Is(err, ebpf.ErrNotSupported) {
				return err
			}
			h.clsact = true
		}
		if err := h.filters.attach(at, h.programs[at.program]); err != nil {
			return err
		}
		h.links[at] = nil
		return nil
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
	return h.pin(at, l)
}

// attachXDP attaches in the driver, or not at all: the kernel's generic XDP costs
// more than it saves.
func (h *hooks) attachXDP(at hookPoint) error {
	l, err := link.AttachXDP(link.XDPOptions{Program: h.program(at.program), Interface: int(at.ifindex), Flags: link.XDPDriverMode})
	if err != nil {
		return fmt.Errorf("attaching %s to interface %d: %w", at.program, at.ifindex, err)
	}
	return h.pin(at, l)
}

// pin makes a link outlive this process.
func (h *hooks) pin(at hookPoint, l link.Link) error {
	if err := l.Pin(h.pinOf(at)); err != nil {
		_ = l.Close()
		return fmt.Errorf("pinning the link of %s at interface %d: %w", at.program, at.ifindex, err)
	}
	h.links[at] = l
	return nil
}

// detach ends an attachment. An interface that is gone is no error.
func (h *hooks) detach(at hookPoint) error {
	l, ok := h.links[at]
	if !ok {
		return nil
	}
	delete(h.links, at)
	if l == nil {
		return h.filters.remove(h.filters.filter(at))
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
	return errors.Join(append(errs, h.filters.removeDisciplines())...)
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
	if h.xdp != nil {
		errs = append(errs, h.xdp.Close())
	}
	return errors.Join(errs...)
}

// isGone reports whether an interface vanished while it was being changed.
func isGone(err error) bool { return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) }

func (h *hooks) pinOf(at hookPoint) string {
	return filepath.Join(h.directory, fmt.Sprintf("%d-%s", at.ifindex, at.program))
}

// state describes what is attached at a hook point.
func (h *hooks) state(at hookPoint) dataplane.ProgramState {
	p := dataplane.ProgramState{Name: at.program}
	direction := "ingress"
	if egressPrograms[at.program] {
		direction = "egress"
	}
	switch l := h.links[at]; {
	case at.program == abi.ProgramXDP:
		p.Hook = "xdp"
	case l == nil:
		p.Hook = "clsact " + direction
	default:
		p.Hook = "tcx " + direction
	}
	if l := h.links[at]; l != nil {
		if info, err := l.Info(); err == nil {
			p.LinkID = uint32(info.ID)
		}
	}
	program := h.program(at.program)
	if info, err := program.Info(); err == nil {
		id, _ := info.ID()
		p.ID = uint32(id)
	}
	if stats, err := program.Stats(); err == nil {
		p.Runs, p.RunNs = stats.RunCount, uint64(stats.Runtime/time.Nanosecond)
	}
	return p
}

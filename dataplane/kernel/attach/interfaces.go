// SPDX-License-Identifier: Apache-2.0

// This file tells programs of interfaces that come, go or change, and attaches them there. It never creates an interface.

package attach

import (
	"errors"
	"fmt"
	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tap"
	"loci/lisp"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
)

// Parts are what interfaces are made of.
type Parts struct {
	Log        *slog.Logger
	Space      *netspace.Space
	Pins       *pins.Directory
	Instance   string
	Store      *store.Store
	TCPrograms *abi.TCPrograms // which it closes

	Clsact     bool // never tcx
	NoShortcut bool // packets leave through the queue of each interface
}

// Interfaces are those that programs know. One caller at a time may change them.
type Interfaces struct {
	Parts
	hooks   *hooks
	missing map[string]bool // interfaces that the log has called missing
	noXDP   error           // why the kernel refuses the XDP program; nil when it does not

	mu     sync.Mutex
	wanted []dataplane.Interface // of the settings
	device uint32                // ifindex of the TAP
	cut    uint32                // of the one where the segments of GSO packets come in; 0: none
	mac    [6]byte               // of the TAP
	known  map[uint32]attached   // by ifindex
}

// An attached interface is one that programs know.
type attached struct {
	name   string
	record abi.Interface
	choice hookChoice
	device uint32 // of a VLAN: the kernel's own device for it; 0: none
}

// Open takes over what an earlier process attached.
func Open(p Parts) (*Interfaces, error) {
	l := &Interfaces{Parts: p, missing: map[string]bool{}, known: map[uint32]attached{}}
	hooks, err := openHooks(&p, l.loadXDP)
	if err != nil {
		return nil, err
	}
	l.hooks = hooks
	return l, nil
}

// ReplacePrograms makes everything that was taken over run the programs of this process: what they need is in the maps.
func (l *Interfaces) ReplacePrograms() error { return l.hooks.replacePrograms() }

// DetachAll ends all attachments of the instance.
func (l *Interfaces) DetachAll() error { return l.hooks.keepOnly(nil) }

// Close lets go of links and programs, which stay attached.
func (l *Interfaces) Close() error { return l.hooks.close() }

// Use says which interfaces there should be, which is the TAP, and by which one segments of GSO packets come in, if
// any.
func (l *Interfaces) Use(wanted []dataplane.Interface, device uint32, mac [6]byte, cut uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted, l.device, l.mac, l.cut = wanted, device, mac, cut
}

// get returns what is known of an interface, false when it is none of ours.
func (l *Interfaces) get(ifindex uint32) (attached, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.known[ifindex]
	return a, ok
}

// RecordOf returns what programs know of an interface, false when it is none of ours.
func (l *Interfaces) RecordOf(ifindex uint32) (abi.Interface, bool) {
	a, ok := l.get(ifindex)
	return a.record, ok
}

// SiteIfindex returns the interface that routes to a site lead to: for a VLAN another one than its index says.
func (l *Interfaces) SiteIfindex(index uint32) uint32 {
	a, _ := l.get(index)
	return siteIfindex(index, a)
}

// concerns reports whether news of an interface are about one of ours, or one that is wanted.
func (l *Interfaces) concerns(link netlink.Link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	index := uint32(link.Attrs().Index)
	if index == l.device {
		return false
	}
	if _, known := l.known[index]; known {
		return true
	}
	return slices.ContainsFunc(l.wanted, func(i dataplane.Interface) bool {
		return i.Name == link.Attrs().Name || i.VLAN != 0 && link.Type() == "vlan"
	})
}

// NameOf returns the name of an interface of ours, or its number.
func (l *Interfaces) NameOf(ifindex uint32) string {
	if a, ok := l.get(ifindex); ok {
		return a.name
	}
	return fmt.Sprintf("#%d", ifindex)
}

// Programs are those that are attached.
func (l *Interfaces) Programs() (all []dataplane.ProgramState) {
	for at := range l.hooks.links {
		p := l.hooks.state(at)
		p.Interface = l.NameOf(at.ifindex)
		all = append(all, p)
	}
	return all
}

// Sync tells the programs of the interfaces that are there and attaches
// them. Interfaces that are not there follow when they come.
func (l *Interfaces) Sync() (coreMTU int, err error) {
	wanted := map[uint32]attached{
		l.device: {name: "TAP", record: abi.Interface{
			Flags: abi.InterfaceTAP, Iid: uint32(ownInstance(l.wanted)),
			L2Length: tap.EthernetOctets, Mac: l.mac,
		}},
	}
	if l.cut != 0 {
		wanted[l.cut] = wanted[l.device]
	}
	for _, i := range l.wanted {
		link, err := l.Space.Netlink.LinkByName(i.Name)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			l.logMissing(i.Name)
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("interface %s: %w", i.Name, err)
		}
		if err := l.addInterface(wanted, i, link.Attrs()); err != nil {
			return 0, err
		}
		delete(l.missing, i.Name)
		l.addShortcut(wanted, link)
		l.chooseHook(wanted, i, link)
		if mtu := link.Attrs().MTU; i.Side == dataplane.SideCore && (coreMTU == 0 || mtu < coreMTU) {
			coreMTU = mtu
		}
	}
	if err := l.finishVLANs(wanted); err != nil {
		return 0, err
	}
	if err := l.changeInterfaces(wanted); err != nil {
		return 0, err
	}
	return coreMTU, nil
}

// logMissing says once that an interface is not there.
func (l *Interfaces) logMissing(name string) {
	if !l.missing[name] {
		l.Log.Warn("an interface is not there; it is used when it comes", "interface", name)
	}
	l.missing[name] = true
}

// addInterface adds one of the settings' interfaces; one may lead to both sides.
func (l *Interfaces) addInterface(wanted map[uint32]attached, i dataplane.Interface, link *netlink.LinkAttrs) error {
	if i.VLAN != 0 {
		return l.addVLAN(wanted, i, link)
	}
	a := wanted[uint32(link.Index)]
	a.name = i.Name
	if i.Side == dataplane.SideSite {
		a.record.Flags |= abi.InterfaceSite
		a.record.Iid = uint32(i.Instance)
	} else {
		a.record.Flags |= abi.InterfaceCore
		a.record.Iid = max(a.record.Iid, uint32(i.Instance))
	}
	if i.Forwarding == dataplane.ForwardingStack {
		a.record.Flags |= abi.InterfaceStack
	}
	if len(link.HardwareAddr) == len(a.record.Mac) {
		a.record.L2Length = tap.EthernetOctets
		copy(a.record.Mac[:], link.HardwareAddr)
	}
	wanted[uint32(link.Index)] = a
	return nil
}

// ownInstance is the Instance-ID of this host's own EIDs: that of a core interface,
// or the one that all site interfaces share.
func ownInstance(interfaces []dataplane.Interface) lisp.InstanceID {
	shared, shares := lisp.InstanceID(0), true
	first := true
	for _, i := range interfaces {
		if i.Side == dataplane.SideCore {
			if i.Instance != 0 {
				return i.Instance
			}
			continue
		}
		if first {
			shared, first = i.Instance, false
		}
		shares = shares && i.Instance == shared
	}
	if !shares {
		return 0
	}
	return shared
}

// programsOf are the programs that an interface needs.
func programsOf(flags uint32) []string {
	var programs []string
	if flags&(abi.InterfaceSite|abi.InterfaceTagged) != 0 {
		programs = append(programs, abi.ProgramSiteIngress)
	}
	if flags&abi.InterfaceCore != 0 {
		programs = append(programs, abi.ProgramCoreIngress, abi.ProgramCoreEgress)
	}
	if flags&abi.InterfaceTAP != 0 {
		programs = append(programs, abi.ProgramLispIngress, abi.ProgramLispEgress)
	}
	return programs
}

// changeInterfaces tells the programs first, because they pass everything at an
// interface they do not know.
func (l *Interfaces) changeInterfaces(wanted map[uint32]attached) error {
	defer l.Store.Changed.All()
	m := l.Store.Map(abi.MapInterfaces)
	points := map[hookPoint]bool{}
	instances := map[uint32]bool{}
	for ifindex, a := range wanted {
		if err := l.putInterface(ifindex, a); err != nil {
			return fmt.Errorf("interface %s: %w", a.name, err)
		}
		instances[a.record.Iid] = true
		if isVLAN(ifindex) {
			continue
		}
		programs := programsOf(a.record.Flags)
		if ifindex == l.cut { // what leaves there is the kernel's own, such as reports of multicast listeners
			programs = []string{abi.ProgramLispIngress}
		}
		for _, program := range programs {
			points[hookPoint{ifindex, program}] = true
		}
	}
	if err := l.putVLANs(wanted); err != nil {
		return fmt.Errorf("VLANs: %w", err)
	}
	if err := l.putSites(wanted); err != nil {
		return fmt.Errorf("site interfaces by Instance-ID: %w", err)
	}
	for at := range points {
		if err := l.hooks.attach(at); err != nil && !isGone(err) {
			return fmt.Errorf("interface %s: %w", wanted[at.ifindex].name, err)
		}
	}
	l.attachXDP(wanted, points)
	l.mu.Lock()
	l.known = maps.Clone(wanted)
	l.mu.Unlock()
	if err := l.hooks.keepOnly(points); err != nil {
		return err
	}
	err := store.Prune[uint32, abi.Interface](m, store.In(wanted))
	l.Store.Slots.KeepOnly(store.In(wanted))
	if err != nil {
		return err
	}
	if err := l.fillDevices(wanted); err != nil {
		return err
	}
	return l.Store.Instances.PinOnly(instances)
}

// putInterface tells the programs of an interface.
func (l *Interfaces) putInterface(ifindex uint32, a attached) error {
	roots, err := l.Store.Instances.Pin(a.record.Iid)
	if err != nil {
		return err
	}
	a.record.Roots = roots
	if err := l.Store.Map(abi.MapInterfaces).Put(ifindex, a.record); err != nil {
		return err
	}
	l.Store.Slots.Put(ifindex, a.record)
	l.Store.Changed.All()
	return nil
}

// States tells which of the wanted interfaces are there.
func (l *Interfaces) States() []dataplane.InterfaceState {
	l.mu.Lock()
	defer l.mu.Unlock()
	var states []dataplane.InterfaceState
	for _, i := range l.wanted {
		state := dataplane.InterfaceState{Name: i.Name}
		for ifindex, a := range l.known {
			if a.name == i.Name && ifindex != l.device {
				state.Present, state.Hook = true, a.choice.hook
				state.Reason, state.Warning = a.choice.reason, a.choice.warning
			}
		}
		states = append(states, state)
	}
	return slices.Clip(states)
}

func (l *Interfaces) choiceOf(ifindex uint32) hookChoice {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[ifindex].choice
}

// ShortcutsDiffer reports whether an interface gained or lost its shortcut.
func (l *Interfaces) ShortcutsDiffer() bool {
	l.mu.Lock()
	known := make(map[uint32]bool, len(l.known))
	for index, a := range l.known {
		known[index] = a.record.Flags&abi.InterfacePeer != 0
	}
	l.mu.Unlock()
	for index, has := range known {
		link, err := l.Space.Netlink.LinkByIndex(int(index))
		if err == nil && l.shortens(link) != has {
			return true
		}
	}
	return false
}

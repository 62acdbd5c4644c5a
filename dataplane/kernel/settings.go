// SPDX-License-Identifier: Apache-2.0

// This file puts settings in force: own RLOCs, interfaces with their programs, the
// policy for misses, bounds of the waiting room; and follows interfaces that come,
// go or change. It never creates an interface but the TAP.

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/pending"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tap"
	"loci/dataplane/kernel/underlay"
	"loci/forward"
	"loci/lisp"
)

const (
	maxInterfaces = 512 // half of what the programs' table holds
	maxLocalRLOCs = 512

	// usualMTU holds for the core while no core interface is there.
	usualMTU = 1500

	// settleTime is how long changes of interfaces are gathered, retryTime how long
	// to wait when the kernel does not tell of them.
	settleTime = 50 * time.Millisecond
	retryTime  = time.Second
)

// checkSettings says what of settings cannot be.
func checkSettings(s dataplane.Settings) error {
	if len(s.Interfaces) > maxInterfaces {
		return fmt.Errorf("%w: %d interfaces, at most %d", dataplane.ErrInvalid, len(s.Interfaces), maxInterfaces)
	}
	if len(s.LocalRLOCs) > maxLocalRLOCs {
		return fmt.Errorf("%w: %d local RLOCs, at most %d", dataplane.ErrInvalid, len(s.LocalRLOCs), maxLocalRLOCs)
	}
	for _, i := range s.Interfaces {
		if err := checkVLAN(i); err != nil {
			return err
		}
		if i.Name == "" || len(i.Name) >= unix.IFNAMSIZ {
			return fmt.Errorf("%w: interface name %q", dataplane.ErrInvalid, i.Name)
		}
		if i.Side > dataplane.SideCore || i.Instance > lisp.MaxInstanceID || i.Hook > dataplane.HookXDP || i.Forwarding > dataplane.ForwardingStack {
			return fmt.Errorf("interface %s: %w side, Instance-ID, hook or forwarding", i.Name, dataplane.ErrInvalid)
		}
	}
	for _, r := range s.LocalRLOCs {
		if err := r.Valid(); err != nil {
			return fmt.Errorf("local RLOC %v: %w: %w", r, dataplane.ErrInvalid, err)
		}
	}
	if err := errors.Join(s.CheckEncapsulations(), s.CheckLists()); err != nil {
		return err
	}
	if h := s.Header; h.EchoWait < 0 || h.EchoInterval < 0 || h.SourceCheck > dataplane.SourceStrict {
		return fmt.Errorf("%w: settings of headers", dataplane.ErrInvalid)
	}
	w := s.Wait
	if min(w.PacketsPerDestination, w.PacketsTotal, w.OctetsTotal) < 0 || w.Time < 0 {
		return fmt.Errorf("%w: bounds of waiting", dataplane.ErrInvalid)
	}
	return s.CheckMisses()
}

// setSettings carries out SetSettings. The caller holds changing.
func (e *Engine) setSettings(s dataplane.Settings) error {
	if err := checkSettings(s); err != nil {
		return err
	}
	s = s.Clone()
	old := e.settings
	err := e.putInForce(s)
	if err == nil {
		err = e.store.SaveSettings(s)
	}
	if err == nil && s.Header.StatusBits && !old.Header.StatusBits {
		err = e.forgetAllStatusBits()
	}
	if err != nil {
		return errors.Join(err, e.putInForce(old))
	}
	return nil
}

// putInForce makes settings the ones that hold.
func (e *Engine) putInForce(s dataplane.Settings) error {
	if err := e.putLocalRLOCs(s.LocalRLOCs); err != nil {
		return err
	}
	e.mu.Lock()
	e.tables.Sets.SetEncapsulation(s.EncapsulationTo)
	err := e.tables.SetSources(sourceOf(s.LocalRLOCs, true), sourceOf(s.LocalRLOCs, false))
	if err == nil {
		e.settings = s
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	e.reassembly.Listen(&s)
	e.room.SetBounds(s.Wait)
	if err := e.putMissPolicies(s.MissPolicies); err != nil {
		return err
	}
	if e.lists, err = e.store.PutLists(s.Lists); err != nil {
		return err
	}
	if err := e.store.PutSettings(e.programSettings(s)); err != nil {
		return err
	}
	return e.syncInterfaces()
}

// programPolicies are what programs do with packets that miss. What is handed over
// goes the way of what waits, and the waiting room hands it over.
var programPolicies = map[dataplane.MissPolicy]abi.MissPolicy{
	dataplane.MissQueue:           abi.MissQueue,
	dataplane.MissHandOver:        abi.MissQueue,
	dataplane.MissDrop:            abi.MissDrop,
	dataplane.MissForwardNatively: abi.MissForwardNatively,
}

// putMissPolicies tells the programs which Instance-IDs have a policy of their own.
// Those that have none any more go first, so that there is room.
func (e *Engine) putMissPolicies(policies map[lisp.InstanceID]dataplane.MissPolicy) error {
	m := e.store.Map(abi.MapMissPolicies)
	errs := []error{store.Prune[lisp.InstanceID, uint32](m, store.In(policies))}
	for instance, policy := range policies {
		errs = append(errs, m.Put(uint32(instance), uint32(programPolicies[policy])))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("policies for misses: %w", err)
	}
	return nil
}

func (e *Engine) programSettings(s dataplane.Settings) abi.Settings {
	rloc4, rloc6 := abi.KeyOf(sourceOf(s.LocalRLOCs, true)).Address, abi.KeyOf(sourceOf(s.LocalRLOCs, false)).Address
	return abi.Settings{
		AbiVersion: abi.Version, Flags: e.programFlags(s) | trustedFlags(s.Header) | instancesFlag(s.Interfaces) | vxlanFlag(&s) | e.lists.Flag(), TapIfindex: e.tap.Index, TapMac: e.tap.Mac,
		MissPolicy: uint8(programPolicies[s.MissPolicy]), MissIntervalNs: uint64(pending.MissInterval),
		HintIntervalNs: uint64(dataplane.HintInterval),
		EchoIntervalNs: uint64(cmp.Or(s.Header.EchoInterval, dataplane.DefaultEchoInterval)),
		EchoWaitNs:     uint64(cmp.Or(s.Header.EchoWait, dataplane.DefaultEchoWait)),
		Rloc4:          [4]uint8(rloc4[:4]), Rloc6: rloc6,
		Lists: e.lists.Kinds, ListGeneration: e.lists.Generation,
	}
}

// sourceOf returns the first RLOC of a family, the zero RLOC when there is none.
func sourceOf(rlocs []lisp.RLOC, is4 bool) lisp.RLOC {
	for _, r := range rlocs {
		if r.Is4() == is4 {
			return r
		}
	}
	return lisp.RLOC{}
}

// putLocalRLOCs tells the programs which packets are for this router.
func (e *Engine) putLocalRLOCs(rlocs []lisp.RLOC) error {
	m := e.store.Map(abi.MapLocalRLOCs)
	wanted := map[abi.RLOCKey]bool{}
	for _, r := range rlocs {
		wanted[abi.KeyOf(r)] = true
		if err := m.Put(abi.KeyOf(r), uint32(0)); err != nil {
			return fmt.Errorf("local RLOC %v: %w", r, err)
		}
	}
	return store.Prune[abi.RLOCKey, uint32](m, store.In(wanted))
}

// restoreSettings puts the settings in force that an earlier process left.
func (e *Engine) restoreSettings(found bool) error {
	settings := dataplane.Settings{Wait: dataplane.DefaultWaitBounds}
	if found {
		saved, ok, err := e.store.SavedSettings()
		if err != nil {
			return err
		}
		if ok {
			settings = saved
		}
	}
	return e.putInForce(settings)
}

// restoreStates reads back what was known of locators.
func (e *Engine) restoreStates() error {
	settings, _, err := e.store.SavedSettings()
	if err != nil {
		return err
	}
	e.tables.Sets.Source4 = sourceOf(settings.LocalRLOCs, true)
	e.tables.Sets.Source6 = sourceOf(settings.LocalRLOCs, false)
	if err := e.store.SavedStates(e.tables.Sets.SetState); err != nil {
		return fmt.Errorf("locator states: %w", err)
	}
	return nil
}

// syncInterfaces tells the programs of the interfaces that are there and attaches
// them. Interfaces that are not there follow when they come. The caller holds
// changing.
func (e *Engine) syncInterfaces() error {
	wanted := map[uint32]attached{
		e.tap.Index: {name: "TAP", record: abi.Interface{
			Flags: abi.InterfaceTAP, Iid: uint32(ownInstance(e.settings.Interfaces)),
			L2Length: tap.EthernetOctets, Mac: e.tap.Mac,
		}},
	}
	coreMTU := 0
	for _, i := range e.settings.Interfaces {
		link, err := e.space.Netlink.LinkByName(i.Name)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			e.tellMissing(i.Name)
			continue
		}
		if err != nil {
			return fmt.Errorf("interface %s: %w", i.Name, err)
		}
		if err := e.addInterface(wanted, i, link.Attrs()); err != nil {
			return err
		}
		delete(e.missing, i.Name)
		e.addShortcut(wanted, link)
		e.chooseHook(wanted, i, link)
		if mtu := link.Attrs().MTU; i.Side == dataplane.SideCore && (coreMTU == 0 || mtu < coreMTU) {
			coreMTU = mtu
		}
	}
	if err := e.finishVLANs(wanted); err != nil {
		return err
	}
	if err := e.changeInterfaces(wanted); err != nil {
		return err
	}
	return e.syncTAPMTU(coreMTU)
}

// tellMissing says once that an interface is not there.
func (e *Engine) tellMissing(name string) {
	if !e.missing[name] {
		e.log.Warn("an interface is not there; it is used when it comes", "interface", name)
	}
	e.missing[name] = true
}

// addInterface adds one of the settings' interfaces; one may lead to both sides.
func (e *Engine) addInterface(wanted map[uint32]attached, i dataplane.Interface, link *netlink.LinkAttrs) error {
	if i.VLAN != 0 {
		return e.addVLAN(wanted, i, link)
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
func (e *Engine) changeInterfaces(wanted map[uint32]attached) error {
	defer e.store.Changed.All()
	m := e.store.Map(abi.MapInterfaces)
	points := map[hookPoint]bool{}
	instances := map[uint32]bool{}
	for ifindex, a := range wanted {
		if err := e.putInterface(ifindex, a); err != nil {
			return fmt.Errorf("interface %s: %w", a.name, err)
		}
		instances[a.record.Iid] = true
		if isVLAN(ifindex) {
			continue
		}
		for _, program := range programsOf(a.record.Flags) {
			points[hookPoint{ifindex, program}] = true
		}
	}
	if err := e.putVLANs(wanted); err != nil {
		return fmt.Errorf("VLANs: %w", err)
	}
	if err := e.putSites(wanted); err != nil {
		return fmt.Errorf("site interfaces by Instance-ID: %w", err)
	}
	for at := range points {
		if err := e.hooks.attach(at); err != nil && !isGone(err) {
			return fmt.Errorf("interface %s: %w", wanted[at.ifindex].name, err)
		}
	}
	e.attachXDP(wanted, points)
	e.mu.Lock()
	e.interfaces = maps.Clone(wanted)
	e.mu.Unlock()
	if err := e.hooks.keepOnly(points); err != nil {
		return err
	}
	err := store.Prune[uint32, abi.Interface](m, store.In(wanted))
	e.store.Slots.KeepOnly(store.In(wanted))
	if err != nil {
		return err
	}
	if err := e.fillDevices(wanted); err != nil {
		return err
	}
	return e.store.Instances.PinOnly(instances)
}

// putInterface tells the programs of an interface.
func (e *Engine) putInterface(ifindex uint32, a attached) error {
	roots, err := e.store.Instances.Pin(a.record.Iid)
	if err != nil {
		return err
	}
	a.record.Roots = roots
	if err := e.store.Map(abi.MapInterfaces).Put(ifindex, a.record); err != nil {
		return err
	}
	e.store.Slots.Put(ifindex, a.record)
	e.store.Changed.All()
	return nil
}

// syncTAPMTU makes what this host sends from its EIDs fit the core when it is
// encapsulated.
func (e *Engine) syncTAPMTU(coreMTU int) error {
	if coreMTU == 0 {
		coreMTU = usualMTU
	}
	overhead := forward.Overhead(lisp.RLOCFromAddr(netip.IPv6Unspecified()))
	err := e.tap.SetMTU(e.space, max(coreMTU-overhead, underlay.SmallestMTU))
	if errors.As(err, &netlink.LinkNotFoundError{}) || isGone(err) {
		e.log.Debug("the TAP was deleted; it gets its MTU when it is made anew", "interface", e.tap.Name)
		return nil
	}
	return err
}

// watchLinks follows changes of interfaces until the engine ends.
func (e *Engine) watchLinks() {
	for {
		updates := make(chan netlink.LinkUpdate, 64)
		done := make(chan struct{})
		err := netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{
			Namespace:     &e.space.Ns,
			ErrorCallback: func(err error) { e.log.Debug("messages about interfaces were lost", "error", err) },
		})
		if err != nil {
			e.log.Warn("the kernel does not tell of changed interfaces", "error", err)
		}
		ended := e.followLinks(updates, err == nil)
		close(done)
		if err == nil {
			for range updates { // so that nobody is left who waits to be read
			}
		}
		if ended {
			return
		}
	}
}

// followLinks syncs interfaces after each bunch of updates, and for what happened before it was subscribed to them; true when the engine ends.
func (e *Engine) followLinks(updates <-chan netlink.LinkUpdate, subscribed bool) bool {
	retry := time.NewTimer(retryTime)
	defer retry.Stop()
	if subscribed {
		retry.Stop()
	}
	due := time.After(settleTime)
	for {
		select {
		case <-e.stop:
			return true
		case <-retry.C:
			return false
		case update, ok := <-updates:
			if !ok {
				updates = nil
				retry.Reset(retryTime)
			}
			if due == nil && (!ok || e.concerns(update)) { // later updates put off nothing: they may never end
				due = time.After(settleTime)
			}
		case <-due:
			due = nil
			if !e.resync() {
				due = time.After(retryTime)
			}
		}
	}
}

// concerns reports whether an update is of an interface of ours.
func (e *Engine) concerns(update netlink.LinkUpdate) bool {
	if update.Link == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	index := uint32(update.Link.Attrs().Index)
	if index == e.tap.Index {
		return e.isTAPAmiss(update)
	}
	if _, known := e.interfaces[index]; known {
		return true
	}
	return slices.ContainsFunc(e.settings.Interfaces, func(i dataplane.Interface) bool {
		return i.Name == update.Link.Attrs().Name || i.VLAN != 0 && update.Link.Type() == "vlan"
	})
}

// resync makes interfaces what they have to be; false when that has to be tried again.
func (e *Engine) resync() bool {
	e.changing.Lock()
	defer e.changing.Unlock()
	if e.closed {
		return true
	}
	err := errors.Join(e.keepTAP(), e.syncInterfaces())
	if err == nil {
		e.unusable = ""
		return true
	}
	if e.unusable != err.Error() { // said once, while it is tried again and again
		e.log.Error("a changed interface cannot be used", "error", err)
	}
	e.unusable = err.Error()
	return false
}

func removeAll(paths ...string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

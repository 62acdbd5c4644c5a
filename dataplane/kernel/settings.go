// SPDX-License-Identifier: Apache-2.0

// This file applies settings: own RLOCs, interfaces with their programs, the policy for
// misses, bounds of the pending-packet queue; and follows interfaces that come, go or
// change. It never creates an interface but the TAP.

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/attach"
	"loci/dataplane/kernel/segmenter"
	"loci/dataplane/kernel/underlay"
	"loci/forward"
	"loci/lisp"
)

const (
	maxInterfaces = 512 // half of what the programs' table holds
	maxLocalRLOCs = 512

	// usualMTU holds for the core while no core interface is there.
	usualMTU = 1500
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
		if err := attach.CheckVLAN(i); err != nil {
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
	if err := errors.Join(s.CheckEncapsulations(), s.CheckLists(), s.CheckRoles(), s.CheckRTRs(),
		s.CheckPathIdentification()); err != nil {
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
	old := e.entries.Settings()
	err := e.putInForce(s)
	if err == nil {
		err = e.store.SaveSettings(s)
	}
	if err == nil && s.Header.StatusBits && !old.Header.StatusBits {
		err = e.entries.ForgetAllStatusBits()
	}
	if err != nil {
		return errors.Join(err, e.putInForce(old))
	}
	return nil
}

// putInForce makes settings the ones that hold.
func (e *Engine) putInForce(s dataplane.Settings) error {
	if err := e.programs.putLocalRLOCs(&s); err != nil {
		return err
	}
	if err := e.entries.Obey(s); err != nil {
		return err
	}
	if slices.Contains(s.RTRs, dataplane.AnyIPv4) {
		e.reassembly.Adopt(e.entries.Mappings())
	}
	e.reassembly.Listen(&s)
	e.queue.SetBounds(s.Wait)
	if err := e.programs.put(&s); err != nil {
		return err
	}
	return e.syncInterfaces()
}

// syncInterfaces makes interfaces what the settings say. The caller holds changing.
func (e *Engine) syncInterfaces() error {
	device := e.tap.TAP()
	e.interfaces.Use(e.entries.Settings().Interfaces, device.Index, device.Mac, e.segmenter.Out)
	coreMTU, err := e.interfaces.Sync()
	if err != nil {
		return err
	}
	return e.syncTAPMTU(coreMTU)
}

// keepSegmenter makes the interfaces that cut GSO packets what they have to be; changed says that they are others than
// before. The caller holds changing, or opens the engine.
func (e *Engine) keepSegmenter() (changed bool) {
	found, err := segmenter.Open(e.space, e.tap.TAP().Name)
	if err != nil && !e.cutsInUserSpace {
		e.log.Warn("GSO packets behind a NAT, or with two layers, are cut in user space, which is slower",
			"error", err)
	}
	e.cutsInUserSpace = err != nil
	changed = found != e.segmenter
	e.segmenter = found
	return changed
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

// syncTAPMTU makes what this host sends from its EIDs fit the core when it is
// encapsulated.
func (e *Engine) syncTAPMTU(coreMTU int) error {
	if coreMTU == 0 {
		coreMTU = usualMTU
	}
	overhead := forward.Overhead(lisp.RLOCFromAddr(netip.IPv6Unspecified()))
	return e.tap.SetMTU(max(coreMTU-overhead, underlay.SmallestMTU))
}

// resync makes interfaces what they have to be; false when that has to be tried again.
func (e *Engine) resync() bool {
	e.changing.Lock()
	defer e.changing.Unlock()
	if e.closed {
		return true
	}
	err := e.tap.Keep()
	if e.keepSegmenter() {
		err = errors.Join(err, e.programs.putRecord(e.entries.Settings()))
	}
	err = errors.Join(err, e.syncInterfaces())
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

// reopenTAP makes the TAP anew for the pending-packet queue, where what waits stays.
func (e *Engine) reopenTAP(pause time.Duration) error {
	select {
	case <-e.stop:
		return dataplane.ErrClosed
	case <-time.After(pause):
	}
	e.changing.Lock()
	defer e.changing.Unlock()
	if e.closed {
		return dataplane.ErrClosed
	}
	fresh, err := e.tap.Reopen()
	if err != nil {
		return err
	}
	e.queue.TakeTAP(fresh)
	if err := e.programs.putRecord(e.entries.Settings()); err != nil {
		return err
	}
	if err := e.syncInterfaces(); err != nil {
		return err
	}
	go e.tap.Remade()
	return nil
}

func removeAll(paths ...string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

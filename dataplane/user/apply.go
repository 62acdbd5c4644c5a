// SPDX-License-Identifier: Apache-2.0

package user

// Operations. The model carries them out; the caches forget what they knew.

import (
	"fmt"

	"loci/dataplane"
	"loci/forward"
)

// Apply carries out operations in order.
func (e *Engine) Apply(operations ...dataplane.Operation) []error {
	e.changing.Lock()
	defer e.changing.Unlock()
	failed := dataplane.ApplyEach(operations, e.apply)
	// The tables have changed: a flow that is found out about from now on is one of the new generation.
	e.generation.Add(1)
	return failed
}

func (e *Engine) apply(operation dataplane.Operation) error {
	if e.closed {
		return dataplane.ErrClosed
	}
	settings, is := operation.(dataplane.SetSettings)
	if !is {
		if err := e.sourcePorts.open(operation); err != nil {
			return err
		}
		return first(e.model.Apply(operation))
	}
	s := settings.Settings
	if err := Check(&s); err != nil {
		return err
	}
	e.paths.setSources(&s) // released packets go by them
	if err := first(e.model.Apply(operation)); err != nil {
		before := e.model.Settings()
		e.paths.setSources(&before)
		return err
	}
	e.arriving = arrivingBy(&s)
	e.setMTU()
	h := s.Header
	e.subflows.Store(s.Subflows)
	e.plainHeaders.Store(!h.StatusBits && !h.MapVersions && !h.EchoNonce && !h.Glean)
	return e.listenForVXLAN(s.TakesVXLANGPE())
}

func first(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}

// listenForVXLAN opens the port of VXLAN-GPE when a rule first names it. It stays open: the model says whether packets
// are taken.
func (e *Engine) listenForVXLAN(wanted bool) error {
	if !wanted || e.receivers[forward.VXLANGPEPort] != nil {
		return nil
	}
	if err := e.listen(forward.VXLANGPEPort); err != nil {
		for _, r := range e.receivers[forward.VXLANGPEPort] {
			_ = r.Close()
		}
		delete(e.receivers, forward.VXLANGPEPort)
		return err
	}
	e.startReceivers(forward.VXLANGPEPort)
	return nil
}

// Check says which settings this engine cannot have; ErrUnsupported. All that reaches it comes by one TUN, which tells
// neither interface nor VLAN.
func Check(s *dataplane.Settings) error {
	instance := instanceOf(s)
	for _, i := range s.Interfaces {
		switch {
		case i.Side == dataplane.SideSite && i.Instance != instance:
			return fmt.Errorf("interface %s: the user engine has one Instance-ID for all interfaces to the site: %w", i.Name, dataplane.ErrUnsupported)
		case i.VLAN != 0:
			return fmt.Errorf("interface %s: the user engine sees no VLAN tags: make an interface of VLAN %d: %w", i.Name, i.VLAN, dataplane.ErrUnsupported)
		}
	}
	return nil
}

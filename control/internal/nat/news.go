// SPDX-License-Identifier: Apache-2.0

package nat

// What an RTR hears of a registered EID-Prefix unasked (s.5.3, s.5.5): a Map-Notify that still names this RTR is for
// the node. Where one does not, or an SMR says that the mapping changed, the mapping system is asked, and the binding
// ends when its answer names this RTR no more.

import (
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/lisp"
)

// removedMoved: the mapping system says that this RTR does not lead to the EID-Prefix any more.
const removedMoved = "moved"

// handleUnsolicited takes a Map-Notify that answers no Map-Register. Only a key of the Map-Server makes it count. It
// reports whether the Map-Notify is about a binding that this Map-Server acknowledged.
func (r *RTR) handleUnsolicited(m *message.NATNotify) (taken bool) {
	if len(m.Key.Secret) == 0 {
		return false
	}
	var passed []nodeID
	for i := range m.Mappings {
		prefix, named := m.Mappings[i].Prefix, r.isNamed(m.Mappings[i].Locators)
		for _, b := range r.current(prefix) {
			if !b.isOf(m) {
				continue
			}
			taken = true
			if !named {
				r.Ask(prefix)
				break
			}
			if !slices.Contains(passed, b.node) {
				passed = append(passed, b.node)
				r.passOn(b, m)
			}
		}
	}
	if taken {
		r.h.Count(counter.NATNotifyUnsolicited)
	}
	return taken
}

// isOf reports whether a Map-Notify is from the Map-Server of a binding, and for its node, as far as it names one.
func (b *binding) isOf(m *message.NATNotify) bool {
	return b.mapServer == m.From.Addr() && (!m.XTRIDPresent || b.node == nodeID{m.XTRID, m.SiteID})
}

// isNamed reports whether one of this RTR's addresses is among locators.
func (r *RTR) isNamed(set lisp.LocatorSet) bool {
	return slices.ContainsFunc(set, func(l lisp.Locator) bool { return slices.Contains(r.h.RLOCs, l.RLOC) })
}

// passOn sends a node the Map-Notify, as its Map-Server does, at the rate of Map-Notifies.
func (r *RTR) passOn(b *binding, m *message.NATNotify) {
	if !r.h.MayNotify(b.from.Addr()) {
		return
	}
	from := *m
	from.Inner.Source = netip.AddrPortFrom(b.inner, r.h.ControlPort)
	r.notify(&b.pending, &from)
}

// Leaves ends the bindings of an EID-Prefix where the mapping system, asked for it, names this RTR no more. It reports
// whether it did.
func (r *RTR) Leaves(m lisp.Mapping) (left bool) {
	if m.Negative() || m.TTLMinutes == 0 || r.isNamed(m.Locators) {
		return false
	}
	for id := range r.Bindings.each(m.Prefix) {
		r.drop(id, removedMoved)
		left = true
	}
	return left
}

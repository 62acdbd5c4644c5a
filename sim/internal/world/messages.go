// SPDX-License-Identifier: Apache-2.0

package world

// Control messages on their way out of a Node, and into one.

import (
	"fmt"
	"net/netip"

	"loci/control"
	"loci/sim/internal/packets"
)

// send carries out the effect SendPacket.
func (r *Router) send(p control.SendPacket) {
	preferred := func(yield func(netip.Addr) bool) {
		for _, rloc := range r.config.LocalRLOCs {
			if !yield(rloc.Addr()) {
				return
			}
		}
	}
	from := r.Station.Source(p.Local, p.Remote.Addr().Is4(), preferred)
	r.W.Stats.Messages[packets.MessageType(p.Payload)]++
	m := r.W.Network.NewMail()
	m.From, m.To, m.Payload = from, p.Remote, p.Payload
	r.W.watch(r, m)
	r.W.Trace.Note(r.W.Now, r.Index, p.Payload, func() string {
		return fmt.Sprintf("%s sends %s to %s", r.Name, packets.Describe(p.Payload), p.Remote)
	})
	if !from.IsValid() {
		return // no address of that family
	}
	if !r.Station.IsInside(from.Addr()) {
		r.W.scenario.Overhear(from, p.Remote, p.Payload)
	}
	r.W.Network.Carry(&r.Station, m)
}

// arrive is mail at a router. The address may have moved to another one meanwhile.
func (w *World) arrive(r *Router, m *Mail) {
	defer w.Network.Release(m)
	r, arrives := w.Network.Arrive(&r.Station, m)
	switch {
	case !arrives:
	case m.Data:
		w.arrivePacket(r, m)
	case r.Node == nil:
		w.Stats.MessagesLost++
	default:
		w.arriveMessage(r, m)
	}
}

func (w *World) arriveMessage(r *Router, m *Mail) {
	w.Trace.Note(w.Now, r.Index, m.Payload, func() string {
		return fmt.Sprintf("%s receives %s from %s%s", r.Name, packets.Describe(m.Payload), m.From, origin(m))
	})
	if refusesWhole(w, r, m) {
		return
	}
	beforeMessage(w, r, m)
	r.Node.HandleParsed(r.time(), m.To, m.From, m.Payload, m.Message())
	r.drain()
	afterMessage(w, r, m)
}

func origin(m *Mail) string {
	if m.Hostile {
		return " (the attacker)"
	}
	return ""
}

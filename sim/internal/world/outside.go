// SPDX-License-Identifier: Apache-2.0

package world

// Hosts outside LISP (RFC 6832): some talk to sites by a PITR, and hosts of sites talk to them, by a proxy ETR or
// natively.

import (
	"fmt"
	"net/netip"

	"loci/control"
	"loci/dataplane"
	"loci/lisp"
	"loci/sim/internal/packets"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
)

// outsideInterface is how packets of hosts outside LISP to EIDs of an Instance-ID come to a PITR.
func outsideInterface(instance lisp.InstanceID) string { return fmt.Sprintf("out%d", instance) }

// startOutside lets hosts outside LISP talk to sites, and those to them.
func startOutside(w *World) {
	if !w.Flavour.Relays {
		return
	}
	for _, r := range w.Relays {
		w.After(w.Relaying.Between(0, usageInterval), func() { w.Every(usageInterval, w.Router(r).reportUsage) })
		for _, s := range r.Relay.Serves {
			if p := virtual.Pick(w.Relaying, s.Prefixes); r.Relay.Is(control.RolePITR) && len(p.Hosts) > 0 && w.Relaying.Chance(0.5) {
				addOutside(w, &sites.Flow{From: r, Source: packets.Outsider(p.Hosts[0].Is4(), true, 1+w.Relaying.IntN(100)), To: virtual.Pick(w.Relaying, p.Hosts), Destination: s})
			}
		}
	}
	for _, x := range w.XTRs {
		if p := virtual.Pick(w.Relaying, x.Site.Prefixes); len(p.Hosts) > 0 && x.Site.Leaves() && w.Relaying.Chance(0.5) {
			addOutside(w, &sites.Flow{From: x, Source: p.Hosts[0], To: packets.Outsider(p.Hosts[0].Is4(), true, 1+w.Relaying.IntN(100)), Outside: true})
		}
	}
}

func addOutside(w *World, f *sites.Flow) {
	f.Interval = w.Relaying.Between(steadyFastest, steadySlowest)
	w.Flows = append(w.Flows, f)
	w.After(w.Relaying.Between(steadyFirst, 2*steadyFirst), func() { w.Every(f.Interval, func() { w.Transmit(f, true) }) })
}

// IntoProxy gives a PITR a packet of a host outside LISP.
func (w *World) IntoProxy(r *Router, p packets.Payload, source, destination netip.Addr, hostile bool) string {
	at := w.FromOutside(p, hostile)
	return through(r, at, outsideInterface(lisp.InstanceID(p.Instance)), p.Packet(source, destination))
}

// relayPlane are the roles and interfaces of a relay's data plane: one to hosts outside LISP for each Instance-ID.
func relayPlane(r *Router, s *dataplane.Settings) {
	for _, p := range r.Config.Roles {
		s.Roles = append(s.Roles, dataplane.RolePolicy{Role: dataplane.Role(p.Role), Instance: p.Instance, EIDs: p.EIDs, Sources: p.Sources})
		if p.Role == control.RolePITR {
			s.Interfaces = append(s.Interfaces, dataplane.Interface{Name: outsideInterface(p.Instance), Side: dataplane.SideCore, Instance: p.Instance})
		}
	}
}

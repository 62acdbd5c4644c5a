// SPDX-License-Identifier: Apache-2.0

package world

// Faults of what data packets and ICMP say about locators (RFC 9300 s.10, RFC 9301 s.7):
// Locator-Status-Bits that a site lowers and raises again, nonces that are not echoed, and
// forged ICMP. The data plane tells; what the Node makes of it is held against what may be
// believed.

import (
	"loci/control"
	"loci/dataplane"
)

// handleEvent hands one event of the engine to the Node, as the daemon does.
func (r *Router) handleEvent(e dataplane.Event) {
	now := r.Time()
	switch e := e.(type) {
	case dataplane.Miss:
		r.W.Stats.Misses++
		r.Node.HandleMiss(now, control.Miss{Instance: e.Instance, Source: e.Source, Destination: e.Destination})
	case dataplane.StatusBitsChanged:
		r.Node.HandleStatusBits(now, control.StatusBits{Prefix: e.Prefix, From: e.From, Bits: e.Bits, Count: e.Count})
	case dataplane.LocalVersionStale:
		r.Node.HandleMapVersions(now, versionsOf(e.PacketVersions))
	case dataplane.RemoteVersionStale:
		r.Node.HandleMapVersions(now, versionsOf(e.PacketVersions))
	case dataplane.Gleaned:
		r.Node.HandleGleaned(now, control.Gleaned{Instance: e.Instance, Source: e.Source, Destination: e.Destination, From: e.From})
	case dataplane.NonceMismatch:
		r.Node.HandleNonceMismatch(now, e.RLOC)
	case dataplane.LocatorUnreachable:
		r.Node.HandleUnreachable(now, e.RLOC)
	case dataplane.ControlPacket:
		r.Node.HandleControlPacket(now, control.ControlPacket{Local: e.Destination, From: e.Source, Packet: e.Payload})
	}
	r.drain()
}

// versionsOf is what the daemon makes of the event.
func versionsOf(p dataplane.PacketVersions) control.MapVersions {
	return control.MapVersions{
		Instance: p.Instance, Source: p.Source, Destination: p.Destination, From: p.From,
		SourceVersion: p.SourceVersion, DestinationVersion: p.DestinationVersion,
	}
}

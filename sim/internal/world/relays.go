// SPDX-License-Identifier: Apache-2.0

package world

// What relays are given: packets of other routers, and of hosts outside LISP.

import (
	"loci/sim/internal/checks"
	"loci/sim/internal/packets"
)

// through gives a relay's data plane a packet, and remembers it if it waits.
func through(r *Router, p checks.Passage, interfaceName string, packet []byte) (outcome string) {
	r.Takes(p)
	o := r.Plane.Send(interfaceName, packet)
	r.Took(packets.Read(packet).Number, o.What.String() == "wait")
	if outcome = o.What.String(); outcome == "drop" {
		outcome = o.Reason.String()
	}
	r.RaiseMisses()
	return outcome
}

// arriveAtRelay is an encapsulated packet at a relay.
func arriveAtRelay(w *World, r *Router, m *Mail) {
	outcome := through(r, w.PassageOf(m), coreInterface, m.Payload)
	w.Trace.Note(w.Now, r.Index, nil, func() string { return r.Name + " takes a packet from " + m.From.Addr().String() + ": " + outcome })
	switch outcome {
	case "relay", "native":
		w.Stats.PacketsRelayed++
	case "wait":
	default:
		w.lostPacket(r, m, outcome)
	}
}

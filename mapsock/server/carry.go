// SPDX-License-Identifier: Apache-2.0

package server

// From the engine's events to the listeners. A miss is told to each in the form it
// asked for, as far as the engine tells it; a packet that is handed over goes to one
// control plane alone. Nothing here waits for a listener.

import (
	"loci/dataplane"
	"loci/mapsock"
)

const (
	// eventsTogether bounds how many events share a buffer.
	eventsTogether = 64
	missForms      = 3
)

// carryEvents carries the engine's events until it or the server closes. Events that
// are there together go out together.
func (s *Server) carryEvents() {
	var out outgoing
	events := s.plane.Events()
	for {
		select {
		case <-s.done:
			return
		case event, ok := <-events:
			if !ok {
				go s.closeAfterDetach() // it waits for us
				return
			}
			s.carry(event, events, &out)
		}
	}
}

// outgoing gathers events that are told together, in their order.
type outgoing struct {
	message mapsock.Message
	rich    bool // the forms differ
	// To those who hear operations the end of a mapping is told by its deletion.
	withEnds, withoutEnds gathered
}

// gathered are events as listeners of each form hear them.
type gathered struct {
	forms  [missForms][]byte
	events int
}

func (s *Server) carry(event dataplane.Event, more <-chan dataplane.Event, out *outgoing) {
	*out = outgoing{message: out.message, rich: s.hasRichListeners()}
	for taken := 1; event != nil; taken++ {
		if miss, ok := event.(dataplane.Miss); ok && miss.Handed {
			s.tellEvents(out, nil) // what came before
			*out = outgoing{message: out.message, rich: out.rich}
			s.tellHanded(miss, out.rich)
		} else {
			s.pass(event)
			out.add(event)
		}
		event = another(more, taken)
	}
	s.tellEvents(out, nil)
}

// tellHanded gives a packet to who takes them, and tells all others of the miss.
func (s *Server) tellHanded(miss dataplane.Miss, rich bool) {
	out := outgoing{rich: rich}
	taker := s.handOver(miss)
	if taker != nil {
		taker.flush()
	}
	out.add(miss) // in its forms no listener forwards it
	s.tellEvents(&out, taker)
}

// add takes an event up in all forms that somebody hears.
func (out *outgoing) add(event dataplane.Event) {
	miss, isMiss := event.(dataplane.Miss)
	m := &out.message
	for form := range missForms {
		if form > 0 && !out.rich {
			break
		}
		if isMiss {
			event = in(dataplane.MissForm(form), miss)
		}
		if !m.SetEvent(event) {
			return
		}
		out.withEnds.forms[form], _ = m.Append(out.withEnds.forms[form]) // an event always fits
		if m.Type != mapsock.TypeDelete {
			out.withoutEnds.forms[form], _ = m.Append(out.withoutEnds.forms[form])
		}
	}
	out.withEnds.events++
	if m.Type != mapsock.TypeDelete {
		out.withoutEnds.events++
	}
}

// another is the next event when it is there already.
func another(events <-chan dataplane.Event, taken int) dataplane.Event {
	if taken >= eventsTogether {
		return nil
	}
	select {
	case event := <-events:
		return event
	default:
		return nil
	}
}

func (s *Server) hasRichListeners() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		if c.form.Load() != uint32(dataplane.MissFormEID) {
			return true
		}
	}
	return false
}

func (s *Server) tellEvents(out *outgoing, except *session) {
	few := s.offerEvents(out, except)
	few.flush()
}

// offerEvents puts events in the queues of those who listen to them. The caller sends
// them to the few that it returns.
func (s *Server) offerEvents(out *outgoing, except *session) (few fewSessions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listeners := 0
	for c := range s.sessions {
		if c == except || !c.hears(mapsock.HearEvents) {
			continue
		}
		form, heard := 0, &out.withEnds
		if out.rich {
			form = int(c.form.Load())
		}
		if c.hears(mapsock.HearOperations) {
			heard = &out.withoutEnds
		}
		if heard.events > 0 {
			s.offer(c, heard.forms[form], heard.events)
			few.add(c, &listeners)
		}
	}
	return s.unlessMany(few, listeners)
}

// pass hands an event to this process, and keeps what it tells of a path.
func (s *Server) pass(event dataplane.Event) {
	s.paths.note(event)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local != nil {
		s.local.take(event)
	}
}

// handOver gives a packet to the client that asked for them last, else to this
// process, and returns that client.
func (s *Server) handOver(miss dataplane.Miss) (taker *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		if c.hears(mapsock.HearPackets) && (taker == nil || c.taking.Load() > taker.taking.Load()) {
			taker = c
		}
	}
	switch {
	case taker != nil:
		var m mapsock.Message
		m.SetMiss(miss)
		if b, err := m.Append(nil); err == nil && !s.offer(taker, b, 1) {
			return taker
		}
	case s.local != nil && s.local.take(miss):
		return nil
	}
	s.counters.packetsUnclaimed.Add(1)
	return taker
}

// in is what a listener of a form hears of a miss that may tell more. What is handed
// to another it hears as if it were not.
func in(form dataplane.MissForm, miss dataplane.Miss) dataplane.Miss {
	miss.Handed = false
	switch {
	case miss.Form <= form:
	case form == dataplane.MissFormHeader:
		miss.Packet, miss.Form = quoted(miss.Packet), form
	default:
		miss.Packet, miss.Form = nil, dataplane.MissFormEID
	}
	return miss
}

// quoted is the IP header of a packet, without extensions, and the eight octets behind
// it (RFC 792).
func quoted(packet []byte) []byte {
	const ipv6HeaderOctets, behind = 40, 8
	octets := ipv6HeaderOctets + behind
	if len(packet) > 0 && packet[0]>>4 == 4 {
		octets = int(packet[0]&0xF)*4 + behind
	}
	return packet[:min(octets, len(packet))]
}

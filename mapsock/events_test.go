// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"testing"

	"loci/dataplane"
	"loci/lisp"
)

// Who hears operations hears of an expired mapping once, by the deletion; who hears
// events alone is told by the engine.
func TestExpiredIsToldOnce(t *testing.T) {
	s := serve(t, Options{})
	both, events := s.monitor(t, DefaultHearing), s.monitor(t, HearEvents)
	old := to("10.2.0.0/24", "192.0.2.2")
	old.Entry.ExpiresAt = old.Entry.CreatedAt
	apply(t, s.server.Plane(), old)
	apply(t, s.server.Plane(), dataplane.DeleteMapping{Prefix: old.Entry.Mapping.Prefix})
	next(t, both, TypeAdd)
	if got := next(t, both, TypeDelete); got.Flags&FlagExpired == 0 || got.PID == 0 {
		t.Error(got)
	}
	if got := next(t, events, TypeDelete); got.Flags&(FlagExpired|FlagDone) != FlagExpired|FlagDone || got.PID != 0 || got.Prefix != old.Entry.Mapping.Prefix {
		t.Error(got)
	}
	s.engine.Raise(dataplane.MTUChanged{RLOC: peerRLOC, MTU: 1400})
	next(t, both, TypeMTU)
	next(t, events, TypeMTU)
}

// What is no event, or lacks what its type needs, is none.
func TestMessagesThatAreNoEvents(t *testing.T) {
	for _, m := range []*Message{
		{Type: TypeDelete}, {Type: TypeDelete, Flags: FlagExpired | FlagDone}, {Type: TypeDelete, Flags: FlagExpired | FlagDone | FlagDatabase, HasEID: true},
		{Type: TypeMTU}, {Type: TypeMTU, Locators: make([]Locator, 2)}, {Type: TypeAdd, Locators: make([]Locator, 1)},
		{Type: TypeStatusBits, Locators: make([]Locator, 1)}, {Type: TypeLocalStale, Locators: make([]Locator, 1)}, {Type: TypeMissEID},
	} {
		if event, ok := m.Event(); ok {
			t.Errorf("%s is %T", m, event)
		}
	}
	if (&Message{}).setEvent(nil) {
		t.Error("no event has a message")
	}
	huge := dataplane.LocatorUnreachable{RLOC: lisp.RLOC{}}
	var m Message
	m.setEvent(huge)
	if _, err := m.Append(nil); err == nil {
		t.Error("a locator without RLOC was written")
	}
}

// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"loci/dataplane"
	"loci/mapsock"
)

// Who hears operations hears of an expired mapping once, by the deletion; who hears
// events alone is told by the engine.
func TestExpiredIsToldOnce(t *testing.T) {
	s := serve(t, Options{})
	both, events := s.monitor(t, mapsock.DefaultHearing), s.monitor(t, mapsock.HearEvents)
	old := to("10.2.0.0/24", "192.0.2.2")
	old.Entry.ExpiresAt = old.Entry.CreatedAt
	apply(t, s.server.Plane(), old)
	apply(t, s.server.Plane(), dataplane.DeleteMapping{Prefix: old.Entry.Mapping.Prefix})
	next(t, both, mapsock.TypeAdd)
	if got := next(t, both, mapsock.TypeDelete); got.Flags&mapsock.FlagExpired == 0 || got.PID == 0 {
		t.Error(got)
	}
	if got := next(t, events, mapsock.TypeDelete); got.Flags&(mapsock.FlagExpired|mapsock.FlagDone) != mapsock.FlagExpired|mapsock.FlagDone || got.PID != 0 || got.Prefix != old.Entry.Mapping.Prefix {
		t.Error(got)
	}
	s.engine.Raise(dataplane.MTUChanged{RLOC: peerRLOC, MTU: 1400})
	next(t, both, mapsock.TypeMTU)
	next(t, events, mapsock.TypeMTU)
}

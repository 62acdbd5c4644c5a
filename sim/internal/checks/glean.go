// SPDX-License-Identifier: Apache-2.0

package checks

// Gleaning (RFC 9300 s.9), which the operators of some seeds turn on, and the attacker in
// the data plane, who is there in those seeds: packets to tunnel routers from whatever
// address and inner source it likes. Where a mapping is gleaned, the answers go to it for
// as long as the mapping system takes; what gleaning may do beyond that, nothing, is held
// here against the simulated wire.

import (
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/rates"
	"loci/sim/internal/virtual"
)

const (
	// gleanedFor is how long a gleaned mapping may be used without being verified.
	gleanedFor = 3 * time.Second
	// askedWithin is the longest pause between the Map-Requests that verify it.
	askedWithin = 10 * time.Second
	// toldWithin is how long the packet may have waited to be told of: a crash lasts so long.
	toldWithin = time.Minute
)

// Note remembers of whom a data packet spoke, before the engine sees it.
func (g gleanWatch) Note(now time.Duration, instance lisp.InstanceID, m *network.Mail) {
	source := lisp.HostPrefix(instance, lisp.EIDFromAddr(packets.Source(packets.Inner(m.Payload))))
	g[gleanKey{source, lisp.RLOCFromAddr(packets.Source(m.Payload))}] = now
}

// checkGleaned judges a gleaned mapping that is being installed, before it is in the
// map-cache: somebody wanted it, a packet just said so, the mapping system is being asked,
// nothing known is contradicted, and it is brief.
func checkGleaned(j *Judge, r *Record, e *control.MapCacheEntry) {
	j.Stats.Gleaned++
	p, set := e.Mapping.Prefix, e.Mapping.Locators
	if !p.IsHost() || len(set) != 1 {
		j.Fail(r, invariantGleaned, "%s is gleaned: want one EID and one locator", e.Mapping)
		return
	}
	at, heard := r.HeardFrom[gleanKey{p, set[0].RLOC}]
	limit := r.Time().Add(gleanedFor + rates.Rounding)
	known, covered := r.Mirror.Longest(p.Instance(), p.EID())
	asked := r.Sent.Requests.Asked[p]
	isAsBefore := known.Gleaned && known.Mapping.Equal(e.Mapping) && known.ExpiresAt.Equal(e.ExpiresAt) // told again as it was
	switch {
	case !j.Flavour.Gleaning:
		j.Fail(r, invariantGleaned, "%s is gleaned, and gleaning is off", e.Mapping)
	case e.ExpiresAt.After(limit):
		j.Fail(r, invariantGleaned, "%s is gleaned until %s, want %s at most", e.Mapping, e.ExpiresAt.Sub(virtual.Epoch), gleanedFor)
	case asked == nil || r.Time().Sub(asked.LastAt) > askedWithin:
		j.Fail(r, invariantGleaned, "%s is gleaned, and no Map-Request verifies it", e.Mapping)
	case covered && known.Mapping.Action != lisp.ActionSendMapRequest && !isAsBefore:
		j.Fail(r, invariantGleaned, "%s is gleaned, but %s is known", e.Mapping, known.Mapping)
	case !heard || j.now()-at > toldWithin:
		j.Fail(r, invariantGleaned, "%s is gleaned from no packet", e.Mapping)
	}
}

// SPDX-License-Identifier: Apache-2.0

package itr

// The ITR: resolves what the data plane misses and keeps the map-cache (RFC 9300
// s.5 to s.9, RFC 9301 s.5.2, s.5.3, s.5.5, s.6.1, s.8.1). Locators are chosen per
// flow by the data plane. It never answers a Map-Request, and never takes a
// Map-Reply that it did not ask for.

import (
	"loci/control/internal/maprequest"
	"loci/control/internal/reach"
	"loci/control/internal/settings"
	"loci/control/internal/simplenat"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

// ITR is the role with its parts: the map-cache, the Map-Requests under way, and the long passes over the map-cache. The ITR
// itself takes reports, messages and time-outs, and tells the parts what to do.
type ITR struct {
	h          *system.System
	config     *settings.ITRConfig
	own        []lisp.RLOC // when it was configured
	Cache      mapCache
	Requester  *maprequest.Requester
	Sweeps     sweeps
	Moves      moves
	Statics    statics
	Stales     stales
	Prober     *reach.Prober
	named      namedHosts
	Departures departures
	private    privateRLOCs
	gleans     timing.Bucket
	renewals   timing.Bucket
	relaying   map[lisp.InstanceID]bool // as the map-cache was told of it
}

// New makes an ITR with an empty map-cache.
func New(h *system.System) *ITR {
	r := &ITR{h: h, config: &settings.ITRConfig{}}
	r.Prober = reach.New(h, &r.Cache.Cache)
	r.Cache.h, r.Cache.config, r.Cache.prober = h, r.config, r.Prober
	r.Cache.displaced, r.Cache.Told = map[lisp.Prefix]NATMapping{}, func(lisp.Prefix) {}
	r.Requester = maprequest.New(h, &r.Cache.Cache)
	r.Requester.Resolvers.AllSilent, r.Requester.Resolvers.Returned = r.Requester.BeginRounds, r.Requester.Begin
	r.Requester.NoteReturn = r.Cache.Lost.Returned
	r.Sweeps = sweeps{h: h, cache: &r.Cache}
	r.Statics = statics{h: h, cache: &r.Cache}
	r.Stales = stales{h: h, cache: &r.Cache, requester: r.Requester}
	r.named = namedHosts{&r.Cache, r.Requester}
	r.Cache.Named = simplenat.NewMappings(h, r.named.lookAt)
	r.Departures = departures{&r.Cache, r.Requester, func(lisp.Mapping) bool { return false }}
	r.Moves = moves{h: h, cache: &r.Cache}
	r.Prober.Table.Paths.Moved = r.Moves.start
	r.private = privateRLOCs{&r.Cache, r.Requester}
	r.Prober.Private.Changed = r.private.changed
	return r
}

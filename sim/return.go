// SPDX-License-Identifier: Apache-2.0

package sim

// A site whose registration expires, and that comes back: in some seeds, when all has been quiet, all tunnel routers
// of one site lose power for longer than registrations and mappings last, while a host of another site goes on
// sending to it, one way only. Nothing tells the sender that it is back. Its packets have to be encapsulated soon
// after the site has registered again. Nothing else happens.

import (
	"loci/sim/internal/checks"
	"net/netip"
	"slices"
	"time"

	"loci/sim/internal/packets"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

const (
	returnStream = 10
	// returnShare is in how many seeds without another ending that happens.
	returnShare = 0.15
	// awayShortest is longer than a registration and a mapping last, awayLongest shorter than a lost EID-Prefix
	// is asked for.
	awayShortest = 4 * time.Minute
	awayLongest  = 8 * time.Minute
	// returnBar is how long after the registration packets are encapsulated again, and the time of its messages.
	returnBar = 8 * time.Second
	// returnTrips is how many messages follow each other then: to the Map-Resolver, the Map-Server, the ETR and
	// back, and a spare one.
	returnTrips = 5
	// reordered is how much later messages may come that are reordered.
	reordered = 300 * time.Millisecond
	// returnWatched is for how long packets are judged.
	returnWatched = 30 * time.Second
	returnLooks   = 50 * time.Millisecond
)

// siteReturn is the absence of a site; flow is nil before it is chosen.
type siteReturn struct {
	w            *world.World
	random       virtual.Random
	away         time.Duration
	flow         *sites.Flow
	prefix       *sites.SitePrefix
	registeredAt time.Duration // 0 before it has registered again
}

// drawReturn says whether that happens in this run, nil where it does not.
func drawReturn(w *world.World) *siteReturn {
	s := &siteReturn{w: w, random: virtual.NewRandom(w.Options.Seed, returnStream)}
	if !w.MayEnd() || !s.random.Chance(returnShare) {
		return nil
	}
	s.away = s.random.Between(awayShortest, awayLongest)
	return s
}

// Start puts it into the queue.
func (s *siteReturn) Start() { s.w.After(s.w.Options.Duration-time.Second, s.prepare) }

// Lasts is how much longer the run is.
func (s *siteReturn) Lasts() time.Duration { return 2*returnWatched + s.away }

// Begun reports whether it is known who is away.
func (s *siteReturn) Begun() bool { return s.flow != nil }

// prepare chooses the two sites, and lets the sender begin.
func (s *siteReturn) prepare() {
	for range 50 {
		p := virtual.Pick(s.random, virtual.Pick(s.random, s.w.Sites).Prefixes)
		f := s.w.FlowTo(p)
		if f == nil || !p.Site.MayEnd() || !f.From.Site.MayEnd() {
			continue
		}
		s.flow, s.prefix = f, p
		s.w.Every(time.Second, func() { s.w.Transmit(f, false) })
		s.w.After(10*time.Second, s.leave)
		return
	}
}

// leave takes the power from all tunnel routers of the site, for a time.
func (s *siteReturn) leave() {
	w, site := s.w, s.prefix.Site
	w.Stats.Faults["registration-lost"]++
	w.Trace.Note(w.Now, site.XTRs[0].Index, nil, func() string { return "FAULT " + site.Name + " is away until its registration has expired" })
	for _, x := range site.XTRs {
		w.Router(x).PowerOff()
	}
	w.After(s.away, func() {
		w.Trace.Note(w.Now, site.XTRs[0].Index, nil, func() string { return "END of the absence of " + site.Name })
		for _, x := range site.XTRs {
			w.Router(x).Boot()
		}
		w.Every(returnLooks, s.look)
	})
}

// look notes when all Map-Servers have the registration.
func (s *siteReturn) look() {
	lacks := func(server *sites.Router) bool {
		for range s.w.Router(server).Node.RegistrationsOf(s.prefix.Prefix) {
			return false
		}
		return true
	}
	if s.registeredAt == 0 && !slices.ContainsFunc(s.w.Servers, lacks) {
		s.registeredAt = s.w.Now
		s.w.Trace.Note(s.w.Now, s.prefix.Site.XTRs[0].Index, nil, func() string { return s.prefix.Site.Name + " is registered again" })
	}
}

// Lost judges nothing: packets to a site that is away are lost.
func (s *siteReturn) Lost(*world.Router, packets.Payload, netip.Addr, string) {}

// Forwarded judges packets of the flow after the return.
func (s *siteReturn) Forwarded(by *world.Router, f *sites.Flow, verdict string) {
	if f != s.flow || s.registeredAt == 0 || verdict == "encapsulate" {
		return
	}
	trip := s.w.Network.MaxDelay + s.w.Network.Jitter
	if s.w.Network.Reorder > 0 {
		trip += reordered
	}
	if since := s.w.Now - s.registeredAt; since > returnBar+returnTrips*trip {
		e, _ := by.MappingFor(f)
		s.w.Fail(by, checks.InvariantReturn, "%s after %s has registered again a packet from %s was not encapsulated but: %s; the map-cache has %s",
			since, s.prefix.Prefix, f, verdict, e.Mapping)
	}
}

// Sent judges nothing: what leaves a tunnel router is judged by Forwarded.
func (s *siteReturn) Sent(*sites.Flow, uint32) {}

// HandedOver judges nothing: the sites have no siblings, or they are not judged.
func (s *siteReturn) HandedOver(_, _ *world.Router) {}

// SPDX-License-Identifier: Apache-2.0

package sim

// Faults of relays: they die and return, the path between two routers is cut, their addresses change, and their operators make
// mistakes: a site that is missing in a policy, a static mapping that is missing or leads back.

import (
	"fmt"
	"net/netip"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

const (
	// relayLostForever and hopLostForever are in how many of the runs with relays an RTR, or the path between two RTRs, is gone to the
	// end of the run.
	relayLostForever = 0.5
	hopLostForever   = 0.4
	// loopHops bounds how often a packet goes round a loop: with duplicates their number grows with each hop.
	loopHops = 24
)

func relayFaults() []Fault {
	return []Fault{
		{"relay-crash", 40 * time.Second, fellRelay((*world.Router).Kill)},
		{"relay-power-loss", 90 * time.Second, fellRelay((*world.Router).PowerOff)},
		{"relay-restart", 10 * time.Second, fellRelay(func(r *world.Router) { r.Stop(true) })},
		{"relay-link", 60 * time.Second, cutRelayLink},
		{"hop-cut", 90 * time.Second, cutHop},
		{"hop-cut", 90 * time.Second, cutHop},
		{"relay-address", time.Second, moveRelay},
		{"relay-policy", 30 * time.Second, barFromRelay},
		{"relay-loop", 20 * time.Second, loopRelays},
		{"relay-mapping-lost", 40 * time.Second, misplaceMappings},
	}
}

func pickRelay(w *world.World) *sites.Router { return virtual.Pick(w.Relaying, w.Relays) }

// fellRelay takes a relay away, with its tables or without.
func fellRelay(how func(*world.Router)) func(*world.World) (string, func()) {
	return func(w *world.World) (string, func()) { return fell(w, pickRelay(w), how) }
}

// cutRelayLink cuts a link of a relay; no router is told.
func cutRelayLink(w *world.World) (string, func()) {
	r := pickRelay(w)
	l := &r.Station.Links[w.Relaying.IntN(len(r.Station.Links))]
	l.Cut++
	return r.Name + " " + l.Addr.String(), func() { l.Cut-- }
}

// cutHop cuts the path between a relay and another router, of a site or of the core.
func cutHop(w *world.World) (string, func()) {
	a, b := pickRelay(w), virtual.Pick(w.Relaying, w.XTRs)
	if w.Relaying.Chance(0.5) {
		b = pickRelay(w)
	}
	if a == b {
		return "", nil
	}
	w.Network.Sever(&a.Station, &b.Station, 1)
	return a.Name + " and " + b.Name, func() { w.Network.Sever(&a.Station, &b.Station, -1) }
}

// moveRelay gives a relay another address, and that to all that have it in their configuration.
func moveRelay(w *world.World) (string, func()) {
	r := pickRelay(w)
	l := &r.Station.Links[w.Relaying.IntN(len(r.Station.Links))]
	old := l.Addr
	w.Network.SetOwner(old, nil)
	l.Addr = w.NewAddress(old.Is4())
	w.Network.Attach(&r.Station)
	w.ConfigureAround(r)
	return r.Name + " " + old.String() + " becomes " + l.Addr.String(), func() {}
}

// barFromRelay takes a site out of a relay's policies.
func barFromRelay(w *world.World) (string, func()) {
	r := pickRelay(w)
	if len(r.Relay.Serves) == 0 {
		return "", nil
	}
	s := virtual.Pick(w.Relaying, r.Relay.Serves)
	r.Relay.Barred[s]++
	w.Router(r).Configure()
	return s.Name + " at " + r.Name, func() {
		r.Relay.Barred[s]--
		w.Router(r).Configure()
	}
}

// misplaceMappings takes the static mappings of an RTR away that stands before sites: it finds itself as their locator.
func misplaceMappings(w *world.World) (string, func()) {
	for _, s := range w.Sites {
		if r := s.Via.Before; r != nil && r.Relay.Mislaid == 0 {
			r.Relay.Mislaid++
			w.Router(r).Configure()
			return r.Name, func() {
				r.Relay.Mislaid--
				w.Router(r).Configure()
			}
		}
	}
	return "", nil
}

// loopRelays has two relays send packets of some EID-Prefix to each other, and sends some.
func loopRelays(w *world.World) (string, func()) {
	rtrs := w.RelaysThatAre(control.RoleRTR)
	at := w.Relaying.IntN(len(rtrs))
	a, b := rtrs[at], rtrs[(at+1)%len(rtrs)]
	if a == b || len(a.Relay.Loops)+len(b.Relay.Loops) > 0 {
		return "", nil
	}
	p, err := lisp.PrefixFromNetip(0, netip.PrefixFrom(netip.AddrFrom4([4]byte{14}), 16))
	if err != nil {
		panic(err)
	}
	a.Relay.Loops = []sites.Loop{{Prefix: p, To: b}}
	b.Relay.Loops = []sites.Loop{{Prefix: p, To: a}}
	w.Router(a).Configure()
	w.Router(b).Configure()
	for i := range 3 {
		w.After(time.Duration(i)*time.Second, func() { sendRound(w, a, p, 2+w.Relaying.IntN(loopHops)) })
	}
	return a.Name + " and " + b.Name, func() {
		a.Relay.Loops, b.Relay.Loops = nil, nil
		w.Router(a).Configure()
		w.Router(b).Configure()
	}
}

// planRelayFaults puts the faults of relays into the queue, and those that have no end.
func planRelayFaults(w *world.World, end time.Duration) {
	planFaultsOf(w, w.Relaying, relayFaults(), end)
	if w.Relaying.Chance(relayLostForever) {
		w.After(w.Relaying.Between(end/2, end), func() { loseRelay(w) })
	}
	if w.Relaying.Chance(hopLostForever) {
		w.After(w.Relaying.Between(end/2, end), func() { loseHop(w) })
	}
}

// loseRelay takes an RTR that is nothing else away for good: paths go past it, or sites use others.
func loseRelay(w *world.World) {
	r := w.Router(virtual.Pick(w.Relaying, w.Relays))
	if r.Relay.Is(control.RolePETR) || r.Relay.StandsBefore(w.Sites) || r.Down > 0 || r.Node == nil {
		return
	}
	r.Down++
	r.PowerOff()
	noteForGood(w, "relay-lost-for-good", r.Name)
}

// loseHop cuts the path between two RTRs for good. There may be no other way to a site behind one.
func loseHop(w *world.World) {
	rtrs := w.RelaysThatAre(control.RoleRTR)
	a, b := virtual.Pick(w.Relaying, rtrs), virtual.Pick(w.Relaying, rtrs)
	if a != b && !a.Relay.StandsBefore(w.Sites) && !b.Relay.StandsBefore(w.Sites) {
		w.Network.Sever(&a.Station, &b.Station, 1)
		noteForGood(w, "hop-lost-for-good", a.Name+" and "+b.Name)
	}
}

func noteForGood(w *world.World, fault, what string) {
	w.Stats.Faults[fault]++
	w.Trace.Note(w.Now, -1, []byte(what), func() string { return fmt.Sprintf("FAULT %s: %s", fault, what) })
}

// SPDX-License-Identifier: Apache-2.0

package sim

// Faults: what goes wrong, and ends again before the time for faults is over. Each
// turns a state of the world and derives the configurations anew; faults may overlap.

import (
	"fmt"
	"loci/sim/internal/checks"
	"math/bits"
	"slices"
	"time"

	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

// firstFault leaves time for the first registrations.
const firstFault = 15 * time.Second

// Fault is a kind of trouble. It begins at once and says what it is; end undoes it.
type Fault struct {
	name    string
	longest time.Duration
	begin   func(w *world.World) (what string, end func())
}

func allFaults() []Fault {
	return []Fault{
		{"crash", 40 * time.Second, crash},
		{"power-loss", 60 * time.Second, losePower},
		{"orderly-restart", 10 * time.Second, restart},
		{"link-flap", 10 * time.Second, flapLink},
		{"link-down", 90 * time.Second, cutLink},
		{"new-address", time.Second, changeAddress},
		{"swapped-addresses", time.Second, swapAddresses},
		{"new-policy", time.Second, changePolicy},
		{"wrong-key", 4 * time.Minute, useWrongKey},
		{"key-rotation", 20 * time.Second, rotateKey},
		{"withdrawal", time.Minute, withdraw},
		{"site-barred", time.Minute, bar},
		{"partition", time.Minute, part},
		{"heavy-loss", 30 * time.Second, loseHeavily},
		{"server-crash", 30 * time.Second, crashServer},
		{"status-bit", 40 * time.Second, lowerStatusBit},
		{"forged-unreachable", 20 * time.Second, forgeUnreachable},
		{"server-loss", 30 * time.Second, loseServer},
	}
}

// planFaults puts the run's faults into the queue.
func planFaults(w *world.World) { planFaultsOf(w, w.Random, allFaults(), w.Options.FaultsEnd()) }

// planFaultsOf puts faults of some kinds into it, at the times that chance gives, until the end.
func planFaultsOf(w *world.World, r virtual.Random, kinds []Fault, end time.Duration) {
	for at := firstFault; len(kinds) > 0; {
		at += r.Between(w.Flavour.FaultGap/4, w.Flavour.FaultGap*7/4)
		if at >= end {
			return
		}
		f := virtual.Pick(r, kinds)
		lasts := min(r.Between(f.longest/50, f.longest), end-at-time.Millisecond)
		w.After(at, func() { strike(w, f, max(lasts, 0)) })
	}
}

func strike(w *world.World, f Fault, lasts time.Duration) {
	what, end := f.begin(w)
	if end == nil {
		return // nothing to hit
	}
	w.Stats.Faults[f.name]++
	w.Trace.Note(w.Now, -1, []byte(what), func() string {
		return fmt.Sprintf("FAULT %s: %s, for %s", f.name, what, lasts.Round(time.Millisecond))
	})
	w.After(lasts, func() {
		w.Trace.Note(w.Now, -1, []byte(what), func() string { return "END of " + f.name + ": " + what })
		end()
	})
}

// crash kills a process; the data plane goes on with what it has, and is adopted.
func crash(w *world.World) (string, func()) {
	return fell(w, virtual.Pick(w.Random, w.XTRs), (*world.Router).Kill)
}

// losePower takes a tunnel router's tables with it.
func losePower(w *world.World) (string, func()) {
	return fell(w, virtual.Pick(w.Random, w.XTRs), (*world.Router).PowerOff)
}

// restart is a stop in order.
func restart(w *world.World) (string, func()) {
	return fell(w, virtual.Pick(w.Random, w.XTRs), func(r *world.Router) { r.Stop(true) })
}

// crashServer kills a Map-Server or Map-Resolver, which has what its store kept.
func crashServer(w *world.World) (string, func()) {
	return fell(w, virtual.Pick(w.Random, slices.Concat(w.Servers, w.Resolvers)), (*world.Router).CrashWithStore)
}

// loseServer makes one forget everything.
func loseServer(w *world.World) (string, func()) {
	return fell(w, virtual.Pick(w.Random, slices.Concat(w.Servers, w.Resolvers)), (*world.Router).LoseStore)
}

func fell(w *world.World, planned *sites.Router, how func(*world.Router)) (string, func()) {
	r := w.Router(planned)
	if r.Down > 0 || r.Node == nil {
		return "", nil
	}
	r.Down++
	how(r)
	return r.Name, func() {
		r.Down--
		r.ResetClock()
		r.Boot()
	}
}

// flapLink cuts a link without anybody noticing.
func flapLink(w *world.World) (string, func()) {
	l, r := pickLink(w)
	l.Cut++
	return r.Name + " " + l.Addr.String(), func() { l.Cut-- }
}

// cutLink cuts a link; the tunnel router notices, then its siblings do.
func cutLink(w *world.World) (string, func()) {
	l, r := pickLink(w)
	if len(r.Station.Links) == 1 {
		return flapLink(w)
	}
	l.Cut++
	notice := func(by int) {
		w.After(w.Random.Between(0, time.Second), func() {
			l.Noticed += by
			w.Configure(r.Site)
		})
	}
	notice(1)
	return r.Name + " " + l.Addr.String(), func() {
		l.Cut--
		notice(-1)
	}
}

func pickLink(w *world.World) (*world.Link, *sites.Router) {
	r := virtual.Pick(w.Random, w.XTRs)
	return &r.Station.Links[w.Random.IntN(len(r.Station.Links))], r
}

// changeAddress gives a link an address that no router had.
func changeAddress(w *world.World) (string, func()) {
	l, r := pickLink(w)
	old := l.Addr
	w.Network.SetOwner(old, nil)
	l.Addr = w.NewAddress(old.Is4())
	w.Network.Attach(&r.Station)
	w.Configure(r.Site)
	return r.Name + " " + old.String() + " becomes " + l.Addr.String(), func() {}
}

// swapAddresses gives two sites each other's address: packets by old mappings reach the
// wrong tunnel router, which must not deliver them.
func swapAddresses(w *world.World) (string, func()) {
	a, ra := pickLink(w)
	b, rb := pickLink(w)
	if ra.Site == rb.Site || a.Addr.Is4() != b.Addr.Is4() {
		return "", nil
	}
	w.Truth.Leave(a.Addr, ra.Site, w.Now)
	w.Truth.Leave(b.Addr, rb.Site, w.Now)
	a.Addr, b.Addr = b.Addr, a.Addr
	w.Network.Attach(&ra.Station)
	w.Network.Attach(&rb.Station)
	w.Configure(ra.Site)
	w.Configure(rb.Site)
	return ra.Name + " and " + rb.Name + " swap " + a.Addr.String() + " and " + b.Addr.String(), func() {}
}

// changePolicy draws other priorities and weights.
func changePolicy(w *world.World) (string, func()) {
	s := virtual.Pick(w.Random, w.Sites)
	s.DrawPolicy(w.Random)
	w.Configure(s)
	return s.Name, func() {}
}

// useWrongKey gives a tunnel router a wrong key, and another policy to register with it.
func useWrongKey(w *world.World) (string, func()) {
	r := virtual.Pick(w.Random, w.XTRs)
	r.WrongKey++
	r.Site.DrawPolicy(w.Random)
	w.Configure(r.Site)
	return r.Name, func() {
		r.WrongKey--
		w.Configure(r.Site)
	}
}

// rotateKey brings in a key with another ID: the Map-Servers first, then the site; the
// old one goes last.
func rotateKey(w *world.World) (string, func()) {
	s := virtual.Pick(w.Random, w.Sites)
	if len(s.Keys) > 1 {
		return "", nil
	}
	s.Keys = append(s.Keys, s.NewKey(w.Random, s.Keys[0].ID+1))
	configureServers(w)
	w.After(time.Second, func() {
		s.KeyInUse = len(s.Keys) - 1
		w.Configure(s)
	})
	return s.Name, func() {
		w.After(2*time.Second, func() {
			s.Keys, s.KeyInUse = s.Keys[1:], 0
			w.Configure(s)
			configureServers(w)
		})
	}
}

func configureServers(w *world.World) {
	for _, s := range w.Servers {
		w.Router(s).Configure()
	}
}

// withdraw takes a site's Database away for a time.
func withdraw(w *world.World) (string, func()) {
	s := virtual.Pick(w.Random, w.Sites)
	s.Withdrawn++
	w.Configure(s)
	return s.Name, func() {
		s.Withdrawn--
		w.Configure(s)
	}
}

// bar takes a site out of the Map-Servers' configuration for a time. Sites with others'
// EIDs inside theirs are left: without them the answers would be others. A negative
// answer to a barred site's EIDs lives for 15 minutes, so that the site has to be one
// that no flow asks about.
func bar(w *world.World) (string, func()) {
	s := virtual.Pick(w.Random, w.Sites)
	if w.Flavour.Overlaps || slices.ContainsFunc(w.Flows, func(f *sites.Flow) bool { return f.Destination == s }) {
		return "", nil
	}
	s.Barred++
	w.Truth.Barred = true
	configureServers(w)
	forgetAccepted(w)
	return s.Name, func() {
		s.Barred--
		configureServers(w)
		forgetAccepted(w)
	}
}

// forgetAccepted: with the site, the Map-Servers forgot which nonces they saw.
func forgetAccepted(w *world.World) {
	for _, s := range w.Servers {
		w.Router(s).Accepted = checks.Acceptance{}
	}
}

// part divides the core in two.
func part(w *world.World) (string, func()) {
	if w.Network.Parted > 0 {
		return "", nil
	}
	w.Network.Parted++
	w.Network.Divide = uint(w.Random.Uint32())
	what := fmt.Sprintf("%d of 32 on one side", bits.OnesCount(w.Network.Divide))
	return what, func() { w.Network.Parted-- }
}

// loseHeavily loses most of what is sent.
func loseHeavily(w *world.World) (string, func()) {
	w.Network.LostHeavy++
	return "everywhere", func() { w.Network.LostHeavy-- }
}

// SPDX-License-Identifier: Apache-2.0

package sim

// Faults: what goes wrong, and ends again before the time for faults is over. Each
// turns a state of the world and derives the configurations anew; faults may overlap.

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// firstFault leaves time for the first registrations.
const firstFault = 15 * time.Second

// fault is a kind of trouble. It begins at once and says what it is; end undoes it.
type fault struct {
	name    string
	longest time.Duration
	begin   func(w *world) (what string, end func())
}

func faults() []fault {
	return []fault{
		{"crash", 40 * time.Second, (*world).crash},
		{"power-loss", 60 * time.Second, (*world).losePower},
		{"orderly-restart", 10 * time.Second, (*world).restart},
		{"link-flap", 10 * time.Second, (*world).flapLink},
		{"link-down", 90 * time.Second, (*world).cutLink},
		{"new-address", time.Second, (*world).changeAddress},
		{"swapped-addresses", time.Second, (*world).swapAddresses},
		{"new-policy", time.Second, (*world).changePolicy},
		{"wrong-key", 4 * time.Minute, (*world).useWrongKey},
		{"key-rotation", 20 * time.Second, (*world).rotateKey},
		{"withdrawal", time.Minute, (*world).withdraw},
		{"site-barred", time.Minute, (*world).bar},
		{"partition", time.Minute, (*world).part},
		{"heavy-loss", 30 * time.Second, (*world).loseHeavily},
		{"server-crash", 30 * time.Second, (*world).crashServer},
		{"status-bit", 40 * time.Second, (*world).lowerStatusBit},
		{"forged-unreachable", 20 * time.Second, (*world).forgeUnreachable},
		{"server-loss", 30 * time.Second, (*world).loseServer},
	}
}

// planFaults puts the run's faults into the queue.
func (w *world) planFaults() { w.planFaultsOf(w.random, faults(), w.options.faultsEnd()) }

// planFaultsOf puts faults of some kinds into it, at the times that chance gives, until the end.
func (w *world) planFaultsOf(r random, kinds []fault, end time.Duration) {
	for at := firstFault; len(kinds) > 0; {
		at += r.between(w.flavour.faultGap/4, w.flavour.faultGap*7/4)
		if at >= end {
			return
		}
		f := pick(r, kinds)
		lasts := min(r.between(f.longest/50, f.longest), end-at-time.Millisecond)
		w.after(at, func() { w.strike(f, max(lasts, 0)) })
	}
}

func (w *world) strike(f fault, lasts time.Duration) {
	what, end := f.begin(w)
	if end == nil {
		return // nothing to hit
	}
	w.stats.Faults[f.name]++
	w.trace.note(w.now, -1, []byte(what), func() string {
		return fmt.Sprintf("FAULT %s: %s, for %s", f.name, what, lasts.Round(time.Millisecond))
	})
	w.after(lasts, func() {
		w.trace.note(w.now, -1, []byte(what), func() string { return "END of " + f.name + ": " + what })
		end()
	})
}

// crash kills a process; the data plane goes on with what it has, and is adopted.
func (w *world) crash() (string, func()) { return w.fell(pick(w.random, w.xtrs), (*router).kill) }

// losePower takes a tunnel router's tables with it.
func (w *world) losePower() (string, func()) {
	return w.fell(pick(w.random, w.xtrs), (*router).powerOff)
}

// restart is a stop in order.
func (w *world) restart() (string, func()) {
	return w.fell(pick(w.random, w.xtrs), func(r *router) { r.stop(true) })
}

// crashServer kills a Map-Server or Map-Resolver, which has what its store kept.
func (w *world) crashServer() (string, func()) {
	return w.fell(pick(w.random, slices.Concat(w.servers, w.resolvers)), (*router).crashWithStore)
}

// loseServer makes one forget everything.
func (w *world) loseServer() (string, func()) {
	return w.fell(pick(w.random, slices.Concat(w.servers, w.resolvers)), (*router).loseStore)
}

func (r *router) kill() { r.stop(false) }

func (w *world) fell(r *router, how func(*router)) (string, func()) {
	if r.down > 0 || r.node == nil {
		return "", nil
	}
	r.down++
	how(r)
	return r.name, func() {
		r.down--
		r.resetClock()
		r.boot()
	}
}

// resetClock lets a machine come up with its clock set, by a little: nonces of
// Map-Registers depend on it (RFC 9301 s.5.6).
func (r *router) resetClock() {
	if r.w.flavour.skew > 0 {
		r.clock.offset += r.random.between(-2*time.Second, 2*time.Second)
	}
}

// flapLink cuts a link without anybody noticing.
func (w *world) flapLink() (string, func()) {
	l, r := w.pickLink()
	l.cut++
	return r.name + " " + l.addr.String(), func() { l.cut-- }
}

// cutLink cuts a link; the tunnel router notices, then its siblings do.
func (w *world) cutLink() (string, func()) {
	l, r := w.pickLink()
	if len(r.links) == 1 {
		return w.flapLink()
	}
	l.cut++
	notice := func(by int) {
		w.after(w.random.between(0, time.Second), func() {
			l.noticed += by
			r.site.configure()
		})
	}
	notice(1)
	return r.name + " " + l.addr.String(), func() {
		l.cut--
		notice(-1)
	}
}

func (w *world) pickLink() (*link, *router) {
	r := pick(w.random, w.xtrs)
	return &r.links[w.random.IntN(len(r.links))], r
}

// configure brings what changed to all tunnel routers of the site, one after the other.
func (s *site) configure() {
	for _, x := range s.xtrs {
		x.judgeLinks()
	}
	s.raiseVersion()
	for i, x := range s.xtrs {
		if i == 0 {
			x.configure()
			continue
		}
		x.w.after(x.w.random.between(0, 500*time.Millisecond), x.configure)
	}
}

// changeAddress gives a link an address that nobody had.
func (w *world) changeAddress() (string, func()) {
	l, r := w.pickLink()
	old := l.addr
	w.network.setOwner(old, nil)
	l.addr = w.newAddress(old.Is4())
	w.network.attach(r)
	r.site.configure()
	return r.name + " " + old.String() + " becomes " + l.addr.String(), func() {}
}

// swapAddresses gives two sites each other's address: packets by old mappings reach the
// wrong tunnel router, which must not deliver them.
func (w *world) swapAddresses() (string, func()) {
	a, ra := w.pickLink()
	b, rb := w.pickLink()
	if ra.site == rb.site || a.addr.Is4() != b.addr.Is4() {
		return "", nil
	}
	w.network.leave(a.addr, ra)
	w.network.leave(b.addr, rb)
	a.addr, b.addr = b.addr, a.addr
	w.network.attach(ra)
	w.network.attach(rb)
	ra.site.configure()
	rb.site.configure()
	return ra.name + " and " + rb.name + " swap " + a.addr.String() + " and " + b.addr.String(), func() {}
}

// changePolicy draws other priorities and weights.
func (w *world) changePolicy() (string, func()) {
	s := pick(w.random, w.sites)
	s.drawPolicy(w.random)
	s.configure()
	return s.name, func() {}
}

// useWrongKey gives a tunnel router a wrong key, and another policy to register with it.
func (w *world) useWrongKey() (string, func()) {
	r := pick(w.random, w.xtrs)
	r.wrongKey++
	r.site.drawPolicy(w.random)
	r.site.configure()
	return r.name, func() {
		r.wrongKey--
		r.site.configure()
	}
}

// rotateKey brings in a key with another ID: the Map-Servers first, then the site; the
// old one goes last.
func (w *world) rotateKey() (string, func()) {
	s := pick(w.random, w.sites)
	if len(s.keys) > 1 {
		return "", nil
	}
	s.keys = append(s.keys, s.newKey(w.random, s.keys[0].ID+1))
	w.configureServers()
	w.after(time.Second, func() {
		s.keyInUse = len(s.keys) - 1
		s.configure()
	})
	return s.name, func() {
		w.after(2*time.Second, func() {
			s.keys, s.keyInUse = s.keys[1:], 0
			s.configure()
			w.configureServers()
		})
	}
}

func (w *world) configureServers() {
	for _, s := range w.servers {
		s.configure()
	}
}

// withdraw takes a site's Database away for a time.
func (w *world) withdraw() (string, func()) {
	s := pick(w.random, w.sites)
	s.withdrawn++
	s.configure()
	return s.name, func() {
		s.withdrawn--
		s.configure()
	}
}

// bar takes a site out of the Map-Servers' configuration for a time. Sites with others'
// EIDs inside theirs are left: without them the answers would be others. A negative
// answer to a barred site's EIDs lives for 15 minutes, so that the site has to be one
// that nobody asks about.
func (w *world) bar() (string, func()) {
	s := pick(w.random, w.sites)
	if w.flavour.overlaps || slices.ContainsFunc(w.flows, func(f *flow) bool { return f.destination == s }) {
		return "", nil
	}
	s.barred++
	w.truth.barred = true
	w.configureServers()
	w.forgetAccepted()
	return s.name, func() {
		s.barred--
		w.configureServers()
		w.forgetAccepted()
	}
}

// forgetAccepted: with the site, the Map-Servers forgot which nonces they saw.
func (w *world) forgetAccepted() {
	for _, s := range w.servers {
		s.accepted = acceptance{}
	}
}

// part divides the core in two.
func (w *world) part() (string, func()) {
	if w.network.parted > 0 {
		return "", nil
	}
	w.network.parted++
	w.network.divide = uint(w.random.Uint32())
	what := fmt.Sprintf("%d of 32 on one side", bits.OnesCount(w.network.divide))
	return what, func() { w.network.parted-- }
}

// loseHeavily loses most of what is sent.
func (w *world) loseHeavily() (string, func()) {
	w.network.lostHeavy++
	return "everywhere", func() { w.network.lostHeavy-- }
}

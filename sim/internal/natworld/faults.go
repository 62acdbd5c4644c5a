// SPDX-License-Identifier: Apache-2.0

package natworld

// Faults: what goes wrong, and ends again before the time for faults is over.

import (
	"fmt"
	"time"

	"loci/sim/internal/virtual"
)

const firstFault = 15 * time.Second

// fault is a kind of trouble. It begins at once and says what it is; end undoes it, nil where there was nothing to hit.
type fault struct {
	name    string
	longest time.Duration
	begin   func(w *World) (what string, end func())
}

func faults() []fault {
	return []fault{
		{"nat-forgets", 0, forget},
		{"nat-rewrites-ports", 0, rewrite},
		{"nat-gets-address", 0, readdress},
		{"nat-restarts", 40 * time.Second, restartBox},
		{"move", 8 * time.Second, move},
		{"move", 8 * time.Second, move},
		{"crash", 40 * time.Second, ofSite(crashed)},
		{"power-loss", time.Minute, ofSite(withoutPower)},
		{"orderly-restart", 10 * time.Second, ofSite(restarted)},
		{"rtr-crash", 30 * time.Second, ofRTR(crashed)},
		{"rtr-power-loss", 70 * time.Second, ofRTR(withoutPower)},
		{"rtr-freeze", 70 * time.Second, ofRTR(frozen)},
		{"rtr-restart", 10 * time.Second, ofRTR(restarted)},
		{"server-crash", 70 * time.Second, ofServer(crashed)},
		{"partition", 30 * time.Second, part},
		{"heavy-loss", 30 * time.Second, loseHeavily},
	}
}

func (w *World) planFaults() {
	end := w.options.FaultsEnd()
	for at := firstFault; ; {
		at += w.random.Between(w.flavour.faultGap/4, w.flavour.faultGap*7/4)
		if at >= end {
			return
		}
		f := virtual.Pick(w.random, faults())
		lasts := min(w.random.Between(f.longest/50, f.longest), end-at-time.Millisecond)
		w.after(at, func() { w.strike(f, max(lasts, 0)) })
	}
}

func (w *World) strike(f fault, lasts time.Duration) {
	what, end := f.begin(w)
	if end == nil {
		return
	}
	w.stats.Faults[f.name]++
	w.trace.Note(w.now, -1, []byte(what), func() string {
		return fmt.Sprintf("FAULT %s: %s, for %s", f.name, what, lasts.Round(time.Millisecond))
	})
	w.after(lasts, func() {
		w.trace.Note(w.now, -1, []byte(what), func() string { return "END of " + f.name + ": " + what })
		end()
	})
}

func (w *World) pickBox() *box {
	if len(w.boxes) == 0 {
		return nil
	}
	return virtual.Pick(w.random, w.boxes)
}

// forget has a NAT forget its bindings.
func forget(w *World) (string, func()) {
	b := w.pickBox()
	if b == nil {
		return "", nil
	}
	b.Forget()
	return b.name, func() {}
}

// rewrite has it give its bindings other ports.
func rewrite(w *World) (string, func()) {
	b := w.pickBox()
	if b == nil {
		return "", nil
	}
	b.Rewrite(w.now, w.random)
	return b.name, func() {}
}

// readdress gives a NAT another address on the Internet, as a provider does every night.
func readdress(w *World) (string, func()) {
	b := w.pickBox()
	if b == nil || b.behind != nil || w.options.OneAddress {
		return "", nil
	}
	b.Forget()
	l := &b.station.Links[w.random.IntN(len(b.station.Links))]
	old := l.Addr
	w.network.SetOwner(old, nil)
	l.Addr = w.network.New(b.v4)
	w.network.Attach(&b.station)
	b.Public = b.addresses()
	return fmt.Sprintf("%s: %s becomes %s", b.name, old, l.Addr), func() {}
}

// restartBox has it carry nothing for a time, and forget.
func restartBox(w *World) (string, func()) {
	b := w.pickBox()
	if b == nil {
		return "", nil
	}
	b.down++
	b.Forget()
	return b.name, func() { b.down-- }
}

// move brings a node to another NAT, where it has another address, and what it left goes to who has that address next.
func move(w *World) (string, func()) {
	r, b := virtual.Pick(w.random, w.sites), w.pickBox()
	if b == nil || r.behind == nil || r.behind == b || r.down > 0 || r.away > 0 || w.options.OneAddress {
		return "", nil
	}
	what := fmt.Sprintf("%s from %s to %s", r.name, r.behind.name, b.name)
	r.leave()
	r.away++
	return what, func() {
		r.away--
		r.enter(b)
		r.configure()
	}
}

// failure is a way in which a router fails; end has it work again.
type failure struct {
	begin, end func(*router)
}

var (
	// crashed is a process that is killed; its data plane goes on. A Map-Server begins with what its disk has: all
	// but the last second.
	crashed = failure{func(r *router) { r.stop(false) }, bootLater}
	// restarted is a stop in order.
	restarted = failure{func(r *router) { r.stop(true) }, bootLater}
	// withoutPower takes the data plane away too, at an RTR all bindings.
	withoutPower = failure{func(r *router) { r.stop(false); r.plane = nil }, bootLater}
	// frozen keeps it from doing anything; its clock goes on, and what became due is done first afterwards.
	frozen = failure{func(r *router) { r.frozen = true }, thaw}
)

// bootLater is for a clock that is another one by then.
func bootLater(r *router) {
	r.clock.Offset += r.random.Between(-2*time.Second, 2*time.Second)
	r.boot()
}

func thaw(r *router) {
	r.frozen, r.timerAt = false, r.w.now
	r.timer(r.w.now)
}

// ofSite, ofRTR and ofServer have one of these routers fail for a time.
func ofSite(f failure) func(*World) (string, func()) {
	return func(w *World) (string, func()) { return f.strike(virtual.Pick(w.random, w.sites)) }
}

func ofRTR(f failure) func(*World) (string, func()) {
	return func(w *World) (string, func()) { return f.strike(virtual.Pick(w.random, w.rtrs)) }
}

func ofServer(f failure) func(*World) (string, func()) {
	return func(w *World) (string, func()) { return f.strike(w.servers[0]) }
}

// strike hits a router that works.
func (f failure) strike(r *router) (what string, end func()) {
	if r.down > 0 || r.node == nil || r.away > 0 {
		return "", nil
	}
	r.down++
	f.begin(r)
	return r.name, func() {
		r.down--
		f.end(r)
	}
}

// part divides the core in two.
func part(w *World) (string, func()) {
	if w.network.Parted > 0 {
		return "", nil
	}
	w.network.Parted++
	w.network.Divide = uint(w.random.Uint32())
	return "a part of all routers", func() { w.network.Parted-- }
}

// loseHeavily loses most of what is sent.
func loseHeavily(w *World) (string, func()) {
	w.network.LostHeavy++
	return "everywhere", func() { w.network.LostHeavy-- }
}

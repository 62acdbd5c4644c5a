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
		{"crash", 40 * time.Second, crash},
		{"power-loss", time.Minute, losePower},
		{"orderly-restart", 10 * time.Second, restart},
		{"rtr-crash", 30 * time.Second, crashRTR},
		{"rtr-power-loss", 70 * time.Second, losePowerOfRTR},
		{"server-crash", 70 * time.Second, crashServer},
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

// crash kills a node's process; its data plane goes on.
func crash(w *World) (string, func()) {
	return fell(virtual.Pick(w.random, w.sites), func(r *router) { r.stop(false) })
}

// losePower takes the data plane away too.
func losePower(w *World) (string, func()) {
	return fell(virtual.Pick(w.random, w.sites), cutPower)
}

func cutPower(r *router) {
	r.stop(false)
	r.plane = nil
}

// restart is a stop in order.
func restart(w *World) (string, func()) {
	return fell(virtual.Pick(w.random, w.sites), func(r *router) { r.stop(true) })
}

func crashRTR(w *World) (string, func()) {
	return fell(w.rtr, func(r *router) { r.stop(false) })
}

// losePowerOfRTR takes all bindings.
func losePowerOfRTR(w *World) (string, func()) { return fell(w.rtr, cutPower) }

// crashServer has the Map-Server begin with what its disk has: all but the last second.
func crashServer(w *World) (string, func()) {
	return fell(w.servers[0], func(r *router) { r.stop(false) })
}

// fell keeps a router down for a time.
func fell(r *router, how func(*router)) (string, func()) {
	if r.down > 0 || r.node == nil || r.away > 0 {
		return "", nil
	}
	r.down++
	how(r)
	return r.name, func() {
		r.down--
		r.clock.Offset += r.random.Between(-2*time.Second, 2*time.Second)
		r.boot()
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

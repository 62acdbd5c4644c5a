// SPDX-License-Identifier: Apache-2.0

package sim

// Links whose carrier comes and goes, and what the tunnel routers make of it: control.HoldDown
// chooses between links that are up. It never leaves a router without one while there is one.

import (
	"fmt"
	"time"

	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

const (
	flapStream = 5
	// flapShare is in how many seeds links flap.
	flapShare = 0.3
	// flapSite is how often all links of a site flap together, and not those of one router.
	flapSite = 0.4
)

// planFlaps puts the losses of carrier of those seeds that have them into the queue.
func planFlaps(w *world.World, end time.Duration) {
	w.Flapper = virtual.NewRandom(w.Options.Seed, flapStream)
	if w.Flapper.Chance(flapShare) {
		planFaultsOf(w, w.Flapper, []Fault{{"carrier-flaps", 40 * time.Second, flapCarrier}}, end)
	}
}

// flapCarrier lets some links of a site lose their carrier again and again, for a moment each time.
func flapCarrier(w *world.World) (string, func()) {
	x := virtual.Pick(w.Flapper, w.XTRs)
	hit, one := []*sites.Router{x}, w.Flapper.IntN(len(x.Station.Links)+1) // none of them: all
	if w.Flapper.Chance(flapSite) {
		hit, one = x.Site.XTRs, len(x.Station.Links)
	}
	over := false
	var flap func()
	flap = func() {
		if over {
			return
		}
		turnCarriers(w, hit, one, 1)
		w.After(w.Flapper.Between(200*time.Millisecond, 600*time.Millisecond), func() {
			turnCarriers(w, hit, one, -1)
			w.After(w.Flapper.Between(100*time.Millisecond, 5*time.Second), flap)
		})
	}
	flap()
	return fmt.Sprintf("%s and %d more, link %d of %d", x.Name, len(hit)-1, one+1, len(x.Station.Links)), func() { over = true }
}

// turnCarriers takes carriers, or gives them back: of one link of each router, or of all. Each router notices by itself.
func turnCarriers(w *world.World, hit []*sites.Router, one, by int) {
	for _, r := range hit {
		links := r.Station.Links
		if one < len(links) {
			links = links[one : one+1]
		}
		for i := range links {
			links[i].Cut += by
		}
		w.After(w.Flapper.Between(0, 30*time.Millisecond), func() {
			for i := range links {
				links[i].Noticed += by
			}
			w.Configure(r.Site)
		})
	}
}

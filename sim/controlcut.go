// SPDX-License-Identifier: Apache-2.0

package sim

// Control messages that the core loses while it carries data packets, among all other faults. Where nothing else happens, package
// world judges what comes of it.

import (
	"fmt"
	"time"

	"loci/sim/internal/network"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

const (
	controlCutStream = 9
	// controlCutShare is in how many seeds that happens.
	controlCutShare = 0.3
)

// planControlCuts puts the cuts of those seeds that have them into the queue.
func planControlCuts(w *world.World, end time.Duration) {
	r := virtual.NewRandom(w.Options.Seed, controlCutStream)
	if !r.Chance(controlCutShare) {
		return
	}
	planFaultsOf(w, r, []Fault{{"control-dropped", 40 * time.Second, func(w *world.World) (string, func()) {
		c := network.ControlCut[*sites.Router]{}
		if r.Chance(0.3) {
			return "everywhere", w.Network.CutControl(c)
		}
		x := virtual.Pick(r, w.XTRs)
		c.At, c.Towards = &x.Station, r.Chance(0.6)
		c.From = !c.Towards || r.Chance(0.5)
		return fmt.Sprintf("%s, towards it: %t, from it: %t", x.Name, c.Towards, c.From), w.Network.CutControl(c)
	}}}, end)
}

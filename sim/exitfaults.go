// SPDX-License-Identifier: Apache-2.0

package sim

// A proxy ETR that dies (RFC 6832 s.6.1), for good or for a while, and leaves one of a worse priority: packets of sites
// to hosts outside LISP have to go by the living one as soon as RLOC-probes can say so. It happens that long before all
// has to be quiet, and when nothing else does: from then on none of these packets may be lost.

import (
	"slices"
	"time"

	"loci/control"
	"loci/sim/internal/report"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

const (
	exitStream = 15
	// exitLossShare is in how many seeds with two proxy ETRs the better one dies, exitLostForever how often for
	// good.
	exitLossShare   = 0.8
	exitLostForever = 0.6
	// exitAwayShortest and exitAwayLongest are for how long it does otherwise.
	exitAwayShortest = 5 * time.Second
	exitAwayLongest  = time.Minute
	// exitProbes is how long after the first unanswered RLOC-probe a locator is given up, or one that answers again
	// is taken back, and packets that were under way have arrived.
	exitProbes = 8 * time.Second
)

// planExitLoss puts it into the queue.
func planExitLoss(w *world.World, end time.Duration) {
	own := virtual.NewRandom(w.Options.Seed, exitStream)
	if !own.Chance(exitLossShare) {
		return
	}
	away := time.Duration(0)
	if !own.Chance(exitLostForever) {
		away = own.Between(exitAwayShortest, exitAwayLongest)
	}
	latest := end + report.ConvergenceBound - exitBound(w)
	w.After(latest-away, func() { loseExit(w, away) })
}

// exitBound is how long sites take to find out, by the longest interval of their RLOC-probes and
// its jitter, a fifth.
func exitBound(w *world.World) (bound time.Duration) {
	for _, x := range w.XTRs {
		if len(x.Site.Via.Exits) > 0 {
			bound = max(bound, sites.Probing(x).Interval*5/4+exitProbes)
		}
	}
	return bound
}

// loseExit has the proxy ETR that sites prefer die, for good where away is 0. One that is RTR as well may be all that
// other sites have.
func loseExit(w *world.World, away time.Duration) {
	exits := w.RelaysThatAre(control.RolePETR)
	isByExit := func(f *sites.Flow) bool { return f.Outside && len(f.From.Site.Via.Exits) > 0 }
	if len(exits) < 2 || exits[0].Relay.Is(control.RoleRTR) || !slices.ContainsFunc(w.Flows, isByExit) {
		return // no packet would go by the other one
	}
	first := w.Router(exits[0])
	if first.Down > 0 || first.Node == nil {
		return
	}
	if away > 0 {
		powerOff := func(w *world.World) (string, func()) { return fell(w, exits[0], (*world.Router).PowerOff) }
		strike(w, Fault{name: "proxy-etr-lost", begin: powerOff}, away)
		return
	}
	first.Down++
	first.PowerOff()
	// It is PITR, too: the hosts behind it have no other.
	w.Flows = slices.DeleteFunc(w.Flows, func(f *sites.Flow) bool { return f.From == first.Router })
	noteForGood(w, "proxy-etr-lost-for-good", first.Name)
}

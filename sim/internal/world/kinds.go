// SPDX-License-Identifier: Apache-2.0

package world

// Kinds of sites that only some seeds have, and some of their sites: tunnel routers that know each other
// as siblings (siblings.go), mappings with Map-Versions (versions.go), many EID-Prefixes (wide.go), EID-Prefixes
// that are refused (refused.go), and relays on the way (relays.go).
// All of it is drawn from streams of chance of its own: seeds without them stay what they are.

import "loci/sim/internal/virtual"

const (
	kindStream = 4
	// siblingShare, versionShare and wideShare are in how many seeds there are such sites.
	siblingShare = 0.3
	versionShare = 0.3
	wideShare    = 0.2
	// statusBitShare is in how many of the seeds with siblings data packets carry Locator-Status-Bits.
	statusBitShare = 0.6
)

// drawKinds says which kinds of sites this run has.
func drawKinds(w *World) {
	r := virtual.NewRandom(w.Options.Seed, kindStream)
	w.Kinds = r
	f := &w.Flavour
	f.Siblings, f.versions, f.Wide = r.Chance(siblingShare), r.Chance(versionShare), r.Chance(wideShare)
	f.statusBits = f.Siblings && r.Chance(statusBitShare)
	f.strange, f.Outage = r.Chance(strangeShare), r.Chance(outageShare)
	f.refusesWhole = f.strange && r.Chance(0.5)
}

// addKinds makes a site one of such a kind, or of several.
func addKinds(w *World, s *Site) {
	if w.Flavour.Siblings {
		makeSiblings(w, s)
	}
	if w.Flavour.versions {
		giveVersions(w, s)
	}
	if w.Flavour.Wide {
		widen(w, s)
	}
	if w.Flavour.strange {
		makeStrange(w, s)
	}
	if w.Flavour.Relays {
		makeRelayed(w, s)
	}
}

// startKinds puts what such sites bring about into the queue.
func startKinds(w *World) {
	if w.Flavour.Wide {
		startCensus(w)
	}
	w.scenario.StartKinds()
}

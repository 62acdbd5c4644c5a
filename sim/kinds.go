// SPDX-License-Identifier: Apache-2.0

package sim

// Kinds of sites that only some seeds have, and some of their sites: tunnel routers that know each other
// as siblings (siblings.go), mappings with Map-Versions (versions.go), many EID-Prefixes (wide.go), and EID-Prefixes
// that are refused (refused.go).
// All of it is drawn from a stream of chance of its own: seeds without them stay what they are.

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
func (w *world) drawKinds() {
	r := newRandom(w.options.Seed, kindStream)
	w.kinds = r
	f := &w.flavour
	f.siblings, f.versions, f.wide = r.chance(siblingShare), r.chance(versionShare), r.chance(wideShare)
	f.statusBits = f.siblings && r.chance(statusBitShare)
	f.strange, f.outage = r.chance(strangeShare), r.chance(outageShare)
	f.refusesWhole = f.strange && r.chance(0.5)
}

// addKinds makes a site one of such a kind, or of several.
func (w *world) addKinds(s *site) {
	if w.flavour.siblings {
		w.makeSiblings(s)
	}
	if w.flavour.versions {
		w.giveVersions(s)
	}
	if w.flavour.wide {
		w.widen(s)
	}
	if w.flavour.strange {
		w.makeStrange(s)
	}
}

// startKinds puts what such sites bring about into the queue.
func (w *world) startKinds() {
	if w.flavour.wide {
		w.startCensus()
	}
	if w.flavour.siblings {
		w.loseCoreForever()
	}
	if end := w.options.faultsEnd(); end > 0 {
		w.planFaultsOf(w.kinds, w.kindFaults(), end)
	}
}

// kindFaults are the faults that only such sites have.
func (w *world) kindFaults() []fault {
	var list []fault
	if w.flavour.siblings {
		list = append(list, siblingFaults()...)
	}
	if w.flavour.wide {
		list = append(list, wideFaults()...)
	}
	if w.flavour.outage {
		list = append(list, outageFaults()...)
	}
	return list
}

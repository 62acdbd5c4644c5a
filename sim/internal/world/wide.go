// SPDX-License-Identifier: Apache-2.0

package world

// Wide sites: tens of EID-Prefixes within one, each with locators of its own. To register them takes several
// messages, and no Map-Reply has room for all of them (RFC 9301 s.5.5): what is answered instead must still
// lead every packet by the mapping that is its own. In the end each EID-Prefix is asked for once.

import (
	"loci/sim/internal/checks"
	"time"

	"loci/sim/internal/report"
	"loci/sim/internal/sites"
)

const (
	// widePause is the distance of the census' packets, censusWait when its answers have to be there.
	widePause  = 20 * time.Millisecond
	censusWait = 5 * time.Second
)

// startCensus asks for every EID-Prefix of the wide sites when all has to be in order.
func startCensus(w *World) {
	at := w.CalmSince() + report.ConvergenceBound + time.Second
	for _, s := range w.Sites {
		for i, p := range s.Parts() {
			w.After(at+time.Duration(i)*widePause, func() { w.ask(p) })
		}
	}
}

// ask sends a packet to an EID-Prefix from some other site, and wants it resolved then.
func (w *World) ask(p *sites.SitePrefix) {
	f := w.FlowTo(p)
	if f == nil || w.Flavour.Tight {
		return
	}
	w.Transmit(f, false)
	w.After(censusWait, func() {
		if w.Unresolved(f) == "" {
			return
		}
		w.Transmit(f, false) // the mapping may have ended meanwhile
		w.After(censusWait, func() {
			if problem := w.Unresolved(f); problem != "" {
				w.Fail(w.Router(f.From), checks.InvariantConvergence, "asked for %s: %s", p.Prefix, problem)
			}
		})
	})
}

// startKinds puts what such sites bring about into the queue.
func startKinds(w *World) {
	if w.Flavour.Wide {
		startCensus(w)
	}
	w.scenario.StartKinds()
}

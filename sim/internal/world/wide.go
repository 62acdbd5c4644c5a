// SPDX-License-Identifier: Apache-2.0

package world

// Wide sites: tens of EID-Prefixes within one, each with locators of its own. To register them takes several
// messages, and no Map-Reply has room for all of them (RFC 9301 s.5.5): what is answered instead must still
// lead every packet by the mapping that is its own. In the end each EID-Prefix is asked for once.

import (
	"net/netip"
	"time"

	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

const (
	wideFewest, wideMost = 20, 40
	// widePause is the distance of the census' packets, censusWait when its answers have to be there.
	widePause  = 20 * time.Millisecond
	censusWait = 5 * time.Second
)

// widen gives a site many EID-Prefixes. Few sites are enough: each costs as much as ten others.
func widen(w *World, s *Site) {
	if w.wides == 2 || w.Kinds.Chance(0.8) {
		return
	}
	w.wides++
	k := w.wides
	whole := netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(k)}), 16)
	if w.Kinds.Chance(0.3) {
		whole = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb9, 0, byte(k)}), 48)
	}
	s.wideAt = len(s.Prefixes)
	w.addPrefix(s, whole, 10)
	step := 3
	if whole.Addr().Is6() {
		step = 7
	}
	for i := range wideFewest + w.Kinds.IntN(wideMost-wideFewest+1) {
		b := whole.Addr().AsSlice()
		b[step-1] = byte(4 * (i + 1))
		part, _ := netip.AddrFromSlice(b)
		w.addPrefix(s, netip.PrefixFrom(part, 8*step), 10)
	}
}

// Parts are the EID-Prefixes within that of a wide site, none for other sites.
func (s *Site) Parts() []*SitePrefix {
	if s.wideAt == 0 {
		return nil
	}
	return s.Prefixes[s.wideAt+1:]
}

// isWithdrawn reports whether the site's operator took an EID-Prefix out: every second, third, … one.
func (s *Site) isWithdrawn(i int) bool {
	return s.Fewer > 0 && s.wideAt > 0 && i > s.wideAt && i%s.Fewer == 0
}

// startCensus asks for every EID-Prefix of the wide sites when all has to be in order.
func startCensus(w *World) {
	at := w.calmSince() + report.ConvergenceBound + time.Second
	for _, s := range w.Sites {
		for i, p := range s.Parts() {
			w.After(at+time.Duration(i)*widePause, func() { w.ask(p) })
		}
	}
}

// ask sends a packet to an EID-Prefix from some other site, and wants it resolved then.
func (w *World) ask(p *SitePrefix) {
	f := FlowTo(w, p)
	if f == nil || w.Flavour.tight {
		return
	}
	w.Transmit(f, false)
	w.After(censusWait, func() {
		if w.unresolved(f) == "" {
			return
		}
		w.Transmit(f, false) // the mapping may have ended meanwhile
		w.After(censusWait, func() {
			if problem := w.unresolved(f); problem != "" {
				w.Fail(f.from, invariantConvergence, "asked for %s: %s", p.Prefix, problem)
			}
		})
	})
}

// FlowTo goes to a host of an EID-Prefix from that of another site; nil where there is none.
func FlowTo(w *World, to *SitePrefix) *Flow {
	for range 50 {
		x := virtual.Pick(w.Kinds, w.XTRs)
		from := virtual.Pick(w.Kinds, x.Site.Prefixes)
		sameSpace := from.Prefix.Instance() == to.Prefix.Instance() && from.Prefix.Kind() == to.Prefix.Kind()
		if sameSpace && x.Site != to.Site && len(from.Hosts) > 0 && len(to.Hosts) > 0 && !x.Site.Contains(to.Prefix) {
			return &Flow{from: x, source: from.Hosts[0], to: to.Hosts[0], Destination: to.Site}
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package sim

// Wide sites: tens of EID-Prefixes within one, each with locators of its own. To register them takes several
// messages, and no Map-Reply has room for all of them (RFC 9301 s.5.5): what is answered instead must still
// lead every packet by the mapping that is its own. In the end each EID-Prefix is asked for once.

import (
	"net/netip"
	"time"

	"loci/lisp"
)

const (
	wideFewest, wideMost = 20, 40
	// widePause is the distance of the census' packets, censusWait when its answers have to be there.
	widePause  = 20 * time.Millisecond
	censusWait = 5 * time.Second
)

// widen gives a site many EID-Prefixes. Few sites are enough: each costs as much as ten others.
func (w *world) widen(s *site) {
	if w.wides == 2 || w.kinds.chance(0.8) {
		return
	}
	w.wides++
	k := w.wides
	whole := netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(k)}), 16)
	if w.kinds.chance(0.3) {
		whole = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb9, 0, byte(k)}), 48)
	}
	s.wideAt = len(s.prefixes)
	w.addPrefix(s, whole, 10)
	step := 3
	if whole.Addr().Is6() {
		step = 7
	}
	for i := range wideFewest + w.kinds.IntN(wideMost-wideFewest+1) {
		b := whole.Addr().AsSlice()
		b[step-1] = byte(4 * (i + 1))
		part, _ := netip.AddrFromSlice(b)
		w.addPrefix(s, netip.PrefixFrom(part, 8*step), 10)
	}
}

// parts are the EID-Prefixes within that of a wide site, none for other sites.
func (s *site) parts() []*sitePrefix {
	if s.wideAt == 0 {
		return nil
	}
	return s.prefixes[s.wideAt+1:]
}

func wideFaults() []fault {
	return []fault{{"some-withdrawn", 60 * time.Second, (*world).withdrawSome}}
}

// withdrawSome takes some EID-Prefixes out of a wide site's Database for a time.
func (w *world) withdrawSome() (string, func()) {
	for _, s := range w.sites {
		if len(s.parts()) == 0 || s.fewer > 0 {
			continue
		}
		s.fewer = 2 + w.kinds.IntN(4)
		s.configure()
		return s.name, func() {
			s.fewer = 0
			s.configure()
		}
	}
	return "", nil
}

// isWithdrawn reports whether the site's operator took an EID-Prefix out: every second, third, … one.
func (s *site) isWithdrawn(i int) bool {
	return s.fewer > 0 && s.wideAt > 0 && i > s.wideAt && i%s.fewer == 0
}

// startCensus asks for every EID-Prefix of the wide sites when all has to be in order.
func (w *world) startCensus() {
	at := w.calmSince() + ConvergenceBound + time.Second
	for _, s := range w.sites {
		for i, p := range s.parts() {
			w.after(at+time.Duration(i)*widePause, func() { w.ask(p) })
		}
	}
}

// ask sends a packet to an EID-Prefix from some other site, and wants it resolved then.
func (w *world) ask(p *sitePrefix) {
	f := w.flowTo(p)
	if f == nil || w.flavour.tight {
		return
	}
	w.transmit(f, false)
	w.after(censusWait, func() {
		if w.unresolved(f) == "" {
			return
		}
		w.transmit(f, false) // the mapping may have ended meanwhile
		w.after(censusWait, func() {
			if problem := w.unresolved(f); problem != "" {
				w.fail(f.from, invariantConvergence, "asked for %s: %s", p.prefix, problem)
			}
		})
	})
}

// flowTo goes to a host of an EID-Prefix from that of another site; nil where there is none.
func (w *world) flowTo(to *sitePrefix) *flow {
	for range 50 {
		x := pick(w.kinds, w.xtrs)
		from := pick(w.kinds, x.site.prefixes)
		sameSpace := from.prefix.Instance() == to.prefix.Instance() && from.prefix.Kind() == to.prefix.Kind()
		if sameSpace && x.site != to.site && len(from.hosts) > 0 && len(to.hosts) > 0 && !x.site.contains(to.prefix) {
			return &flow{from: x, source: from.hosts[0], to: to.hosts[0], destination: to.site}
		}
	}
	return nil
}

// hasSaid reports whether the site of an EID-Prefix ever said that of it, or of a less specific one of its own,
// which an answer about it can be cut from while it is not registered.
func (t *truth) hasSaid(owner *sitePrefix, l lisp.Locator) bool {
	if t.locators[factOf(owner.prefix, l)] {
		return true
	}
	for _, p := range owner.site.prefixes {
		if p.prefix.Covers(owner.prefix) && t.locators[factOf(p.prefix, l)] {
			return true
		}
	}
	return false
}

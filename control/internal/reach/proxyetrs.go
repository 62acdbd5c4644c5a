// SPDX-License-Identifier: Apache-2.0

package reach

// Proxy ETRs (RFC 6832 s.6.1): the locators of negative entries whose packets go to them, and watched like others. An RLOC-probe names
// such an EID-Prefix. A proxy ETR is ETR for none, so that any answer says that it is there, and none says more.

import (
	"slices"

	"loci/control/internal/mapcache"
	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/lisp"
)

// proxyETRs are those of the configuration, and the entries whose packets go to them.
type proxyETRs struct {
	set   lisp.LocatorSet
	holes int         // entries
	hole  lisp.Prefix // the last of them that came
}

// has reports whether an RLOC is a proxy ETR.
func (x *proxyETRs) has(r lisp.RLOC) bool {
	return slices.ContainsFunc(x.set, func(l lisp.Locator) bool { return l.Path().Last() == r })
}

// isHole reports whether packets of a mapping go to proxy ETRs, if there are any.
func isHole(m lisp.Mapping, static bool) bool {
	return !static && m.Negative() && m.Action == lisp.ActionNativelyForward
}

// SetProxyETRs takes over other proxy ETRs, at once for all entries whose packets go to them.
func (p *Prober) SetProxyETRs(set lisp.LocatorSet) {
	x := &p.Table.proxies
	was := lisp.Mapping{Prefix: x.hole, Locators: x.set}
	if x.set.Equal(set) {
		return
	}
	if x.set = set; x.holes == 0 {
		return
	}
	is := lisp.Mapping{Prefix: x.hole, Locators: set}
	p.Table.Track(is) // before the others leave: what both have stays
	p.weigh(is, x.holes-1)
	p.weigh(was, 1-x.holes)
	p.untrack(was, false)
}

// weigh counts so many more mappings with the locators of a set that is tracked; fewer where negative.
func (p *Prober) weigh(m lisp.Mapping, mappings int) {
	t := &p.Table
	alone := mappings * aloneIn(m)
	for i := range m.Locators {
		l := &m.Locators[i]
		if !isWatched(l) {
			continue
		}
		if id, is := t.Paths.ByPath[l.Path()]; is {
			row := t.Paths.Rows.At(id)
			row.mappings, row.alone = row.mappings+mappings, row.alone+alone
		} else if _, row, known := t.Get(l.RLOC); known && l.Behind == "" {
			row.mappings, row.alone = row.mappings+mappings, row.alone+alone
		}
	}
}

// withProxyETRs is a mapping with the locators that are watched for it; holes says how many entries more, or fewer, there are.
func (x *proxyETRs) withProxyETRs(m lisp.Mapping, static bool, holes int) lisp.Mapping {
	if isHole(m, static) {
		x.holes += holes
		if holes > 0 {
			x.hole = m.Prefix
		}
		m.Locators = x.set
	}
	return m
}

// watchedOf are the locators that are watched for an entry.
func (x *proxyETRs) watchedOf(e *mapcache.Entry) lisp.LocatorSet {
	return settings.WithProxyETRs(e.Mapping, e.Static, x.set).Locators
}

// Used notes that an entry forwarded something.
func (p *Prober) Used(e *mapcache.Entry, at timing.Instant) {
	m := e.Mapping
	m.Locators = p.Table.proxies.watchedOf(e)
	p.Table.Used(m, at)
}

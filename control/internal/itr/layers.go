// SPDX-License-Identifier: Apache-2.0

package itr

// Two layers of encapsulation (RFC 9300 s.4): with a recursion-depth of 2 an RLOC that a mapping of Instance-ID 0 covers is an EID
// itself. Here is told what becomes of packets that go there, as the data plane decides it, and whether the mappings lead back. Nothing
// is resolved.

import (
	"fmt"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/status"
	"loci/lisp"
)

const (
	// maxLayers bounds what is told of one mapping.
	maxLayers = lisp.MaxLocators
	// maxFollowed bounds the mappings that are looked at to find out whether they lead back.
	maxFollowed = 64
	// twoLayers is the recursion-depth with which RLOCs are looked up.
	twoLayers = 2
)

// layering is a look at one mapping.
type layering struct {
	*mapCache
	layers   []status.SecondLayer
	followed int
}

// secondLayers says of each locator of a set, as the data plane was told it, what becomes of the second layer of its packets; nothing of
// those that are no EIDs.
func (c *mapCache) secondLayers(set lisp.LocatorSet) []status.SecondLayer {
	if c.h.Depth < twoLayers {
		return nil
	}
	w := layering{mapCache: c}
	for i := range set {
		if l := &set[i]; l.Usable() && !c.prober.Table.IsOwn(l.NextHop()) {
			w.lookUp(l.NextHop())
		}
	}
	return w.layers
}

// lookUp adds what becomes of packets to an RLOC.
func (w *layering) lookUp(to lisp.RLOC) {
	e := w.mappingOf(to)
	if e == nil {
		return
	}
	set := w.Entry(e).Mapping.Locators
	for i := range set {
		if len(w.layers) == maxLayers {
			return
		}
		if !set[i].Usable() {
			continue
		}
		via := set[i].NextHop()
		layer := status.SecondLayer{RLOC: to, Prefix: e.Mapping.Prefix, Through: via}
		next := w.mappingOf(via)
		switch {
		case w.prober.Table.IsOwn(via), next == e:
			layer.Problem, layer.LeadsBack = effect.LayerMappingLoop, true
		case next != nil, isLookedUp(&set[i]):
			layer.Problem, layer.LeadsBack = effect.LayerRecursionDepth, w.leadsBack([]*mapcache.Entry{e}, next)
		}
		w.layers = append(w.layers, layer)
	}
}

// isLookedUp reports whether the hop that a locator's packets go to is an EID by its L bit.
func isLookedUp(l *lisp.Locator) bool { return l.Bits.Has(int(l.Next), lisp.HopLookup) }

// mappingOf is the mapping with locators that covers an RLOC, nil where there is none. Proxy ETRs are for packets of hosts alone.
func (c *mapCache) mappingOf(r lisp.RLOC) *mapcache.Entry {
	_, e, ok := c.Longest(lisp.HostPrefix(0, lisp.EIDFromAddr(r.Addr())))
	if !ok || e.Mapping.Negative() {
		return nil
	}
	return e
}

// leadsBack reports whether a mapping leads to one again that it came by, or to this router.
func (w *layering) leadsBack(before []*mapcache.Entry, e *mapcache.Entry) bool {
	switch {
	case e == nil || w.followed == maxFollowed:
		return false
	case slices.Contains(before, e):
		return true
	}
	w.followed++
	before = append(before, e)
	return slices.ContainsFunc(w.Entry(e).Mapping.Locators, func(l lisp.Locator) bool {
		return l.Usable() && (w.prober.Table.IsOwn(l.NextHop()) || w.leadsBack(before, w.mappingOf(l.NextHop())))
	})
}

// noteLoop counts and tells of a new mapping that leads back.
func (c *mapCache) noteLoop(e *mapcache.Entry) {
	if c.h.Depth < twoLayers {
		return
	}
	set := c.Entry(e).Mapping.Locators
	layers := c.secondLayers(set)
	isBack := func(l lisp.Locator) bool { return l.Usable() && c.prober.Table.IsOwn(l.NextHop()) }
	detail := ""
	if at := slices.IndexFunc(set, isBack); at >= 0 && e.Mapping.Prefix.Instance() == 0 { // to RLOCs that it covers
		detail = fmt.Sprintf("RLOC %s is this router's", set[at].NextHop())
	}
	if at := slices.IndexFunc(layers, func(l status.SecondLayer) bool { return l.LeadsBack }); at >= 0 {
		l := &layers[at]
		detail = fmt.Sprintf("RLOC %s is an EID of %s, which leads back by RLOC %s: %s", l.RLOC, l.Prefix, l.Through, l.Problem)
	}
	if detail != "" {
		c.h.Count(counter.MappingLoop)
		c.h.Notice(effect.Notice{Kind: effect.NoticeMappingLoop, Prefix: e.Mapping.Prefix, Remote: e.From, Detail: detail})
	}
}

// SecondLayers says what becomes of the second layer of packets by a mapping of the map-cache.
func (r *ITR) SecondLayers(p lisp.Prefix) []status.SecondLayer {
	if r.h.Depth < twoLayers {
		return nil
	}
	_, e, ok := r.Cache.Get(p)
	if !ok {
		return nil
	}
	return r.Cache.secondLayers(r.Cache.Entry(e).Mapping.Locators)
}

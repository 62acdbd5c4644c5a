// SPDX-License-Identifier: Apache-2.0

package world

// Sites: who has which EIDs, keys and tunnel routers, and what their locators say. Sites
// of different Instance-IDs have the same EIDs on purpose.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/packets"
	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

// instances are those that sites are in; 0 has no LCAF, the others do.
var instances = []lisp.InstanceID{0, 0, 7, 4000, lisp.MaxInstanceID}

func (w *World) addSite() {
	r := w.Random
	s := &Site{Index: len(w.Sites), Name: fmt.Sprintf("site%d", len(w.Sites)+1), Instance: virtual.Pick(r, instances)}
	s.proxy, s.notify = r.Chance(0.5), r.Chance(0.8)
	s.merge = s.proxy && r.Chance(0.5) // who answers itself knows its own locators alone
	s.moreSpecifics = r.Chance(0.5)
	s.ttlMinutes = uint32(1 + r.IntN(report.MaxTTLMinutes))
	s.useTTL = s.notify && s.ttlMinutes == report.MaxTTLMinutes && r.Chance(0.3)
	s.Keys = []control.Key{s.NewKey(r, 1)}
	count := 1
	if w.Options.Routers-len(w.Routers) > 1 && r.Chance(0.35) {
		count = 2
	}
	// Without an xTR-ID, merging keeps a former address until its registration expires: `loci check` warns of it.
	s.WithoutXTRID = count == 1 && r.Chance(0.2) && !s.merge
	for i := range count {
		x := w.addRouter(fmt.Sprintf("%s-xtr%d", s.Name, i+1))
		x.Site, x.Station.Site = s, s.Index+1
		x.Station.Links = newLinks(w)
		w.Network.Attach(&x.Station)
		s.XTRs, w.XTRs = append(s.XTRs, x), append(w.XTRs, x)
	}
	addPrefixes(w, s)
	addKinds(w, s)
	s.DrawPolicy(r)
	s.versionOf = s.contents()
	w.Sites = append(w.Sites, s)
}

// NewKey draws a key with an ID.
func (s *Site) NewKey(r virtual.Random, id uint8) control.Key {
	secret := make([]byte, 8+r.IntN(24))
	r.Fill(secret)
	return control.Key{ID: id, Algorithm: uint8(1 + r.IntN(3)), Secret: secret, TruncatedMAC: r.Chance(0.3)}
}

func newLinks(w *World) []Link {
	var links []Link
	f := w.Flavour.Families
	for range 1 + w.Random.IntN(2) {
		if f.V4 {
			links = append(links, Link{Addr: w.NewAddress(true)})
		}
		if f.v6 {
			links = append(links, Link{Addr: w.NewAddress(false)})
		}
	}
	return links
}

// addPrefixes gives a site its EIDs: an IPv4 prefix, often an IPv6 one, sometimes a more
// specific one with locators of its own, and in some seeds part of another site's.
func addPrefixes(w *World, s *Site) {
	k := w.Truth.sitesIn(s.Instance)
	wide := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(k >> 8), byte(k), 0}), 24)
	w.addPrefix(s, wide, 10, 200)
	if w.Random.Chance(0.25) {
		w.addPrefix(s, netip.PrefixFrom(wide.Addr(), 26), 11)
	}
	if w.Random.Chance(0.5) {
		w.addPrefix(s, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, byte(k >> 8), byte(k)}), 48), 10)
	}
	if !w.Flavour.Overlaps || !s.proxy || !w.Random.Chance(0.3) {
		return
	}
	if within := overlapped(w, s); within != nil {
		w.addPrefix(s, netip.PrefixFrom(packets.Offset(within.Prefix.Netip().Addr(), 224), 28), 1)
	}
}

// Contains reports whether an EID-Prefix lies within one of the site's: its tunnel
// routers take that for the site's own affair, whichever router it is given to.
func (s *Site) Contains(p lisp.Prefix) bool {
	return slices.ContainsFunc(s.Prefixes, func(own *SitePrefix) bool { return own.Prefix.Covers(p) })
}

// overlapped finds a site whose EID-Prefix may have a part of another site in it. Both
// must be answered for by the Map-Servers, which alone know of both.
func overlapped(w *World, s *Site) *SitePrefix {
	for _, o := range w.Sites {
		if o.Instance == s.Instance && o.proxy && o.Prefixes[0].Prefix.Bits() == 24 && len(o.Prefixes[0].Hosts) == 2 {
			o.Prefixes[0].Hosts = o.Prefixes[0].Hosts[:1:1] // once for each site
			return o.Prefixes[0]
		}
	}
	return nil
}

func (w *World) addPrefix(s *Site, p netip.Prefix, hosts ...int) {
	prefix, err := lisp.PrefixFromNetip(s.Instance, p)
	if err != nil {
		panic(err)
	}
	sp := &SitePrefix{Site: s, Prefix: prefix}
	for _, h := range hosts {
		sp.Hosts = append(sp.Hosts, packets.Offset(p.Addr(), h))
	}
	if prefix.Bits() == 26 { // takes the first host of the wider one
		s.Prefixes[0].Hosts = s.Prefixes[0].Hosts[1:]
	}
	s.Prefixes = append(s.Prefixes, sp)
	w.Truth.own(sp)
}

// DrawPolicy chooses priorities and weights anew. One locator of a family is always of
// use, with siblings all of them: one of them may have to do.
func (s *Site) DrawPolicy(r virtual.Random) {
	for _, p := range s.Prefixes {
		p.policy = nil
		for i := range s.links() {
			policy := locatorPolicy{priority: uint8(1 + r.IntN(3)), weight: uint8(r.IntN(101))}
			if i > 1 && !s.Siblings && r.Chance(0.15) {
				policy.priority = lisp.PriorityUnused
			}
			p.policy = append(p.policy, policy)
		}
		p.pathPolicy = nil
		for range s.Via.paths {
			p.pathPolicy = append(p.pathPolicy, locatorPolicy{uint8(1 + r.IntN(fallback-1)), uint8(r.IntN(101))})
		}
	}
}

// ShareAlike has all locators of a site get packets: each of its routers knows by them that its path is whole.
func (s *Site) ShareAlike() {
	for _, p := range s.Prefixes {
		for i := range p.policy {
			p.policy[i] = locatorPolicy{1, 50}
		}
	}
	s.Configure()
}

// links are those of all tunnel routers of the site, in their order.
func (s *Site) links() []*Link {
	var all []*Link
	for _, x := range s.XTRs {
		for i := range x.Station.Links {
			all = append(all, &x.Station.Links[i])
		}
	}
	return all
}

// locators are those of a prefix as they are meant to be now: of one tunnel router, or
// of all when it is nil, with those unreachable that are cut off the core.
func (p *SitePrefix) locators(of *Router) lisp.LocatorSet {
	return p.locatorsBut(of, func(x *Router) bool { return x.Sibling.CoreLost > 0 })
}

// rightLocators are the sets that peers may have of a prefix: as they are meant to be, and, where a router cannot find
// out that it lost the core, with its locators reachable. A router clears its own R bits (RFC 9300 s.10), so what it
// cannot know is not demanded. Packets have to go past it all the same: who sends them probes.
func (p *SitePrefix) rightLocators() []lisp.LocatorSet {
	sets := []lisp.LocatorSet{p.locators(nil)}
	if slices.ContainsFunc(p.Site.XTRs, p.Site.isUnaware) {
		known := func(x *Router) bool { return x.Sibling.CoreLost > 0 && !p.Site.isUnaware(x) }
		sets = append(sets, p.locatorsBut(nil, known))
	}
	return sets
}

// locatorsBut has those of some routers unreachable, where the locators are those of all.
func (p *SitePrefix) locatorsBut(of *Router, isLost func(*Router) bool) lisp.LocatorSet {
	var list []lisp.Locator
	i := 0
	for _, x := range p.Site.XTRs {
		for l := range x.Station.Links {
			if of == nil || of == x {
				list = append(list, p.byPaths(i, &x.Station.Links[l], of != nil || !isLost(x))...)
			}
			i++
		}
	}
	if p.Site.Via.Before != nil {
		list = append(list, p.Site.before(p))
	}
	set, err := lisp.NewLocatorSet(list...)
	if err != nil {
		panic(err)
	}
	return set
}

func locatorOf(l *Link, p locatorPolicy) lisp.Locator {
	locator := lisp.NewLocator(lisp.RLOCFromAddr(l.Addr))
	locator.Priority, locator.Weight, locator.Reachable = p.priority, p.weight, l.IsUp()
	return locator
}

// Configure brings what changed to all tunnel routers of the site, one after the other.
func (s *Site) Configure() {
	for _, x := range s.XTRs {
		x.judgeLinks()
	}
	s.raiseVersion()
	for i, x := range s.XTRs {
		if i == 0 {
			x.Configure()
			continue
		}
		x.W.After(x.W.Random.Between(0, 500*time.Millisecond), x.Configure)
	}
	if s.Via.Before != nil {
		s.Via.Before.Configure()
	}
}

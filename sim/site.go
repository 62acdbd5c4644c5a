// SPDX-License-Identifier: Apache-2.0

package sim

// Sites: who has which EIDs, keys and tunnel routers, and what their locators say. Sites
// of different Instance-IDs have the same EIDs on purpose.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
)

// site is a LISP site as its operator means it to be.
type site struct {
	index    int
	name     string
	instance lisp.InstanceID
	prefixes []*sitePrefix
	xtrs     []*router
	keys     []control.Key // those that the Map-Servers accept
	keyInUse int           // index in keys

	proxy         bool // P: the Map-Servers answer
	merge         bool // each tunnel router registers its own locators
	notify        bool
	useTTL        bool
	moreSpecifics bool // the Map-Servers name the widest EID-Prefix alone
	withoutXTRID  bool
	ttlMinutes    uint32

	siblings        bool // the tunnel routers are
	siblingInterval time.Duration
	probing         control.ProbingConfig // with siblings
	version         uint16                // Map-Version of all mappings, 0 for none
	versionOf       uint64                // contents that it stands for
	wideAt          int                   // where in prefixes the many begin, 0 for none
	strange         lisp.Prefix           // of nobody, in the Database all the same; zero for none
	fewer           int                   // every so many of them are withdrawn, 0 for none

	withdrawn int // faults that took the Database away
	barred    int // faults that took the site from the Map-Servers' configuration
}

// sitePrefix is an EID-Prefix of a site with the policy of each of its locators, by
// the order of the site's links.
type sitePrefix struct {
	site   *site
	prefix lisp.Prefix
	hosts  []netip.Addr // that no more specific one covers
	policy []locatorPolicy
}

type locatorPolicy struct{ priority, weight uint8 }

// instances are those that sites are in; 0 has no LCAF, the others do.
var instances = []lisp.InstanceID{0, 0, 7, 4000, lisp.MaxInstanceID}

func (w *world) addSite() {
	r := w.random
	s := &site{index: len(w.sites), name: fmt.Sprintf("site%d", len(w.sites)+1), instance: pick(r, instances)}
	s.proxy, s.notify = r.chance(0.5), r.chance(0.8)
	s.merge = s.proxy && r.chance(0.5) // who answers itself knows its own locators alone
	s.moreSpecifics = r.chance(0.5)
	s.ttlMinutes = uint32(1 + r.IntN(maxTTLMinutes))
	s.useTTL = s.notify && s.ttlMinutes == maxTTLMinutes && r.chance(0.3)
	s.keys = []control.Key{s.newKey(r, 1)}
	count := 1
	if w.options.Routers-len(w.routers) > 1 && r.chance(0.35) {
		count = 2
	}
	// Without an xTR-ID, merging keeps a former address until its registration expires: `loci check` warns of it.
	s.withoutXTRID = count == 1 && r.chance(0.2) && !s.merge
	for i := range count {
		x := w.addRouter(fmt.Sprintf("%s-xtr%d", s.name, i+1))
		x.site = s
		x.links = w.newLinks()
		w.network.attach(x)
		s.xtrs, w.xtrs = append(s.xtrs, x), append(w.xtrs, x)
	}
	w.addPrefixes(s)
	w.addKinds(s)
	s.drawPolicy(r)
	s.versionOf = s.contents()
	w.sites = append(w.sites, s)
}

func (s *site) newKey(r random, id uint8) control.Key {
	secret := make([]byte, 8+r.IntN(24))
	r.fill(secret)
	return control.Key{ID: id, Algorithm: uint8(1 + r.IntN(3)), Secret: secret, TruncatedMAC: r.chance(0.3)}
}

func (w *world) newLinks() []link {
	var links []link
	f := w.flavour.families
	for range 1 + w.random.IntN(2) {
		if f.v4 {
			links = append(links, link{addr: w.newAddress(true)})
		}
		if f.v6 {
			links = append(links, link{addr: w.newAddress(false)})
		}
	}
	return links
}

// addPrefixes gives a site its EIDs: an IPv4 prefix, often an IPv6 one, sometimes a more
// specific one with locators of its own, and in some seeds part of another site's.
func (w *world) addPrefixes(s *site) {
	k := w.truth.sitesIn(s.instance)
	wide := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(k >> 8), byte(k), 0}), 24)
	w.addPrefix(s, wide, 10, 200)
	if w.random.chance(0.25) {
		w.addPrefix(s, netip.PrefixFrom(wide.Addr(), 26), 11)
	}
	if w.random.chance(0.5) {
		w.addPrefix(s, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, byte(k >> 8), byte(k)}), 48), 10)
	}
	if !w.flavour.overlaps || !s.proxy || !w.random.chance(0.3) {
		return
	}
	if within := w.overlapped(s); within != nil {
		w.addPrefix(s, netip.PrefixFrom(offset(within.prefix.Netip().Addr(), 224), 28), 1)
	}
}

// contains reports whether an EID-Prefix lies within one of the site's: its tunnel
// routers take that for the site's own affair, whoever it is given to.
func (s *site) contains(p lisp.Prefix) bool {
	return slices.ContainsFunc(s.prefixes, func(own *sitePrefix) bool { return own.prefix.Covers(p) })
}

// overlapped finds a site whose EID-Prefix may have a part of another site in it. Both
// must be answered for by the Map-Servers, which alone know of both.
func (w *world) overlapped(s *site) *sitePrefix {
	for _, o := range w.sites {
		if o.instance == s.instance && o.proxy && o.prefixes[0].prefix.Bits() == 24 && len(o.prefixes[0].hosts) == 2 {
			o.prefixes[0].hosts = o.prefixes[0].hosts[:1:1] // once for each site
			return o.prefixes[0]
		}
	}
	return nil
}

func (w *world) addPrefix(s *site, p netip.Prefix, hosts ...int) {
	prefix, err := lisp.PrefixFromNetip(s.instance, p)
	if err != nil {
		panic(err)
	}
	sp := &sitePrefix{site: s, prefix: prefix}
	for _, h := range hosts {
		sp.hosts = append(sp.hosts, offset(p.Addr(), h))
	}
	if prefix.Bits() == 26 { // takes the first host of the wider one
		s.prefixes[0].hosts = s.prefixes[0].hosts[1:]
	}
	s.prefixes = append(s.prefixes, sp)
	w.truth.own(sp)
}

// offset is the address n behind the first of a prefix.
func offset(a netip.Addr, n int) netip.Addr {
	b := a.AsSlice()
	b[len(b)-1] += byte(n)
	moved, _ := netip.AddrFromSlice(b)
	return moved
}

// drawPolicy chooses priorities and weights anew. One locator of a family is always of
// use, with siblings all of them: one of them may have to do.
func (s *site) drawPolicy(r random) {
	for _, p := range s.prefixes {
		p.policy = nil
		for i := range s.links() {
			policy := locatorPolicy{priority: uint8(1 + r.IntN(3)), weight: uint8(r.IntN(101))}
			if i > 1 && !s.siblings && r.chance(0.15) {
				policy.priority = lisp.PriorityUnused
			}
			p.policy = append(p.policy, policy)
		}
	}
}

// links are those of all tunnel routers of the site, in their order.
func (s *site) links() []*link {
	var all []*link
	for _, x := range s.xtrs {
		for i := range x.links {
			all = append(all, &x.links[i])
		}
	}
	return all
}

// locators are those of a prefix as they are meant to be now: of one tunnel router, or
// of all when it is nil, with those unreachable that are cut off the core.
func (p *sitePrefix) locators(of *router) lisp.LocatorSet {
	var list []lisp.Locator
	i := 0
	for _, x := range p.site.xtrs {
		for l := range x.links {
			if of == nil || of == x {
				locator := x.links[l].locator(p.policy[i])
				locator.Reachable = locator.Reachable && (of != nil || x.sibling.coreLost == 0)
				list = append(list, locator)
			}
			i++
		}
	}
	set, err := lisp.NewLocatorSet(list...)
	if err != nil {
		panic(err)
	}
	return set
}

func (l *link) locator(p locatorPolicy) lisp.Locator {
	return lisp.Locator{
		RLOC: lisp.RLOCFromAddr(l.addr), Priority: p.priority, Weight: p.weight,
		MulticastPriority: lisp.PriorityUnused, Reachable: l.isUp(),
	}
}

// SPDX-License-Identifier: Apache-2.0

package sites

// Sites: who has which EIDs, keys and tunnel routers, and what their locators say. Sites
// of different Instance-IDs have the same EIDs on purpose.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/mirror"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

// Site is a LISP site as its operator means it to be.
type Site struct {
	plan     *Plan
	Index    int
	Name     string
	Instance lisp.InstanceID
	Prefixes []*SitePrefix
	XTRs     []*Router
	Keys     []control.Key // those that the Map-Servers accept
	KeyInUse int           // index in keys

	proxy         bool // P: the Map-Servers answer
	merge         bool // each tunnel router registers its own locators
	Notify        bool
	useTTL        bool
	moreSpecifics bool // the Map-Servers name the widest EID-Prefix alone
	WithoutXTRID  bool
	TtlMinutes    uint32

	Siblings        bool // the tunnel routers are
	SiblingInterval time.Duration
	Probing         control.ProbingConfig // with siblings
	Version         uint16                // Map-Version of all mappings, 0 for none
	versionOf       uint64                // contents that it stands for
	wideAt          int                   // where in prefixes the many begin, 0 for none
	Strange         lisp.Prefix           // of no site, in the Database all the same; zero for none
	Fewer           int                   // every so many of them are withdrawn, 0 for none

	Via Via

	Withdrawn int // faults that took the Database away
	Barred    int // faults that took the site from the Map-Servers' configuration
}

// SitePrefix is an EID-Prefix of a site with the policy of each of its locators, by the order of the site's links.
type SitePrefix struct {
	Site       *Site
	Prefix     lisp.Prefix
	Hosts      []netip.Addr // that no more specific one covers
	policy     []locatorPolicy
	pathPolicy []locatorPolicy // of paths, by their order
}

type locatorPolicy struct{ priority, weight uint8 }

// instances are those that sites are in; 0 has no LCAF, the others do.
var instances = []lisp.InstanceID{0, 0, 7, 4000, lisp.MaxInstanceID}

func (p *Plan) addSite() {
	r := p.Random
	s := &Site{plan: p, Index: len(p.Sites), Name: fmt.Sprintf("site%d", len(p.Sites)+1), Instance: virtual.Pick(r, instances)}
	s.proxy, s.Notify = r.Chance(0.5), r.Chance(0.8)
	s.merge = s.proxy && r.Chance(0.5) // who answers itself knows its own locators alone
	s.moreSpecifics = r.Chance(0.5)
	s.TtlMinutes = uint32(1 + r.IntN(report.MaxTTLMinutes))
	s.useTTL = s.Notify && s.TtlMinutes == report.MaxTTLMinutes && r.Chance(0.3)
	s.Keys = []control.Key{s.NewKey(r, 1)}
	count := 1
	if p.Options.Routers-len(p.Routers) > 1 && r.Chance(0.35) {
		count = 2
	}
	// Without an xTR-ID, merging keeps a former address until its registration expires: `loci check` warns of it.
	s.WithoutXTRID = count == 1 && r.Chance(0.2) && !s.merge
	for i := range count {
		x := p.addRouter(fmt.Sprintf("%s-xtr%d", s.Name, i+1))
		x.Site, x.Station.Site = s, s.Index+1
		x.Station.Links = p.newLinks()
		p.Network.Attach(&x.Station)
		s.XTRs, p.XTRs = append(s.XTRs, x), append(p.XTRs, x)
	}
	p.addPrefixes(s)
	p.addKinds(s)
	s.DrawPolicy(r)
	s.versionOf = s.contents()
	p.Sites = append(p.Sites, s)
}

// NewKey draws a key with an ID.
func (s *Site) NewKey(r virtual.Random, id uint8) control.Key {
	secret := make([]byte, 8+r.IntN(24))
	r.Fill(secret)
	return control.Key{ID: id, Algorithm: uint8(1 + r.IntN(3)), Secret: secret, TruncatedMAC: r.Chance(0.3)}
}

func (p *Plan) newLinks() []network.Link {
	var links []network.Link
	f := p.Flavour.Families
	for range 1 + p.Random.IntN(2) {
		if f.V4 {
			links = append(links, network.Link{Addr: p.NewAddress(true)})
		}
		if f.v6 {
			links = append(links, network.Link{Addr: p.NewAddress(false)})
		}
	}
	return links
}

// addPrefixes gives a site its EIDs: an IPv4 prefix, often an IPv6 one, sometimes a more
// specific one with locators of its own, and in some seeds part of another site's.
func (p *Plan) addPrefixes(s *Site) {
	k := p.Owners.sitesIn(s.Instance)
	wide := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(k >> 8), byte(k), 0}), 24)
	p.addPrefix(s, wide, 10, 200)
	if p.Random.Chance(0.25) {
		p.addPrefix(s, netip.PrefixFrom(wide.Addr(), 26), 11)
	}
	if p.Random.Chance(0.5) {
		p.addPrefix(s, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, byte(k >> 8), byte(k)}), 48), 10)
	}
	if !p.Flavour.Overlaps || !s.proxy || !p.Random.Chance(0.3) {
		return
	}
	if within := p.overlapped(s); within != nil {
		p.addPrefix(s, netip.PrefixFrom(packets.Offset(within.Prefix.Netip().Addr(), 224), 28), 1)
	}
}

// Contains reports whether an EID-Prefix lies within one of the site's: its tunnel
// routers take that for the site's own affair, whichever router it is given to.
func (s *Site) Contains(p lisp.Prefix) bool {
	return slices.ContainsFunc(s.Prefixes, func(own *SitePrefix) bool { return own.Prefix.Covers(p) })
}

// overlapped finds a site whose EID-Prefix may have a part of another site in it. Both
// must be answered for by the Map-Servers, which alone know of both.
func (p *Plan) overlapped(s *Site) *SitePrefix {
	for _, o := range p.Sites {
		if o.Instance == s.Instance && o.proxy && o.Prefixes[0].Prefix.Bits() == 24 && len(o.Prefixes[0].Hosts) == 2 {
			o.Prefixes[0].Hosts = o.Prefixes[0].Hosts[:1:1] // once for each site
			return o.Prefixes[0]
		}
	}
	return nil
}

func (p *Plan) addPrefix(s *Site, eids netip.Prefix, hosts ...int) {
	prefix, err := lisp.PrefixFromNetip(s.Instance, eids)
	if err != nil {
		panic(err)
	}
	sp := &SitePrefix{Site: s, Prefix: prefix}
	for _, h := range hosts {
		sp.Hosts = append(sp.Hosts, packets.Offset(eids.Addr(), h))
	}
	if prefix.Bits() == 26 { // takes the first host of the wider one
		s.Prefixes[0].Hosts = s.Prefixes[0].Hosts[1:]
	}
	s.Prefixes = append(s.Prefixes, sp)
	p.Owners.own(sp)
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
}

// links are those of all tunnel routers of the site, in their order.
func (s *Site) links() []*network.Link {
	var all []*network.Link
	for _, x := range s.XTRs {
		for i := range x.Station.Links {
			all = append(all, &x.Station.Links[i])
		}
	}
	return all
}

// Locators are those of a prefix as they are meant to be now: of one tunnel router, or
// of all when it is nil, with those unreachable that are cut off the core.
func (p *SitePrefix) Locators(of *Router) lisp.LocatorSet {
	return p.locatorsBut(of, func(x *Router) bool { return x.CoreLost > 0 })
}

// RightLocators are the sets that peers may have of a prefix: as they are meant to be, and, where a router cannot
// find out that it lost the core, with its locators reachable. A router clears its own R bits (RFC 9300 s.10), so
// what it cannot know is not demanded. Packets have to go past it all the same: who sends them probes.
func (p *SitePrefix) RightLocators() []lisp.LocatorSet {
	sets := []lisp.LocatorSet{p.Locators(nil)}
	if slices.ContainsFunc(p.Site.XTRs, p.Site.isUnaware) {
		known := func(x *Router) bool { return x.CoreLost > 0 && !p.Site.isUnaware(x) }
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

func locatorOf(l *network.Link, p locatorPolicy) lisp.Locator {
	locator := lisp.NewLocator(lisp.RLOCFromAddr(l.Addr))
	locator.Priority, locator.Weight, locator.Reachable = p.priority, p.weight, l.IsUp()
	return locator
}

// MayEnd leaves sites out that something has happened to, and those with siblings, which have an ending of their own.
func (s *Site) MayEnd() bool {
	return !s.Siblings && s.IsUntouched()
}

// IsUntouched reports whether no relay stands in the way of the site's packets, and the mapping system knows it.
func (s *Site) IsUntouched() bool {
	return s.Via.none() && s.Barred == 0 && s.Withdrawn == 0
}

// IsAcknowledged reports whether Map-Servers acknowledge all that the site registers.
func (s *Site) IsAcknowledged() bool { return s.Notify && s.Strange.IsZero() }

// Overlaps reports whether an EID-Prefix of one site covers one of the other, or is the same.
func (s *Site) Overlaps(other *Site) bool {
	within := func(a, b *Site) bool {
		return slices.ContainsFunc(a.Prefixes, func(p *SitePrefix) bool { return b.Contains(p.Prefix) })
	}
	return within(s, other) || within(other, s)
}

// isUnaware reports whether a router that lost the core may never find out: its Map-Servers send it no Map-Notify,
// and its hosts send nothing that it asks a Map-Resolver about again and again, or probes locators for. What does not
// come from its peers says nothing, for they may have nothing to say (RFC 9300 s.10).
func (s *Site) isUnaware(x *Router) bool {
	asks := func(f *Flow) bool { return f.From == x && !f.IsNative() }
	return x.CoreLost > 0 && !s.Notify && !slices.ContainsFunc(s.plan.Flows, asks)
}

// IsUsed reports whether a mapping's locators, as a router uses them, are those of the EID-Prefix.
func (p *SitePrefix) IsUsed(set lisp.LocatorSet, by *mirror.View) bool {
	uses := func(right lisp.LocatorSet) bool { return by.Uses(set, right) }
	return slices.ContainsFunc(p.RightLocators(), uses)
}

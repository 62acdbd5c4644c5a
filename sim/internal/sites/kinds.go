// SPDX-License-Identifier: Apache-2.0

package sites

// Kinds of sites that only some seeds have, and some of their sites: tunnel routers that know each other
// as siblings (siblings.go), mappings with Map-Versions (versions.go), many EID-Prefixes (wide.go), EID-Prefixes
// that are refused (refused.go), and relays on the way (relays.go).
// All of it is drawn from streams of chance of its own: seeds without them stay what they are.

import (
	"net/netip"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/mirror"
	"loci/sim/internal/network"
	"loci/sim/internal/virtual"
)

const (
	kindStream = 4
	// strangeShare and outageShare are in how many seeds there are sites with an EID-Prefix of no site, and such
	// outages.
	strangeShare = 0.25
	outageShare  = 0.2
	// siblingShare, versionShare and wideShare are in how many seeds there are such sites.
	siblingShare = 0.3
	versionShare = 0.3
	wideShare    = 0.2
	// statusBitShare is in how many of the seeds with siblings data packets carry Locator-Status-Bits.
	statusBitShare = 0.6
)

// drawKinds says which kinds of sites this run has.
func (p *Plan) drawKinds() {
	r := virtual.NewRandom(p.Options.Seed, kindStream)
	p.Kinds = r
	f := &p.Flavour
	f.Siblings, f.Versions, f.Wide = r.Chance(siblingShare), r.Chance(versionShare), r.Chance(wideShare)
	f.statusBits = f.Siblings && r.Chance(statusBitShare)
	f.strange, f.Outage = r.Chance(strangeShare), r.Chance(outageShare)
	f.RefusesWhole = f.strange && r.Chance(0.5)
}

// addKinds makes a site one of such a kind, or of several.
func (p *Plan) addKinds(s *Site) {
	if p.Flavour.Siblings {
		p.makeSiblings(s)
	}
	if p.Flavour.Versions {
		p.giveVersions(s)
	}
	if p.Flavour.Wide {
		p.widen(s)
	}
	if p.Flavour.strange {
		p.makeStrange(s)
	}
	if p.Flavour.Relays {
		p.makeRelayed(s)
	}
}

// makeSiblings makes the tunnel routers of some sites siblings. Those whose registrations are merged register
// their own locators alone, and have nothing to say of each other's.
func (p *Plan) makeSiblings(s *Site) {
	if len(s.XTRs) < 2 || s.merge || p.Kinds.Chance(0.35) {
		return
	}
	s.Siblings = true
	s.SiblingInterval = virtual.Pick(p.Kinds, []time.Duration{0, 10 * time.Second, 10 * time.Second, 15 * time.Second})
	s.Probing = virtual.Pick(p.Kinds, []control.ProbingConfig{{Interval: 30 * time.Second}, {Interval: time.Minute}, {Interval: time.Minute}})
	for _, x := range s.XTRs {
		x.Station.Inside = network.Link{Addr: p.NewAddress(x.Station.Links[0].Addr.Is4())}
		p.Network.Attach(&x.Station)
	}
}

// giveVersions gives the mappings of some sites a Map-Version, of some one that is about to begin anew.
func (p *Plan) giveVersions(s *Site) {
	if p.Kinds.Chance(0.3) {
		return
	}
	s.Version = uint16(1 + p.Kinds.IntN(lisp.MaxMapVersion))
	if p.Kinds.Chance(0.5) {
		s.Version = lisp.MaxMapVersion - uint16(p.Kinds.IntN(4))
	}
}

// makeStrange gives a site an EID-Prefix of no site, before or behind its own.
func (p *Plan) makeStrange(s *Site) {
	if s.Siblings || s.Parts() != nil || p.Kinds.Chance(0.5) {
		return
	}
	s.Notify = true // who is not told cannot find it out
	net := virtual.Pick(p.Kinds, []byte{9, 12})
	eids := netip.PrefixFrom(netip.AddrFrom4([4]byte{net, byte(s.Index >> 8), byte(s.Index), 0}), 24)
	if p.Kinds.Chance(0.3) {
		eids = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xba, byte(s.Index >> 8), byte(s.Index)}), 48)
	}
	strange, err := lisp.PrefixFromNetip(s.Instance, eids)
	if err != nil {
		panic(err)
	}
	s.Strange = strange
}

// contents is all that the site's mappings say, as a hash.
func (s *Site) contents() uint64 {
	t := virtual.Trace{}
	for _, p := range s.Prefixes {
		t.Mix(mirror.Hash(p.Locators(nil)))
	}
	return t.Hash
}

// RaiseVersion gives the site's mappings another version when they say something else (RFC 9302 s.6).
func (s *Site) RaiseVersion() {
	if s.Version == lisp.NullMapVersion {
		return
	}
	if now := s.contents(); now != s.versionOf {
		s.Version, s.versionOf = lisp.NextMapVersion(s.Version), now
	}
}

const wideFewest, wideMost = 20, 40

// widen gives a site many EID-Prefixes. Few sites are enough: each costs as much as ten others.
func (p *Plan) widen(s *Site) {
	if p.wides == 2 || p.Kinds.Chance(0.8) {
		return
	}
	p.wides++
	k := p.wides
	whole := netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(k)}), 16)
	if p.Kinds.Chance(0.3) {
		whole = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb9, 0, byte(k)}), 48)
	}
	s.wideAt = len(s.Prefixes)
	p.addPrefix(s, whole, 10)
	step := 3
	if whole.Addr().Is6() {
		step = 7
	}
	for i := range wideFewest + p.Kinds.IntN(wideMost-wideFewest+1) {
		b := whole.Addr().AsSlice()
		b[step-1] = byte(4 * (i + 1))
		part, _ := netip.AddrFromSlice(b)
		p.addPrefix(s, netip.PrefixFrom(part, 8*step), 10)
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

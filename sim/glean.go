// SPDX-License-Identifier: Apache-2.0

package sim

// Gleaning (RFC 9300 s.9), which the operators of some seeds turn on, and the stranger in
// the data plane, who is there in those seeds: packets to tunnel routers from whatever
// address and inner source it likes. Where a mapping is gleaned, the answers go to it for
// as long as the mapping system takes; what gleaning may do beyond that, nothing, is held
// here against the simulated wire.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/lisp"
	"loci/wire"
)

const (
	// gleanedFor is how long a gleaned mapping may be used without being verified.
	gleanedFor = 3 * time.Second
	// askedWithin is the longest pause between the Map-Requests that verify it.
	askedWithin = 10 * time.Second
	// toldWithin is how long the packet may have waited to be told of: a crash lasts so long.
	toldWithin = time.Minute
	// gleaningShare is in how many seeds mappings are gleaned.
	gleaningShare = 0.25
	// gleanStream is a stream of chance of its own: seeds without gleaning stay what they are.
	gleanStream = 3
	// lateShare is how often a data packet is told of so late that its source is known by then.
	lateShare = 0.1
	// forgedGap is the mean time between the stranger's packets.
	forgedGap = 700 * time.Millisecond
)

// drawGleaning says whether the tunnel routers of this run glean.
func (w *world) drawGleaning() {
	w.forger = forger{w: w, random: newRandom(w.options.Seed, gleanStream)}
	w.flavour.gleaning = w.forger.random.chance(gleaningShare)
}

// forger is the stranger in the data plane.
type forger struct {
	w      *world
	random random
}

func (f *forger) start() {
	if f.w.flavour.gleaning {
		f.w.after(firstFault, f.act)
	}
}

func (f *forger) act() {
	if f.w.now >= f.w.options.faultsEnd() {
		return
	}
	f.w.after(f.random.between(forgedGap/4, forgedGap*7/4), f.act)
	if f.random.chance(lateShare) {
		f.tellLate()
	}
	if m := f.forge(); m != nil {
		f.w.stats.PacketsHostile++
		f.w.network.carry(nil, m)
	}
}

// forge is a packet to a host of a site, in the name of a host of any site or of none, from
// the stranger's address or that of somebody else. Some are no LISP packets any more.
func (f *forger) forge() *mail {
	to := pick(f.random, f.w.xtrs)
	target := pick(f.random, to.site.prefixes)
	source, ok := f.innerSource(target)
	if !ok || len(target.hosts) == 0 {
		return nil
	}
	l := pick(f.random, to.links)
	outer := f.w.stranger.address(l.addr.Is4())
	if other := pick(f.random, pick(f.random, f.w.routers).links).addr; other.Is4() == l.addr.Is4() && f.random.chance(0.4) {
		outer = other
	}
	p := payload{from: uint32(to.index), instance: uint32(to.site.instance), site: uint32(to.site.index)}
	packet := encapsulated(outer, l.addr, to.site.instance, p.packet(source, pick(f.random, target.hosts)))
	if f.random.chance(0.1) { // its UDP or LISP header
		packet[len(packet)-len(inner(packet))-1-f.random.IntN(udpOctets+wire.DataHeaderOctets)] ^= 1 << f.random.IntN(8)
	}
	return &mail{
		from: netip.AddrPortFrom(outer, wire.DataPort), to: netip.AddrPortFrom(l.addr, wire.DataPort),
		payload: packet, data: true, hostile: true,
	}
}

// tellLate lets an engine tell of a packet whose source the map-cache knows: it came before
// the Map-Reply did, and waited to be told of.
func (f *forger) tellLate() {
	x := pick(f.random, f.w.xtrs)
	target := pick(f.random, x.site.prefixes)
	if x.node == nil || x.plane == nil || len(target.hosts) == 0 {
		return
	}
	var known []lisp.Prefix
	for p, e := range x.mirror.entries {
		if p.Kind() == target.prefix.Kind() && !e.Gleaned {
			known = append(known, p)
		}
	}
	if len(known) == 0 {
		return
	}
	slices.SortFunc(known, lisp.Prefix.Compare)
	p := pick(f.random, known)
	f.w.stats.PacketsHostile++
	x.plane.Raise(dataplane.Gleaned{
		Instance: p.Instance(), Source: p.EID(), Destination: lisp.EIDFromAddr(target.hosts[0]),
		From: lisp.RLOCFromAddr(f.w.stranger.address(x.links[0].addr.Is4())),
	})
	x.raiseMisses()
}

// innerSource is in whose name a packet is sent: a host of another site, or nobody's.
func (f *forger) innerSource(target *sitePrefix) (netip.Addr, bool) {
	for range 20 {
		p := pick(f.random, pick(f.random, f.w.sites).prefixes)
		if p.prefix.Instance() == target.prefix.Instance() && p.prefix.Kind() == target.prefix.Kind() {
			return offset(p.prefix.Netip().Addr(), 1+f.random.IntN(250)), true
		}
	}
	return netip.Addr{}, false
}

// encapsulated is a packet in a LISP data packet (RFC 9300 s.5), as a router of the core would
// bring it: TTL left, no UDP checksum over either family (RFC 6935).
func encapsulated(from, to netip.Addr, instance lisp.InstanceID, packet []byte) []byte {
	header, err := wire.DataHeader{Instance: true, InstanceID: instance}.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	udp := []byte{wire.DataPort >> 8, wire.DataPort & 0xff, wire.DataPort >> 8, wire.DataPort & 0xff, 0, byte(udpOctets + len(header) + len(packet)), 0, 0}
	return slices.Concat(ipHeader(from, to, len(udp)+len(header)+len(packet), 0), udp, header, packet)
}

// gleanWatch is what data packets told a tunnel router: the outer source of the last ones from
// an inner source.
type gleanWatch map[gleanKey]time.Duration

type gleanKey struct {
	source lisp.Prefix
	from   lisp.RLOC
}

// noteInner remembers of whom a data packet spoke, before the engine sees it.
func (r *router) noteInner(m *mail) {
	if !r.w.flavour.gleaning || r.site == nil {
		return
	}
	source := lisp.HostPrefix(r.site.instance, lisp.EIDFromAddr(outerSource(inner(m.payload))))
	r.heardFrom[gleanKey{source, lisp.RLOCFromAddr(outerSource(m.payload))}] = r.w.now
}

// checkGleaned judges a gleaned mapping that is being installed, before it is in the
// map-cache: somebody wanted it, a packet just said so, the mapping system is being asked,
// nothing known is contradicted, and it is brief.
func (w *world) checkGleaned(r *router, e *control.MapCacheEntry) {
	w.stats.Gleaned++
	p, set := e.Mapping.Prefix, e.Mapping.Locators
	if !p.IsHost() || len(set) != 1 {
		w.fail(r, invariantGleaned, "%s is gleaned: want one EID and one locator", e.Mapping)
		return
	}
	at, heard := r.heardFrom[gleanKey{p, set[0].RLOC}]
	limit := r.time().Add(gleanedFor + rounding)
	known, covered := r.mirror.longest(p.Instance(), p.EID())
	asked := r.requests.asked[p]
	switch {
	case !w.flavour.gleaning:
		w.fail(r, invariantGleaned, "%s is gleaned, and gleaning is off", e.Mapping)
	case e.ExpiresAt.After(limit):
		w.fail(r, invariantGleaned, "%s is gleaned until %s, want %s at most", e.Mapping, e.ExpiresAt.Sub(epoch), gleanedFor)
	case asked == nil || r.time().Sub(asked.lastAt) > askedWithin:
		w.fail(r, invariantGleaned, "%s is gleaned, and nobody verifies it by a Map-Request", e.Mapping)
	case covered && known.Mapping.Action != lisp.ActionSendMapRequest:
		w.fail(r, invariantGleaned, "%s is gleaned, but %s is known", e.Mapping, known.Mapping)
	case !heard || w.now-at > toldWithin:
		w.fail(r, invariantGleaned, "%s is gleaned from no packet", e.Mapping)
	}
}

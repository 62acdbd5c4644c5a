// SPDX-License-Identifier: Apache-2.0

package sim

// Traffic between hosts: steady flows that must never lose a packet once all is quiet,
// and short ones to anybody, also to EIDs that nobody has, so that misses, resolution,
// negative mappings and eviction happen. Packets are real IP packets; each says in its
// payload whom it is for (RFC 9300 s.4).

import (
	"encoding/binary"
	"net/netip"
	"time"

	"loci/dataplane/model"
	"loci/lisp"
	"loci/wire"
)

// flow is a host that talks to another one.
type flow struct {
	from        *router // the tunnel router that the host's packets take
	source, to  netip.Addr
	destination *site
	interval    time.Duration
}

// How much traffic there is.
const (
	steadyFirst   = 10 * time.Second
	steadyFastest = 2 * time.Second
	steadySlowest = 4 * time.Second
	briefGap      = 15 * time.Second // mean time between brief flows of a router
)

// startTraffic gives each tunnel router a steady flow and brief ones.
func (w *world) startTraffic() {
	for _, x := range w.xtrs {
		if f := w.newFlow(x); f != nil {
			f.interval = w.random.between(steadyFastest, steadySlowest)
			w.flows = append(w.flows, f)
			w.after(w.random.between(steadyFirst, 2*steadyFirst), func() { w.every(f.interval, func() { w.transmit(f, true) }) })
		}
		w.after(w.random.between(0, briefGap), func() { w.brief(x) })
		w.after(w.random.between(0, usageInterval), func() { w.every(usageInterval, x.reportUsage) })
	}
}

// newFlow goes from a host behind a tunnel router to a host of the same Instance-ID and
// family; nil when there is none.
func (w *world) newFlow(x *router) *flow {
	for range 20 {
		from, to := pick(w.random, x.site.prefixes), pick(w.random, pick(w.random, w.sites).prefixes)
		sameSpace := from.prefix.Instance() == to.prefix.Instance() && from.prefix.Kind() == to.prefix.Kind()
		if sameSpace && from.site != to.site && len(from.hosts) > 0 && len(to.hosts) > 0 && !from.site.contains(to.prefix) {
			return &flow{from: x, source: pick(w.random, from.hosts), to: pick(w.random, to.hosts), destination: to.site}
		}
	}
	return nil
}

// brief is a short flow, then the next one. One in five goes to an EID of nobody.
func (w *world) brief(x *router) {
	w.after(w.random.between(briefGap/2, briefGap*3/2), func() { w.brief(x) })
	f := w.newFlow(x)
	if f == nil {
		return
	}
	if w.random.chance(0.2) {
		f.to, f.destination = offset(f.to, 1+w.random.IntN(3)), nil
		if f.to.Is4() {
			b := f.to.As4()
			b[1] += byte(w.random.IntN(3) * 100)
			f.to = netip.AddrFrom4(b)
		}
		if owner, ok := w.ownerOf(x.site.instance, lisp.EIDFromAddr(f.to)); ok {
			f.destination = owner.site
		}
	}
	for i := range 1 + w.random.IntN(3) {
		w.after(time.Duration(i)*w.random.between(0, time.Second), func() { w.transmit(f, false) })
	}
}

// transmit sends one packet of a flow into its tunnel router.
func (w *world) transmit(f *flow, steady bool) {
	by := f.from.way()
	if by == nil || by.plane == nil {
		return
	}
	w.packets++
	w.stats.PacketsSent++
	p := payload{number: w.packets, from: uint32(by.index), instance: uint32(f.from.site.instance), site: nobody}
	if f.destination != nil {
		p.site = uint32(f.destination.index)
	}
	if f.from.site.contains(lisp.HostPrefix(f.from.site.instance, lisp.EIDFromAddr(f.to))) {
		return // the site's own affair
	}
	outcome := by.plane.Send(siteInterface, p.packet(f.source, f.to))
	what := outcome.What.String()
	if steady && w.mustBeQuiet() && !w.flavour.tight && what != "encapsulate" {
		w.fail(by, invariantConvergence, "a packet of the steady flow from %s to %s was not encapsulated: %s", f.source, f.to, what)
	}
	w.checkForwarded(by, f, what)
	by.raiseMisses()
}

// emit takes what an engine sends. It must not call the engine.
func (r *router) emit(m model.Emission) {
	w := r.w
	switch {
	case m.Way == model.Natively:
		w.stats.PacketsNative++
	case m.Way == model.ToCore:
		w.stats.PacketsCarried++
		w.checkEncapsulated(r, m)
		w.trace.note(w.now, r.index, m.Packet, func() string { return r.name + " encapsulates to " + m.Destination.String() })
		to := netip.AddrPortFrom(m.Destination.Addr(), wire.DataPort)
		from := netip.AddrPortFrom(outerSource(m.Packet), wire.DataPort)
		carried := w.network.newMail()
		carried.from, carried.to, carried.payload, carried.data = from, to, m.Packet, true
		w.network.carry(r, carried)
	}
}

// arrivePacket is an encapsulated packet at a router.
func (w *world) arrivePacket(r *router, m *mail) {
	if r.plane == nil {
		w.lostPacket(r, m, "the router is off")
		return
	}
	r.noteInner(m)
	outcome := r.plane.Send(coreInterface, m.payload)
	w.trace.note(w.now, r.index, nil, func() string { return r.name + " decapsulates: " + outcome.What.String() })
	if outcome.What.String() == "decapsulate" {
		w.stats.PacketsArrived++
		if w.flavour.versions {
			w.checkVersions(r, m.payload)
		}
		w.checkDelivered(r, outcome.Instance, outcome.Packet, m.to.Addr())
	} else {
		w.lostPacket(r, m, outcome.Reason.String())
	}
	r.raiseMisses()
}

// lostPacket is a packet that did not reach its site: an offence once all is quiet.
func (w *world) lostPacket(r *router, m *mail, why string) {
	if p := readPayload(m.payload); w.isOfTheDead(p) {
		w.fail(r, invariantDeadControl, "packet %d to %s was lost: %s", p.number, m.to.Addr(), why)
	}
	if w.mustBeQuiet() && !m.hostile {
		w.fail(r, invariantConvergence, "a packet to %s was lost: %s", m.to.Addr(), why)
	}
}

// payload is what the packets of hosts carry.
type payload struct{ number, from, instance, site uint32 }

// nobody is the site of EIDs that belong to none.
const nobody = 0xffffffff

const (
	payloadOctets = 16
	udpOctets     = 8
	ipv4Octets    = 20
	ipv6Octets    = 40
	protocolUDP   = 17
	hostTTL       = 64
)

// packet is an IP packet with UDP. Its UDP checksum is left out over IPv4 and not looked
// at over IPv6: tunnel routers do not read it.
func (p payload) packet(source, destination netip.Addr) []byte {
	octets := udpOctets + payloadOctets
	b := ipHeader(source, destination, octets, uint16(p.number))
	b = binary.BigEndian.AppendUint16(b, uint16(1024+p.number%5000))
	b = append(b, 0, 9, 0, byte(octets), 0, 0)
	for _, n := range []uint32{p.number, p.from, p.instance, p.site} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// ipHeader is the header of a UDP packet with so many octets after it, and room for them.
func ipHeader(source, destination netip.Addr, octets int, id uint16) []byte {
	if source.Is4() {
		b := make([]byte, ipv4Octets, ipv4Octets+octets)
		from, to := source.As4(), destination.As4()
		b[0], b[3], b[8], b[9] = 0x45, byte(ipv4Octets+octets), hostTTL, protocolUDP
		binary.BigEndian.PutUint16(b[4:], id)
		copy(b[12:], from[:])
		copy(b[16:], to[:])
		binary.BigEndian.PutUint16(b[10:], ^onesSum(b))
		return b
	}
	b := make([]byte, ipv6Octets, ipv6Octets+octets)
	from, to := source.As16(), destination.As16()
	b[0], b[5], b[6], b[7] = 0x60, byte(octets), protocolUDP, hostTTL
	copy(b[8:], from[:])
	copy(b[24:], to[:])
	return b
}

// onesSum is the checksum of an IPv4 header.
func onesSum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// readPayload finds the payload at the end of a packet, encapsulated or not.
func readPayload(packet []byte) payload {
	if len(packet) < payloadOctets {
		return payload{site: nobody}
	}
	b := packet[len(packet)-payloadOctets:]
	return payload{
		number: binary.BigEndian.Uint32(b), from: binary.BigEndian.Uint32(b[4:]),
		instance: binary.BigEndian.Uint32(b[8:]), site: binary.BigEndian.Uint32(b[12:]),
	}
}

// outerSource and innerDestination read addresses where they stand.
func outerSource(packet []byte) netip.Addr {
	if packet[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(packet[12:]))
	}
	return netip.AddrFrom16([16]byte(packet[8:]))
}

func destinationOf(packet []byte) netip.Addr {
	if packet[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(packet[16:]))
	}
	return netip.AddrFrom16([16]byte(packet[24:]))
}

// inner is the packet inside an encapsulated one.
func inner(packet []byte) []byte {
	header := ipv4Octets
	if packet[0]>>4 == 6 {
		header = ipv6Octets
	}
	return packet[min(len(packet), header+udpOctets+wire.DataHeaderOctets):]
}

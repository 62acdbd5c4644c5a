// SPDX-License-Identifier: Apache-2.0

package differential

// What the differential test is made of: settings, operations and packets, by a seeded source of randomness. There
// are few addresses and few flows, so that packets meet what earlier ones left in caches.

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/lisp"
)

// The EIDs and EID-Prefixes, of IPv4 and IPv6.
var (
	remoteEIDs = [2][]string{
		{"10.2.0.1", "10.2.0.200", "10.2.1.1", "10.3.0.1", "10.4.0.1", "203.0.113.9"},
		{"2001:db8:2::1", "2001:db8:2::200:1", "2001:db8:2:1::1", "2001:db8:3::1", "2001:db8:4::1", "2001:db8:cafe::9"},
	}
	remotePrefixes = [2][]string{
		{"10.2.0.0/16", "10.2.0.0/24", "10.2.0.128/25", "10.3.0.0/24", "10.4.0.1/32", "0.0.0.0/0"},
		{"2001:db8:2::/47", "2001:db8:2::/64", "2001:db8:2::200:0/112", "2001:db8:3::/64", "2001:db8:4::1/128", "::/0"},
	}
	// outsiders are hosts whose addresses are no EIDs of the site.
	outsiders  = [2]string{"10.99.0.1", "2001:db8:99::1"}
	siteOfKind = [2]string{"10.1.0.0/24", "2001:db8:1::/64"}
)

const (
	// flowPorts is how many source ports flows have.
	flowPorts = 4
	// maxHeaders are the octets of IPv6, UDP, LISP, IPv6 and TCP.
	maxHeaders = 40 + 8 + 8 + 40 + 20
)

type generator struct {
	*rand.Rand
	instance      lisp.InstanceID // of the interface to the site
	number        uint32          // of the last packet, in its payload
	keepsDatabase bool
	bindings      bindings
}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 18)), bindings: newBindings(seed)}
	g.instance = oneOf[lisp.InstanceID](g.Rand, 0, 0, 0, 7)
	return g
}

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// someOf leaves out about half.
func someOf[T any](g *generator, of []T) (some []T) {
	for _, v := range of {
		if chance(g.Rand, 50) {
			some = append(some, v)
		}
	}
	return some
}

func (g *generator) anyInstance() lisp.InstanceID {
	return oneOf(g.Rand, g.instance, g.instance, g.instance, 0, 7)
}

// settings are those of a seed, but for interfaces and own RLOCs.
func (g *generator) settings() dataplane.Settings {
	s := dataplane.Settings{Wait: dataplane.DefaultWaitBounds}
	s.Wait.Time = time.Hour // nothing is given up while a seed runs
	s.MissPolicy = oneOf(g.Rand, dataplane.MissQueue, dataplane.MissQueue, dataplane.MissDrop,
		dataplane.MissForwardNatively)
	if chance(g.Rand, 40) {
		s.Header.StatusBits, s.Header.MapVersions = chance(g.Rand, 50), chance(g.Rand, 50)
		s.Header.PublicInternet = chance(g.Rand, 20)
		s.Header.SourceCheck = oneOf(g.Rand, dataplane.SourceUnchecked, dataplane.SourceLoose,
			dataplane.SourceStrict)
	}
	if chance(g.Rand, 30) {
		s.Encapsulations = []dataplane.EncapsulationRule{{RLOCs: netip.PrefixFrom(oneOf(g.Rand,
			conformance.PeerRLOCs...), 16).Masked(),
			Encapsulation: oneOf(g.Rand, dataplane.EncapsulationLISPGPE, dataplane.EncapsulationVXLANGPE)}}
	}
	if chance(g.Rand, 30) {
		s.Lists = g.lists()
	}
	if chance(g.Rand, 60) {
		s.Roles = g.roles()
	}
	s.RecursionDepth = oneOf[uint8](g.Rand, 1, 1, 1, 2)
	s.Subflows = chance(g.bindings.random, 60)
	return s
}

func (g *generator) lists() (lists []dataplane.AccessList) {
	for _, packets := range []dataplane.ListPackets{dataplane.ListEncapsulated, dataplane.ListDecapsulated} {
		for _, address := range []dataplane.ListAddress{dataplane.ListInnerSource, dataplane.ListInnerDestination, dataplane.ListOuterSource, dataplane.ListOuterDestination} {
			if !chance(g.Rand, 25) {
				continue
			}
			l := dataplane.AccessList{Packets: packets, Address: address}
			subjects := someOf(g, prefixes("10.2.0.0/24", "2001:db8:2::/64", "10.3.0.0/24"))
			if address >= dataplane.ListOuterSource {
				subjects = []netip.Prefix{netip.PrefixFrom(oneOf(g.Rand, conformance.PeerRLOCs...),
					32).Masked()}
			} else {
				l.Instance = g.anyInstance()
			}
			if chance(g.Rand, 70) {
				l.Deny = subjects
			} else {
				l.Allow = subjects
			}
			lists = append(lists, l)
		}
	}
	return lists
}

func (g *generator) roles() (roles []dataplane.RolePolicy) {
	for _, role := range []dataplane.Role{dataplane.RoleRTR, dataplane.RolePITR, dataplane.RolePETR} {
		if !chance(g.Rand, 60) {
			continue
		}
		p := dataplane.RolePolicy{Role: role}
		p.EIDs = prefixes(oneOf(g.Rand, []string{"10.2.0.0/16", "2001:db8:2::/47"},
			[]string{"0.0.0.0/0", "::/0"}, []string{"10.3.0.0/24", "2001:db8:3::/64"})...)
		p.Instance = g.anyInstance()
		if role == dataplane.RolePITR && chance(g.Rand, 30) {
			p.Sources = prefixes("203.0.113.0/24", "2001:db8:cafe::/64")
		}
		roles = append(roles, p)
	}
	return roles
}

// begin are the operations that a seed begins with.
func (g *generator) begin() (operations []dataplane.Operation) {
	for _, prefix := range siteOfKind {
		operations = append(operations, g.database(g.instance, prefix))
	}
	for range g.IntN(8) {
		operations = append(operations, g.putMapping())
	}
	return operations
}

func (g *generator) database(instance lisp.InstanceID, prefix string) dataplane.PutDatabase {
	var both lisp.LocatorSet
	for _, own := range []netip.Addr{conformance.OwnRLOC4, conformance.OwnRLOC6} {
		both = append(both, locator(own.String(), 1, 100))
	}
	p := netip.MustParsePrefix(prefix)
	return dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
		Prefix: mustPrefix(instance, p), Locators: both, Version: oneOf[uint16](g.Rand, 0, 0x123),
	}}
}

func mustPrefix(instance lisp.InstanceID, p netip.Prefix) lisp.Prefix {
	prefix, err := lisp.PrefixFromNetip(instance, p)
	if err != nil {
		panic(err) // the prefixes of this file are all right
	}
	return prefix
}

// operation is one that changes what packets meet.
func (g *generator) operation() dataplane.Operation {
	switch g.IntN(10) {
	case 0, 1:
		return dataplane.DeleteMapping{Prefix: g.prefix()}
	case 2:
		return dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(oneOf(g.Rand, conformance.PeerRLOCs...)),
			State: oneOf(g.Rand,
				dataplane.LocatorUp, dataplane.LocatorUp, dataplane.LocatorDown, dataplane.LocatorUnconfirmed, dataplane.LocatorHeard)}
	case 3:
		if chance(g.Rand, 30) && !g.keepsDatabase {
			return dataplane.DeleteDatabase{Prefix: mustPrefix(g.anyInstance(),
				netip.MustParsePrefix(oneOf(g.Rand, siteOfKind[:]...)))}
		}
		return g.database(g.anyInstance(), oneOf(g.Rand, siteOfKind[:]...))
	}
	return g.putMapping()
}

func (g *generator) prefix() lisp.Prefix {
	return mustPrefix(g.anyInstance(), netip.MustParsePrefix(oneOf(g.Rand, remotePrefixes[g.IntN(2)]...)))
}

func (g *generator) putMapping() dataplane.PutMapping {
	m := lisp.Mapping{Prefix: g.prefix(), TTLMinutes: 1440, Version: oneOf[uint16](g.Rand, 0, 0x456)}
	if chance(g.Rand, 20) {
		m.Action = oneOf(g.Rand, lisp.ActionNoAction, lisp.ActionNativelyForward, lisp.ActionSendMapRequest,
			lisp.ActionDrop)
		return put(m)
	}
	peers := slices.Clone(conformance.PeerRLOCs)
	g.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	var locators []lisp.Locator
	for _, peer := range peers[:1+g.IntN(3)] {
		l := locator(peer.String(), oneOf[uint8](g.Rand, 1, 1, 2, 255), oneOf[uint8](g.Rand, 0, 50, 100))
		l.Reachable = chance(g.Rand, 90)
		locators = append(locators, l)
	}
	if chance(g.Rand, 10) {
		locators = append(locators, locator("10.3.0.1", 1, 100)) // an EID, perhaps
	}
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		panic(err)
	}
	m.Locators = set
	return put(m)
}

// drain has what waits dropped, and all locators up.
func (g *generator) drain() (operations []dataplane.Operation) {
	for _, instance := range []lisp.InstanceID{0, 7} {
		for _, family := range remotePrefixes {
			for _, prefix := range family {
				operations = append(operations, put(lisp.Mapping{Prefix: mustPrefix(instance, netip.MustParsePrefix(prefix)), Action: lisp.ActionDrop, TTLMinutes: 1440}))
			}
		}
	}
	for _, peer := range conformance.PeerRLOCs {
		operations = append(operations,
			dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(peer), State: dataplane.LocatorUp})
	}
	return operations
}

// burst are packets of one flow, one after the other.
func (g *generator) burst() (fromCore bool, packets [][]byte) {
	kind := g.IntN(2)
	fromCore = chance(g.Rand, 50)
	from, to, tunnelled := conformance.SiteHosts[kind], netip.MustParseAddr(oneOf(g.Rand, remoteEIDs[kind]...)),
		false
	switch {
	case !fromCore && chance(g.Rand, 10):
		from = netip.MustParseAddr(outsiders[kind])
	case fromCore:
		tunnelled = chance(g.Rand, 85)
		from = netip.MustParseAddr(oneOf(g.Rand, remoteEIDs[kind]...))
		if chance(g.Rand, 65) {
			to = conformance.SiteHosts[kind]
		}
	}
	f := g.flow(from, to)
	f.ttl = oneOf[uint8](g.Rand, 64, 64, 64, 2, 3, 255)
	if tunnelled {
		f.octets = min(f.octets, conformance.PathMTU-maxHeaders) // it comes by a link of that MTU
	}
	count := oneOf(g.Rand, 1, 1, 1, 2, 5, 20)
	around := g.tunnel()
	// events are limited by clocks
	if f.protocol == layers.IPProtocolTCP && count == 1 && chance(g.bindings.random, 90) {
		f.octets = min(f.octets, 100)
		f.flags, f.options = g.bindings.edge()
	}
	for i := range count {
		p := f.packet(i)
		if tunnelled {
			p = around.wrap(g, p)
		}
		packets = append(packets, p)
	}
	return fromCore, packets
}

// innerFlow is a flow between hosts.
type innerFlow struct {
	*generator
	from, to     netip.Addr
	protocol     layers.IPProtocol
	port         uint16
	ttl, class   uint8
	octets       int // of the payload
	dontFragment bool
	sequence     uint32
	flags        uint8 // of TCP, where it is a packet that begins or ends a connection
	options      []byte
}

func (g *generator) flow(from, to netip.Addr) *innerFlow {
	f := &innerFlow{generator: g, from: from, to: to, protocol: oneOf(g.Rand, layers.IPProtocolUDP,
		layers.IPProtocolUDP, layers.IPProtocolTCP, layers.IPProtocolTCP, layers.IPProtocol(50))}
	f.port = 1000 + uint16(g.IntN(flowPorts))
	f.class = oneOf[uint8](g.Rand, 0, 0, 0, 1, 2, 3, 0xb8)
	f.octets = oneOf(g.Rand, 4, 100, 100, 100, 1200, 1300+g.IntN(130))
	f.dontFragment = chance(g.Rand, 50)
	f.sequence = g.Uint32()
	return f
}

// packet is the one of that place in a burst. All but the last of a burst of TCP have the same length, as a sender
// makes them.
func (f *innerFlow) packet(place int) []byte {
	f.number++
	payload := append(binary.BigEndian.AppendUint32(nil, f.number), make([]byte, f.octets-4)...)
	var transport gopacket.SerializableLayer = gopacket.Payload(nil)
	udp := &layers.UDP{SrcPort: layers.UDPPort(f.port), DstPort: 9}
	tcp := &layers.TCP{SrcPort: layers.TCPPort(f.port), DstPort: 9, Seq: f.sequence + uint32(place*f.octets), ACK: true, PSH: place%7 == 6, Window: 100}
	var network gopacket.SerializableLayer
	if f.from.Is4() {
		v4 := &layers.IPv4{Version: 4, IHL: 5, TTL: f.ttl, TOS: f.class, Id: uint16(f.number),
			Protocol: f.protocol, SrcIP: f.from.AsSlice(), DstIP: f.to.AsSlice()}
		if f.dontFragment {
			v4.Flags = layers.IPv4DontFragment
		}
		network = v4
		_, _ = udp.SetNetworkLayerForChecksum(v4), tcp.SetNetworkLayerForChecksum(v4)
	} else {
		v6 := &layers.IPv6{Version: 6, HopLimit: f.ttl, TrafficClass: f.class, FlowLabel: uint32(f.port), NextHeader: f.protocol, SrcIP: f.from.AsSlice(), DstIP: f.to.AsSlice()}
		network = v6
		_, _ = udp.SetNetworkLayerForChecksum(v6), tcp.SetNetworkLayerForChecksum(v6)
	}
	switch {
	case f.protocol == layers.IPProtocolUDP:
		transport = udp
	case f.protocol == layers.IPProtocolTCP && f.flags != 0:
		transport, payload = gopacket.Payload(f.edgeOf(tcp, payload)), nil
	case f.protocol == layers.IPProtocolTCP:
		transport = tcp
	}
	return serialized(network, transport, gopacket.Payload(payload))
}

func serialized(parts ...gopacket.SerializableLayer) []byte {
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, parts...); err != nil {
		panic(err) // the suite's own packets always serialize
	}
	return buffer.Bytes()
}

// tunnel is what a peer puts around packets.
type tunnel struct {
	peer       netip.Addr
	header     [8]byte
	ttl, class uint8
	port       uint16
	cut        bool
}

func (g *generator) tunnel() tunnel {
	t := tunnel{peer: oneOf(g.Rand, conformance.PeerRLOCs...), ttl: oneOf[uint8](g.Rand, 64, 64, 64, 2, 3, 255),
		class: oneOf[uint8](g.Rand, 0, 0, 0, 1, 2, 3, 0xb8), port: 50000 + uint16(g.IntN(flowPorts))}
	if chance(g.Rand, 80) {
		t.header[0] |= 0x80
		t.header[1], t.header[2], t.header[3] = 1, 2, 3
	}
	if instance := g.anyInstance(); instance != 0 {
		t.header[0] |= 0x08
		binary.BigEndian.PutUint32(t.header[4:], uint32(instance)<<8)
	}
	if chance(g.Rand, 10) {
		t.header[0] = byte(g.Uint32())
	}
	if chance(g.Rand, 10) {
		copy(t.header[1:], []byte{0x45, 0x61, 0x23})
	}
	t.cut = chance(g.Rand, 4)
	return t
}

func (t *tunnel) wrap(g *generator, inner []byte) []byte {
	if t.cut {
		inner = inner[:g.IntN(min(len(inner), 60))]
	}
	payload := gopacket.Payload(append(t.header[:], inner...))
	udp := &layers.UDP{SrcPort: layers.UDPPort(t.port), DstPort: dataPort}
	if t.peer.Is4() {
		v4 := &layers.IPv4{Version: 4, IHL: 5, TTL: t.ttl, TOS: t.class, Protocol: layers.IPProtocolUDP, Flags: layers.IPv4DontFragment, SrcIP: t.peer.AsSlice(), DstIP: conformance.OwnRLOC4.AsSlice()}
		_ = udp.SetNetworkLayerForChecksum(v4)
		return serialized(v4, udp, payload)
	}
	v6 := &layers.IPv6{Version: 6, HopLimit: t.ttl, TrafficClass: t.class, NextHeader: layers.IPProtocolUDP, SrcIP: t.peer.AsSlice(), DstIP: conformance.OwnRLOC6.AsSlice()}
	_ = udp.SetNetworkLayerForChecksum(v6)
	return serialized(v6, udp, payload)
}

// isTunnel reports whether a UDP header is one of the data plane.
func isTunnel(udp []byte) bool {
	to := binary.BigEndian.Uint16(udp[2:])
	return to == dataPort || to == 4790
}

const dataPort = 4341

// isAnswer reports whether a packet is an ICMP error, or one in a tunnel. No packet of this file is.
func isAnswer(packet []byte) bool {
	return conformance.IsICMP(packet)
}

func put(m lisp.Mapping) dataplane.PutMapping {
	now := time.Now()
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping: m, CreatedAt: now, ExpiresAt: now.Add(time.Duration(m.TTLMinutes) * time.Minute),
	}}
}

func locator(rloc string, priority, weight uint8) lisp.Locator {
	return lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(rloc)), Priority: priority, Weight: weight, Reachable: true}
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

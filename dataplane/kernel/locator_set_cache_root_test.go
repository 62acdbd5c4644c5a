// SPDX-License-Identifier: Apache-2.0

// The path for packets that miss the flow cache follows the tables: after every operation such a packet gets what all stages give it,
// octet by octet but for its nonce, and is counted in the same way. The test needs root.

package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/conformance/links"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/entries"
	"loci/dataplane/kernel/reclaim"
	"loci/dataplane/kernel/tap"
	"loci/forward"
	"loci/internal/testnet"
	"loci/lisp"
)

// bySetRouter is router A with both sides at XDP, and far sites behind gateways, to which a single next hop leads.
type bySetRouter struct {
	*router
	hook       string
	bySet      *ebpf.Program // of XDP
	tap        net.HardwareAddr
	kept       caches
	site, core netlink.Link
	far        []*behindGateway
	held       entries.Release // of a mapping that is on hold
}

// recordedMAC stands in action records for the neighbour's address.
var recordedMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x99}

func newBySetRouter(t *testing.T) *bySetRouter {
	t.Helper()
	n, base := newXDPRouter(t)
	must(t, n.hosts[0].SetOffload("eth0", testnet.GRO, true))
	r := &bySetRouter{router: base, far: sitesBehindGateways()}
	s := r.Settings()
	s.Interfaces[1].Hook = dataplane.HookXDP
	r.apply(t, dataplane.SetSettings{Settings: s})
	n.waitForFlag(t, 0, "site0", takesFrames)
	handle := r.ns.Netlink()
	var err error
	r.site, err = handle.LinkByName("site0")
	must(t, err)
	r.core, err = handle.LinkByName("core0")
	must(t, err)
	for _, rloc := range []netip.Addr{rloc6(1), rloc6(2)} {
		r.setNeighbour(t, r.core, rloc, links.FarMAC)
	}
	for _, f := range r.far {
		r.setNeighbour(t, r.site, f.gateway, f.gatewayMAC)
		r.setNeighbour(t, r.site, f.another, f.other)
		must(t, r.ns.AddRoute(testnet.Route{Destination: f.prefix, Via: f.gateway}))
		r.apply(t, databaseEntry(f.prefix))
	}
	r.takePrograms(t)
	return r
}

func (r *bySetRouter) takePrograms(t *testing.T) {
	t.Helper()
	must(t, r.store.Map(abi.MapXDPPrograms).Lookup(uint32(abi.XDPSets), &r.bySet))
	t.Cleanup(func() { r.bySet.Close() })
	tap, err := r.ns.Netlink().LinkByName(tap.DefaultName)
	must(t, err)
	r.tap = tap.Attrs().HardwareAddr
	r.kept = r.mapCaches(t)
}

func (r *bySetRouter) setNeighbour(t *testing.T, at netlink.Link, address netip.Addr, mac net.HardwareAddr) {
	t.Helper()
	must(t, r.ns.Netlink().NeighSet(&netlink.Neigh{
		LinkIndex: at.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IP(address.AsSlice()), HardwareAddr: mac,
	}))
}

func eidPrefix(p netip.Prefix) lisp.Prefix {
	eid, err := lisp.PrefixFromNetip(0, p)
	if err != nil {
		panic(err)
	}
	return eid
}

func databaseEntry(p netip.Prefix) dataplane.Operation {
	return dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: eidPrefix(p), Locators: locators(rloc4(0), rloc6(0))}}
}

// outcome is what becomes of a frame, and what it adds to the counters.
type outcome struct {
	verdict uint32
	frame   []byte // without a nonce; at tc of packets that are sent alone
	counted string
}

func (o outcome) goesByRecord() bool { return bytes.HasPrefix(o.frame, recordedMAC) }

// sentTo is where an encapsulated packet goes; nowhere for others.
func (o outcome) sentTo() netip.AddrPort {
	if o.verdict != xdpRedirect {
		return netip.AddrPort{}
	}
	at := map[byte]int{4: 14 + 16, 6: 14 + 24}[o.frame[14]>>4]
	length := map[byte]int{4: 4, 6: 16}[o.frame[14]>>4]
	rloc, _ := netip.AddrFromSlice(o.frame[at:][:length])
	return netip.AddrPortFrom(rloc, binary.BigEndian.Uint16(o.frame[at+length+2:]))
}

// pass runs the programs on a frame, as one of those that miss the flow cache or not.
func (r *bySetRouter) pass(t *testing.T, bySet bool, at netlink.Link, frame []byte) outcome {
	t.Helper()
	before, o := r.counted(), outcome{}
	if r.hook == hookTC {
		o.verdict, o.frame = r.passTC(t, bySet, at, frame)
	} else {
		r.missMostly(t, false)
		program := map[bool]*ebpf.Program{true: r.bySet, false: r.program(t, abi.ProgramXDP)}[bySet]
		o.verdict, o.frame = r.run(t, hookXDP, program, at, frame)
	}
	if at == r.site && o.verdict == xdpRedirect {
		nonce := 14 + map[byte]int{4: 20, 6: 40}[o.frame[14]>>4] + 8 + 1
		copy(o.frame[nonce:nonce+3], make([]byte, 3))
	}
	after := r.counted()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if after[name] != before[name] {
			o.counted += fmt.Sprintf("%s +%d ", name, after[name]-before[name])
		}
	}
	return o
}

// passTC is pass at tc, with the verdicts of XDP: what is dropped, waits, or goes to the stack is not sent.
func (r *bySetRouter) passTC(t *testing.T, bySet bool, at netlink.Link, frame []byte) (verdict uint32, got []byte) {
	t.Helper()
	r.missMostly(t, bySet)
	program := map[netlink.Link]string{r.site: abi.ProgramSiteIngress, r.core: abi.ProgramCoreIngress}[at]
	answer, got := r.run(t, hookTC, r.program(t, program), at, frame)
	if answer != tcRedirect || len(got) == len(frame) || bytes.HasPrefix(got, r.tap) {
		return 0, nil
	}
	return xdpRedirect, got
}

// missMostly makes all processors believe that most packets miss the flow cache, or not.
func (r *bySetRouter) missMostly(t *testing.T, missing bool) {
	t.Helper()
	const missingAt, turnAt = 44, 48 // in struct lisp_clock
	const turn = 15                  // the next one is no sample
	var each [][]byte
	must(t, r.store.Map(abi.MapClocks).Lookup(uint32(0), &each))
	for _, clock := range each {
		binary.NativeEndian.PutUint32(clock[missingAt:], map[bool]uint32{true: 8}[missing])
		binary.NativeEndian.PutUint32(clock[turnAt:], turn)
	}
	must(t, r.store.Map(abi.MapClocks).Put(uint32(0), each))
}

// counted is what stands in the counters of packets sent and of each mapping.
func (r *bySetRouter) counted() map[string]uint64 {
	c := r.Counters()
	all := map[string]uint64{
		"encapsulated": c.EncapsulatedPackets, "octets": c.EncapsulatedOctets,
		"decapsulated": c.DecapsulatedPackets, "its octets": c.DecapsulatedOctets,
	}
	for name, packets := range c.Drops {
		all["drop "+fmt.Sprint(name)] = packets
	}
	for index := range r.records() {
		used := r.store.UsageOf(index)
		all[fmt.Sprintf("of %d", index)] += used.Packets
		all[fmt.Sprintf("octets of %d", index)] += used.Octets
	}
	return all
}

// record forgets all, sends a frame through the stages, and lets what is kept then live as long as nothing ends it, on every processor.
// It returns the address that recordedMAC stands for.
func (r *bySetRouter) record(t *testing.T, at netlink.Link, frame []byte) net.HardwareAddr {
	t.Helper()
	r.kept.clear()
	first := r.pass(t, false, at, frame)
	r.kept.keepForEver(recordedMAC)
	return slices.Clone(first.frame[:min(6, len(first.frame))])
}

// followStep is an edit, and what becomes of the next packet.
type followStep struct {
	when   string
	change func()
	to     netip.AddrPort // from the site; nowhere: it is not sent by XDP
	alone  bool           // before the edit packets go through the stages
}

// follow makes an edit between two packets that miss the flow cache, and holds what becomes of the second one against what the stages
// give it.
func (r *bySetRouter) follow(t *testing.T, step followStep, at netlink.Link, first, second []byte) {
	t.Helper()
	bySet, was := step.alone, r.record(t, at, first)
	for _, of := range [][]byte{first, second} { // which may have a mapping of its own
		if !bySet {
			was = r.record(t, at, of)
			clear(r.kept.flows)
			before := r.pass(t, true, at, second)
			staged := r.kept.keepForEver(recordedMAC) > 0 // the stages keep its flow
			bySet = before.verdict != xdpRedirect || !r.isPlain(before) || before.goesByRecord() && !staged
		}
	}
	if !bySet {
		t.Errorf("before %s: it goes through the stages", step.when)
	}
	step.change()
	r.waitForHeld(t, step.when)
	got := r.pass(t, true, at, second)
	r.kept.clear()
	want := r.pass(t, false, at, second)
	if got.goesByRecord() {
		copy(got.frame, was)
	}
	if got.verdict != want.verdict || !bytes.Equal(got.frame, want.frame) || got.counted != want.counted {
		t.Errorf("%s: verdict %d, counted %s, frame\n%x\nby the stages: verdict %d, counted %s, frame\n%x",
			step.when, got.verdict, got.counted, got.frame, want.verdict, want.counted, want.frame)
	}
	if at == r.site && want.sentTo() != step.to {
		t.Errorf("%s: by the stages, the packet goes to %v, want %v", step.when, want.sentTo(), step.to)
	}
}

// isPlain says that the settings ask for no more than a record has.
func (r *bySetRouter) isPlain(o outcome) bool {
	s := r.Settings()
	return len(s.Lists) == 0 && !s.Header.StatusBits && !s.Header.PublicInternet && s.Header.SourceCheck == dataplane.SourceUnchecked && o.sentTo().Port() != forward.VXLANGPEPort
}

// waitForHeld waits until no mapping lets packets wait for earlier ones, unless the step is about that.
func (r *bySetRouter) waitForHeld(t *testing.T, when string) {
	t.Helper()
	held := func() bool {
		for _, record := range r.records() {
			if atomic.LoadUint32(&record.Flags)&abi.MappingHold != 0 {
				return true
			}
		}
		return false
	}
	for deadline := time.Now().Add(patience); when != "held" && held(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: held for ever", when)
		}
	}
}

// hold makes a mapping anew, and has programs hold back its packets, as they do until earlier ones are written back.
func (r *bySetRouter) hold(t *testing.T, mapping dataplane.PutMapping) func() {
	return func() {
		_, err := r.entries.Apply(dataplane.DeleteMapping{Prefix: mapping.Entry.Mapping.Prefix})
		must(t, err)
		r.held, err = r.entries.Apply(mapping)
		must(t, err)
	}
}

// unhold ends that.
func (r *bySetRouter) unhold() {
	r.entries.Unhold([]entries.Release{r.held}, func() bool { return true })
}

func TestLocatorSetCacheFollowsTables(t *testing.T) {
	t.Parallel()
	r := newBySetRouter(t)
	for _, f := range r.far {
		r.waitForMark(t, f.prefix, true, "at first")
	}
	for _, p := range pairs {
		for _, r.hook = range []string{hookXDP, hookTC} {
			t.Run(p.name+"/from the site/"+r.hook, func(t *testing.T) { r.siteFollows(t, p) })
			t.Run(p.name+"/from the core/"+r.hook, func(t *testing.T) { r.coreFollows(t, p) })
		}
	}
}

// Packets that miss the flow cache are counted once, while others read, and not for an entry that is gone.
func TestLocatorSetCacheCountsOnce(t *testing.T) {
	r := newBySetRouter(t)
	for _, r.hook = range []string{hookXDP, hookTC} {
		t.Run(r.hook, r.countOnce)
	}
}

func (r *bySetRouter) countOnce(t *testing.T) {
	const packets = 203
	to := func(host int) []byte {
		return frameTo(r.site, udpPacket(t, pair{"", func(site, _ int) netip.Addr { return pairs[0].inner(site, []int{10, host}[site]) }, nil}, 0, 1, 64))
	}
	own := hostPrefix(pairs[0].inner(1, 12)).String()
	r.apply(t, positive("10.2.0.0/24", rloc4(1)), positive(own, rloc4(1)))
	r.waitForHeld(t, "counting")
	r.record(t, r.site, to(11))
	ofSet, ofHost := r.used(t, "10.2.0.0/24"), r.used(t, own)
	var begun, done atomic.Uint64
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for done.Load() < packets {
			least := done.Load()
			got := r.used(t, "10.2.0.0/24") - ofSet
			if most := begun.Load(); got < least || got > most {
				t.Errorf("%d packets, want %d to %d", got, least, most)
				return
			}
		}
	}()
	send := func(host int) {
		r.missMostly(t, true)
		program := r.bySet
		if r.hook == hookTC {
			program = r.program(t, abi.ProgramSiteIngress)
		}
		r.run(t, r.hook, program, r.site, to(host))
	}
	for range packets {
		begun.Add(1)
		send(11)
		done.Add(1)
	}
	<-finished
	for range 7 {
		send(12)
	}
	if got, host := r.used(t, "10.2.0.0/24")-ofSet, r.used(t, own)-ofHost; got != packets || host != 7 {
		t.Errorf("%d packets and %d, want %d and 7", got, host, packets)
	}
	r.apply(t, gone(own))
	time.Sleep(reclaim.RestTime) // so that it gets the same index
	r.apply(t, positive(own, rloc4(1)))
	r.waitForHeld(t, "counting")
	for range 20 {
		send(11)
	}
	if got, host := r.used(t, "10.2.0.0/24")-ofSet, r.used(t, own); got != packets+20 || host != 0 {
		t.Errorf("after the entry came anew: %d packets and %d, want %d and none", got, host, packets+20)
	}
	r.apply(t, gone(own), gone("10.2.0.0/24"))
}

// used is how many packets went by a mapping.
func (r *bySetRouter) used(t *testing.T, prefix string) uint64 {
	m, ok := r.Mapping(lisp.MustParsePrefix(prefix))
	if !ok {
		t.Errorf("%s is not there", prefix)
	}
	return m.Usage.Packets
}

// edits returns an edit of that many operations.
func (r *bySetRouter) edits(t *testing.T, o ...dataplane.Operation) func() {
	return func() { r.apply(t, o...) }
}

// with returns an edit of the settings.
func (r *bySetRouter) with(t *testing.T, change func(*dataplane.Settings)) func() {
	s := r.Settings().Clone()
	if change != nil {
		change(&s)
	}
	return r.edits(t, dataplane.SetSettings{Settings: s})
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func deny(packets dataplane.ListPackets, address dataplane.ListAddress, a netip.Addr) func(*dataplane.Settings) {
	return func(s *dataplane.Settings) {
		s.Lists = []dataplane.AccessList{{Packets: packets, Address: address, Deny: []netip.Prefix{hostPrefix(a)}}}
	}
}

// without takes an own RLOC away.
func without(rloc netip.Addr) func(*dataplane.Settings) {
	return func(s *dataplane.Settings) {
		s.LocalRLOCs = slices.DeleteFunc(s.LocalRLOCs, func(own lisp.RLOC) bool { return own == lisp.RLOCFromAddr(rloc) })
	}
}

// siteFollows edits what packets from the site go by.
func (r *bySetRouter) siteFollows(t *testing.T, p pair) {
	to := func(host int) []byte {
		return frameTo(r.site, udpPacket(t, pair{"", func(site, _ int) netip.Addr { return p.inner(site, []int{10, host}[site]) }, nil}, 0, 1, 64))
	}
	first, second := to(11), to(12)
	target := p.inner(1, 12)
	own := hostPrefix(target)
	prefix, covering := "10.2.0.0/24", "10.0.0.0/7"
	if target.Is6() {
		prefix, covering = "2001:db8:2::/64", "2000::/12"
	}
	mtu := func(octets int) func() {
		return func() { r.carries(lisp.RLOCFromAddr(p.outer(1)), octets) }
	}
	backup := func() dataplane.PutMapping { // the second locator takes nothing unless the first is down
		m := positive(prefix, p.outer(1), p.outer(2))
		for i := range m.Entry.Mapping.Locators {
			if m.Entry.Mapping.Locators[i].RLOC == lisp.RLOCFromAddr(p.outer(2)) {
				m.Entry.Mapping.Locators[i].Priority = 2
			}
		}
		return m
	}
	database := siteOperations(0)[1:]
	var noDatabase []dataplane.Operation
	for _, own := range sitePrefixes(0) {
		noDatabase = append(noDatabase, dataplane.DeleteDatabase{Prefix: own})
	}
	one, two := netip.AddrPortFrom(p.outer(1), forward.DataPort), netip.AddrPortFrom(p.outer(2), forward.DataPort)
	gpe, nowhere := netip.AddrPortFrom(p.outer(1), forward.VXLANGPEPort), netip.AddrPort{}
	as := r.with(t, nil)
	for _, step := range []followStep{
		{"a mapping", r.edits(t, positive(prefix, p.outer(1))), one, false},
		{"a shorter one", r.edits(t, drop(covering)), one, false},
		{"its host's own", r.edits(t, drop(own.String())), nowhere, false},
		{"that is gone", r.edits(t, gone(own.String())), one, false},
		{"its host's own elsewhere", r.edits(t, positive(own.String(), p.outer(2))), two, false},
		{"that is gone as well", r.edits(t, gone(own.String())), one, false},
		{"another locator", r.edits(t, positive(prefix, p.outer(2))), two, false},
		{"a negative one", r.edits(t, drop(prefix)), nowhere, false},
		{"the first one again", r.edits(t, positive(prefix, p.outer(1))), one, false},
		{"held", r.hold(t, positive(prefix, p.outer(1))), nowhere, false},
		{"no longer held", r.unhold, one, false},
		{"its path narrow", mtu(100), nowhere, false},
		{"and wide", mtu(0), one, false},
		{"its only locator down", r.edits(t, stateOf(p.outer(1), dataplane.LocatorDown)), nowhere, false},
		{"and up", r.edits(t, stateOf(p.outer(1), dataplane.LocatorUp)), one, false},
		{"a backup", r.edits(t, backup()), one, false},
		{"which is needed", r.edits(t, stateOf(p.outer(1), dataplane.LocatorDown)), two, false},
		{"and is not", r.edits(t, stateOf(p.outer(1), dataplane.LocatorUp)), one, false},
		{"no backup", r.edits(t, positive(prefix, p.outer(1))), one, false},
		{"no source of ours", r.edits(t, noDatabase...), nowhere, false},
		{"ours again", r.edits(t, database...), one, false},
		{"an own EID where there was none", r.edits(t, databaseEntry(own)), nowhere, false},
		{"that is gone again", r.edits(t, dataplane.DeleteDatabase{Prefix: eidPrefix(own)}), one, false},
		{"denied", r.with(t, deny(dataplane.ListEncapsulated, dataplane.ListInnerDestination, target)), nowhere, false},
		{"its RLOC denied", r.with(t, deny(dataplane.ListEncapsulated, dataplane.ListOuterDestination, p.outer(1))), nowhere, false},
		{"permitted", as, one, false},
		{"no own RLOC", r.with(t, without(p.outer(0))), nowhere, false},
		{"an own RLOC", as, one, false},
		{"by the stack", r.with(t, func(s *dataplane.Settings) { s.Interfaces[0].Forwarding = dataplane.ForwardingStack }), nowhere, false},
		{"fast again", as, one, false},
		{"by VXLAN-GPE", r.with(t, func(s *dataplane.Settings) {
			s.Encapsulations = []dataplane.EncapsulationRule{{Encapsulation: dataplane.EncapsulationVXLANGPE}}
		}), gpe, false},
		{"by LISP again", as, one, false},
		{"with status bits", r.with(t, func(s *dataplane.Settings) { s.Header.StatusBits = true }), one, false},
		{"without", as, one, false},
		{"in public", r.with(t, func(s *dataplane.Settings) { s.Header.PublicInternet = true }), one, false},
		{"in private", as, one, false},
		{"of another Instance-ID", r.with(t, func(s *dataplane.Settings) { s.Interfaces[0].Instance = 5 }), nowhere, false},
		{"of its own", as, one, false},
		{"no interface", r.with(t, func(s *dataplane.Settings) { s.Interfaces = s.Interfaces[1:] }), nowhere, false},
		{"an interface", as, one, false},
		{"gone, the shorter one remains", r.edits(t, gone(prefix)), nowhere, false},
		{"none is left", r.edits(t, gone(covering)), nowhere, false},
	} {
		r.follow(t, step, r.site, first, second)
	}
}

// coreFollows edits what packets from the core go by.
func (r *bySetRouter) coreFollows(t *testing.T, p pair) {
	f := r.far[0]
	if p.inner(0, 1).Is6() {
		f = r.far[1]
	}
	to := func(destination netip.Addr) []byte {
		packet := udpPacket(t, pair{"", func(site, _ int) netip.Addr { return [2]netip.Addr{f.source, destination}[site] }, nil}, 0, 1, 64)
		header, err := forward.ParseHeader(packet)
		must(t, err)
		outer, reason := forward.Encapsulate(nil, packet, &header, &forward.Tunnel{
			Source: lisp.RLOCFromAddr(p.outer(1)), Destination: lisp.RLOCFromAddr(p.outer(0)),
		})
		if reason != forward.DropNone {
			t.Fatalf("encapsulate: %v", reason)
		}
		return frameTo(r.core, outer)
	}
	first, second := to(f.there), to(f.here)
	marked := func(change func(), prefix netip.Prefix, want bool) func() {
		return func() {
			change()
			r.waitForMark(t, prefix, want, "an edit")
			atomic.StoreUint64(&r.store.Changed.Numbers.WatchedUntilNs, forEver)
		}
	}
	as := r.with(t, nil)
	for _, step := range []followStep{
		{when: "marked", change: marked(func() {}, f.prefix, true)},
		{when: "an entry of its own", change: marked(r.edits(t, databaseEntry(f.part)), f.part, true)},
		{when: "that is gone", change: marked(r.edits(t, dataplane.DeleteDatabase{Prefix: eidPrefix(f.part)}), f.prefix, true)},
		{when: "no entry", change: r.edits(t, dataplane.DeleteDatabase{Prefix: eidPrefix(f.prefix)})},
		{when: "an entry", change: marked(r.edits(t, databaseEntry(f.prefix)), f.prefix, true)},
		{when: "a route within", change: func() {
			must(t, r.ns.AddRoute(testnet.Route{Destination: f.part, Via: f.another}))
			r.waitForMark(t, f.prefix, false, "a route within")
		}},
		{when: "no route within", alone: true, change: marked(func() {
			must(t, r.ns.Netlink().RouteDel(&netlink.Route{Dst: &net.IPNet{
				IP: f.part.Addr().AsSlice(), Mask: net.CIDRMask(f.part.Bits(), f.part.Addr().BitLen())}}))
		}, f.prefix, true)},
		{when: "no own RLOC", change: r.with(t, without(p.outer(0)))},
		{when: "an own RLOC", change: as},
		{when: "denied", change: r.with(t, deny(dataplane.ListDecapsulated, dataplane.ListInnerSource, f.source))},
		{when: "permitted", change: as},
		{when: "its source checked", change: r.with(t, func(s *dataplane.Settings) { s.Header.SourceCheck = dataplane.SourceStrict })},
		{when: "not checked", change: as},
		{when: "by the stack", change: r.with(t, func(s *dataplane.Settings) { s.Interfaces[1].Forwarding = dataplane.ForwardingStack })},
		{when: "fast again", change: as},
		{when: "a site of another Instance-ID", change: r.with(t, func(s *dataplane.Settings) { s.Interfaces[0].Instance = 5 })},
		{when: "of its own", change: marked(as, f.prefix, true)},
		{when: "no interface", change: r.with(t, func(s *dataplane.Settings) { s.Interfaces = s.Interfaces[:1] })},
		{when: "an interface", change: as},
	} {
		r.follow(t, step, r.core, first, second)
	}
}

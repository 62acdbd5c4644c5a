// SPDX-License-Identifier: Apache-2.0

// One next hop for all addresses of an EID-Prefix, as the kernel's routes allow it: marks come and go with routes and rules, and
// what goes another way takes it with the next packet. The tests need root.

package kernel

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/conformance/links"
	"loci/dataplane/kernel/abi"
	"loci/forward"
	"loci/internal/testnet"
	"loci/lisp"
)

// behindGateway is an EID-Prefix behind a gateway of the site, and a part of it.
type behindGateway struct {
	prefix, part      netip.Prefix
	here, there       netip.Addr // in the part, and not
	gateway, another  netip.Addr
	source            netip.Addr
	gatewayMAC, other net.HardwareAddr
}

func sitesBehindGateways() []*behindGateway {
	macs := [2]net.HardwareAddr{{2, 0, 0, 0, 1, 1}, {2, 0, 0, 0, 1, 2}}
	parse, address := netip.MustParsePrefix, netip.MustParseAddr
	return []*behindGateway{
		{prefix: parse("10.9.0.0/16"), part: parse("10.9.3.0/24"), here: address("10.9.3.4"), there: address("10.9.77.7"),
			gateway: siteAddress4(0, 30), another: siteAddress4(0, 31), source: siteAddress4(1, 10), gatewayMAC: macs[0], other: macs[1]},
		{prefix: parse("2001:db8:9::/48"), part: parse("2001:db8:9:3::/64"), here: address("2001:db8:9:3::4"), there: address("2001:db8:9:77::7"),
			gateway: siteAddress6(0, 30), another: siteAddress6(0, 31), source: siteAddress6(1, 10), gatewayMAC: macs[0], other: macs[1]},
	}
}

// newWayRouter is router A with far sites, whose routes lead to a gateway.
func newWayRouter(t *testing.T) (*router, []*behindGateway) {
	t.Helper()
	n := newLinks(t)
	r := n.open(t, 0, Options{})
	handle := r.ns.Netlink()
	site, err := handle.LinkByName("site0")
	must(t, err)
	sites := sitesBehindGateways()
	for _, f := range sites {
		for address, mac := range map[netip.Addr]net.HardwareAddr{f.gateway: f.gatewayMAC, f.another: f.other} {
			must(t, handle.NeighSet(&netlink.Neigh{
				LinkIndex: site.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IP(address.AsSlice()), HardwareAddr: mac,
			}))
		}
		must(t, r.ns.AddRoute(testnet.Route{Destination: f.prefix, Via: f.gateway}))
		prefix, err := lisp.PrefixFromNetip(0, f.prefix)
		must(t, err)
		r.apply(t, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: prefix, Locators: locators(rloc4(0), rloc6(0))}})
	}
	return r, sites
}

// isMarked reports whether an entry of the Database has the mark.
func (r *router) isMarked(t *testing.T, prefix netip.Prefix) bool {
	t.Helper()
	eid, err := lisp.PrefixFromNetip(0, prefix)
	must(t, err)
	_, record := r.entryOf(t, abi.RootDatabase, eid)
	return record != nil && atomic.LoadUint32(&record.Flags)&abi.MappingSingleNextHop != 0
}

func (r *router) waitForMark(t *testing.T, prefix netip.Prefix, want bool, when string) {
	t.Helper()
	for deadline := time.Now().Add(patience); r.isMarked(t, prefix) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v is marked: %t", when, prefix, !want)
		}
	}
}

// markAll marks all entries of the Database, right or wrong, and ends what was decided before.
func (r *router) markAll(marked bool) {
	for _, record := range r.records() {
		if record.Flags&abi.MappingDatabase == 0 {
			continue
		}
		flags := &record.Flags
		atomic.StoreUint32(flags, *flags&^abi.MappingSingleNextHop)
		if marked {
			atomic.StoreUint32(flags, *flags|abi.MappingSingleNextHop)
		}
	}
	r.store.Changed.All()
}

// siteMAC runs the program of the core on a packet of LISP, and returns to whom it would go.
func (r *router) siteMAC(t *testing.T, source, destination netip.Addr) net.HardwareAddr {
	t.Helper()
	core, err := r.ns.Netlink().LinkByName("core0")
	must(t, err)
	p := pair{"", func(which, _ int) netip.Addr { return [2]netip.Addr{source, destination}[which] }, nil}
	packet := udpPacket(t, p, 0, 1, 64)
	header, err := forward.ParseHeader(packet)
	must(t, err)
	outer, reason := forward.Encapsulate(nil, packet, &header, &forward.Tunnel{
		Source: lisp.RLOCFromAddr(rloc4(1)), Destination: lisp.RLOCFromAddr(rloc4(0)),
	})
	if reason != forward.DropNone {
		t.Fatalf("encapsulate: %v", reason)
	}
	frame := append(append([]byte{}, core.Attrs().HardwareAddr...), links.FarMAC...)
	frame = append(binary.BigEndian.AppendUint16(frame, unix.ETH_P_IP), outer...)
	const skbIngressIfindex, skbIfindex, skbContextOctets, outputOctets = 36, 40, 192, 256 // of struct __sk_buff, and room for headers
	context := make([]byte, skbContextOctets)
	for _, at := range []int{skbIfindex, skbIngressIfindex} {
		binary.NativeEndian.PutUint32(context[at:], uint32(core.Attrs().Index))
	}
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+outputOctets), Context: context}
	program := r.program(t, abi.ProgramCoreIngress)
	must(t, r.ns.Do(func() error {
		_, err := program.Run(options)
		return err
	}))
	return options.DataOut[:6]
}

func (r *router) expectWay(t *testing.T, when string, f *behindGateway, destination netip.Addr, want net.HardwareAddr) {
	t.Helper()
	if got := r.siteMAC(t, f.source, destination); got.String() != want.String() {
		t.Errorf("%s: packets to %v go to %v, want %v", when, destination, got, want)
	}
}

// keptHops counts next hops that are kept for all addresses of an EID-Prefix, and for pairs.
func (r *router) keptHops(t *testing.T) (entries, pairs int) {
	t.Helper()
	for _, a := range r.mapCaches(t).records {
		switch {
		case a.What != uint8(abi.DoDeliver) || a.ExpiresNs == 0:
		case a.Target != 0:
			entries++
		default:
			pairs++
		}
	}
	return entries, pairs
}

func TestSingleNextHopFollowsRoutes(t *testing.T) {
	r, sites := newWayRouter(t)
	handle := r.ns.Netlink()
	for _, f := range sites {
		r.waitForMark(t, f.prefix, true, "at first")
	}
	for _, f := range sites {
		for range 3 {
			r.expectWay(t, "marked", f, f.here, f.gatewayMAC)
			r.expectWay(t, "marked", f, f.there, f.gatewayMAC)
		}
	}
	if entries, pairs := r.keptHops(t); entries == 0 {
		t.Errorf("%d next hops are kept for EID-Prefixes, %d for pairs of addresses", entries, pairs)
	}
	for _, f := range sites {
		route := testnet.Route{Destination: f.part, Via: f.another}
		must(t, r.ns.AddRoute(route))
		r.waitForMark(t, f.prefix, false, "a route within")
		r.expectWay(t, "a route within", f, f.here, f.other)
		r.expectWay(t, "a route within", f, f.there, f.gatewayMAC)
	}
	// What is marked by mistake, or by a process that is gone, counts only while a process watches. The engine does
	// not say that it does: it has marked nothing.
	for _, f := range sites {
		r.markAll(true)
		watched := &r.store.Changed.Numbers.WatchedUntilNs
		atomic.StoreUint64(watched, forEver)
		eventually(t, "packets go by what another one asked for", func() bool { // which is kept for 50 ms
			return r.siteMAC(t, f.source, f.there).String() == f.gatewayMAC.String() && r.siteMAC(t, f.source, f.here).String() == f.gatewayMAC.String()
		})
		atomic.StoreUint64(watched, 1)
		r.store.Changed.All() // what was decided holds for 50 ms more
		r.expectWay(t, "not watched", f, f.here, f.other)
		r.markAll(false)
	}
	for _, f := range sites {
		must(t, handle.RouteDel(&netlink.Route{Dst: &net.IPNet{IP: f.part.Addr().AsSlice(), Mask: net.CIDRMask(f.part.Bits(), f.part.Addr().BitLen())}}))
	}
	r.waitForMark(t, sites[0].prefix, true, "no route within")
	r.waitForMark(t, sites[1].prefix, true, "no route within")
	state, err := r.Datapath()
	must(t, err)
	if state.Table.SingleNextHops != len(sites) {
		t.Errorf("%d entries with a single next hop are shown, want %d", state.Table.SingleNextHops, len(sites))
	}
	// A rule is for one source.
	added := netlink.NewRule()
	added.Family, added.Priority, added.Table, added.Src = netlink.FAMILY_V4, 500, 77, hostRoute(sites[0].source)
	must(t, handle.RuleAdd(added))
	r.waitForMark(t, sites[0].prefix, false, "a rule")
	r.waitForMark(t, sites[1].prefix, true, "a rule of the other family")
	must(t, handle.RuleDel(added))
	r.waitForMark(t, sites[0].prefix, true, "no such rule")
	expectRulesOfLaterKernels(t, r, sites)
}

// expectRulesOfLaterKernels has a rule for the main table whose condition netlink.Rule does not have: the one behind it
// counts.
func expectRulesOfLaterKernels(t *testing.T, r *router, sites []*behindGateway) {
	t.Helper()
	const fraDSCP = 25 // Linux 6.14
	err := r.ns.Do(func() error {
		request := nl.NewNetlinkRequest(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
		request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET, Table: unix.RT_TABLE_MAIN, Type: unix.RTN_UNICAST}})
		request.AddData(nl.NewRtAttr(nl.FRA_PRIORITY, nl.Uint32Attr(500)))
		request.AddData(nl.NewRtAttr(fraDSCP, []byte{10}))
		_, err := request.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if err != nil {
		t.Logf("not with this kernel: %v", err)
		return
	}
	added := netlink.NewRule()
	added.Family, added.Priority, added.Table = netlink.FAMILY_V4, 600, 77
	must(t, r.ns.Netlink().RuleAdd(added))
	r.waitForMark(t, sites[0].prefix, false, "rules by DSCP")
	for deadline := time.Now().Add(patience); !r.ways.Settled(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the watcher does not look at the rules")
		}
	}
	if r.isMarked(t, sites[0].prefix) {
		t.Errorf("%v is marked, though only packets of one DSCP go by the main table", sites[0].prefix)
	}
}

// TestMarksEndWithTheirEngine leaves none for programs that go on by themselves.
func TestMarksEndWithTheirEngine(t *testing.T) {
	r, sites := newWayRouter(t)
	r.waitForMark(t, sites[0].prefix, true, "at first")
	mappings := r.store.Map(abi.MapMappings)
	again, err := mappings.Clone()
	must(t, err)
	defer again.Close()
	must(t, r.Close())
	for index := range uint32(8) {
		var record abi.Mapping
		must(t, again.Lookup(index, &record))
		if record.Flags&abi.MappingSingleNextHop != 0 {
			t.Errorf("entry %d is still marked", index)
		}
	}
	must(t, r.ns.Do(func() (err error) {
		r.Engine, err = Open(Options{Instance: r.instance, Logger: testLogger()})
		return err
	}))
	r.waitForMark(t, sites[0].prefix, true, "by the next engine")
}

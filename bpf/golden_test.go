// SPDX-License-Identifier: Apache-2.0

// The golden packets of testdata/packets through the programs: the same table that package forward is held against, with equal
// results. Only the nonce differs, which is random.

package bpf_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/forward"
	"loci/internal/golden"
	"loci/lisp"
)

// goldenBench is a bench that is the golden router.
type goldenBench struct {
	*bench
	tap      netlink.Link
	events   *ringbuf.Reader
	subflows *ringbuf.Reader
	paths    map[lisp.Path]uint32 // their numbers
	xdp      bool                 // packets that come in meet the XDP program first
	among    bool                 // as if most packets missed the flow cache
	flags    []string             // of both interfaces, beside their side
	lists    uint32               // kinds that have entries
	vlan     bool                 // the site is a VLAN of its interface
	interval time.Duration        // between hints
	tagged   int                  // frames that XDP gave a tag
	taken    int                  // by the XDP program
	passed   int                  // on to tc
}

func newGoldenBench(t *testing.T, r golden.Router) *goldenBench {
	t.Helper()
	b := &goldenBench{bench: newBench(t), interval: time.Second, paths: map[lisp.Path]uint32{}}
	b.addSilentTAP(t)
	for _, own := range []netip.Addr{rloc4(0), rloc6(0)} {
		b.localRLOC(own, 4790)
	}
	for _, a := range []string{"10.7.0.10", "2001:db8:7::10", "2001:db8:1::10"} {
		address := netip.MustParseAddr(a)
		must(t, b.ns.Netlink().RouteAdd(&netlink.Route{
			LinkIndex: b.site.Attrs().Index, Dst: ipNet(netip.PrefixFrom(address, address.BitLen())), Scope: netlink.SCOPE_LINK,
		}))
		b.neighbour(t, b.site, address, hostMAC)
	}
	for _, p := range r.Database {
		b.addGoldenDatabase(t, r, p)
	}
	for _, m := range r.MapCache {
		b.addGoldenMapping(t, r, m)
	}
	for _, l := range r.Lists {
		b.addGoldenList(l)
	}
	for _, p := range r.Policies {
		b.addGoldenPolicy(p)
	}
	b.policies = 0 // each case has its own
	bound, err := r.Bound()
	must(t, err)
	b.bindAll(t, bound)
	b.events, err = ringbuf.NewReader(b.coll.Maps["events"])
	must(t, err)
	t.Cleanup(func() { b.events.Close() })
	b.subflows, err = ringbuf.NewReader(b.coll.Maps["subflows"])
	must(t, err)
	t.Cleanup(func() { b.subflows.Close() })
	return b
}

// numberOf is the number of a path.
func (b *goldenBench) numberOf(path lisp.Path) uint32 {
	if b.paths[path] == 0 {
		b.paths[path] = uint32(len(b.paths) + 1)
	}
	return b.paths[path]
}

// bindAll makes these the flows that are bound.
func (b *goldenBench) bindAll(t *testing.T, bound map[lisp.Flow]lisp.Path) {
	t.Helper()
	b.empty(t, "bindings")
	b.empty(t, "bound_pairs")
	b.bindings = uint32(len(bound))
	for flow, path := range bound {
		source := flow.Source.Addr()
		values := fields{"iid": uint32(flow.Instance), "family": familyOf(source), "source": address16(source),
			"destination": address16(flow.Destination.Addr())}
		b.update("bound_pairs", b.encode("lisp_binding_key", values), uint32(1))
		values["protocol"], values["ports"] = flow.Protocol,
			binary.BigEndian.AppendUint32(nil, uint32(flow.SourcePort)<<16|uint32(flow.DestinationPort))
		b.update("bindings", b.encode("lisp_binding_key", values),
			b.encode("lisp_binding", fields{"path": b.numberOf(path)}))
	}
	b.forgetCaches()
}

// addSilentTAP makes loci0 without programs, so that the kernel's own packets are not counted.
func (b *goldenBench) addSilentTAP(t *testing.T) {
	t.Helper()
	var opened *tap
	must(t, b.ns.Do(func() (err error) {
		opened, err = openTAP("loci0")
		return err
	}))
	t.Cleanup(func() { opened.file.Close() })
	// The kernel's random address may begin with a magic of metadata.
	must(t, b.ns.Netlink().LinkSetHardwareAddr(b.link(t, "loci0"), tapMAC))
	b.tap = b.link(t, "loci0")
	must(t, b.ns.Netlink().LinkSetUp(b.tap))
	must(t, b.ns.SetSysctl("net.ipv4.conf.loci0.forwarding", "1"))
	must(t, b.ns.SetSysctl("net.ipv6.conf.loci0.forwarding", "1"))
}

var goldenActions = map[lisp.Action]string{
	lisp.ActionNoAction: "LISP_ACTION_NO_ACTION", lisp.ActionNativelyForward: "LISP_ACTION_NATIVELY_FORWARD",
	lisp.ActionSendMapRequest: "LISP_ACTION_SEND_MAP_REQUEST", lisp.ActionDrop: "LISP_ACTION_DROP",
	lisp.ActionDropPolicyDenied: "LISP_ACTION_DROP_POLICY_DENIED", lisp.ActionDropAuthFailure: "LISP_ACTION_DROP_AUTHENTICATION_FAILURE",
}

func (b *goldenBench) addGoldenMapping(t *testing.T, r golden.Router, m golden.Mapping) {
	t.Helper()
	instance, prefix := uint32(m.Prefix.Instance()), m.Prefix.Netip().String()
	set, err := m.LocatorSet()
	must(t, err)
	if len(set) == 0 {
		b.negative(instance, prefix, goldenActions[m.Action])
		return
	}
	first, usable := b.locators, forward.UsableLocators(set, nil)
	for i, l := range set {
		next := l.NextHop()
		source := r.LocalRLOCs[slices.IndexFunc(r.LocalRLOCs, func(a netip.Addr) bool { return a.Is4() == next.Is4() })]
		if flags := b.pathFlags(r, &l); flags != 0 {
			b.update("paths", b.locators, b.encode("lisp_path", fields{"count": l.Path().Len(), "next": l.Next, "hops": hopsOf(l.Path())}))
		}
		b.addLocator(fields{
			"rloc": address16(next.Addr()), "source": address16(source), "family": familyOf(source), "priority": l.Priority, "weight": l.Weight,
			"flags": b.pathFlags(r, &l) | map[bool]uint32{true: b.constant("LISP_LOCATOR_UP")}[usable.Has(i)], "path": b.numberOf(l.Path()),
		})
	}
	buckets := forward.Buckets(set, nil)
	b.update("locator_sets", b.sets, b.encode("lisp_locator_set", fields{
		"count": len(set), "first": first, "status_bits": golden.StatusBits(set), "buckets": buckets[:],
	}))
	flags := b.constant("LISP_MAPPING_VALID")
	if m.Hold {
		flags |= b.constant("LISP_MAPPING_HOLD")
	}
	if slices.Contains(r.EchoNonce, m.Prefix) {
		flags |= b.constant("LISP_MAPPING_ECHO_NONCE")
	}
	b.add("LISP_ROOT_MAP_CACHE", instance, prefix, fields{"flags": flags, "locator_set": b.sets, "map_version": r.Versions[m.Prefix]})
	b.sets++
}

// hopsOf lays out the hops of a path.
func hopsOf(p lisp.Path) (octets []byte) {
	for _, hop := range p.Hops() {
		octets = append(octets, familyOf(hop.Addr()))
		octets = binary.BigEndian.AppendUint16(octets, hop.Port())
		octets = append(octets, address16(hop.Addr())...)
	}
	return octets
}

// pathFlags says whether the router is on the path of a locator.
func (b *goldenBench) pathFlags(r golden.Router, l *lisp.Locator) uint32 {
	hops := l.Path().Hops()
	for _, before := range hops[:l.Next] {
		if slices.Contains(r.LocalRLOCs, before.Addr()) {
			return b.constant("LISP_LOCATOR_PATH")
		}
	}
	if len(hops) > 1 {
		return b.constant("LISP_LOCATOR_PATH") | b.constant("LISP_LOCATOR_NOT_ON_PATH")
	}
	return 0
}

// addGoldenPolicy adds the policy of a role, for the cases that switch it on.
func (b *goldenBench) addGoldenPolicy(p golden.Policy) {
	texts := func(prefixes []netip.Prefix) (all []string) {
		for _, prefix := range prefixes {
			all = append(all, prefix.String())
		}
		return all
	}
	b.policy("LISP_LIST_"+strings.ToUpper(p.Role), uint32(p.Instance), texts(p.EIDs)...)
	if p.Role == "pitr" {
		sources := texts(p.Sources)
		if sources == nil {
			sources = []string{"0.0.0.0/0", "::/0"}
		}
		b.policy("LISP_LIST_PITR_SOURCE", uint32(p.Instance), sources...)
	}
}

// kindsOf are the lists of roles, a bit for each.
func (b *goldenBench) kindsOf(roles []string) (kinds uint32) {
	for _, role := range roles {
		kinds |= 1 << b.constant("LISP_LIST_"+strings.ToUpper(role))
	}
	if slices.Contains(roles, "pitr") {
		kinds |= 1 << b.constant("LISP_LIST_PITR_SOURCE")
	}
	return kinds
}

// addGoldenDatabase adds an own EID-prefix with locators and version.
func (b *goldenBench) addGoldenDatabase(t *testing.T, r golden.Router, p lisp.Prefix) {
	t.Helper()
	set, err := r.DatabaseLocators(p)
	must(t, err)
	b.update("locator_sets", b.sets, b.encode("lisp_locator_set", fields{"count": len(set), "status_bits": golden.StatusBits(set)}))
	b.add("LISP_ROOT_DATABASE", uint32(p.Instance()), p.Netip().String(), fields{
		"flags": b.constant("LISP_MAPPING_VALID") | b.constant("LISP_MAPPING_DATABASE"), "locator_set": b.sets, "map_version": r.Versions[p],
	})
	b.sets++
}

// goldenEchoWait is how long an echo is waited for.
const goldenEchoWait = 10 * time.Second

// goldenGeneration is that of the lists in force; another one beside it denies everything.
const goldenGeneration = 3

func (b *goldenBench) addGoldenList(l golden.List) {
	b.lists |= 1 << l.Kind()
	deny := map[string]uint32{"permit": b.constant("LISP_LIST_PERMITS"), "deny": b.constant("LISP_LIST_DENIES")}
	key := fields{"bits": 64, "generation": goldenGeneration + 1, "kind": l.Kind(), "family": 4, "iid": uint32(l.Instance)}
	b.update("lists", b.encode("lisp_list_key", key), deny["deny"])
	for prefix, verdict := range l.Entries {
		b.update("lists", b.encode("lisp_list_key", fields{
			"bits": 64 + prefix.Bits(), "generation": goldenGeneration, "kind": l.Kind(), "family": familyOf(prefix.Addr()), "iid": uint32(l.Instance),
			"address": address16(prefix.Addr()),
		}), deny[verdict])
	}
}

// encapsulateAs makes all locators take that encapsulation.
func (b *goldenBench) encapsulateAs(name string) {
	for i := range b.locators {
		var l []byte
		if err := b.coll.Maps["locators"].Lookup(i, &l); err != nil {
			b.t.Fatal(err)
		}
		b.setMember("lisp_locator", "encapsulation", l, b.constant(name))
		b.update("locators", i, l)
	}
}

// goldenSettings are the words of cases that are flags of lisp_settings.
var goldenSettings = map[string]string{
	"outer-not-ect": "LISP_SETTING_OUTER_NOT_ECT", "outer-dscp-zero": "LISP_SETTING_OUTER_DSCP_ZERO", "inner-dscp-kept": "LISP_SETTING_INNER_DSCP_KEPT",
	"public-internet": "LISP_SETTING_PUBLIC_INTERNET", "status-bits": "LISP_SETTING_STATUS_BITS", "map-versions": "LISP_SETTING_MAP_VERSIONS",
	"vxlan-gpe": "LISP_SETTING_OTHER_PORTS", "echo-nonce": "LISP_SETTING_ECHO_NONCE", "check-source": "LISP_SETTING_CHECK_SOURCE", "check-source-strict": "LISP_SETTING_CHECK_SOURCE_STRICT",
	"lists": "LISP_SETTING_LISTS", "subflows": "LISP_SETTING_SUBFLOWS",
}

// remember makes the programs know of other routers what the case says, and nothing else.
func (b *goldenBench) remember(t *testing.T, c *golden.Case) {
	t.Helper()
	b.empty(t, "peers")
	b.empty(t, "heard")
	b.empty(t, "limits")
	b.empty(t, "sources")
	b.empty(t, "subflow_limits")
	var now unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
	if p := c.Peer; p != nil {
		at := uint64(now.Nano()) - uint64(p.Age)*uint64(time.Second)
		state := fields{"owed": p.Owed, "requested": p.Requested}
		if p.Owed != 0 {
			state["owed_ns"] = at
		}
		if p.Requested != 0 {
			state["requested_ns"] = at
		}
		b.update("peers", b.encode("lisp_rloc_key", fields{"address": address16(p.RLOC), "family": familyOf(p.RLOC)}), b.encode("lisp_peer", state))
	}
	if c.StaleEvents > 0 {
		rloc := netip.AddrFrom4([4]byte(c.Input[12:]))
		b.update("heard", b.encode("lisp_limit_key", fields{
			"kind": b.constant("LISP_EVENT_DESTINATION_VERSION"), "family": familyOf(rloc), "destination": address16(rloc),
		}), b.encode("lisp_heard", fields{"raised_ns": uint64(now.Nano() - int64(2*time.Second)), "count": c.StaleEvents}))
	}
}

func (b *bench) empty(t *testing.T, name string) {
	t.Helper()
	m := b.coll.Maps[name]
	var keys [][]byte
	key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	for iterator := m.Iterate(); iterator.Next(&key, &value); {
		keys = append(keys, bytes.Clone(key))
	}
	for _, key := range keys {
		must(t, m.Delete(key))
	}
}

// owed returns the nonce whose echo is owed to anybody.
func (b *goldenBench) owed() uint32 {
	m := b.coll.Maps["peers"]
	key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	for iterator := m.Iterate(); iterator.Next(&key, &value); {
		return uint32(b.member("lisp_peer", "owed", value))
	}
	return 0
}

// sources returns the RLOCs that packets were decapsulated from.
func (b *goldenBench) sources() (from []netip.Addr) {
	m := b.coll.Maps["sources"]
	key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	for iterator := m.Iterate(); iterator.Next(&key, &value); {
		address := [16]byte(key)
		rloc := netip.AddrFrom16(address)
		if b.member("lisp_rloc_key", "family", key) == 4 {
			rloc = netip.AddrFrom4([4]byte(address[:]))
		}
		if binary.NativeEndian.Uint64(value) > 0 {
			from = append(from, rloc)
		}
	}
	return from
}

// sourcesAfter is what sources returns after a case: its outer source, if the packet is decapsulated.
func sourcesAfter(c *golden.Case) []netip.Addr {
	switch {
	case c.Hook != "core" || c.Inner == nil && !slices.Contains([]string{"decapsulate", "stack", "relay"}, c.Verdict):
		return nil
	case c.Input[0]>>4 == 4:
		return []netip.Addr{netip.AddrFrom4([4]byte(c.Input[12:]))}
	}
	return []netip.Addr{netip.AddrFrom16([16]byte(c.Input[8:]))}
}

// prepare sets what a case has of its own.
func (b *goldenBench) prepare(t *testing.T, c *golden.Case) {
	t.Helper()
	flags := uint32(0)
	for word, flag := range goldenSettings {
		if c.Has(word) {
			flags |= b.constant(flag)
		}
	}
	b.remember(t, c)
	encapsulation := map[bool]string{c.Has("lisp-gpe"): "LISP_ENCAPSULATION_LISP_GPE", c.Has("vxlan-gpe"): "LISP_ENCAPSULATION_VXLAN_GPE"}[true]
	b.encapsulateAs(cmp.Or(encapsulation, "LISP_ENCAPSULATION_LISP"))
	policy := map[string]string{"": "LISP_MISS_QUEUE", "drop": "LISP_MISS_DROP", "natively-forward": "LISP_MISS_FORWARD_NATIVELY"}[c.MissPolicy]
	b.settings(fields{
		"flags": flags, "miss_policy": b.constant(policy), "tap_ifindex": uint32(b.tap.Attrs().Index), "tap_mac": []byte(b.tap.Attrs().HardwareAddr),
		"hint_interval_ns": uint64(b.interval), "echo_wait_ns": uint64(goldenEchoWait), "echo_interval_ns": uint64(time.Minute),
		"lists": b.lists | b.kindsOf(c.Roles), "list_generation": goldenGeneration,
	})
	for flag, at := range map[string]netlink.Link{"LISP_INTERFACE_SITE": b.site, "LISP_INTERFACE_CORE": b.core, "LISP_INTERFACE_TAP": b.tap} {
		interfaceFlags := b.constant(flag)
		for _, more := range b.flags {
			interfaceFlags |= b.constant(more)
		}
		b.update("interfaces", uint32(at.Attrs().Index), b.encode("lisp_interface", fields{
			"flags": interfaceFlags, "l2_length": etherLength, "iid": uint32(c.Instance), "roots": b.rootsOf(uint32(c.Instance)), "mac": []byte(at.Attrs().HardwareAddr),
		}))
		if b.vlan && at == b.site {
			b.putVLAN(uint32(c.Instance), interfaceFlags&^b.constant("LISP_INTERFACE_SITE"))
		}
	}
}

// pass runs the program of the case's hook.
func (b *goldenBench) pass(t *testing.T, c *golden.Case) (answer uint32, sent, got []byte) {
	t.Helper()
	at, came := b.tap, true
	var frame []byte
	program := map[string]string{
		"site": "site_ingress", "core": "core_ingress", "local": "core_egress", "tap": "lisp_egress", "released": "lisp_ingress",
	}[c.Hook]
	switch c.Hook {
	case "site":
		at = b.site
		frame = b.fromSite(ethernet(at.Attrs().HardwareAddr, hostMAC, c.Input))
	case "core":
		at = b.core
		frame = ethernet(at.Attrs().HardwareAddr, peerMAC, c.Input)
	case "local":
		at, came = b.core, false
		frame = ethernet(peerMAC, at.Attrs().HardwareAddr, c.Input)
	case "tap":
		came = false
		frame = ethernet(peerMAC, at.Attrs().HardwareAddr, c.Input)
	case "released":
		metadata := binary.BigEndian.AppendUint32([]byte{magicReleased, reasonMiss}, b.originOf(c))
		frame = ethernet([]byte{2: byte(c.Instance >> 16), byte(c.Instance >> 8), byte(c.Instance), b.waitsTo(c)}, metadata, c.Input)
	}
	if b.xdp && came && at != b.tap && c.Segment == 0 { // GSO packets are skbs
		if answer, got, passed := b.runXDP(t, at, frame); !passed {
			return answer, frame, got
		}
	}
	answer, got = b.runSegmented(t, program, at, came, frame, c.Segment)
	return answer, frame, got
}

// originOf is the interface where the packet of a case came in, as metadata has it.
func (b *goldenBench) originOf(c *golden.Case) uint32 {
	switch {
	case c.Hook == "core" || c.Hook == "local" || c.Hook == "released" && (c.Relayed || c.Proxied):
		return uint32(b.core.Attrs().Index)
	case c.Hook == "tap":
		return uint32(b.tap.Attrs().Index)
	}
	return b.origin()
}

// waitsTo is what the packet of a case waits for, as metadata has it.
func (b *goldenBench) waitsTo(c *golden.Case) byte {
	switch {
	case c.Relayed || c.Hook == "core" && c.Inner != nil:
		return byte(b.constant("LISP_DO_RELAY"))
	case c.Proxied:
		return byte(b.constant("LISP_DO_PROXY"))
	}
	return waitsToEncapsulate
}

// runXDP runs the XDP program, and says what tc would have answered.
func (b *goldenBench) runXDP(t *testing.T, at netlink.Link, frame []byte) (answer uint32, got []byte, passed bool) {
	t.Helper()
	program := "lisp_xdp"
	if b.among {
		program = "lisp_xdp_sets"
	}
	verdict, got := b.frameBy(t, program, at, frame)
	switch verdict {
	case xdpPass:
		if !bytes.Equal(got, frame) {
			t.Errorf("passed on, but changed:\n%x, was\n%x", got, frame)
		}
		b.passed++
		return 0, nil, true
	case xdpDrop:
		answer = actShot
	case xdpRedirect:
		answer = actRedirect
	default:
		t.Errorf("the XDP program answered %d", verdict)
	}
	b.taken++
	return answer, got, false
}

// skbGSOSize is the offset of gso_size in struct __sk_buff.
const skbGSOSize = 176

// runSegmented is run for a GSO packet.
func (b *goldenBench) runSegmented(t *testing.T, program string, at netlink.Link, came bool, frame []byte, segment int) (uint32, []byte) {
	t.Helper()
	if b.among {
		b.missMostly(true)
	}
	if segment == 0 {
		return b.run(t, program, at, came, frame)
	}
	context := make([]byte, skbOctets)
	binary.LittleEndian.PutUint32(context[skbIfindex:], uint32(at.Attrs().Index))
	binary.LittleEndian.PutUint32(context[skbIngressIfindex:], uint32(at.Attrs().Index))
	binary.LittleEndian.PutUint32(context[skbGSOSize:], uint32(segment))
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: context}
	var answer uint32
	loaded := b.program(program)
	must(t, b.ns.Do(func() error {
		return onProcessor(0, func() (err error) {
			answer, err = loaded.Run(options)
			return err
		})
	}))
	return answer, options.DataOut
}

// countsOf reads every counter of an enumeration of abi.h that is not zero, by its name.
func (b *goldenBench) countsOf(enumeration, mapName string) map[string]uint64 {
	counts := map[string]uint64{}
	var enum *btf.Enum
	if err := b.spec.Types.TypeByName(enumeration, &enum); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range enum.Values {
		if strings.HasSuffix(v.Name, "_MAX") {
			continue
		}
		if n := b.counted(mapName, uint32(v.Value)); n > 0 {
			counts[strings.ReplaceAll(strings.ToLower(v.Name), "_", "-")] = n
		}
	}
	return counts
}

func increased(before, after map[string]uint64, prefix string) (names []string) {
	for name, n := range after {
		for range n - before[name] {
			names = append(names, strings.TrimPrefix(name, prefix))
		}
	}
	slices.Sort(names)
	return names
}

// goldenResult is what was seen of a case.
type goldenResult struct {
	verdict, reason string
	notes           []string
	proxied         bool
}

// goldenNotes are the counters that the table calls notes.
var goldenNotes = []string{
	"ecn-alarm", "ecn-curious", "nonce-and-version", "version-stale-destination", "version-stale-source", "echo-received", "echo-missing",
}

// judge words what the answer and the counters say as the table does.
func judge(c *golden.Case, answer uint32, drops, counters []string) goldenResult {
	r := goldenResult{verdict: "pass", reason: strings.Join(drops, " ")}
	if c.Hook == "released" && answer == actRedirect {
		r.verdict = "native" // back to where it came in, where it is counted; or what a counter says
	}
	for _, counter := range counters {
		switch {
		case strings.HasPrefix(counter, "encapsulated-"):
			r.verdict = "encapsulate"
		case strings.HasPrefix(counter, "relayed-"):
			r.verdict = "relay"
		case counter == "proxied":
			r.proxied = true
		case strings.HasPrefix(counter, "decapsulated-") && r.verdict == "pass":
			r.verdict = "decapsulate"
		case counter == "to-stack":
			r.verdict = "stack"
		case counter == "waiting":
			r.verdict = "wait"
		case counter == "native", counter == "too-big":
			r.verdict = counter
		case slices.Contains(goldenNotes, counter):
			r.notes = append(r.notes, counter)
		}
	}
	if len(drops) > 0 {
		r.verdict = "drop"
	}
	return r
}

var goldenHints = map[string]string{
	"LISP_EVENT_STATUS_BITS": "status-bits", "LISP_EVENT_DESTINATION_VERSION": "destination-version", "LISP_EVENT_SOURCE_VERSION": "source-version",
	"LISP_EVENT_ECHO_MISSING": "echo-missing",
}

// eventsRaised reads all events: whether there was a miss, and what else was told.
func (b *goldenBench) eventsRaised(t *testing.T) (miss bool, hints []golden.Hint) {
	t.Helper()
	for {
		b.events.SetDeadline(time.Now())
		record, err := b.events.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return miss, hints
		}
		must(t, err)
		event := func(member string) uint64 { return b.member("lisp_event", member, record.RawSample) }
		miss = miss || event("kind") == uint64(b.constant("LISP_EVENT_MISS"))
		for name, kind := range goldenHints {
			if event("kind") == uint64(b.constant(name)) {
				hints = append(hints, golden.Hint{Kind: kind, Value: uint32(event("value")), Other: uint32(event("other"))})
			}
		}
	}
}

// Shows RFC 9300 s.4.1 (1), RFC 9300 s.5.3 (7), (10), (12), RFC 9302 s.6.1 (1), (2), RFC 9302 s.7.1 (2), RFC 9302
// s.7.2 (3), RFC 9300 s.5 (3), RFC 9300 s.5.3 (1), (2), (3), (6), (8), (13), (14), (15), (16), (17), RFC 9300 s.7.1
// (3), RFC 9301 s.5.4 (6), RFC 6832 s.5 (2), RFC 6832 s.5.2 (2), (3), (5), (6),
// RFC 6832 s.6 (1), RFC 6832 s.6.1 (3), (4), (5).
func TestGoldenPackets(t *testing.T) {
	table, err := golden.Load("..")
	must(t, err)
	newGoldenBench(t, table.Router).all(t, table)
}

// TestGoldenPacketsXDP demands the same when the XDP program comes first, whether it may redirect or not.
func TestGoldenPacketsXDP(t *testing.T) {
	table, err := golden.Load("..")
	must(t, err)
	for name, flags := range map[string][]string{
		"on real links":            {"LISP_INTERFACE_TAKES_FRAMES"},
		"on virtual links":         {"LISP_INTERFACE_TAKES_FRAMES", "LISP_INTERFACE_CHECKSUM_PARTIAL"},
		"where none takes a frame": nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newGoldenBench(t, table.Router)
			b.xdp, b.flags = true, flags
			b.all(t, table)
			t.Logf("the XDP program took %d packets and passed %d on", b.taken, b.passed)
			if redirects := len(flags) > 0; b.passed == 0 || redirects && b.taken < b.passed {
				t.Errorf("it took %d and passed %d on", b.taken, b.passed)
			}
		})
	}
}

// all puts every case of the table through.
func (b *goldenBench) all(t *testing.T, table *golden.Table) {
	t.Helper()
	b.eventsRaised(t)
	for _, c := range table.Cases {
		if len(c.Input) < 20 || c.Input[0]>>4 == 6 && len(c.Input) < 40 {
			continue // BPF_PROG_TEST_RUN refuses to make an skb of half an IP header
		}
		t.Run(c.Name, func(t *testing.T) {
			b.prepare(t, &c)
			b.check(t, &c)
			if isRepeatable(&c) && !t.Failed() {
				b.check(t, &c) // by the flow cache
				b.among = true
				b.check(t, &c) // by the locator-set cache
				b.among = false
				b.missMostly(false)
			}
			if _, told := toldReason(&c); told {
				b.expectSilence(t, &c)
			}
		})
	}
	t.Logf("%d cases; %s", len(table.Cases), b.allDrops())
}

// isRepeatable says of a case that the same packet a second time has the same fate.
func isRepeatable(c *golden.Case) bool {
	sent := c.Verdict == "encapsulate" || c.Verdict == "decapsulate" || c.Verdict == "relay"
	return sent && c.Peer == nil && c.StaleEvents == 0 && len(c.Hints) == 0 && c.Owes == nil
}

// check puts a case through and holds what came of it against the table.
func (b *goldenBench) check(t *testing.T, c *golden.Case) {
	t.Helper()
	drops, counters := b.countsOf("lisp_drop", "drops"), b.countsOf("lisp_counter_index", "counters")
	answer, sent, got := b.pass(t, c)
	r := judge(c, answer, increased(drops, b.countsOf("lisp_drop", "drops"), "lisp-drop-"),
		increased(counters, b.countsOf("lisp_counter_index", "counters"), "lisp-counter-"))
	if r.verdict != c.Verdict || r.reason != c.Reason || !slices.Equal(r.notes, c.Notes) {
		t.Fatalf("%s %s %v, want %s %s %v\nwhy: %s", r.verdict, r.reason, r.notes, c.Verdict, c.Reason, c.Notes, c.Why)
	}
	if c.Verdict == "encapsulate" && r.proxied != c.Proxied {
		t.Errorf("a PITR's: %t, want %t", r.proxied, c.Proxied)
	}
	if raised, hints := b.eventsRaised(t); raised != c.Miss || !slices.Equal(hints, c.Hints) {
		t.Errorf("miss raised: %t, hints %v, want %t, %v", raised, hints, c.Miss, c.Hints)
	}
	if err := b.compareSubflow(t, c); err != nil {
		t.Errorf("%v\nwhy: %s", err, c.Why)
	}
	if owed := b.owed(); c.Owes != nil && owed != *c.Owes {
		t.Errorf("owes 0x%x, want 0x%x", owed, *c.Owes)
	}
	relayed := c.Verdict == "drop" && c.Roles != nil // late or not, which is no matter
	if got, want := b.sources(), sourcesAfter(c); !slices.Equal(got, want) && !relayed {
		t.Errorf("packets came from %v, want %v", got, want)
	}
	if err := b.compare(c, answer, sent, got); err != nil {
		t.Errorf("%v\nwhy: %s", err, c.Why)
	}
}

// compareSubflow holds what was told of the beginning or the end of a connection against the case.
func (b *goldenBench) compareSubflow(t *testing.T, c *golden.Case) error {
	t.Helper()
	told, fromCore := b.subflowsRaised(t, b.subflows)
	want := c.Subflow != nil
	if want != (len(told) == 1) || want && (!bytes.Equal(told[0], c.Subflow) ||
		fromCore[0] != (c.Verdict == "decapsulate" || c.Verdict == "stack")) {
		return fmt.Errorf("subflows told: %x, from the core: %v, want %x", told, fromCore, []byte(c.Subflow))
	}
	return nil
}

// compare holds the program's answer and the frame it left against the case.
func (b *goldenBench) compare(c *golden.Case, answer uint32, sent, got []byte) error {
	want, wantAnswer := sent, uint32(actRedirect)
	to := func(mac, from net.HardwareAddr) []byte { return ethernet(mac, from, c.Output) }
	switch c.Verdict {
	case "pass":
		wantAnswer = actUnspec
	case "drop":
		if reason, told := toldReason(c); told {
			return b.compareTold(c, reason, answer, got)
		}
		got, wantAnswer = sent, actShot
	case "native":
		if c.Inner != nil { // the stack takes the hop off
			want = ethernet(b.tap.Attrs().HardwareAddr, make(net.HardwareAddr, 6), c.Inner)
			break
		}
		if c.Hook != "released" {
			wantAnswer = actUnspec
		}
		got = append(bytes.Clone(sent[:12]), got[12:]...) // where it goes is no part of the table
	case "wait", "too-big":
		return b.compareWaiting(c, answer, sent, got)
	case "encapsulate", "relay":
		got = append(bytes.Clone(got[:etherLength]), c.Masked(got[etherLength:])...)
		want = to(peerMAC, b.core.Attrs().HardwareAddr)
	case "decapsulate":
		want = to(hostMAC, b.site.Attrs().HardwareAddr)
		if untagged := b.untag(got); len(untagged) < len(got) {
			got = untagged
			b.tagged++
		}
	case "stack":
		want = to(b.tap.Attrs().HardwareAddr, make(net.HardwareAddr, 6))
	}
	if answer != wantAnswer {
		return fmt.Errorf("answer %d, want %d", int32(answer), int32(wantAnswer))
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("frame\n%x, want\n%x", got, want)
	}
	return nil
}

// compareWaiting demands the packet untouched and its metadata right.
func (b *goldenBench) compareWaiting(c *golden.Case, answer uint32, sent, got []byte) error {
	f := frame(append(make([]byte, vnetLength), got...))
	reason := byte(reasonMiss)
	origin, want := b.originOf(c), cmp.Or(string(c.Inner), string(c.Input))
	switch {
	case c.Verdict == "too-big":
		reason = reasonTooBig
	case !c.Miss:
		reason = reasonHold
	}
	wantAnswer := uint32(actRedirect)
	if c.Hook == "tap" {
		wantAnswer = actOK
	}
	switch {
	case answer != wantAnswer:
		return fmt.Errorf("answer %d, want %d", int32(answer), int32(wantAnswer))
	case string(f.ip()) != want:
		return fmt.Errorf("the packet changed:\n%x, want\n%x", f.ip(), []byte(want))
	case got[5] != b.waitsTo(c):
		return fmt.Errorf("it waits to be %d, want %d", got[5], b.waitsTo(c))
	case f.magic() != magicWaiting || f.reason() != reason || f.origin() != origin || f.instance() != uint32(c.Instance):
		return fmt.Errorf("metadata %x, want reason %d, origin %d, Instance-ID %d", got[:etherLength], reason, origin, c.Instance)
	case c.Verdict == "too-big" && int(f.largestInner()) != c.LargestInner:
		return fmt.Errorf("largest inner packet %d, want %d", f.largestInner(), c.LargestInner)
	}
	return nil
}

// toldEvery is LISP_UNREACHABLE_SOURCE_NS.
const toldEvery = 100 * time.Millisecond

// toldReason is the reason of a drop that the packet's source is told of.
func toldReason(c *golden.Case) (forward.DropReason, bool) {
	for _, reason := range forward.DropReasons() {
		if reason.String() == c.Reason {
			_, told := forward.UnreachableFor(reason)
			return reason, told
		}
	}
	return forward.DropNone, false
}

// expectSilence demands that the source of two packets is not told of both. Of the first it may not be told either: an
// earlier one was, almost toldEvery ago.
func (b *goldenBench) expectSilence(t *testing.T, c *golden.Case) {
	t.Helper()
	for begun := time.Now(); ; begun = time.Now() {
		first, _, _ := b.pass(t, c)
		second, _, _ := b.pass(t, c)
		if second == actShot {
			return
		}
		if first != actShot && time.Since(begun) < toldEvery {
			t.Fatalf("answer %d to the second, want %d: its source was told a moment ago", int32(second), actShot)
		}
	}
}

// compareTold demands that a packet that was dropped goes to user space, which tells its source.
func (b *goldenBench) compareTold(c *golden.Case, reason forward.DropReason, answer uint32, got []byte) error {
	f := frame(append(make([]byte, vnetLength), got...))
	wantAnswer, origin, want := uint32(actRedirect), b.originOf(c), cmp.Or(string(c.Inner), string(c.Input))
	if c.Hook == "tap" {
		wantAnswer = actOK
	}
	switch {
	case answer != wantAnswer:
		return fmt.Errorf("answer %d, want %d: its source has to be told", int32(answer), int32(wantAnswer))
	case string(f.ip()) != want:
		return fmt.Errorf("the packet changed:\n%x, want\n%x", f.ip(), []byte(want))
	case f.magic() != magicWaiting || f.reason() != reasonUnreachable || f.origin() != origin || f.largestInner() != uint16(reason):
		return fmt.Errorf("metadata %x, want reason %d with %d, origin %d", got[:etherLength], reasonUnreachable, reason, origin)
	}
	return nil
}

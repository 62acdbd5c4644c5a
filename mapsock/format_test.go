// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
)

// full has everything that a message can have.
func full() *Message {
	m := &Message{
		Type: TypeAdd, Flags: FlagVersioning | FlagStatic | FlagDone, MapVersion: 0xABC, PID: 4711, Seq: 42, Errno: unix.ESRCH,
		Source: lisp.EIDFromAddr(netip.MustParseAddr("10.1.0.1")), Action: lisp.ActionDrop, TTLMinutes: 15,
		Created: time.Unix(1700000000, 123456789), Expires: time.Unix(1700000900, 0),
		Usage:     dataplane.Usage{Packets: 7, Octets: 700, LastUsedAt: time.Unix(1700000100, 0)},
		Interface: "site0", LocatorState: dataplane.LocatorDown, StatusBits: 5, ReceivedVersion: 0x123, MTU: 1400,
		ErrorOffset: 24, ErrorText: "no such entry", Lost: 3, Count: 1 << 40, Hearing: HearEvents, MissForm: TypeMissHeader,
		Packet:     []byte{0x45, 0, 0},
		Watched:    []dataplane.Interface{{Name: "eth0", Side: dataplane.SideCore}, {Name: "site-1", Instance: 7}, {Name: "trunk", Hook: dataplane.HookXDP, Forwarding: dataplane.ForwardingStack, Instance: 8, VLAN: 4094}},
		LocalRLOCs: []lisp.RLOC{up("192.0.2.1").RLOC, lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8::1"))},
		MissPolicy: dataplane.MissDrop, Wait: dataplane.DefaultWaitBounds,
		Counts: []Count{{AttributeCounter, "miss_packets", 9}, {AttributeDrop, "too-big", 1}, {AttributeOther, "x", math.MaxUint64}},
		Nonce:  0xABCDEF, OtherVersion: 0xFFF, StatusBitCount: 8, ICMPType: 3, ICMPCode: 1,
		Header: dataplane.HeaderSettings{
			StatusBits: true, MapVersions: true, EchoNonce: true, SourceCheck: dataplane.SourceStrict, EchoWait: 3 * time.Second, EchoInterval: 4 * time.Second,
		},
		Encapsulations: []dataplane.EncapsulationRule{
			{RLOCs: netip.MustParsePrefix("192.0.2.0/24"), Encapsulation: dataplane.EncapsulationLISPGPE},
			{RLOCs: netip.MustParsePrefix("2001:db8::/32"), Encapsulation: dataplane.EncapsulationVXLANGPE},
			{Encapsulation: dataplane.EncapsulationVXLANGPE},
		},
		Lists: []dataplane.AccessList{
			{
				Packets: dataplane.ListDecapsulated, Instance: 7,
				Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Deny: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")},
			},
			{Address: dataplane.ListOuterDestination, Deny: []netip.Prefix{netip.MustParsePrefix("2001:db8:bad::/48")}},
		},
		MissPolicies: map[lisp.InstanceID]dataplane.MissPolicy{7: dataplane.MissHandOver, 9: dataplane.MissQueue},
		Roles: []dataplane.RolePolicy{
			{
				Role: dataplane.RolePITR, Instance: 7,
				EIDs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Sources: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
			},
			{Role: dataplane.RolePETR, EIDs: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}},
		},
		RecursionDepth: 2,
		Sibling:        netip.MustParseAddr("10.1.0.2"),
		RTRs:           []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.8")), lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8::8"))},
		Outer:          [2]netip.AddrPort{netip.MustParseAddrPort("192.0.2.8:4342"), netip.MustParseAddrPort("192.0.2.1:4341")},
		MarkNative:     1,
		Flow:           boundFlow(),
		Tables:         tableMapCache | tableFlows,
		Subflows:       1,

		PathIdentification: dataplane.PathsBySource,

		Paths: []PathState{
			{
				RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.9")), MTU: 1480, Learnt: true,
				Echo: dataplane.EchoState{AskedAt: time.Unix(1700000001, 0), EchoedAt: time.Unix(1700000002, 5)},
			},
			{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8::9")), Echo: dataplane.EchoState{MissingAt: time.Unix(1700000003, 0)}},
		},
	}
	m.SetPrefix(lisp.MustParsePrefix("[7]10.2.0.0/16"))
	m.Locators = []Locator{
		{Locator: lisp.Locator{RLOC: up("192.0.2.2").RLOC, Priority: 1, Weight: 50, MulticastPriority: 255, MulticastWeight: 3, Local: true, Probed: true, Reachable: true}},
		{Locator: up("2001:db8:ff00::2"), Interface: true, MTU: 1500, TxNonce: 1, RxNonce: 2, HasTxNonce: true, HasRxNonce: true},
	}
	path, _ := lisp.NewPath(m.Locators[1].RLOC.WithPort(40001), lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.3")))
	l := &m.Locators[1].Locator
	l.RLOC, l.Behind, l.Next, l.Bits[0], l.Bits[1] = path.RLOC, path.Behind, 1, lisp.HopExplicit|lisp.HopStrict, lisp.HopExplicit|lisp.HopProbe|lisp.HopLookup
	for a := range attributeForms {
		if formOf(Attribute(a)) != nil && Attribute(a) != AttributeEID {
			m.Mark(Attribute(a))
		}
	}
	return m
}

// boundFlow is a flow in the Instance-ID of full.
func boundFlow() lisp.Flow {
	return lisp.Flow{
		Instance: 7, Protocol: 6, SourcePort: 40000, DestinationPort: 443,
		Source:      lisp.EIDFromAddr(netip.MustParseAddr("10.1.0.1")),
		Destination: lisp.EIDFromAddr(netip.MustParseAddr("10.2.0.1")),
	}
}

func TestRoundTrip(t *testing.T) {
	name, err := lisp.EIDFromName("printer")
	if err != nil {
		t.Fatal(err)
	}
	messages := map[string]*Message{"everything": full(), "nothing": {Type: TypeFlush}}
	for text, prefix := range map[string]lisp.Prefix{
		"IPv4 host": lisp.MustParsePrefix("10.0.0.1"), "everything IPv6": lisp.MustParsePrefix("::/0"),
		"IPv6": lisp.MustParsePrefix("[4]2001:db8::/33"), "MAC": lisp.MustParsePrefix("02:00:00:00:00:00/17"),
		"exact name": lisp.HostPrefix(3, name), "name": lisp.MustParsePrefix(`"prin"/32`), "no EID": {},
	} {
		m := &Message{Type: TypeGet}
		m.SetPrefix(prefix)
		messages[text] = m
	}
	unmasked := &Message{Type: TypeGet, HasEID: true, Prefix: lisp.MustParsePrefix("10.0.0.1")}
	messages["EID without mask"] = unmasked
	for name, m := range messages {
		t.Run(name, func(t *testing.T) {
			b := written(t, []byte("before"), m)[len("before"):]
			var got Message
			length, err := got.Parse(append(b, "behind"...))
			if err != nil || length != len(b) {
				t.Fatalf("length %d of %d, error %v\n%s", length, len(b), err, hex.Dump(b))
			}
			if again := written(t, nil, &got); string(again) != string(b) {
				t.Errorf("written again:\n%swas\n%s", hex.Dump(again), hex.Dump(b))
			}
			if !same(&got, m) {
				t.Errorf("reads as\n%+v, want\n%+v", got, m)
			}
		})
	}
}

// same compares messages; the Instance-ID of a prefix need not be marked, and empty
// is nil.
func same(a, b *Message) bool {
	x, y := *a, *b
	for _, m := range []*Message{&x, &y} {
		m.has &^= 1 << AttributeInstance
		m.has &^= 1 << AttributeEID
		m.has &^= 1 << AttributeHops
		if len(m.Locators) == 0 {
			m.Locators = nil
		}
	}
	return reflect.DeepEqual(x, y)
}

// The octets of an add, written by hand from docs/mapsock.md for a little-endian host.
func TestGoldenAdd(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the octets are those of a little-endian host")
	}
	m := &Message{Type: TypeAdd, Flags: FlagReplace, Seq: 5, Action: lisp.ActionNoAction, TTLMinutes: 1440}
	m.SetPrefix(lisp.MustParsePrefix("[7]10.2.0.0/16"))
	m.Locators = []Locator{{Locator: lisp.Locator{RLOC: up("192.0.2.2").RLOC, Priority: 1, Weight: 100, MulticastPriority: 255, Reachable: true}}}
	m.Mark(AttributeAction, AttributeTTL)
	want := strings.Join([]string{
		"7c00 02 01 00000200 0700 0000 01000000 00000000 05000000 00000000 6400 0000", // header
		"0200 0000 0a020000 0000000000000000", "0200 0000 ffff0000 0000000000000000",  // EID, mask
		"0200 0000 c0000202 0000000000000000", "01 64 0100 00000000 00000000 00000000 ff 00 0000", // RLOC, metrics
		"0180 0400 07000000", "0480 0400 00000000", "0500 0400 a0050000", // Instance-ID, action, TTL
	}, "")
	if got := hex.EncodeToString(written(t, nil, m)); got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%s, want\n%s", got, strings.ReplaceAll(want, " ", ""))
	}
}

// A server that does not know of paths must not install another locator; a client that does not know of them still
// reads tables. The octets of a plain locator are what they were.
func TestWhoMustKnowOfHops(t *testing.T) {
	path, err := lisp.NewPath(up("192.0.2.2").RLOC, up("2001:db8::3").RLOC)
	if err != nil {
		t.Fatal(err)
	}
	for kind, must := range map[Type]bool{
		TypeAdd: true, TypeChange: true, TypeSetLocatorState: true, TypeDump: false, TypeGet: false, TypeDumpLocatorStates: false, TypeUnreachable: false,
	} {
		plain := &Message{Type: kind, Locators: []Locator{{Locator: up("192.0.2.2")}}}
		before := written(t, nil, plain)
		plain.Locators[0].Behind = path.Behind
		after := written(t, nil, plain)
		if string(after[HeaderSize:len(before)]) != string(before[HeaderSize:]) {
			t.Errorf("%s: the hops changed the octets of the locator", kind)
		}
		if a := Attribute(order.Uint16(after[len(before):])); a&^mandatory != AttributeHops || a&mandatory != 0 != must {
			t.Errorf("%s: attribute %#x, mandatory: %v", kind, a, must)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	tooMany := &Message{Type: TypeAdd, Locators: make([]Locator, MaxLocators+1)}
	for i := range tooMany.Locators {
		tooMany.Locators[i].Locator = up(fmt.Sprintf("192.0.2.%d", i+1))
	}
	tooLong := &Message{Type: TypeMissPacket, Packet: make([]byte, MaxMessage)}
	tooLong.Mark(AttributePacket)
	mixed := &Message{Type: TypeDeleteFlow, Flow: boundFlow()}
	mixed.Flow.Source = lisp.EIDFromAddr(netip.MustParseAddr("2001:db8::1"))
	mixed.Mark(AttributeFlow)
	negative := &Message{Type: TypeSetSettings, Wait: dataplane.WaitBounds{Time: -1}}
	for name, m := range map[string]*Message{
		"33 locators": tooMany, "no RLOC": {Type: TypeAdd, Locators: make([]Locator, 1)}, "too long": tooLong, "negative bound": negative,
		"flow of two families": mixed,
		"no interface":         {Type: TypeSetSettings, Watched: make([]dataplane.Interface, 1)},
		"no own RLOC":          {Type: TypeSetSettings, LocalRLOCs: make([]lisp.RLOC, 1)},
		"own RLOC with port": {Type: TypeSetSettings,
			LocalRLOCs: []lisp.RLOC{up("192.0.2.2").RLOC.WithPort(1)}},
		"next hop": {Type: TypeAdd,
			Locators: []Locator{{Locator: lisp.Locator{RLOC: up("192.0.2.2").RLOC, Next: 1}}}},
		"negative echo time": {Type: TypeSetSettings, Header: dataplane.HeaderSettings{EchoInterval: -1}},
	} {
		b, err := m.Append([]byte("before"))
		if !errors.Is(err, dataplane.ErrInvalid) || string(b) != "before" {
			t.Errorf("%s: %v, and %d octets written", name, err, len(b)-len("before"))
		}
	}
}

// Each case spoils one field of a good message.
func TestParseNamesFieldAndOffset(t *testing.T) {
	const eid, mask, rloc, metrics, attributes = 32, 48, 64, 80, 100
	u16 := func(at int, v uint16) func([]byte) []byte {
		return func(b []byte) []byte { order.PutUint16(b[at:], v); return b }
	}
	u32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { order.PutUint32(b[at:], v); return b }
	}
	octet := func(at int, v byte) func([]byte) []byte { return func(b []byte) []byte { b[at] = v; return b } }
	add := func(a Attribute, value ...byte) func([]byte) []byte {
		return func(b []byte) []byte {
			b = appendOctets(b, a, value)
			order.PutUint16(b, uint16(len(b)))
			return b
		}
	}
	add2 := func(a Attribute, value []byte) func([]byte) []byte {
		return func(b []byte) []byte { return add(a, value...)(add(a, value...)(b)) }
	}
	hops := func(locator, next uint32, last ...byte) []byte { // the first locator is 192.0.2.2
		b := order.AppendUint32(order.AppendUint32(nil, locator), next)
		for _, octet := range last {
			b = append(b, 0, 0, 0, 4, 192, 0, 2, 2+octet)
		}
		return b
	}
	header := func(bits, check uint32, wait uint64) []byte {
		return order.AppendUint64(order.AppendUint64(order.AppendUint32(order.AppendUint32(nil, bits), check), wait), 0)
	}
	for _, c := range []struct {
		name  string
		spoil func([]byte) []byte
		field string
		at    int
		errno unix.Errno
	}{
		{"nothing", func([]byte) []byte { return nil }, "header", 0, unix.EBADMSG},
		{"two octets", func(b []byte) []byte { return b[:2] }, "header", 2, unix.EBADMSG},
		{"short", func(b []byte) []byte { return b[:HeaderSize-1] }, "length", 0, unix.EBADMSG},
		{"length beyond the end", u16(offsetLength, 2000), "length", 0, unix.EBADMSG},
		{"length inside the header", u16(offsetLength, 28), "length", 0, unix.EBADMSG},
		{"odd length", u16(offsetLength, 33), "length", 0, unix.EBADMSG},
		{"OpenLISP's version", octet(offsetVersion, 1), "version", 2, unix.EPROTONOSUPPORT},
		{"later version", octet(offsetVersion, 3), "version", 2, unix.EPROTONOSUPPORT},
		{"unknown flag", u32(offsetFlags, 1<<31), "flags", 4, unix.EINVAL},
		{"unknown address", u16(offsetAddresses, 15), "addrs", 8, unix.EINVAL},
		{"mask without EID", u16(offsetAddresses, 6), "addrs", 8, unix.EINVAL},
		{"map-version without flag", u16(offsetMapVersion, 1), "map-version", 10, unix.EINVAL},
		{"33 locators", u32(offsetLocatorCount, 33), "rloc_count", 12, unix.EINVAL},
		{"-1 locators", u32(offsetLocatorCount, math.MaxUint32), "rloc_count", 12, unix.EINVAL},
		{"count without bit", u16(offsetAddresses, 3), "rloc_count", 12, unix.EINVAL},
		{"bit without count", u32(offsetLocatorCount, 0), "rloc_count", 12, unix.EINVAL},
		{"errno", u32(offsetErrno, 5000), "errno", 24, unix.EINVAL},
		{"attributes too early", u16(offsetAttributes, 96), "attributes", 28, unix.EINVAL},
		{"reserved", u16(offsetReserved, 1), "reserved", 30, unix.EINVAL},
		{"family", u16(eid, 1), "EID", eid, unix.EAFNOSUPPORT},
		{"port", u16(eid+2, 80), "EID", eid, unix.EINVAL},
		{"zero field", octet(eid+15, 1), "EID", eid, unix.EINVAL},
		{"host bits", octet(eid+7, 1), "EID", eid, unix.EINVAL},
		{"mask with a hole", octet(mask+7, 1), "mask", mask, unix.EINVAL},
		{"mask of the other family", u16(mask, familyIPv6), "mask", mask, unix.EINVAL},
		{"locator's family", u16(rloc, 0), "RLOC", rloc, unix.EAFNOSUPPORT},
		{"locator's flags", u16(metrics+2, 1<<15), "locator flags", metrics + 2, unix.EINVAL},
		{"second locator is missing", u32(offsetLocatorCount, 2), "RLOC", attributes, unix.EAFNOSUPPORT},
		{"attribute beyond the end", u16(attributes+2, 400), "attribute", attributes + 2, unix.EINVAL},
		{"mandatory and unknown", u16(attributes, mandatory|4000), "attribute", attributes, unix.ENOPROTOOPT},
		{"attribute too short", u16(attributes+2, 3), "Instance-ID", attributes, unix.EINVAL},
		{"attribute twice", add(AttributeInstance, 0, 0, 0, 0), "Instance-ID", attributes + 8, unix.EINVAL},
		{"EID twice", add(AttributeEID, 3, 48, 1, 2, 3, 4, 5, 6), "EID", attributes + 8, unix.EINVAL},
		{"action", add(AttributeAction, 9, 9, 9, 9), "action", attributes + 8, unix.EINVAL},
		{"time", add(AttributeCreated, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0), "created", attributes + 8, unix.EINVAL},
		{"source", add(AttributeSource, 1, 24, 10, 0, 0, 0), "source", attributes + 8, unix.EINVAL},
		{"source's kind", add(AttributeSource, 9, 24, 10, 0, 0, 0), "source", attributes + 8, unix.EINVAL},
		{"RLOC of 5 octets", add(AttributeLocalRLOC, 1, 2, 3, 4, 5), "local RLOC", attributes + 8, unix.EINVAL},
		{"unknown header bit", add(AttributeHeader, header(1<<5, 0, 0)...), "header settings", attributes + 8, unix.EINVAL},
		{"source check", add(AttributeHeader, header(0, 256, 0)...), "header settings", attributes + 8, unix.EINVAL},
		{"time of an echo", add(AttributeHeader, header(0, 0, 1<<63)...), "header settings", attributes + 8, unix.EINVAL},
		{"encapsulation", add(AttributeEncapsulation, 9, 9, 9, 9, 0, 0, 0, 0), "encapsulation", attributes + 8, unix.EINVAL},
		{"encapsulation's address", add(AttributeEncapsulation, 1, 0, 0, 0, 0, 0, 0, 0, 10, 0), "encapsulation", attributes + 8, unix.EINVAL},
		{"encapsulation's host bits", add(AttributeEncapsulation, append(order.AppendUint32(order.AppendUint32(nil, 1), 8), 10, 0, 0, 1)...),
			"encapsulation", attributes + 8, unix.EINVAL},
		{"bits of no RLOC", add(AttributeEncapsulation, 1, 0, 0, 0, 9, 9, 9, 9), "encapsulation", attributes + 8, unix.EINVAL},
		{"list of no packets", add(AttributeList, append(order.AppendUint32(nil, 0x200), 0, 0, 0, 0)...), "list", attributes + 8, unix.EINVAL},
		{"list of no address", add(AttributeList, append(order.AppendUint32(nil, 4), 0, 0, 0, 0)...), "list", attributes + 8, unix.EINVAL},
		{"listed verdict", add(AttributeList, 0, 0, 0, 0, 0, 0, 0, 0, 2, 8, 4, 0, 10, 0, 0, 0), "list", attributes + 8, unix.EINVAL},
		{"listed mask", add(AttributeList, 0, 0, 0, 0, 0, 0, 0, 0, 0, 33, 4, 0, 10, 0, 0, 0), "list", attributes + 8, unix.EINVAL},
		{"listed address of 5 octets", add(AttributeList, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 5, 0, 10, 0, 0, 0, 0), "list", attributes + 8, unix.EINVAL},
		{"listed octets beyond the end", add(AttributeList, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 16, 0, 10, 0, 0, 0), "list", attributes + 8, unix.EINVAL},
		{"listed reserved", add(AttributeList, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 4, 1, 10, 0, 0, 0), "list", attributes + 8, unix.EINVAL},
		{"listed host bits", add(AttributeList, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 4, 0, 10, 0, 0, 1), "list", attributes + 8, unix.EINVAL},
		{"list that ends within a prefix", add(AttributeList, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8), "list", attributes + 8, unix.EINVAL},
		{"list without its Instance-ID", add(AttributeList, 0, 0, 0, 0), "list", attributes + 8, unix.EINVAL},
		{"hops of no locator", add(AttributeHops, hops(1, 0, 0)...), "hops", attributes + 8, unix.EINVAL},
		{"no hop", add(AttributeHops, hops(0, 0)...), "hops", attributes + 8, unix.EINVAL},
		{"hops twice", add2(AttributeHops, hops(0, 1, 0, 3)), "hops", attributes + 8 + 28, unix.EINVAL},
		{"nine hops", add(AttributeHops, hops(0, 0, 0, 1, 3, 4, 5, 6, 7, 8, 9)...), "hops", attributes + 8, unix.EINVAL},
		{"a hop twice", add(AttributeHops, hops(0, 0, 0, 3, 0)...), "hops", attributes + 8, unix.EINVAL},
		{"other first hop", add(AttributeHops, hops(0, 0, 1, 0)...), "hops", attributes + 8, unix.EINVAL},
		{"next hop behind the path", add(AttributeHops, hops(0, 2, 0, 1)...), "hops", attributes + 8, unix.EINVAL},
		{"unknown bits of a hop", add(AttributeHops, append(hops(0, 0, 0), 0, 0, 16, 4, 192, 0, 2, 9)...), "hops", attributes + 8, unix.EINVAL},
		{"hop that is no address", add(AttributeHops, append(hops(0, 0, 0), 0, 0, 0, 5, 192, 0, 2, 9, 0)...), "hops", attributes + 8, unix.EINVAL},
		{"hop that is cut off", add(AttributeHops, append(hops(0, 0, 0), 0, 0, 0, 16, 192, 0, 2, 9)...), "hops", attributes + 8, unix.EINVAL},
		{"hop in itself", add(AttributeHops, append(hops(0, 0, 0), 0, 0, 0, 4, 127, 0, 0, 1)...), "hops", attributes + 8, unix.EINVAL},
		{"unknown role", add(AttributeRole, order.AppendUint32(order.AppendUint32(nil, 256), 0)...), "role", attributes + 8, unix.EINVAL},
		{"role's prefix", add(AttributeRole, append(order.AppendUint64(nil, 0), 2, 8, 4, 0, 10, 0, 0, 0)...), "role", attributes + 8, unix.EINVAL},
		{"recursion depth", add(AttributeRecursionDepth, order.AppendUint32(nil, 256)...), "recursion depth", attributes + 8, unix.EINVAL},
		{"flow of 5 octets", add(AttributeFlow, 6, 0, 0, 0, 0), "flow", attributes + 8, unix.EINVAL},
		{"flow of 9 octets of EIDs", add(AttributeFlow, 6, 0, 1, 0, 2, 0, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0),
			"flow", attributes + 8, unix.EINVAL},
		{"flow's reserved octet", add(AttributeFlow, 6, 1, 1, 0, 2, 0, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2), "flow",
			attributes + 8, unix.EINVAL},
		{"unknown table", add(AttributeTables, order.AppendUint32(nil, 8)...), "tables", attributes + 8,
			unix.EINVAL},
		{"VLAN beyond 4095", add(AttributeWatched, append(order.AppendUint32(nil, 4096<<20&math.MaxUint32|2<<16), 0, 0, 0, 0, 'x')...), "interface", attributes + 8, unix.EINVAL},
		{"side", add(AttributeWatched, 9, 9, 9, 9, 0, 0, 0, 0, 'x'), "interface", attributes + 8, unix.EINVAL},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &Message{Type: TypeAdd, Flags: FlagReplace, Seq: 77}
			m.SetPrefix(lisp.MustParsePrefix("[7]10.2.0.0/16"))
			m.Locators = []Locator{{Locator: up("192.0.2.2")}}
			b := c.spoil(written(t, nil, m))
			var got Message
			_, err := got.Parse(b)
			var problem *FormatError
			if !errors.As(err, &problem) {
				t.Fatalf("error %v", err)
			}
			if problem.Field != c.field || problem.Offset != c.at || problem.Errno != c.errno {
				t.Errorf("%s (%d), want %s at %d (%d)", err, problem.Errno, c.field, c.at, c.errno)
			}
			if len(b) >= HeaderSize && got.Seq != 77 {
				t.Errorf("seq %d is not told", got.Seq)
			}
		})
	}
}

func TestUnknownOptionalAttributeIsPassedOver(t *testing.T) {
	b := written(t, nil, &Message{Type: TypeFlush, Seq: 1})
	b = appendOctets(b, 4000, "who knows")
	b = append32(b, AttributeTTL, 9)
	order.PutUint16(b, uint16(len(b)))
	var m Message
	if _, err := m.Parse(b); err != nil || m.TTLMinutes != 9 {
		t.Errorf("%v, TTL %d", err, m.TTLMinutes)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	m, b := full(), make([]byte, 0, 4096)
	m.MissPolicies = nil // they are put in order first
	if n := testing.AllocsPerRun(100, func() { b, _ = m.Append(b[:0]) }); n != 0 {
		t.Errorf("%v allocations for a message", n)
	}
	entry := mappingTo("10.2.0.0/24", "192.0.2.2", "192.0.2.3").Entry
	var scratch Message
	scratch.Locators = make([]Locator, 0, 2)
	if n := testing.AllocsPerRun(100, func() {
		scratch.Reset(TypeDump)
		scratch.SetMapping(&entry)
		scratch.SetUsage(entry.Usage)
		b, _ = scratch.Append(b[:0])
	}); n != 0 {
		t.Errorf("%v allocations for an entry", n)
	}
	var parsed Message
	if n := testing.AllocsPerRun(100, func() { _, _ = parsed.Parse(b) }); n != 0 {
		t.Errorf("%v allocations to read an entry", n)
	}
}

func TestErrnoAndBack(t *testing.T) {
	for _, c := range []struct {
		err   error
		errno unix.Errno
	}{
		{dataplane.ErrNotFound, unix.ESRCH}, {dataplane.ErrUnsupported, unix.EAFNOSUPPORT}, {dataplane.ErrInvalid, unix.EINVAL},
		{dataplane.ErrNoLocalLocator, unix.EADDRNOTAVAIL}, {dataplane.ErrFull, unix.ENOBUFS}, {dataplane.ErrClosed, unix.ESHUTDOWN},
		{unix.EEXIST, unix.EEXIST}, {errors.New("anything"), unix.EIO},
	} {
		m := Message{}
		m.SetError(fmt.Errorf("10.0.0.0/8: %w", c.err))
		if m.Errno != c.errno {
			t.Errorf("%v has errno %d, want %d", c.err, m.Errno, c.errno)
		}
		if err := m.Err(); c.errno != unix.EIO && !errors.Is(err, c.err) || !errors.Is(err, c.errno) || !strings.Contains(err.Error(), "10.0.0.0/8") {
			t.Errorf("%v comes back as %v", c.err, err)
		}
	}
}

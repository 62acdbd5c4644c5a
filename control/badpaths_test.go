// SPDX-License-Identifier: Apache-2.0

package control

// Locators that cannot be followed: each is left out or not used, with its reason, counted, and changes nothing else.

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// hop is an IPv4 hop with bits, in octets.
func hop(bits int, last byte) string { return fmt.Sprintf(" %04x 0001 c00002%02x", bits, last) }

// elp is an explicit locator path of hops in octets.
func elp(hops ...string) string {
	text := strings.ReplaceAll(strings.Join(hops, ""), " ", "")
	return fmt.Sprintf("4003 0000 0a00 %04x %s", len(text)/2, text)
}

const (
	plainNine    = "0001 c0000209"
	hopBitS      = 1
	hopBitL      = 4
	hopIPv6      = " 0000 0002 20010db8000f00000000000000000002"
	hopOtherIPv6 = " 0000 0002 20010db8000f00000000000000000003"
	hopIPv6S     = " 0001 0002 20010db8000f00000000000000000002"
	badPathEID   = "10.2.0.1"
)

func nineHops() string {
	var hops []string
	for i := range byte(9) {
		hops = append(hops, hop(0, 20+i))
	}
	return elp(hops...)
}

// replies gives a router the Map-Reply to all it asks, with locators of these octets.
func (d *testNode) replies(prefix string, addresses ...string) {
	d.net.t.Helper()
	record := wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), TTLMinutes: 10})
	for _, text := range addresses {
		address, err := wire.ParseAddress(unhex(d.net.t, text))
		if err != nil {
			d.net.t.Fatal(err)
		}
		record.Locators = append(record.Locators, wire.LocatorRecord{Priority: 1, Weight: 100, MulticastPriority: 255, Reachable: true, Address: address})
	}
	asked := 0
	for _, m := range sentMessages[*wire.MapRequest](d) {
		if m.Probe {
			continue
		}
		asked++
		b, err := (&wire.MapReply{Nonce: m.Nonce, Records: []wire.Record{record}}).AppendTo(nil)
		if err != nil {
			d.net.t.Fatal(err)
		}
		d.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	}
	if asked == 0 {
		d.net.t.Fatal("no Map-Request; refusals", refusals(d))
	}
	d.sent, d.sentAt = nil, nil
}

// badPaths are addresses of locators with why an ITR at 192.0.2.1, with IPv4 alone, leaves them out.
var badPaths = map[string]struct{ octets, reason string }{
	"empty":                   {elp(), "path of 0 hops: want 1 to 8"},
	"over-long":               {nineHops(), "path of 9 hops: want 1 to 8"},
	"repeated hop":            {elp(hop(0, 11), hop(0, 12), hop(0, 11)), "hop 3: 192.0.2.11 is hop 1 already: a path must not meet a router twice"},
	"own address twice":       {elp(hop(0, 1), hop(0, 11), hop(0, 1)), "hop 3: 192.0.2.1 is hop 1 already: a path must not meet a router twice"},
	"path in itself":          {"4003 0000 0a00 0012 0000 4003 0000 0a00 0008 0000 0001 c000020b", "hop 1: elp(192.0.2.11) is not an IP address"},
	"name as hop":             {"4003 0000 0a00 000a 0000 0011 72747273 3100", `hop 1: "rtrs1" is not an IP address`},
	"loopback as hop":         {"4003 0000 0a00 0008 0000 0001 7f000001", "hop 1: RLOC 127.0.0.1 is not reachable from other systems"},
	"LCAF without an address": {"4003 0000 0e00 0006 0002 7b7d 0000", "no packet can be sent to this address alone"},
}

// TestBadPathsAreLeftOut: what a Map-Reply says beside them is used.
func TestBadPathsAreLeftOut(t *testing.T) {
	for name, c := range badPaths {
		_, x := loneITR(t, Limits{})
		x.miss("10.1.0.1", "10.3.0.1")
		x.replies("10.3.0.0/16", "0001 c0000207")
		before := x.cache[lisp.MustParsePrefix("10.3.0.0/16")]
		x.miss("10.1.0.1", badPathEID)
		x.replies("10.2.0.0/16", c.octets, plainNine)
		x.wantCached("10.2.0.0/16", "192.0.2.9")
		e := x.Explain(0, eid(badPathEID))
		if len(e.Skipped) != 1 || !strings.HasPrefix(e.Skipped[0].Reason, c.reason) || e.Skipped[0].Address == "" {
			t.Errorf("%s: skipped %+v, want %q", name, e.Skipped, c.reason)
		}
		x.wantCounter(counter.LocatorSkipped, 1)
		if after := x.cache[lisp.MustParsePrefix("10.3.0.0/16")]; !after.Mapping.Equal(before.Mapping) || len(x.cache) != 2 || len(x.states)+len(x.paths) != 0 {
			t.Errorf("%s: it changed more than its mapping: %v, %v, %v", name, x.cachedPrefixes(), x.states, x.paths)
		}
	}
}

// TestPathsThatThisRouterCannotTake: they are kept, for their site may change them, and no packet takes them; what
// can be sent to is used.
func TestPathsThatThisRouterCannotTake(t *testing.T) {
	for name, c := range map[string]struct {
		octets string
		reason LocatorReason
		next   uint8
	}{
		"ends here":                  {elp(hop(0, 11), hop(0, 1)), PathOwnNextHop, 1},
		"own RLOC":                   {"0001 c0000201", PathOwnNextHop, 0},
		"all hops are EIDs":          {elp(hop(hopBitL, 11), hop(hopBitL, 12)), PathAllHopsLookup, 0},
		"strict hop is an EID":       {elp(hop(hopBitL|hopBitS, 11), hop(0, 12)), PathHopNotUsable, 0},
		"strict hop of IPv6":         {elp(hopIPv6S, hop(0, 12)), PathHopNotUsable, 0},
		"hops of IPv6 alone":         {elp(hopIPv6, hopOtherIPv6), PathNoHopUsable, 0},
		"IPv6 behind the own RLOC":   {elp(hop(0, 1), hopIPv6), PathNoHopUsable, 1},
		"hop of IPv6, to be skipped": {elp(hopIPv6, hop(0, 12)), "", 1},
		"own RLOC absent":            {elp(hop(0, 11), hop(0, 12)), "", 0},
		"own RLOC in the middle":     {elp(hop(0, 11), hop(0, 1), hop(0, 12)), "", 2},
	} {
		_, x := loneITR(t, Limits{})
		x.miss("10.1.0.1", badPathEID)
		x.replies("10.2.0.0/16", c.octets, plainNine)
		refused := uint64(1)
		if c.reason == "" {
			refused = 0
		}
		x.wantCounter(counter.LocatorUnusable, refused)
		x.wantCounter(counter.LocatorSkipped, 0)
		found := false
		for _, l := range x.Explain(0, eid(badPathEID)).Locators {
			if l.Said.Path() == lisp.PathTo(rloc("192.0.2.9")) && l.Said.Bits[0] == 0 {
				if l.NotUsable != "" || l.Locator.Priority != 1 {
					t.Errorf("%s: the plain locator is %+v", name, l)
				}
				continue
			}
			found = true
			if l.NotUsable != c.reason || (l.Locator.Priority == lisp.PriorityUnused) != (c.reason != "") || l.Locator.Next != c.next {
				t.Errorf("%s: %q, priority %d, hop %d; want %q, hop %d", name, l.NotUsable, l.Locator.Priority, l.Locator.Next, c.reason, c.next)
			}
		}
		if !found {
			t.Errorf("%s: not explained", name)
		}
	}
}

// TestARouterThatIsItsOwnNextHop: alone, such a locator stays as it is, and the data plane drops packets as
// own-next-hop.
func TestARouterThatIsItsOwnNextHop(t *testing.T) {
	for name, octets := range map[string]string{"RLOC": "0001 c0000201", "path": elp(hop(0, 11), hop(0, 1))} {
		_, x := loneITR(t, Limits{})
		x.miss("10.1.0.1", badPathEID)
		x.replies("10.2.0.0/16", octets)
		set := x.cache[lisp.MustParsePrefix("10.2.0.0/16")].Mapping.Locators
		if len(set) != 1 || set[0].Priority != 1 || set[0].NextHop() != rloc("192.0.2.1") {
			t.Errorf("%s: the data plane was told %+v", name, set)
		}
		if e := x.Explain(0, eid(badPathEID)); len(e.Locators) != 1 || e.Locators[0].NotUsable != PathOwnNextHop {
			t.Errorf("%s: explained as %+v", name, e.Locators)
		}
	}
}

// TestLocatorsChangeTheirKind: on refresh a plain RLOC becomes a path, the path one that cannot be used, and back.
// Nothing is left behind of what went.
func TestLocatorsChangeTheirKind(t *testing.T) {
	kinds := []struct {
		octets   string
		locators int
		path     string
	}{
		{"0001 c000020b", 1, "192.0.2.11"},
		{elp(hop(hopBitS, 11)), 1, "192.0.2.11"},
		{elp(hop(0, 11), hop(0, 12)), 1, "192.0.2.11 -> 192.0.2.12"},
		{elp(hop(0, 12), hop(0, 11)), 1, "192.0.2.12 -> 192.0.2.11"},
		{badPaths["LCAF without an address"].octets, 0, ""},
		{badPaths["repeated hop"].octets, 0, ""},
	}
	prefix := lisp.MustParsePrefix("10.2.0.0/16")
	for i, from := range kinds {
		for j, to := range kinds {
			name := fmt.Sprintf("%d to %d", i, j)
			n, x := loneITR(t, Limits{})
			c := x.config
			c.ITR.RLOCProbing = ProbingConfig{}
			x.configure(c)
			x.miss("10.1.0.1", badPathEID)
			x.replies("10.2.0.0/16", from.octets)
			n.run(20 * time.Second) // nothing answers
			x.HandlePacket(n.now, netip.MustParseAddrPort("192.0.2.1:4342"), netip.MustParseAddrPort("192.0.2.9:4342"), solicitation(t, "10.2.0.0/16", 3))
			x.drain()
			x.replies("10.2.0.0/16", to.octets)
			entry, cached := x.cache[prefix]
			if !cached || len(entry.Mapping.Locators) != to.locators || to.locators == 1 && entry.Mapping.Locators[0].Path().String() != to.path {
				t.Fatalf("%s: %v", name, entry.Mapping)
			}
			if e := x.Explain(0, eid(badPathEID)); len(e.Locators) != to.locators || len(e.Skipped) != 1-to.locators {
				t.Errorf("%s: explained as %+v, skipped %+v", name, e.Locators, e.Skipped)
			}
			n.run(20 * time.Second)
			x.wantNoRemains(name, to.path)
		}
	}
}

// wantNoRemains demands rows for the hops of that path alone, and states in the data plane for that path alone.
func (d *testNode) wantNoRemains(name, path string) {
	d.net.t.Helper()
	for r := range d.itr.Prober.Table.ByRLOC {
		if !strings.Contains(path, r.String()) {
			d.net.t.Errorf("%s: %s still has a row", name, r)
		}
	}
	for p := range d.itr.Prober.Table.Paths.ByPath {
		if p.String() != path {
			d.net.t.Errorf("%s: path %s still has a row", name, p)
		}
	}
	for r := range d.itr.Prober.Table.Paths.ByHop {
		if !strings.Contains(path, r.String()) {
			d.net.t.Errorf("%s: %s is still known as a hop", name, r)
		}
	}
	for r := range d.states {
		if r.String() != path {
			d.net.t.Errorf("%s: the data plane still has a state of %s", name, r)
		}
	}
	for p := range d.paths {
		if p.String() != path {
			d.net.t.Errorf("%s: the data plane still has a state of %s", name, p)
		}
	}
	if d.itr.Prober.Table.Timers.Heap.Len() != len(d.itr.Prober.Table.ByRLOC) {
		d.net.t.Errorf("%s: %d deadlines of %d rows", name, d.itr.Prober.Table.Timers.Heap.Len(), len(d.itr.Prober.Table.ByRLOC))
	}
}

// solicitation is an SMR about an EID-Prefix.
func solicitation(t *testing.T, prefix string, nonce uint64) []byte {
	t.Helper()
	p := lisp.MustParsePrefix(prefix)
	b, err := (&wire.MapRequest{SMR: true, Nonce: nonce, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 9}},
		Records: []wire.RequestRecord{{EID: wire.AddressOf(p), MaskLen: uint8(p.Bits())}}}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMissesOutsideThePolicy: a relay resolves nothing that its policy does not name; the map-cache stays as it was.
func TestMissesOutsideThePolicy(t *testing.T) {
	for _, c := range []struct {
		role                Role
		source, destination string
		asked, refused      uint64
	}{
		{RoleRTR, "10.1.0.1", "10.2.0.1", 1, 0},
		{RoleRTR, "10.2.0.1", "198.51.100.1", 1, 0}, // from an EID of the policy
		{RoleRTR, "10.1.0.1", "10.3.0.1", 0, 1},
		{RolePITR, "198.51.100.1", "10.2.0.1", 1, 0},
		{RolePITR, "10.2.0.1", "198.51.100.1", 0, 1},
		{RolePETR, "10.2.0.1", "198.51.100.1", 0, 1},
	} {
		n := newNetwork(t)
		r := n.add("r", relayConfig(c.role, rtr1, "10.2.0.0/16"), rtr1)
		r.miss(c.source, c.destination)
		r.wantCounter(counter.MapRequestSent, c.asked)
		r.wantCounter(counter.RefusedPolicy, c.refused)
		if len(r.cache) != 0 {
			t.Errorf("%s: map-cache %v", c.role, r.cachedPrefixes())
		}
		n.run(time.Minute)
		if c.asked == 0 && (len(r.sent) != 0 || len(r.pendings()) != 0) {
			t.Errorf("%s: sent %d messages, %d under way", c.role, len(r.sent), len(r.pendings()))
		}
	}
}

// TestAnUnusableLocatorIsAnAnswer: a Map-Reply whose locators are all left out says what the site wants. It is no
// hole, in which a mapping stays whose locators still answer.
func TestAnUnusableLocatorIsAnAnswer(t *testing.T) {
	for _, c := range []struct {
		addresses []string
		kept      uint64
	}{{nil, 1}, {[]string{badPaths["LCAF without an address"].octets}, 0}} {
		n, x1, _ := probedSites(t, "10.2.0.9")
		n.lose = func(from *testNode, p SendPacket) bool {
			return from == x1 && p.Remote.Addr() == netip.MustParseAddr("192.0.2.100")
		}
		x1.sent, x1.sentAt = nil, nil
		for x1.counter(counter.MapRequestSent)-x1.counter(counter.OwnMapRequestSent) < 2 {
			if n.run(time.Minute); n.now.Sub(epoch) > 24*time.Hour {
				t.Fatal("it is never asked for again")
			}
			x1.use("10.2.0.0/16")
		}
		x1.replies("10.2.0.0/16", c.addresses...)
		x1.wantCounter(counter.MappingKept, c.kept)
		x1.wantCounter(counter.LocatorSkipped, uint64(len(c.addresses)))
		if set := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")].Mapping.Locators; (len(set) > 0) != (c.kept > 0) {
			t.Errorf("%d locators said: %v is left", len(c.addresses), set)
		}
	}
}

// TestRelaysAreAskedForMore: a relay answers no Map-Request and takes no registration, whatever its policy names; an
// RLOC-probe is answered with its own RLOC alone, and an SMR about what it has not asked for moves nothing.
func TestRelaysAreAskedForMore(t *testing.T) {
	probe := func(prefix string) []byte {
		p := lisp.MustParsePrefix(prefix)
		m := wire.MapRequest{Probe: true, Nonce: 9}
		m.Ask(lisp.EID{}, []lisp.RLOC{rloc("192.0.2.9")}, p)
		b, err := m.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	direct, err := (&wire.MapRequest{Nonce: 4, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 9}}, Records: []wire.RequestRecord{{EID: wire.IPv4{10, 2, 0, 0}, MaskLen: 16}}}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []Role{RoleRTR, RolePITR, RolePETR} {
		n := newNetwork(t)
		c := relayConfig(role, rtr1, "10.2.0.0/16")
		if role == RolePETR {
			c.ITR = nil
		}
		r := n.add("r", c, rtr1)
		for _, b := range [][]byte{direct, encapsulated(t, wire.MapRequest{Nonce: 5}, "10.2.0.9/32", "192.0.2.9"), register(t, nil, "10.2.0.0/16")} {
			r.inject(rtr1+":4342", "192.0.2.9:4342", b)
		}
		r.wantCounter(counter.RefusedRole, 3)
		r.inject(rtr1+":4342", "192.0.2.9:4342", solicitation(t, "10.2.0.0/16", 3))
		if len(r.sent) != 0 || len(r.cache) != 0 || len(r.pendings()) != 0 {
			t.Errorf("%s: sent %d messages, has %v", role, len(r.sent), r.cachedPrefixes())
		}
		for _, asked := range []string{"10.2.0.0/16", "10.3.0.0/16", "[7]10.2.0.0/16"} {
			r.sent = nil
			r.inject(rtr1+":4342", "192.0.2.9:4342", probe(asked))
			replies := sentMessages[*wire.MapReply](r)
			if answers := role != RolePITR && asked[0] != '['; (len(replies) == 1) != answers {
				t.Errorf("%s: %d answers to an RLOC-probe about %s", role, len(replies), asked)
			}
			for _, m := range replies {
				if set := m.Records[0].Locators; len(set) != 1 || !set[0].Probed || set[0].Address != wire.IPv4(netip.MustParseAddr(rtr1).As4()) {
					t.Errorf("%s: answers with %+v", role, set)
				}
			}
			n.run(4 * time.Second) // the rate of answers
		}
	}
}

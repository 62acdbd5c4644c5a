// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/solicit"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// withDatabase is the configuration with other locators for all its EID-Prefixes.
func withDatabase(c Config, addresses ...string) Config {
	etr := *c.ETR
	etr.Database = nil
	for _, d := range c.ETR.Database {
		d.Locators = locators(addresses...)
		etr.Database = append(etr.Database, d)
	}
	c.ETR = &etr
	c.LocalRLOCs = nil
	for _, a := range addresses {
		c.LocalRLOCs = append(c.LocalRLOCs, rloc(a))
	}
	return c
}

func (d *testNode) countSMRs(to string) (n int) {
	for _, p := range d.sent {
		m, _ := wire.Parse(p.Payload)
		if r, ok := m.(*wire.MapRequest); ok && r.SMR && (to == "" || p.Remote.Addr().String() == to) {
			n++
		}
	}
	return n
}

// TestChangedRLOCReachesPeers: register, SMR, ask, answer; the time is the sum of the
// legs: 2 to the Map-Server and back, 1 for the SMR, 3 to the ETR by way of the
// Map-Resolver, which is the Map-Server here, and 1 back.
func TestChangedRLOCReachesPeers(t *testing.T) {
	for _, c := range []struct {
		name          string
		direction     string // who sent packets
		source, other string
	}{
		{"a peer that asked us", "in", "10.1.0.5", "10.2.0.9"},
		{"a peer that asked us, IPv6", "in", "2001:db8:1::5", "2001:db8:2::9"},
		{"a peer that we send to", "both", "10.1.0.5", "10.2.0.9"},
		{"a peer that we send to, IPv6", "both", "2001:db8:1::5", "2001:db8:2::9"},
	} {
		n, x1, x2, _ := twoSites(t)
		n.run(time.Second)
		x1.miss(c.source, c.other)
		n.run(time.Second)
		if c.direction == "both" {
			x2.miss(c.other, c.source)
			n.run(time.Second)
			x2.etr.Solicitor.Askers = solicit.Askers{} // as if the Map-Server had answered for us
		}
		x2.addrs = []netip.Addr{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("2001:db8:e::2")}
		x2.configure(withDatabase(x2.config, "198.51.100.2", "2001:db8:e::2"))
		n.run(7 * oneWay)
		if got := x1.cachedPrefixes(); len(got) != 1 {
			t.Fatalf("%s: the map-cache is %v", c.name, got)
		}
		x1.wantCached(x1.cachedPrefixes()[0], "198.51.100.2", "2001:db8:e::2")
		n.run(time.Minute)
		if x1.counter(counter.SMRInvokedMapRequestSent) > 2 || x2.countSMRs("") > 4*solicit.SMRTries {
			t.Errorf("%s: %d SMRs, %d Map-Requests for them", c.name, x2.countSMRs(""), x1.counter(counter.SMRInvokedMapRequestSent))
		}
		if len(x2.etr.Solicitor.ByRLOC) != 0 || x2.etr.Solicitor.Timers.Next() != timing.Never {
			t.Errorf("%s: SMRs are left: %v", c.name, x2.etr.Solicitor.Rows)
		}
	}
}

// TestSMRsGoToLocatorsThatTakeNoTraffic: an xTR whose locator has priority 255 or is called
// unreachable sends from it all the same, and has our mapping (RFC 9301 s.6.1: "all
// Locators in the Locator-Set").
func TestSMRsGoToLocatorsThatTakeNoTraffic(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	config := x1.config
	etr := *config.ETR
	etr.Database = slices.Clone(etr.Database)
	silent := []lisp.Locator{
		{RLOC: rloc("203.0.113.1"), Priority: lisp.PriorityUnused, Weight: 1, Reachable: true},
		{RLOC: rloc("203.0.113.2"), Priority: 1, Weight: 1},
	}
	for i, d := range etr.Database {
		set, err := lisp.NewLocatorSet(append(slices.Clone(d.Locators), silent...)...)
		if err != nil {
			t.Fatal(err)
		}
		etr.Database[i].Locators = set
	}
	config.ETR = &etr
	x1.configure(config)
	n.run(time.Second)
	x2.miss("10.2.0.9", "10.1.0.5")
	n.run(time.Second)
	x2.configure(withDatabase(x2.config, "192.0.2.2"))
	n.run(time.Second)
	for _, to := range []string{"192.0.2.1", "203.0.113.1", "203.0.113.2"} {
		if x2.countSMRs(to) == 0 {
			t.Errorf("no SMR to %s", to)
		}
	}
}

func TestSMRFormat(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	x2.configure(withDatabase(x2.config, "192.0.2.2"))
	n.run(4 * time.Second)
	for _, p := range x2.sent {
		m, _ := wire.Parse(p.Payload)
		smr, ok := m.(*wire.MapRequest)
		if !ok || !smr.SMR {
			continue
		}
		prefix, _ := smr.Records[0].Prefix()
		if !smr.DontReply || smr.SMRInvoked || smr.Probe || smr.Nonce == 0 || len(smr.Records) != 1 ||
			p.Remote.String() != "192.0.2.1:4342" || p.Local.Addr().String() != "192.0.2.2" || smr.ITRRLOCs[0] != (wire.IPv4{192, 0, 2, 2}) {
			t.Errorf("SMR %+v from %s to %s", smr, p.Local, p.Remote)
		}
		if _, source, err := wire.EIDOf(smr.SourceEID); err != nil || !prefix.Contains(0, source) && (prefix.String() != "10.1.0.5/32" || source.String() != "10.2.0.0") {
			t.Errorf("the source EID of the SMR about %s is %s", prefix, smr.SourceEID)
		}
	}
	first := slices.IndexFunc(x2.sent, func(p SendPacket) bool { return p.Payload[0]>>4 == 1 && p.Payload[0]&1 != 0 })
	if first < 0 || x2.counter(counter.MapRegisterSent) < 2 {
		t.Fatalf("no SMR was sent; %d Map-Registers", x2.counter(counter.MapRegisterSent))
	}
	if x2.sent[first-1].Payload[0]>>4 != uint8(wire.TypeMapRegister) {
		t.Errorf("the SMR did not follow the Map-Register but a message of type %d", x2.sent[first-1].Payload[0]>>4)
	}
}

// TestSMRWaitsForTheRegistration, but not for ever.
func TestSMRWaitsForTheRegistration(t *testing.T) {
	n, x1, x2, ms := twoSites(t)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	n.lose = func(from *testNode, p SendPacket) bool { return from == ms && p.Remote.Addr().String() == "192.0.2.2" }
	x2.configure(withDatabase(x2.config, "192.0.2.2"))
	n.run(900 * time.Millisecond)
	if got := x2.countSMRs(""); got != 0 {
		t.Errorf("%d SMRs before the Map-Notify", got)
	}
	n.run(200 * time.Millisecond)
	if got := x2.countSMRs(""); got == 0 {
		t.Error("a silent Map-Server keeps the peers uninformed")
	}
}

// Shows RFC 9301 s.6.1 (3).
func TestLostSMRsAreRepeatedWithinTheRate(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	lost := 0
	n.lose = func(from *testNode, p SendPacket) bool {
		smr := from == x2 && p.Payload[0]>>4 == 1 && p.Payload[0]&1 != 0
		if smr {
			lost++
		}
		return smr && lost <= 4 // two EID-Prefixes, twice
	}
	x2.configure(withDatabase(x2.config, "192.0.2.2"))
	n.run(10 * time.Second)
	x1.wantCached("10.2.0.0/16", "192.0.2.2")
	var at []time.Time
	for i, p := range x2.sent {
		if p.Payload[0]>>4 == 1 && p.Payload[0]&1 != 0 {
			at = append(at, x2.sentAt[i])
		}
	}
	for i := 4; i < len(at); i++ { // the burst, then one in three seconds
		if gap := at[i].Sub(at[i-4]); gap < 3*time.Second {
			t.Errorf("SMRs %d to %d within %s", i-3, i+1, gap)
		}
	}
}

// TestNoSMRsWithoutAChange: neither a start nor a configuration that says the same
// tells anybody anything.
func TestNoSMRsWithoutAChange(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	c := x2.config
	c.AcceptZeroInnerChecksum = true
	x2.configure(c)
	n.run(10 * time.Second)
	x2.start()
	n.run(10 * time.Second)
	x2.wantCounter(counter.SMRSent, 0)
}

func TestWithdrawnPrefixIsSolicited(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	n.run(serverStart)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(2 * time.Second)
	c := x2.config
	etr := *c.ETR
	etr.Database = slices.DeleteFunc(slices.Clone(etr.Database), func(d DatabaseMapping) bool { return d.Prefix.Kind() == lisp.EIDIPv4 })
	c.ETR = &etr
	x2.configure(c)
	n.run(time.Second)
	e := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")]
	if !e.Mapping.Negative() {
		t.Errorf("the peer still has %s", e.Mapping)
	}
}

func TestIdlePeersAreNotSolicited(t *testing.T) {
	n, _, x2, _ := twoSites(t)
	n.run(time.Second)
	x2.miss("10.2.0.9", "10.1.0.5")
	n.run(5 * time.Minute)
	x2.configure(withDatabase(x2.config, "192.0.2.2"))
	n.run(10 * time.Second)
	x2.wantCounter(counter.SMRSent, 0)
}

// Shows RFC 9301 s.6.1 (2).
func TestSMRsAreBounded(t *testing.T) {
	n := newNetwork(t)
	var prefixes []string
	for i := range 40 {
		prefixes = append(prefixes, fmt.Sprintf("10.2.%d.0/24", i))
	}
	c := xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, prefixes...)
	c.Limits = Limits{SMRPeers: 10, SMRsTotal: Rate{PerSecond: 10, Burst: 5}}
	x2 := n.add("x2", c, "192.0.2.2")
	for i := range 100 { // unknown peers
		m := wire.MapRequest{Nonce: 3}
		x2.inject("192.0.2.2:4342", "192.0.2.100:4342", encapsulated(t, m, "10.2.0.9/32", fmt.Sprintf("203.0.113.%d", i+1)))
	}
	if got := len(x2.etr.Solicitor.Askers.List()); got > 10 {
		t.Errorf("%d askers", got)
	}
	x2.configure(withDatabase(x2.config, "192.0.2.3"))
	n.run(2 * time.Second)
	if got := x2.countSMRs(""); got < 10 || got > 5+10+1 {
		t.Errorf("%d SMRs in the first second at ten a second", got)
	}
	n.run(time.Hour)
	if got := x2.countSMRs(""); got != 10*len(prefixes)*solicit.SMRTries {
		t.Errorf("%d SMRs, want %d", got, 10*len(prefixes)*solicit.SMRTries)
	}
	if at := x2.etr.Solicitor.Timers.Next(); at != timing.Never {
		t.Errorf("SMRs go on at %d", at)
	}
}

// manyPrefixes are a Map-Server, a site with forty EID-Prefixes, and a peer of it.
func manyPrefixes(t *testing.T) (n *testNetwork, peer, site *testNode) {
	t.Helper()
	n = newNetwork(t)
	prefixes := []string{"10.1.0.0/16"}
	for i := range 40 {
		prefixes = append(prefixes, fmt.Sprintf("10.2.%d.0/24", i))
	}
	server := mapServerConfig(prefixes...)
	first := server.MapServer.Sites[1]
	for _, other := range server.MapServer.Sites[2:] {
		first.Prefixes = append(first.Prefixes, other.Prefixes...)
	}
	server.MapServer.Sites = []Site{server.MapServer.Sites[0], first}
	n.add("ms", server, "192.0.2.100")
	peer = n.add("peer", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16"), "192.0.2.1")
	site = n.add("site", xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, prefixes[1:]...), "192.0.2.2")
	n.run(2 * time.Second)
	return n, peer, site
}

// TestEveryChangedPrefixIsTold, however many there are: those that the peer asked for at once, the others as the rate allows.
func TestEveryChangedPrefixIsTold(t *testing.T) {
	n, peer, site := manyPrefixes(t)
	peer.miss("10.1.0.5", "10.2.39.9")
	peer.miss("10.1.0.5", "10.2.17.9")
	n.run(time.Second)
	site.addrs = []netip.Addr{netip.MustParseAddr("198.51.100.2")}
	site.configure(withDatabase(site.config, "198.51.100.2"))
	n.run(7 * oneWay)
	peer.wantCached("10.2.39.0/24", "198.51.100.2")
	peer.wantCached("10.2.17.0/24", "198.51.100.2")
	n.run(7 * time.Minute)
	told := smrsOf(site.sent)
	for i := range 40 {
		prefix, want := lisp.MustParsePrefix(fmt.Sprintf("10.2.%d.0/24", i)), solicit.SMRTries
		if i == 39 || i == 17 {
			want = 1 // it asked
		}
		if told[prefix] != want {
			t.Errorf("%d SMRs about %s, want %d", told[prefix], prefix, want)
		}
	}
	if len(site.etr.Solicitor.ByRLOC) != 0 || site.etr.Solicitor.News.List != nil {
		t.Errorf("what is left: %+v", site.etr.Solicitor.News)
	}
}

// TestChangeWhileAnotherIsBeingTold: every peer that is being told hears of the second one, and not of the first in its place.
func TestChangeWhileAnotherIsBeingTold(t *testing.T) {
	n, peer, site := manyPrefixes(t)
	peer.miss("10.1.0.5", "10.2.5.9")
	n.run(time.Second)
	site.configure(withDatabase(site.config, "198.51.100.2"))
	n.run(30 * time.Second)
	before := peer.counter(counter.SMRReceived)
	config := site.config
	etr := *config.ETR
	etr.Database = slices.Clone(etr.Database)
	etr.Database[38].Locators, etr.Database = locators("198.51.100.3"), etr.Database[:39] // another change, and a withdrawal
	config.ETR = &etr
	site.configure(config)
	n.run(10 * time.Minute)
	about := smrsOf(site.sent)
	for i := range 40 {
		prefix := lisp.MustParsePrefix(fmt.Sprintf("10.2.%d.0/24", i))
		if about[prefix] < solicit.SMRTries && i != 5 {
			t.Errorf("%d SMRs about %s", about[prefix], prefix)
		}
	}
	if got := peer.counter(counter.SMRReceived); got < before+2*solicit.SMRTries || got > 3*40*solicit.SMRTries {
		t.Errorf("%d SMRs in all, %d before the second change", got, before)
	}
}

func TestNewsAreBounded(t *testing.T) {
	var c solicit.ChangedMappings
	var all []lisp.Prefix
	for i := range solicit.SMRNews + 10 {
		all = append(all, lisp.HostPrefix(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}))))
	}
	if refused := c.Add(all); refused != 10 || len(c.List) != solicit.SMRNews || c.Add(all[:5]) != 0 {
		t.Errorf("%d refused, %d kept", refused, len(c.List))
	}
	var n solicit.News
	if refused := n.Add(all[:solicit.SMRNews-2]); refused != 0 || n.Add(all[:5]) != 3 {
		t.Errorf("a list of %d has room for more", len(n.List))
	}
	if _, ok := n.At(0, n.End()); ok {
		t.Error("said again later, and told twice")
	}
	if p, ok := n.At(0, 10); !ok || p != all[0] {
		t.Error("who is told the first ten only is not told the first")
	}
	n.Forget(100)
	if _, ok := n.At(99, n.End()); ok || n.LacksRoom(100) || !n.Has(all[0], 0, n.End()) || n.Has(all[50], 0, n.End()) {
		t.Errorf("after forgetting a hundred: %d are left from %d on", len(n.List), n.First)
	}
	n.Forget(n.End())
	if n.List != nil || len(n.Last) != 0 {
		t.Errorf("%d and %d are left of nothing", len(n.List), len(n.Last))
	}
}

func TestAskersAndWhatTheyAskedFor(t *testing.T) {
	var a solicit.Askers
	prefix := func(i int) lisp.Prefix { return lisp.MustParsePrefix(fmt.Sprintf("10.2.%d.0/24", i)) }
	for i := range solicit.AskerPrefixes + 3 {
		a.Note(rloc("192.0.2.1"), solicit.Asking{Prefix: prefix(i)}, 4)
		a.Note(rloc("192.0.2.1"), solicit.Asking{Prefix: prefix(i)}, 4)
	}
	if got := a.AskedFor(rloc("192.0.2.1")); len(got) != solicit.AskerPrefixes || got[0] != prefix(solicit.AskerPrefixes+2) || slices.Contains(got, prefix(2)) {
		t.Errorf("asked for %v", got)
	}
	for i := range 100 {
		a.Note(rloc(fmt.Sprintf("198.51.100.%d", i)), solicit.Asking{Prefix: prefix(0)}, 4)
		a.Note(rloc("192.0.2.1"), solicit.Asking{Prefix: prefix(200)}, 4)
	}
	if got := a.AskedFor(rloc("192.0.2.1")); len(a.List()) > 4 || len(got) == 0 || got[0] != prefix(200) {
		t.Errorf("%d askers, one of whom asked for %v", len(a.List()), got)
	}
}

// manyAskers are three EID-Prefixes with Map-Versions, and RLOCs that asked for the first of them.
func manyAskers(t *testing.T, count int) (n *testNetwork, site *testNode, askers []lisp.RLOC) {
	t.Helper()
	n = newNetwork(t)
	c := xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.2.0.0/24", "10.2.1.0/24", "10.2.2.0/24")
	c.Limits.SMRsTotal = Rate{PerSecond: 1e6, Burst: 1e6}
	site = n.add("site", withVersion(c, 5, "192.0.2.2"), "192.0.2.2")
	for i := range count {
		askers = append(askers, rloc(fmt.Sprintf("203.0.%d.%d", i>>8, i&255)))
		site.etr.Solicitor.Askers.Note(askers[i], solicit.Asking{Prefix: lisp.MustParsePrefix("10.2.0.0/24")}, 2*count)
	}
	n.run(time.Second)
	return n, site, askers
}

func (d *testNode) outdated(from lisp.RLOC, destination string) {
	d.HandleMapVersions(d.net.now, MapVersions{Source: eid("10.9.0.1"), Destination: eid(destination), From: from, DestinationVersion: 4})
	d.drain()
}

// TestPeerWithAnOldVersionIsToldTheRest: a packet of a peer comes between the iterations in which peers are gathered.
func TestPeerWithAnOldVersionIsToldTheRest(t *testing.T) {
	n, site, askers := manyAskers(t, solicit.AskerBatch+10)
	last := askers[len(askers)-1]
	c := withVersion(site.config, 6, "192.0.2.3")
	if err := site.Configure(n.now, c); err != nil {
		t.Fatal(err)
	}
	solicitor := site.etr.Solicitor
	solicitor.Registered()
	if !solicitor.Telling {
		t.Fatal("all were gathered in one turn")
	}
	site.outdated(last, "10.2.1.9")
	n.run(time.Minute)
	about := map[lisp.Prefix]int{}
	for _, p := range site.sent {
		m, _ := wire.Parse(p.Payload)
		if r, ok := m.(*wire.MapRequest); ok && r.SMR && p.Remote.Addr() == last.Addr() {
			prefix, _ := r.Records[0].Prefix()
			about[prefix]++
		}
	}
	for _, p := range []string{"10.2.0.0/24", "10.2.1.0/24", "10.2.2.0/24"} {
		if got := about[lisp.MustParsePrefix(p)]; got < solicit.SMRTries || got > solicit.SMRTries+1 {
			t.Errorf("%d SMRs about %s: want %d, or one more", about[lisp.MustParsePrefix(p)], p, solicit.SMRTries)
		}
	}
}

// TestPeersWithAnOldVersionLeaveRoomForNews, however many they are.
func TestPeersWithAnOldVersionLeaveRoomForNews(t *testing.T) {
	n, site, peers := manyAskers(t, solicit.SMRNews+10)
	for _, p := range peers {
		site.outdated(p, "10.2.1.9")
	}
	if got := len(site.etr.Solicitor.News.List); got != 1 {
		t.Errorf("%d news of one EID-Prefix", got)
	}
	site.configure(withVersion(site.config, 6, "192.0.2.3"))
	n.run(time.Minute)
	site.wantCounter(counter.RefusedSMRTable, 0)
	if got := site.countSMRs(peers[0].String()); got < 3*solicit.SMRTries || got > 3*solicit.SMRTries+1 {
		t.Errorf("%d SMRs: want %d, or one more", got, 3*solicit.SMRTries)
	}
}

// TestPeerThatAskedIsNotToldAllAgain: packets that were under way when it asked have the old Map-Version as well.
func TestPeerThatAskedIsNotToldAllAgain(t *testing.T) {
	n, site, peers := manyAskers(t, 1)
	site.configure(withVersion(site.config, 6, "192.0.2.3"))
	n.run(2 * time.Second)
	for i := range 2 {
		asked := lisp.MustParsePrefix(fmt.Sprintf("10.2.%d.0/24", i))
		site.etr.Solicitor.Asked(peers[0], &message.MapRequest{MapRequest: &wire.MapRequest{SMRInvoked: true}}, asked)
	}
	site.outdated(peers[0], "10.2.0.9")
	n.run(time.Minute)
	if got := site.countSMRs(peers[0].String()); got > 1+solicit.SMRTries+solicit.SMRTries {
		t.Errorf("%d SMRs: want one about what it asked for, and %d about each of the others", got, solicit.SMRTries)
	}
}

// TestPlacesOfTheNewsAreLookedAtInPieces has peers that asked for all but the last of what they are told.
func TestPlacesOfTheNewsAreLookedAtInPieces(t *testing.T) {
	n, site, peers := manyAskers(t, 3)
	solicitor := site.etr.Solicitor
	var all []lisp.Prefix
	for i := range solicit.SMRNews - 1 {
		all = append(all, lisp.HostPrefix(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}))))
	}
	last := lisp.MustParsePrefix("2001:db8:2::/48")
	from := solicitor.Publish(append(all, last))
	for _, peer := range peers {
		solicitor.Tell(peer, from, solicitor.News.End())
		solicitor.Rows.At(solicitor.ByRLOC[peer]).Asked = []lisp.Prefix{lisp.MustParsePrefix("10.2.0.0/16")}
	}
	row := solicitor.Rows.At(solicitor.ByRLOC[peers[0]])
	for iterations, before := 0, 0; row.Pass == 0; iterations++ {
		n.now = n.now.Add(time.Microsecond)
		site.HandleTimeout(n.now)
		site.drain()
		place := row.Pass*solicit.SMRNews + int(row.Place)
		if place-before > solicit.SMRNews/4 || iterations > solicit.SMRNews {
			t.Fatalf("%d places from %d on were looked at in iteration %d", place-before, before, iterations)
		}
		before = place
	}
	n.run(time.Minute)
	about := smrsOf(site.sent)
	if about[last] != len(peers)*solicit.SMRTries || len(about) != 1 || len(solicitor.ByRLOC) != 0 {
		t.Errorf("SMRs about %v, %d peers are still being told: want %d about %s alone", about, len(solicitor.ByRLOC), len(peers)*solicit.SMRTries, last)
	}
}

// TestRoomForAnOldVersionIsLookedForNowAndThen: there are thousands of peers, and each packet may be one with an old Map-Version.
func TestRoomForAnOldVersionIsLookedForNowAndThen(t *testing.T) {
	n, site, peers := manyAskers(t, 3)
	solicitor := site.etr.Solicitor
	var all []lisp.Prefix
	for i := range solicit.SMRNews {
		all = append(all, lisp.HostPrefix(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}))))
	}
	solicitor.Tell(peers[0], solicitor.Publish(all), solicitor.News.End())
	site.outdated(peers[1], "10.2.1.9")
	solicitor.Drop(solicitor.ByRLOC[peers[0]])
	solicitor.News.Add(all) // no peer is told of these any more
	site.outdated(peers[1], "10.2.1.9")
	if len(solicitor.ByRLOC) != 0 {
		t.Error("room was looked for again at once")
	}
	n.run(2 * solicit.NewsRest)
	site.outdated(peers[1], "10.2.1.9")
	if len(solicitor.ByRLOC) != 1 {
		t.Error("no room was found though no peer is told of the news")
	}
}

// smrsOf is how many SMRs there are about each EID-Prefix.
func smrsOf(sent []SendPacket) map[lisp.Prefix]int {
	about := map[lisp.Prefix]int{}
	for _, p := range sent {
		m, _ := wire.Parse(p.Payload)
		if r, ok := m.(*wire.MapRequest); ok && r.SMR {
			prefix, _ := r.Records[0].Prefix()
			about[prefix]++
		}
	}
	return about
}

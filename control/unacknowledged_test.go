// SPDX-License-Identifier: Apache-2.0

package control

// An xTR with EID-Prefixes that a Map-Server does not take: all others stay registered, also where the
// Map-Server refuses the whole Map-Register without a word, and the xTR tells which are not.

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/mapregister"
	"loci/control/internal/message"
	"loci/lisp"
	"loci/wire"
)

// refuseWhole has Map-Servers refuse each Map-Register with an EID-Prefix for which bad says so, as a whole
// and silently.
func (n *testNetwork) refuseWhole(bad func(lisp.Prefix) bool) {
	n.lose = func(_ *testNode, p SendPacket) bool {
		m, err := wire.Parse(p.Payload)
		register, ok := m.(*wire.MapRegister)
		return err == nil && ok && slices.ContainsFunc(register.Records, func(r wire.Record) bool {
			prefix, err := r.Prefix()
			return err == nil && bad(prefix)
		})
	}
}

func notOf(site string) func(lisp.Prefix) bool {
	owned := lisp.MustParsePrefix(site)
	return func(p lisp.Prefix) bool { return p.Kind() == owned.Kind() && !owned.Covers(p) }
}

func (d *testNode) mapServer1() MapServerStatus { return slices.Collect(d.MapServers())[0] }

func (d *testNode) told(kind NoticeKind) (prefixes []string) {
	for _, n := range d.notices {
		if n.Kind == kind {
			prefixes = append(prefixes, n.Prefix.String())
		}
	}
	return prefixes
}

// registersSince are how many Map-Registers a node sent since a time.
func (d *testNode) registersSince(at time.Time) (count int) {
	for i, p := range d.sent {
		if wire.MessageType(p.Payload[0]>>4) == wire.TypeMapRegister && d.sentAt[i].After(at) {
			count++
		}
	}
	return count
}

// stays fails unless so many EID-Prefixes are registered all the time.
func (n *testNetwork) stays(ms *testNode, want int, d time.Duration) {
	n.t.Helper()
	for end := n.now.Add(d); n.now.Before(end); {
		n.run(time.Second)
		if got := len(ms.registered()); got != want {
			n.t.Fatalf("%s: %d registrations, want %d", n.now.Sub(epoch), got, want)
		}
	}
}

func refusedNetwork(t *testing.T, whole bool) (n *testNetwork, x, ms *testNode) {
	n = newNetwork(t)
	if whole {
		n.refuseWhole(notOf("10.1.0.0/16"))
	}
	ms = n.add("ms", mapServerConfig("10.1.0.0/16 2001:db8:1::/48"), "192.0.2.100")
	x = n.add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/24", "10.1.1.0/24", "2001:db8:1::/48"), "192.0.2.1")
	return n, x, ms
}

func (d *testNode) addEIDs(prefixes ...string) {
	c := d.config
	etr := *c.ETR
	etr.Database = slices.Clone(etr.Database)
	for _, p := range prefixes {
		etr.Database = append(etr.Database, DatabaseMapping{Prefix: lisp.MustParsePrefix(p), Locators: locators("192.0.2.1")})
	}
	c.ETR = &etr
	d.configure(c)
}

func (d *testNode) removeEIDs(prefixes ...string) {
	c := d.config
	etr := *c.ETR
	etr.Database = slices.DeleteFunc(slices.Clone(etr.Database), func(m DatabaseMapping) bool { return slices.Contains(prefixes, m.Prefix.String()) })
	c.ETR = &etr
	d.configure(c)
}

func TestRefusedEIDLeavesTheOthersRegistered(t *testing.T) {
	for _, whole := range []bool{false, true} {
		n, x, ms := refusedNetwork(t, whole)
		n.run(5 * time.Second)
		if s := x.mapServer1(); s.State != MapServerRegistered || s.LackingCount != 0 {
			t.Fatalf("whole %v: before, the Map-Server is %+v", whole, s)
		}
		added := n.now
		x.addEIDs("10.9.0.0/24")
		if !x.Registering() {
			t.Error("a change is not under way before its Map-Notify")
		}
		n.run(100 * time.Millisecond)
		if x.Registering() != whole {
			t.Errorf("whole %v: after the Map-Notify, the change is under way: %v", whole, !whole)
		}
		if s := x.mapServer1(); !whole && (s.State != MapServerPartial || s.LackingCount != 1) {
			t.Errorf("the Map-Server left an EID-Prefix out of its Map-Notify, and is %+v", s)
		}
		n.stays(ms, 3, 20*time.Second)
		if got := x.told(NoticeEIDNotAcknowledged); !slices.Equal(got, []string{"10.9.0.0/24"}) {
			t.Errorf("whole %v: not acknowledged, as is told, are %v", whole, got)
		}
		n.stays(ms, 3, 10*time.Minute)
		s := x.mapServer1()
		if s.State != MapServerPartial || len(s.Lacking) != 1 || s.Lacking[0].Prefix.String() != "10.9.0.0/24" || !s.Lacking[0].Since.Equal(added) {
			t.Errorf("whole %v: the Map-Server is %+v, want one EID-Prefix unacknowledged since %s", whole, s, added)
		}
		if got := x.registersSince(n.now.Add(-4 * time.Minute)); got > 12 {
			t.Errorf("whole %v: %d Map-Registers in four minutes", whole, got)
		}
		x.wantCounter(counter.EIDNotAcknowledged, 1)

		n.lose = nil
		ms.configure(mapServerConfig("10.1.0.0/16 2001:db8:1::/48 10.9.0.0/16"))
		n.run(time.Minute)
		if s := x.mapServer1(); len(ms.registered()) != 4 || s.State != MapServerRegistered || s.LackingCount != 0 {
			t.Errorf("whole %v: the Map-Server knows the site now: %d registrations, %+v", whole, len(ms.registered()), s)
		}
		from := n.now
		n.stays(ms, 4, 10*time.Minute)
		if got := x.registersSince(from); got > 21 {
			t.Errorf("whole %v: %d Map-Registers in ten minutes for four EID-Prefixes", whole, got)
		}
	}
}

// TestRefusedEIDFromTheStart has it in the configuration when the xTR starts, and starts again.
func TestRefusedEIDFromTheStart(t *testing.T) {
	for _, whole := range []bool{false, true} {
		n, x, ms := refusedNetwork(t, whole)
		x.addEIDs("10.9.0.0/24")
		x.start()
		n.run(10 * time.Second)
		n.stays(ms, 3, 4*time.Minute)
		x.start()
		n.stays(ms, 3, 4*time.Minute)
		if s := x.mapServer1(); s.State != MapServerPartial || s.LackingCount != 1 {
			t.Errorf("whole %v: after a restart, the Map-Server is %+v", whole, s)
		}
	}
}

// TestChangesBesideARefusedEID changes the Database faster than one can be found out anew.
func TestChangesBesideARefusedEID(t *testing.T) {
	n, x, ms := refusedNetwork(t, true)
	x.addEIDs("10.9.0.0/24")
	n.run(30 * time.Second)
	since := x.mapServer1().Lacking[0].Since
	for range 60 {
		x.addEIDs("10.1.7.0/24")
		n.run(4 * time.Second)
		x.removeEIDs("10.1.7.0/24")
		n.stays(ms, 3, 1*time.Second)
	}
	if s := x.mapServer1(); s.LackingCount != 1 || !s.Lacking[0].Since.Equal(since) {
		t.Errorf("the Map-Server is %+v, want one EID-Prefix unacknowledged since %s", s, since)
	}
	if got := x.told(NoticeEIDNotAcknowledged); len(got) != 1 {
		t.Errorf("told %v", got)
	}
	x.removeEIDs("10.9.0.0/24", "10.1.1.0/24")
	n.run(40 * time.Second) // the Map-Server does not acknowledge the withdrawal of what was never registered
	if s := x.mapServer1(); s.State != MapServerRegistered || s.LackingCount != 0 || len(ms.registered()) != 2 {
		t.Errorf("without the EID-Prefix the Map-Server is %+v, with %v", s, ms.registeredPrefixes())
	}
}

func TestSilentMapServerIsAskedWithinBounds(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.0.0.0/8"), "192.0.2.100")
	x := n.add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}), "192.0.2.1")
	wrong := x.config
	etr := *wrong.ETR
	etr.MapServers = slices.Clone(etr.MapServers)
	etr.MapServers[0].Key.Secret = []byte("wrong")
	for i := range 5000 {
		etr.Database = append(etr.Database, DatabaseMapping{Prefix: numbered(i), Locators: locators("192.0.2.1")})
	}
	wrong.ETR = &etr
	x.configure(wrong)
	n.run(10 * time.Minute)
	messages := len(x.etr.Registrar.Peers[0].Messages)
	if at := n.now; messages > 400 {
		t.Errorf("%d Map-Registers for 5000 EID-Prefixes", messages)
	} else if n.run(4 * time.Minute); x.registersSince(at) > 5*messages+5*messages/2 {
		t.Errorf("%d Map-Registers, of which %d were sent in four minutes", messages, x.registersSince(at))
	}
	s := x.mapServer1()
	if s.State != MapServerWaiting || s.LackingCount != 5000 || len(s.Lacking) != mapregister.UnacknowledgedListed {
		t.Errorf("the Map-Server is %s, %d EID-Prefixes unacknowledged, %d listed", s.State, s.LackingCount, len(s.Lacking))
	}
	if got := x.told(NoticeEIDNotAcknowledged); len(got) > 0 || len(x.told(NoticeMapServerSilent)) == 0 {
		t.Errorf("told of %d EID-Prefixes, not of the Map-Server", len(got))
	}
	right := wrong
	again := etr
	again.MapServers = []MapServerPeer{etr.MapServers[0]}
	again.MapServers[0].Key = secret(1)
	right.ETR = &again
	x.configure(right)
	n.run(20 * time.Second)
	if s := x.mapServer1(); s.State != MapServerRegistered || len(ms.registered()) != 5000 {
		t.Errorf("with the right key the Map-Server is %s, with %d registrations", s.State, len(ms.registered()))
	}
}

func numbered(i int) lisp.Prefix {
	p, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0})), 24)
	return p
}

// TestManyRefusedEIDs has a third of a large Database refused, by whole messages or one by one.
func TestManyRefusedEIDs(t *testing.T) {
	const count, bad = 3000, 1000
	isBad := func(p lisp.Prefix) bool {
		a := p.EID().Addr().As4()
		return (int(a[1])<<8|int(a[2]))%3 == 0
	}
	for _, whole := range []bool{false, true} {
		n := newNetwork(t)
		c := mapServerConfig("10.255.0.0/16")
		c.MapServer.Sites[0].Prefixes = nil
		for i := range count {
			if p := numbered(i); !isBad(p) || whole {
				c.MapServer.Sites[0].Prefixes = append(c.MapServer.Sites[0].Prefixes, SitePrefix{Prefix: p})
			}
		}
		if whole {
			n.refuseWhole(isBad)
		}
		ms := n.add("ms", c, "192.0.2.100")
		x := n.add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}), "192.0.2.1")
		cfg := x.config
		etr := *cfg.ETR
		for i := range count {
			etr.Database = append(etr.Database, DatabaseMapping{Prefix: numbered(i), Locators: locators("192.0.2.1")})
		}
		cfg.ETR = &etr
		x.configure(cfg)
		n.run(2 * time.Minute)
		n.stays(ms, count-bad, 5*time.Minute)
		if s := x.mapServer1(); s.State != MapServerPartial || s.LackingCount != bad {
			t.Errorf("whole %v: the Map-Server is %s, %d EID-Prefixes unacknowledged", whole, s.State, s.LackingCount)
		}
		if got := x.registersSince(n.now.Add(-time.Minute)); got > 350 {
			t.Errorf("whole %v: %d Map-Registers a minute", whole, got)
		}
		n.lose = nil
		for i := range count {
			if p := numbered(i); isBad(p) && !whole {
				c.MapServer.Sites[0].Prefixes = append(c.MapServer.Sites[0].Prefixes, SitePrefix{Prefix: p})
			}
		}
		ms.configure(c)
		n.run(3 * time.Minute)
		if s := x.mapServer1(); s.State != MapServerRegistered || len(ms.registered()) != count {
			t.Errorf("whole %v: all are the site's now: %s, %d unacknowledged, %d registered", whole, s.State, s.LackingCount, len(ms.registered()))
		}
		if got := len(x.etr.Registrar.Peers[0].Messages); got > 250 {
			t.Errorf("whole %v: %d messages for %d EID-Prefixes at the end", whole, got, count)
		}
		if p := x.etr.Registrar.Peers[0]; p.Alone != 0 || p.Refused != nil {
			t.Errorf("whole %v: %d are alone, %v", whole, p.Alone, p.Refused)
		}
	}
}

// TestMapNotifyInPieces has a Map-Server acknowledge in several Map-Notifies, as lispers.net does.
func TestMapNotifyInPieces(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16 2001:db8:1::/48"), "192.0.2.100")
	n.lose = func(from *testNode, p SendPacket) bool {
		m, _ := wire.Parse(p.Payload)
		notify, ok := m.(*wire.MapNotify)
		if !ok || from != ms || len(notify.Records) < 2 {
			return false
		}
		for i := range notify.Records {
			piece := *notify
			piece.Records = notify.Records[i : i+1]
			piece.Authentication = make([]byte, len(notify.Authentication))
			payload, err := wire.AppendSigned(nil, &piece, secret(1).Secret)
			if err != nil {
				t.Fatal(err)
			}
			n.arrive(testPacket{n.now.Add(oneWay + time.Duration(i)*100*time.Millisecond), p.Remote, p.Local, n.nodes[1], payload, "ms"})
		}
		return true
	}
	x := n.add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/24", "10.1.1.0/24", "2001:db8:1::/48"), "192.0.2.1")
	n.run(5*time.Minute + 30*time.Second)
	if s := x.mapServer1(); s.State != MapServerRegistered || x.counter(counter.MapRegisterSent) != 6 {
		t.Errorf("the Map-Server is %+v after %d Map-Registers", s, x.counter(counter.MapRegisterSent))
	}
	if got := x.told(NoticeEIDNotAcknowledged); len(got) > 0 {
		t.Errorf("told of %v", got)
	}
}

// TestMapNotifyWithoutRecords acknowledges all by its nonce.
func TestMapNotifyWithoutRecords(t *testing.T) {
	m := mapregister.Message{Mappings: []lisp.Mapping{{Prefix: numbered(1)}, {Prefix: numbered(2)}}}
	if !m.Note(&message.MapNotify{MapNotify: &wire.MapNotify{}}) {
		t.Error("it acknowledges nothing")
	}
}

// TestTwoSitesInOneDatabase has EID-Prefixes of two sites that have the same key: the Map-Server takes
// them from different Map-Registers.
func TestTwoSitesInOneDatabase(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16", "10.2.0.0/16"), "192.0.2.100")
	x := n.add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/24", "10.1.1.0/24", "10.2.0.0/24", "10.2.1.0/24"), "192.0.2.1")
	n.run(5 * time.Second)
	n.stays(ms, 4, 30*time.Minute)
	if s := x.mapServer1(); s.State != MapServerRegistered || s.LackingCount != 0 {
		t.Errorf("the Map-Server is %+v", s)
	}
	if got := x.registersSince(n.now.Add(-10 * time.Minute)); got > 33 {
		t.Errorf("%d Map-Registers in ten minutes", got)
	}
}

// TestRefusedEIDOfMergedSite has two xTRs register the same EID-Prefixes merged, and one that is not the site's.
func TestRefusedEIDOfMergedSite(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	for i := byte(1); i <= 2; i++ {
		rloc := fmt.Sprint("192.0.2.", i)
		c := xtrConfig(i, "192.0.2.100", []string{rloc}, "10.1.0.0/24", "10.9.0.0/24")
		c.ETR.MapServers[0].MergeRequest = true
		n.add("x"+rloc, c, rloc)
	}
	n.run(5 * time.Minute)
	list := ms.registered()
	if len(list) != 2 || len(list[0].Merged.Locators) != 2 {
		t.Errorf("registered: %+v", list)
	}
	for _, x := range n.nodes[1:] {
		if s := x.mapServer1(); s.State != MapServerPartial || s.LackingCount != 1 {
			t.Errorf("%s: the Map-Server is %+v", x.name, s)
		}
	}
}

// TestOneOfTwoMapServersRefuses tells which one does.
func TestOneOfTwoMapServersRefuses(t *testing.T) {
	n := newNetwork(t)
	n.add("ms1", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	n.add("ms2", mapServerConfig("10.1.0.0/16 10.9.0.0/16"), "192.0.2.101")
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/24", "10.9.0.0/24")
	second := c.ETR.MapServers[0]
	second.Address = addrPort("192.0.2.101")
	c.ETR.MapServers = append(c.ETR.MapServers, second)
	x := n.add("x", c, "192.0.2.1")
	n.run(time.Minute)
	states := slices.Collect(x.MapServers())
	if states[0].State != MapServerPartial || states[0].LackingCount != 1 || states[1].State != MapServerRegistered || states[1].LackingCount != 0 {
		t.Errorf("the Map-Servers are %+v", states)
	}
}

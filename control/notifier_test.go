// SPDX-License-Identifier: Apache-2.0

package control

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/locatorset"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// oneSite is a site with two xTRs that register the same EID-Prefix.
func oneSite(t *testing.T, merge bool, addresses ...string) (n *testNetwork, ms *testNode, xtrs []*testNode) {
	t.Helper()
	n = newNetwork(t)
	ms = n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100", "2001:db8:f::100")
	for i, a := range addresses {
		c := xtrConfig(byte(i+1), "192.0.2.100", []string{a}, "10.1.0.0/16")
		if !addrPort(a).Addr().Is4() {
			c = xtrConfig(byte(i+1), "2001:db8:f::100", []string{a}, "10.1.0.0/16")
		}
		c.ETR.MapServers[0].MergeRequest = merge
		xtrs = append(xtrs, n.add("x"+a, c, a))
		n.run(time.Second)
	}
	return n, ms, xtrs
}

func TestSiblingsAreNotified(t *testing.T) {
	for _, addresses := range [][]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8:f::1", "2001:db8:f::2"}} {
		n, ms, xtrs := oneSite(t, true, addresses...)
		ms.wantCounter(counter.MapNotifyUnsolicitedSent, 1) // to the first, about the second
		ms.wantCounter(counter.MapNotifyAckReceived, 1)
		xtrs[0].wantCounter(counter.MapNotifyAckSent, 1)
		xtrs[1].wantCounter(counter.MapNotifyAckSent, 0)
		n.run(5 * time.Minute) // refreshes change nothing
		ms.wantCounter(counter.MapNotifyUnsolicitedSent, 1)
		notify := lastUnsolicited(t, ms)
		if m, err := notify.Records[0].Mapping(); err != nil || !locatorset.WithLocalBits(m.Locators, nil).Equal(locators(addresses...)) {
			t.Errorf("the Map-Notify says %v, %v", m, err)
		}
		told := slices.ContainsFunc(xtrs[0].notices, func(n Notice) bool { return n.Kind == NoticeMapNotifyReceived && len(n.Detail) > 10 })
		if !told {
			t.Error("the sibling's operator is not told")
		}
	}
}

// TestSiblingsAreToldOfInTheLog even while no reader follows what happens with every message.
func TestSiblingsAreToldOfInTheLog(t *testing.T) {
	n, _, xtrs := oneSite(t, true, "192.0.2.1")
	xtrs[0].TellMessages(false)
	c := xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.1.0.0/16")
	c.ETR.MapServers[0].MergeRequest = true
	n.add("second", c, "192.0.2.2")
	n.run(time.Second)
	told := func(n Notice) bool {
		return n.Kind == NoticeMapNotifyReceived && strings.HasPrefix(n.Detail, "unasked: ")
	}
	if !slices.ContainsFunc(xtrs[0].notices, told) {
		t.Errorf("the first xTR's operator is not told of the second: %+v", xtrs[0].notices)
	}
	if slices.ContainsFunc(xtrs[0].notices, func(n Notice) bool { return n.At.After(epoch.Add(time.Second)) && !n.Kind.IsChange() }) {
		t.Errorf("messages are described although no reader follows them: %+v", xtrs[0].notices)
	}
}

func lastUnsolicited(t *testing.T, ms *testNode) *wire.MapNotify {
	t.Helper()
	all := sentMessages[*wire.MapNotify](ms)
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Nonce < uint64(epoch.UnixNano()) || all[i].Nonce > uint64(epoch.Add(time.Hour).UnixNano()) {
			return all[i] // those of acknowledgements are times
		}
	}
	t.Fatal("no unsolicited Map-Notify")
	return nil
}

// Shows RFC 9301 s.5.7 (2).
func TestMapNotifyIsRepeatedUntilAcknowledged(t *testing.T) {
	n, ms, xtrs := oneSite(t, true, "192.0.2.1")
	var at []time.Duration
	start := n.now
	n.lose = func(from *testNode, p SendPacket) bool {
		if from == ms && p.Remote.Addr().String() == "192.0.2.1" && xtrs[0].host.RegisterNonce < nonceOf(p.Payload) {
			at = append(at, n.now.Sub(start).Round(time.Second))
			return true
		}
		return false
	}
	c := xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.1.0.0/16")
	c.ETR.MapServers[0].MergeRequest = true
	n.add("x2", c, "192.0.2.2")
	n.run(5 * time.Minute)
	if s := time.Second; !slices.Equal(at, []time.Duration{0, 3 * s, 6 * s, 9 * s, 15 * s, 27 * s, 51 * s}) {
		t.Errorf("Map-Notifies went at %v", at)
	}
	ms.wantCounter(counter.MapNotifyUnacknowledged, 1)
	if len(ms.mapServer.Notifier.ByNonce) != 0 || ms.mapServer.Notifier.Timers.Next() != timing.Never {
		t.Error("something is left of a Map-Notify that was given up")
	}
}

// inForce tells of who registered, by address, whether that is answered.
func inForce(ms *testNode) map[string]bool {
	states := map[string]bool{}
	for _, r := range ms.registered() {
		states[r.From.Addr().String()] = r.InForce
	}
	displaced := map[lisp.Prefix]bool{}
	for _, r := range ms.registered() {
		if !r.InForce {
			displaced[r.Prefix] = true
		}
	}
	some, count := ms.DisplacedRegistrations()
	if count != len(displaced) || len(some) != count || count > 0 && !displaced[some[0]] {
		ms.net.t.Errorf("displaced: %v, %d of them, want %v", some, count, displaced)
	}
	return states
}

// TestXTRThatReturnsElsewhere, with another address, port and xTR-ID: nothing is sent to where it was, and the registration
// that is in force is known from the one that is not.
func TestXTRThatReturnsElsewhere(t *testing.T) {
	for _, addresses := range [][2]string{{"192.0.2.1", "192.0.2.11"}, {"2001:db8:f::1", "2001:db8:f::11"}} {
		n, ms, xtrs := oneSite(t, false, addresses[0])
		n.lose = func(from *testNode, p SendPacket) bool { return from == xtrs[0] } // it is gone
		before := n.now
		n.add("again", func() Config {
			c := xtrs[0].config
			c.XTRID, c.LocalRLOCs = [16]byte{99}, []lisp.RLOC{rloc(addresses[1])}
			etr := *c.ETR
			etr.Database = []DatabaseMapping{{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), Locators: locators(addresses[1])}}
			c.ETR = &etr
			return c
		}(), addresses[1])
		n.run(2 * time.Minute)
		if got := inForce(ms); !maps.Equal(got, map[string]bool{addresses[0]: false, addresses[1]: true}) {
			t.Errorf("in force: %v", got)
		}
		for i, p := range ms.sent {
			if p.Remote.Addr().String() == addresses[0] && ms.sentAt[i].After(before) {
				t.Errorf("%d octets were sent to where the xTR was", len(p.Payload))
			}
		}
		ms.wantCounter(counter.MapNotifyUnacknowledged, 0)
		n.run(2 * time.Minute)
		if got := inForce(ms); !maps.Equal(got, map[string]bool{addresses[1]: true}) {
			t.Errorf("in force: %v after the old registration has expired", got)
		}
	}
}

// TestWhoIsInForce where several live xTRs registered one EID-Prefix.
func TestWhoIsInForce(t *testing.T) {
	_, ms, _ := sameSet(t, false, "192.0.2.1", "192.0.2.2")
	if got := inForce(ms); !got["192.0.2.1"] || !got["192.0.2.2"] {
		t.Errorf("both registered what is answered; in force: %v", got)
	}
	_, ms, _ = oneSite(t, true, "192.0.2.1", "192.0.2.2")
	if got := inForce(ms); !got["192.0.2.1"] || !got["192.0.2.2"] {
		t.Errorf("both are merged; in force: %v", got)
	}
	n, ms, xtrs := sameSet(t, false, "192.0.2.1", "192.0.2.2")
	c := xtrs[0].config
	etr := *c.ETR
	etr.Database = slices.Clone(etr.Database)
	for i := range etr.Database {
		etr.Database[i].Locators = slices.Clone(etr.Database[i].Locators)
		etr.Database[i].Locators[0].Weight = 7
	}
	c.ETR = &etr
	xtrs[0].configure(c)
	n.run(time.Second)
	if got := inForce(ms); !got["192.0.2.1"] || got["192.0.2.2"] {
		t.Errorf("the second registered another weight; in force: %v", got)
	}
	xtrs[1].wantCounter(counter.MapNotifyAckSent, 2) // it has the same RLOCs, so it is told
}

// TestMapNotifyEndsWithItsRegistration: what is under way to an xTR ends when it withdraws, or is displaced, and goes where
// it is now.
func TestMapNotifyEndsWithItsRegistration(t *testing.T) {
	prefix := lisp.MustParsePrefix("10.1.0.0/16")
	say := func(ms *testNode, from string, id byte, nonce uint64, ttl uint32, merge bool, addresses ...string) {
		t.Helper()
		ms.inject("192.0.2.100:4342", from+":4342", register(t, func(m *wire.MapRegister) {
			m.XTRID, m.Nonce, m.MergeRequest = [16]byte{id}, nonce, merge
			m.Records = []wire.Record{wire.RecordOf(lisp.Mapping{Prefix: prefix, TTLMinutes: ttl, Locators: locators(addresses...)})}
		}, "10.1.0.0/16"))
	}
	for _, c := range []struct {
		name   string
		change func(ms *testNode)
		want   []string // where Map-Notifies go after the change
	}{
		{"nothing", func(*testNode) {}, []string{"192.0.2.1"}},
		{"withdrawn", func(ms *testNode) { say(ms, "192.0.2.1", 1, 1001, 0, true, "192.0.2.1") }, []string{"192.0.2.2"}},
		{"displaced", func(ms *testNode) { say(ms, "192.0.2.2", 2, 1001, 10, false, "192.0.2.2") }, nil},
		{"moved", func(ms *testNode) { say(ms, "192.0.2.11", 1, 1001, 10, true, "192.0.2.1") }, []string{"192.0.2.11"}},
	} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
		say(ms, "192.0.2.1", 1, 1000, 10, true, "192.0.2.1")
		say(ms, "192.0.2.2", 2, 1000, 10, true, "192.0.2.2")
		ms.wantCounter(counter.MapNotifyUnsolicitedSent, 1)
		n.run(time.Second)
		c.change(ms)
		sent := len(ms.sent)
		n.run(2 * time.Minute)
		var got []string
		for _, p := range ms.sent[sent:] {
			if to := p.Remote.Addr().String(); !slices.Contains(got, to) {
				got = append(got, to)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: Map-Notifies go to %v, want %v", c.name, got, c.want)
		}
	}
}

func TestExpiryAndWithdrawalNotifyTheOthers(t *testing.T) {
	n, ms, xtrs := oneSite(t, true, "192.0.2.1", "192.0.2.2")
	n.lose = func(from *testNode, _ SendPacket) bool { return from == xtrs[1] }
	n.run(4 * time.Minute)
	ms.wantCounter(counter.MapNotifyUnsolicitedSent, 2)
	n.lose = nil
	n.run(2 * time.Minute)
	ms.wantCounter(counter.MapNotifyUnsolicitedSent, 3) // it is back
	c := xtrs[1].config
	etr := *c.ETR
	etr.Database = nil
	c.ETR = &etr
	xtrs[1].configure(c)
	n.run(time.Second)
	ms.wantCounter(counter.MapNotifyUnsolicitedSent, 4)
	ms.wantCounter(counter.MapNotifyAckReceived, 4)
}

func TestForgedMapNotifyAck(t *testing.T) {
	n, ms, _ := oneSite(t, true, "192.0.2.1")
	n.lose = func(from *testNode, _ SendPacket) bool { return from.name == "x192.0.2.1" }
	c := xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.1.0.0/16")
	c.ETR.MapServers[0].MergeRequest = true
	n.add("x2", c, "192.0.2.2")
	n.run(time.Second)
	if len(ms.mapServer.Notifier.ByNonce) != 1 {
		t.Fatalf("%d Map-Notifies under way", len(ms.mapServer.Notifier.ByNonce))
	}
	ack := wire.MapNotifyAck(*lastUnsolicited(t, ms))
	for _, change := range []struct {
		secret string
		nonce  uint64
		reason Counter
	}{{"another secret", ack.Nonce, counter.RefusedAuthentication}, {"a secret of the site", ack.Nonce + 1, counter.RefusedNotifyAck}} {
		forged := ack
		forged.Nonce = change.nonce
		b, err := wire.AppendSigned(nil, &forged, []byte(change.secret))
		if err != nil {
			t.Fatal(err)
		}
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", b)
		ms.wantCounter(change.reason, 1)
	}
	if len(ms.mapServer.Notifier.ByNonce) != 1 {
		t.Error("a forged Map-Notify-Ack ended the Map-Notify")
	}
	ms.configure(mapServerConfig("10.9.0.0/16")) // the site is gone
	if len(ms.mapServer.Notifier.ByNonce) != 0 {
		t.Error("a Map-Notify outlives its site")
	}
}

// TestMapNotifyAckWithoutRecords: lispers.net's has none, so that only the nonce tells what it acknowledges. The site's key has to fit.
func TestMapNotifyAckWithoutRecords(t *testing.T) {
	n, ms, _ := oneSite(t, true, "192.0.2.1")
	n.lose = func(from *testNode, _ SendPacket) bool { return from.name == "x192.0.2.1" }
	c := xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.1.0.0/16")
	c.ETR.MapServers[0].MergeRequest = true
	n.add("x2", c, "192.0.2.2")
	n.run(time.Second)
	ack := wire.MapNotifyAck(*lastUnsolicited(t, ms))
	ack.Records, ack.XTRIDUnflagged, ack.XTRID = nil, true, [16]byte{1}
	for _, change := range []struct {
		name, secret string
		of           func(*wire.MapNotifyAck)
		counted      Counter
		left         int
	}{
		{"another secret", "another secret", func(*wire.MapNotifyAck) {}, counter.RefusedAuthentication, 1},
		{"another key", "a secret of the site", func(m *wire.MapNotifyAck) { m.KeyID++ }, counter.RefusedUnknownKey, 1},
		{"another algorithm", "a secret of the site", func(m *wire.MapNotifyAck) { m.AlgorithmID, m.Authentication = wire.AlgorithmHMACSHA1, make([]byte, 20) }, counter.RefusedAlgorithm, 1},
		{"another nonce", "a secret of the site", func(m *wire.MapNotifyAck) { m.Nonce++ }, counter.RefusedNotifyAck, 1},
		{"the right one", string(secret(1).Secret), func(*wire.MapNotifyAck) {}, counter.MapNotifyAckReceived, 0},
		{"once more", string(secret(1).Secret), func(*wire.MapNotifyAck) {}, counter.RefusedNotifyAck, 0},
	} {
		m, before := ack, ms.counter(change.counted)
		change.of(&m)
		b, err := wire.AppendSigned(nil, &m, []byte(change.secret))
		if err != nil {
			t.Fatal(err)
		}
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", b)
		if got := ms.counter(change.counted) - before; got != 1 {
			t.Errorf("%s: %s was counted %d times", change.name, change.counted, got)
		}
		if got := len(ms.mapServer.Notifier.ByNonce); got != change.left {
			t.Errorf("%s: %d Map-Notifies under way, want %d", change.name, got, change.left)
		}
	}
}

// sameSet is a site with two xTRs that register the same two locators, each its own one as local.
func sameSet(t *testing.T, merge bool, first, second string) (n *testNetwork, ms *testNode, xtrs []*testNode) {
	t.Helper()
	n = newNetwork(t)
	at := "192.0.2.100"
	if !addrPort(first).Addr().Is4() {
		at = "2001:db8:f::100"
	}
	ms = n.add("ms", mapServerConfig("10.1.0.0/16 2001:db8:1::/48"), "192.0.2.100", "2001:db8:f::100")
	for i, a := range []string{first, second} {
		c := xtrConfig(byte(i+1), at, []string{a}, "10.1.0.0/16", "2001:db8:1::/48")
		for j := range c.ETR.Database {
			c.ETR.Database[j].Locators = locators(first, second)
		}
		c.ETR.MapServers[0].MergeRequest = merge
		xtrs = append(xtrs, n.add("x"+a, c, a))
		n.run(time.Second)
	}
	return n, ms, xtrs
}

// TestRefreshesOfTwoXTRsChangeNothing: each says of another locator that it is local. That is nothing that is answered.
func TestRefreshesOfTwoXTRsChangeNothing(t *testing.T) {
	for _, addresses := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8:f::1", "2001:db8:f::2"}} {
		for _, merge := range []bool{false, true} {
			n, ms, xtrs := sameSet(t, merge, addresses[0], addresses[1])
			n.run(5 * time.Minute)
			for _, x := range xtrs {
				x.wantCounter(counter.MapNotifyAckSent, 0)
			}
			ms.wantCounter(counter.MapNotifyUnsolicitedSent, 0)
			if slices.ContainsFunc(ms.notices, func(n Notice) bool { return n.Kind == NoticeRegistrationChanged }) {
				t.Errorf("merge %v: changes are told of: %+v", merge, ms.notices)
			}
			list := ms.registered()
			if len(list) != 4 {
				t.Fatalf("merge %v: %d registrations", merge, len(list))
			}
			for _, r := range list {
				if !r.Merged.Locators.Equal(locators(addresses[:]...)) || r.Mapping.Locators.Equal(r.Merged.Locators) {
					t.Errorf("merge %v: %s is registered, %s answered", merge, r.Mapping, r.Merged)
				}
			}
		}
	}
}

// TestReachabilityIsAChange, unlike who is local.
func TestReachabilityIsAChange(t *testing.T) {
	n, ms, xtrs := sameSet(t, false, "192.0.2.1", "192.0.2.2")
	c := xtrs[1].config
	etr := *c.ETR
	etr.Database = slices.Clone(etr.Database)
	for i := range etr.Database {
		etr.Database[i].Locators = slices.Clone(etr.Database[i].Locators)
		etr.Database[i].Locators[0].Reachable = false
	}
	c.ETR = &etr
	xtrs[1].configure(c)
	n.run(time.Second)
	ms.wantCounter(counter.MapNotifyUnsolicitedSent, 2)
	xtrs[0].wantCounter(counter.MapNotifyAckSent, 2)
}

// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"strings"
	"testing"
	"time"

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
		ms.wantCounter(MapNotifyUnsolicitedSent, 1) // to the first, about the second
		ms.wantCounter(MapNotifyAckReceived, 1)
		xtrs[0].wantCounter(MapNotifyAckSent, 1)
		xtrs[1].wantCounter(MapNotifyAckSent, 0)
		n.run(5 * time.Minute) // refreshes change nothing
		ms.wantCounter(MapNotifyUnsolicitedSent, 1)
		notify := lastUnsolicited(t, ms)
		if m, err := notify.Records[0].Mapping(); err != nil || !withLocalBits(m.Locators, nil).Equal(locators(addresses...)) {
			t.Errorf("the Map-Notify says %v, %v", m, err)
		}
		told := slices.ContainsFunc(xtrs[0].notices, func(n Notice) bool { return n.Kind == NoticeMapNotifyReceived && len(n.Detail) > 10 })
		if !told {
			t.Error("the sibling's operator is not told")
		}
	}
}

// TestSiblingsAreToldOfInTheLog, where nobody follows what happens with every message.
func TestSiblingsAreToldOfInTheLog(t *testing.T) {
	n, _, xtrs := oneSite(t, true, "192.0.2.1")
	xtrs[0].Heed(false)
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
	if slices.ContainsFunc(xtrs[0].notices, func(n Notice) bool { return n.At.After(epoch.Add(time.Second)) && !n.Kind.isChange() }) {
		t.Errorf("what nobody wants to know is put into words: %+v", xtrs[0].notices)
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
		if from == ms && p.Remote.Addr().String() == "192.0.2.1" && xtrs[0].host.registerNonce < nonceOf(p.Payload) {
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
	ms.wantCounter(MapNotifyUnacknowledged, 1)
	if len(ms.mapServer.notifier.byNonce) != 0 || ms.mapServer.notifier.timers.next() != never {
		t.Error("something is left of a Map-Notify that was given up")
	}
}

func TestDisplacedXTRIsNotified(t *testing.T) {
	_, ms, xtrs := oneSite(t, false, "192.0.2.1", "192.0.2.2")
	ms.wantCounter(MapNotifyUnsolicitedSent, 1)
	xtrs[0].wantCounter(MapNotifyAckSent, 1)
}

func TestExpiryAndWithdrawalNotifyTheOthers(t *testing.T) {
	n, ms, xtrs := oneSite(t, true, "192.0.2.1", "192.0.2.2")
	n.lose = func(from *testNode, _ SendPacket) bool { return from == xtrs[1] }
	n.run(4 * time.Minute)
	ms.wantCounter(MapNotifyUnsolicitedSent, 2)
	n.lose = nil
	n.run(2 * time.Minute)
	ms.wantCounter(MapNotifyUnsolicitedSent, 3) // it is back
	c := xtrs[1].config
	etr := *c.ETR
	etr.Database = nil
	c.ETR = &etr
	xtrs[1].configure(c)
	n.run(time.Second)
	ms.wantCounter(MapNotifyUnsolicitedSent, 4)
	ms.wantCounter(MapNotifyAckReceived, 4)
}

func TestForgedMapNotifyAck(t *testing.T) {
	n, ms, _ := oneSite(t, true, "192.0.2.1")
	n.lose = func(from *testNode, _ SendPacket) bool { return from.name == "x192.0.2.1" }
	c := xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.1.0.0/16")
	c.ETR.MapServers[0].MergeRequest = true
	n.add("x2", c, "192.0.2.2")
	n.run(time.Second)
	if len(ms.mapServer.notifier.byNonce) != 1 {
		t.Fatalf("%d Map-Notifies under way", len(ms.mapServer.notifier.byNonce))
	}
	ack := wire.MapNotifyAck(*lastUnsolicited(t, ms))
	for _, change := range []struct {
		secret string
		nonce  uint64
		reason Counter
	}{{"another secret", ack.Nonce, RefusedAuthentication}, {"a secret of the site", ack.Nonce + 1, RefusedNotifyAck}} {
		forged := ack
		forged.Nonce = change.nonce
		b, err := wire.AppendSigned(nil, &forged, []byte(change.secret))
		if err != nil {
			t.Fatal(err)
		}
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", b)
		ms.wantCounter(change.reason, 1)
	}
	if len(ms.mapServer.notifier.byNonce) != 1 {
		t.Error("a forged Map-Notify-Ack ended the Map-Notify")
	}
	ms.configure(mapServerConfig("10.9.0.0/16")) // the site is gone
	if len(ms.mapServer.notifier.byNonce) != 0 {
		t.Error("a Map-Notify outlives its site")
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
				x.wantCounter(MapNotifyAckSent, 0)
			}
			ms.wantCounter(MapNotifyUnsolicitedSent, 0)
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
	ms.wantCounter(MapNotifyUnsolicitedSent, 2)
	xtrs[0].wantCounter(MapNotifyAckSent, 2)
}

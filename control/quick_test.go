// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/locatorset"
	"loci/control/internal/registrar"
	"loci/lisp"
	"loci/wire"
)

func TestQuickRegistration(t *testing.T) {
	for _, wantNotify := range []bool{true, false} {
		for _, ms := range []string{"192.0.2.100", "2001:db8:f::100"} {
			n := newNetwork(t)
			n.add("ms", mapServerConfig("10.1.0.0/16"), ms)
			x := "192.0.2.1"
			if ms != "192.0.2.100" {
				x = "2001:db8:f::1"
			}
			c := xtrConfig(1, ms, []string{x}, "10.1.0.0/16")
			c.ETR.QuickRegistrationInterval, c.ETR.MapServers[0].WantMapNotify = 0, wantNotify
			x1 := n.add("x1", c, x)
			n.run(time.Hour)
			x1.keepMapRegisters()
			var quick, normal int
			for i, at := range x1.sentAt {
				if i > 0 && at.Sub(x1.sentAt[i-1]) < 20*time.Second {
					t.Errorf("Map-Registers %s apart", at.Sub(x1.sentAt[i-1]))
				}
				if at.Sub(epoch) <= 5*time.Minute {
					quick++
				} else {
					normal++
				}
			}
			if quick != 16 || normal < 54 || normal > 56 {
				t.Errorf("want-map-notify %v: %d Map-Registers in the first five minutes, %d in the other 55", wantNotify, quick, normal)
			}
			x1.configure(withDatabase(x1.config, x, "203.0.113.1"))
			before := x1.counter(counter.MapRegisterSent)
			n.run(time.Minute)
			x1.wantCounter(counter.MapRegisterSent, before+3) // quick again
		}
	}
}

func TestQuickRegistrationIsNoQuickerThanAllowed(t *testing.T) {
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16")
	c.ETR.QuickRegistrationInterval = 19 * time.Second
	if err := c.Validate(); err == nil {
		t.Error("an interval of 19 seconds is taken")
	}
}

// largeSite has 40 prefixes a Map-Register and more of them than go at once.
func largeSite(t *testing.T, limits Limits) (n *testNetwork, ms, x *testNode) {
	t.Helper()
	n = newNetwork(t)
	ms = n.add("ms", mapServerConfig("10.0.0.0/8"), "192.0.2.100")
	var prefixes []string
	for i := range 2000 {
		prefixes = append(prefixes, fmt.Sprintf("10.%d.%d.0/24", i/250, i%250))
	}
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, prefixes...)
	c.ETR.QuickRegistrationInterval, c.Limits = 0, limits
	return n, ms, n.add("x1", c, "192.0.2.1")
}

func TestLargeDatabasesAreRegisteredAtAPace(t *testing.T) {
	n, ms, x1 := largeSite(t, Limits{MapRegisters: Rate{PerSecond: 20, Burst: 10}})
	if got := x1.counter(counter.MapRegisterSent); got != 10 {
		t.Errorf("%d Map-Registers at once", got)
	}
	n.run(2 * time.Second)
	if got := x1.counter(counter.MapRegisterSent); got < 48 || got > 51 {
		t.Errorf("%d Map-Registers in two seconds", got)
	}
	n.run(30 * time.Second)
	if got := len(ms.registered()); got != 2000 {
		t.Errorf("%d registrations", got)
	}
	n.run(10 * time.Minute)
	x1.wantCounter(counter.MapRegisterRetransmitted, 0)
	perSecond := make(map[int64]int)
	for _, at := range x1.sentAt {
		perSecond[at.Unix()]++
	}
	for second, count := range perSecond {
		if count > 31 {
			t.Errorf("%d Map-Registers in second %d", count, second-epoch.Unix())
		}
	}
	messages := uint64(len(x1.etr.Registrar.Peers[0].Messages))
	if got := x1.counter(counter.MapRegisterSent); messages <= registrar.QuickMessages || got > 12*messages {
		t.Errorf("%d Map-Registers of %d messages in ten minutes", got, messages)
	}
}

// TestMapRegistersDoNotOvertakeEachOther: a Map-Server drops what comes after a greater nonce
// (RFC 9301 s.5.6), so that messages sent at one moment are lost to jitter, the same ones
// each time, and without Map-Notifies the ETR does not learn of it.
func TestMapRegistersDoNotOvertakeEachOther(t *testing.T) {
	for _, notify := range []bool{false, true} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.0.0.0/8"), "192.0.2.100")
		var prefixes []string
		for i := range 60 {
			prefixes = append(prefixes, fmt.Sprintf("10.0.%d.0/24", i))
		}
		c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, prefixes...)
		c.ETR.MapServers[0].WantMapNotify = notify
		turn := 0
		n.lose = func(from *testNode, p SendPacket) bool { // every other message takes 10 ms longer
			turn++
			slow := from != ms && turn%2 == 1
			if slow {
				n.arrive(testPacket{n.now.Add(oneWay + 10*time.Millisecond), p.Remote, p.Local, ms, p.Payload, from.name})
			}
			return slow
		}
		x1 := n.add("x1", c, "192.0.2.1")
		n.run(2 * time.Second)
		if parts := len(x1.etr.Registrar.Peers[0].Messages); parts < 2 {
			t.Fatalf("%d messages", parts)
		}
		if got := len(ms.registered()); got != len(prefixes) {
			t.Errorf("want-map-notify %v: %d registrations of %d", notify, got, len(prefixes))
		}
		refused := ms.counter(counter.RefusedReplay)
		n.run(10 * time.Minute)
		ms.wantCounter(counter.RefusedReplay, refused) // nor do the refreshes
		if !notify && refused > 0 {
			t.Errorf("%d Map-Registers were overtaken", refused)
		}
	}
}

func TestChangesAreRegisteredFirst(t *testing.T) {
	n, ms, x1 := largeSite(t, Limits{MapRegisters: Rate{PerSecond: 1, Burst: 1}})
	n.run(5 * time.Minute)
	c := x1.config
	etr := *c.ETR
	etr.Database = slices.Clone(etr.Database)
	last := &etr.Database[len(etr.Database)-1]
	last.Locators = locators("203.0.113.7")
	c.ETR = &etr
	x1.configure(c)
	n.run(1100 * time.Millisecond)
	for _, r := range ms.registered() {
		if r.Prefix == last.Prefix && !locatorset.WithLocalBits(r.Mapping.Locators, nil).Equal(last.Locators) {
			t.Errorf("registered is %s", r.Mapping)
		}
	}
	if !x1.etr.Registrar.Registered() {
		t.Error("the change counts as not registered while the rest follows")
	}
}

// TestForgottenMapRegistersDoNotDelayTheRest: changes follow each other faster than all Map-Registers of one can go.
func TestForgottenMapRegistersDoNotDelayTheRest(t *testing.T) {
	n, ms, x1 := largeSite(t, Limits{MapRegisters: Rate{PerSecond: 1, Burst: 1}})
	n.run(5 * time.Minute)
	c := x1.config
	database := c.ETR.Database
	last := len(database) - 1
	for i := range 5 {
		etr := *c.ETR
		etr.Database = slices.Clone(database)
		etr.Database[last].Locators = locators(fmt.Sprintf("203.0.113.%d", i+1))
		c.ETR = &etr
		x1.configure(c)
		n.run(100 * time.Millisecond)
	}
	n.run(3 * time.Second)
	for _, r := range ms.registered() {
		if r.Prefix == database[last].Prefix && !locatorset.WithLocalBits(r.Mapping.Locators, nil).Equal(c.ETR.Database[last].Locators) {
			t.Errorf("registered is %s", r.Mapping)
		}
	}
}

func withoutDatabase(c Config, prefix string) Config {
	etr := *c.ETR
	p := lisp.MustParsePrefix(prefix)
	etr.Database = slices.DeleteFunc(slices.Clone(etr.Database), func(d DatabaseMapping) bool { return d.Prefix == p })
	c.ETR = &etr
	return c
}

func TestWithdrawalIsRepeated(t *testing.T) {
	for _, wantNotify := range []bool{true, false} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
		c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.1.0/24", "10.1.2.0/24", "10.1.3.0/24")
		c.ETR.MapServers[0].WantMapNotify = wantNotify
		x1 := n.add("x1", c, "192.0.2.1")
		n.run(time.Second)
		n.lose = func(from *testNode, _ SendPacket) bool { return from == x1 }
		x1.configure(withoutDatabase(x1.config, "10.1.1.0/24"))
		n.run(time.Second / 2)
		x1.configure(withoutDatabase(x1.config, "10.1.2.0/24")) // a second change meanwhile
		n.run(2 * time.Second)
		n.lose = nil
		n.run(40 * time.Second)
		if got := ms.registered(); len(got) != 1 || got[0].Prefix.String() != "10.1.3.0/24" {
			t.Errorf("want-map-notify %v: registered %v", wantNotify, got)
		}
		if got := len(x1.etr.Registrar.Peers[0].Messages); got != 1 {
			t.Errorf("want-map-notify %v: %d messages go on", wantNotify, got)
		}
	}
}

func TestWithdrawnPrefixThatComesBack(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	full := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.1.0/24", "10.1.2.0/24")
	x1 := n.add("x1", full, "192.0.2.1")
	n.run(time.Second)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == x1 }
	x1.configure(withoutDatabase(full, "10.1.1.0/24"))
	n.run(time.Second / 2)
	n.lose = nil
	x1.configure(full)
	n.run(time.Minute)
	if got := ms.registered(); len(got) != 2 {
		t.Errorf("registered %v", got)
	}
}

func TestKeysOfAMapServerAreRotated(t *testing.T) {
	n := newNetwork(t)
	cfg := mapServerConfig("10.1.0.0/16")
	next := Key{ID: 2, Secret: []byte("the next secret")}
	cfg.MapServer.Sites[0].Keys = append(cfg.MapServer.Sites[0].Keys, next)
	ms := n.add("ms", cfg, "192.0.2.100")
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16")
	c.ETR.MapServers[0].OtherKeys = []Key{next}
	x1 := n.add("x1", c, "192.0.2.1")
	n.run(time.Second)
	notify := wire.MapNotify{Nonce: 4711, KeyID: 2, AlgorithmID: 3, Authentication: make([]byte, 32),
		Records: []wire.Record{wire.RecordOf(positive("10.1.0.0/16", 10))}}
	b, _ := wire.AppendSigned(nil, &notify, next.Secret)
	x1.inject("192.0.2.1:4342", "192.0.2.100:4342", b)
	n.run(time.Second)
	x1.wantCounter(counter.MapNotifyAckSent, 1)
	ms.wantCounter(counter.MapNotifyAckReceived, 1) // with the key of the Map-Notify
	if err := func() error { c.ETR.MapServers[0].OtherKeys = []Key{secret(1)}; return c.Validate() }(); err == nil {
		t.Error("two keys with one ID are taken")
	}
}

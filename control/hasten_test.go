// SPDX-License-Identifier: Apache-2.0

package control

// Map-Registers that stay unacknowledged are sent ever more rarely. When the mapping system is back they go at once.

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// awayUntil keeps all that is lost by n.lose lost until a Map-Register of x has just been sent, so that the next one is
// far away.
func (d *testNode) awayUntil(far time.Duration) {
	d.net.t.Helper()
	d.net.run(4 * time.Minute)
	for range 200 {
		if next := d.mapServer1().NextSendAt; next.Sub(d.net.now) >= far {
			return
		}
		d.net.run(100 * time.Millisecond)
	}
	d.net.t.Fatalf("the next Map-Register follows at %s, it is %s", d.mapServer1().NextSendAt, d.net.now)
}

// manyMessages is an xTR whose EID-Prefixes need several Map-Registers, and its Map-Server.
func manyMessages(t *testing.T, prefix func(i int) lisp.Prefix) (n *testNetwork, x, ms *testNode) {
	t.Helper()
	n = newNetwork(t)
	ms = n.add("ms", mapServerConfig("10.0.0.0/8 2001:db8::/32"), "192.0.2.100")
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"})
	for i := range 400 {
		mapping := DatabaseMapping{Prefix: prefix(i), Locators: locators("192.0.2.1")}
		c.ETR.Database = append(c.ETR.Database, mapping)
	}
	x = n.add("x", c, "192.0.2.1")
	n.run(30 * time.Second)
	messages, registered := len(x.etr.Registrar.Peers[0].Messages), len(ms.registered())
	if messages < 3 || registered != 400 {
		t.Fatalf("%d Map-Registers, %d registrations", messages, registered)
	}
	return n, x, ms
}

func numbered6(i int) lisp.Prefix {
	p := numbered(i).EID().Addr().As4()
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8, p[1], p[2]}
	made, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(netip.AddrFrom16(a)), 48)
	return made
}

// TestMapNotifyHastensMapRegisters: the first authenticated Map-Notify after a silence has all others sent at once.
func TestMapNotifyHastensMapRegisters(t *testing.T) {
	for name, prefix := range map[string]func(int) lisp.Prefix{"IPv4": numbered, "IPv6": numbered6} {
		n, x, ms := manyMessages(t, prefix)
		n.lose = func(*testNode, SendPacket) bool { return true }
		x.awayUntil(time.Second)
		ms.start()
		n.lose = nil
		before := x.counter(counter.MapNotifyReceived)
		for x.counter(counter.MapNotifyReceived) == before {
			n.run(10 * time.Millisecond)
		}
		first, most := n.now, len(x.etr.Registrar.Peers[0].Messages)
		n.run(1500 * time.Millisecond)
		if got := len(ms.registered()); got != 400 {
			t.Errorf("%s: 1.5 s after the first Map-Notify %d of 400 are registered", name, got)
		}
		if got := x.registersSince(first); got > most {
			t.Errorf("%s: %d Map-Registers, %d were unacknowledged", name, got, most)
		}
		n.run(time.Second)
		if got := x.registersSince(n.now.Add(-time.Second)); got > 0 {
			t.Errorf("%s: all are acknowledged, and %d Map-Registers follow", name, got)
		}
	}
}

// TestForgedMapNotifyHastensNothing: its authentication data are wrong.
func TestForgedMapNotifyHastensNothing(t *testing.T) {
	n, x, _ := manyMessages(t, numbered)
	n.lose = func(*testNode, SendPacket) bool { return true }
	x.awayUntil(1600 * time.Millisecond)
	nonce := nonceOf(x.sent[len(x.sent)-1].Payload)
	for _, key := range []string{"another secret", string(secret(1).Secret)} {
		sent := len(x.sent)
		m := &wire.MapNotify{Nonce: nonce, KeyID: 1, AlgorithmID: wire.AlgorithmHMACSHA256}
		m.Authentication = make([]byte, 32)
		if key == string(secret(1).Secret) {
			m.Nonce++ // right, and the answer to nothing
		}
		payload, err := wire.AppendSigned(nil, m, []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		x.inject("192.0.2.1:4342", "192.0.2.100:4342", payload)
		n.run(800 * time.Millisecond)
		for _, p := range x.sent[sent:] {
			if wire.MessageType(p.Payload[0]>>4) == wire.TypeMapRegister {
				t.Fatalf("signed with %q it lets Map-Registers go", key)
			}
		}
	}
}

// TestFirstAnswerHastensMapRegisters: that of a Map-Resolver, for an EID that waits.
func TestFirstAnswerHastensMapRegisters(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	n.run(serverStart + time.Second)
	n.lose = func(*testNode, SendPacket) bool { return true }
	n.run(time.Second)
	x1.miss("10.1.0.10", "10.2.0.10")
	x1.awayUntil(2500 * time.Millisecond)
	x1.miss("10.1.0.10", "10.2.0.10")
	n.run(time.Second)
	n.lose = nil
	back, most := n.now, len(x1.etr.Registrar.Peers[0].Messages)
	n.run(2 * time.Second)
	if s := x1.mapServer1(); s.LastNotifyAt.Before(back) || s.Unacknowledged > 0 {
		t.Errorf("2 s after the return at %s the last Map-Notify came at %s", back, s.LastNotifyAt)
	}
	if got := x1.registersSince(back); got != most {
		t.Errorf("%d Map-Registers, want %d, each once", got, most)
	}
}

// TestLossAtTheReturnIsNoRefusal: what a silence left unacknowledged has all its tries again when the Map-Server is
// back: where the first one is lost it is not called refused, which would wait for half an interval.
func TestLossAtTheReturnIsNoRefusal(t *testing.T) {
	for _, away := range []time.Duration{6 * time.Second, 20 * time.Second, 4 * time.Minute} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.0.0.0/8 2001:db8::/32"), "192.0.2.100")
		prefixes := []string{"10.1.0.0/16", "10.2.0.0/16", "2001:db8:1::/48"}
		x := n.add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, prefixes...), "192.0.2.1")
		n.lose = func(*testNode, SendPacket) bool { return true }
		n.run(away)
		ms.start()
		lost := map[lisp.Prefix]int{}
		n.lose = func(from *testNode, p SendPacket) bool {
			m, err := wire.Parse(p.Payload)
			register, ok := m.(*wire.MapRegister)
			if err != nil || !ok || len(ms.registered()) == 0 {
				return false
			}
			prefix, _ := register.Records[0].Prefix()
			if len(lost) == 0 {
				lost[ms.registered()[0].Prefix] = 1
			}
			lost[prefix]++
			return lost[prefix] == 1
		}
		for len(ms.registered()) == 0 {
			n.run(10 * time.Millisecond)
		}
		n.run(5 * time.Second)
		if got := len(ms.registered()); got != len(prefixes) {
			t.Errorf("away for %s: 5 s after the return %d of %d are registered", away, got, len(prefixes))
		}
		if slices.ContainsFunc(x.notices, func(n Notice) bool { return n.Kind == NoticeEIDNotAcknowledged }) {
			t.Errorf("away for %s: an EID-Prefix is called refused whose Map-Registers were lost", away)
		}
	}
}

// TestSilentMapServerIsAskedEvery3s: one Map-Register is repeated so often while nothing is acknowledged, and the
// others ever more rarely. So whenever a Map-Server is back that has lost all, it has all EID-Prefixes again within
// five seconds, though the router asks for nothing.
func TestSilentMapServerIsAskedEvery3s(t *testing.T) {
	for name, prefix := range map[string]func(int) lisp.Prefix{"IPv4": numbered, "IPv6": numbered6} {
		n, x, ms := manyMessages(t, prefix)
		for i := range 5 {
			n.kill(ms)
			n.run(4*time.Minute + time.Duration(i)*700*time.Millisecond)
			most := 20 + len(x.etr.Registrar.Peers[0].Messages)*3/2
			if got := x.registersSince(n.now.Add(-time.Minute)); got < 17 || got > most {
				t.Errorf("%s: %d Map-Registers in a minute, want 17 to %d", name, got, most)
			}
			ms.start()
			n.lose = nil
			n.run(5 * time.Second)
			if got := len(ms.registered()); got != 400 {
				t.Errorf("%s: 5 s after the return %d of 400 EID-Prefixes are registered", name, got)
			}
			n.run(90 * time.Second)
			if got := x.registersSince(n.now.Add(-time.Minute)); got > most-20 {
				t.Errorf("%s: acknowledged, and %d Map-Registers come in a minute", name, got)
			}
		}
	}
}

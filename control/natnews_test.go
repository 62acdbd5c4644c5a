// SPDX-License-Identifier: Apache-2.0

package control

// What an RTR hears of a registered EID-Prefix unasked: Map-Notifies and SMRs (draft-ermagan-lisp-nat-traversal s.5.5).

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// natNews are two RTRs of a node, by IPv4 or IPv6, and how that looks.
type natNews struct {
	*testNetwork
	x, ms, rtr *testNode
	server     string
	private    string
	public     string // where the node has no NAT
}

func newNATNews(t *testing.T, v6 bool) natNews {
	t.Helper()
	w := natNews{server: natServer, private: "192.168.1.2", public: "203.0.113.7"}
	rtr, outside := rtrOne, "198.51.100.1"
	if v6 {
		w.server, w.private, w.public, rtr, outside = natServer6, "fd00::2", "2001:db8:f::7", "2001:db8:f::101", "2001:db8:e::1"
	}
	n := newNetwork(t)
	c := mapServerConfig("10.1.0.0/16 2001:db8:1::/48")
	c.LocalRLOCs = []lisp.RLOC{rloc(w.server)}
	c.MapServer.RTRs = []RTRPeer{{Address: netip.MustParseAddr(rtr), Keys: rtrKeys()}}
	relay := rtrConfig(rtr, rtrKeys())
	relay.ITR.MapResolvers = []netip.AddrPort{addrPort(w.server)}
	relay.NATRelay.MapServers[0].Address = netip.MustParseAddr(w.server)
	w.rtr, w.ms = n.add("rtr", relay, rtr), n.add("ms", c, w.server)
	w.x = n.add("x", Config{}, w.private)
	n.nat([]string{outside}, w.x)
	w.testNetwork = n
	w.x.configure(natNode(1, w.server, w.private, "10.1.0.0/16"))
	n.run(time.Second)
	w.rtr.wantForwarded("10.1.0.0/16", w.x)
	return w
}

// moves has the node leave its NAT; the RTR hears nothing of that.
func (w *natNews) moves() {
	rtr := w.rtr
	w.lose = func(_ *testNode, p SendPacket) bool {
		return p.Remote.Addr() == rtr.addrs[0] && p.Local.Addr() == w.ms.addrs[0]
	}
	w.x.behind, w.x.addrs = nil, []netip.Addr{netip.MustParseAddr(w.public)}
	w.x.configure(natNode(1, w.server, w.public, "10.1.0.0/16"))
	w.run(20 * time.Second)
	w.lose = nil
	w.rtr.wantCached("10.1.0.0/16", w.rtr.cache[lisp.MustParsePrefix("10.1.0.0/16")].Mapping.Locators[0].RLOC.String())
}

// notify gives the RTR an unsolicited Map-Notify that names locators, authenticated by a key for the RTR, nil for none.
func (w *natNews) notify(from string, key *Key, named ...string) {
	w.t.Helper()
	m := wire.MapNotify{Nonce: 77, KeyID: 1, AlgorithmID: 2, Authentication: make([]byte, 32), Records: []wire.Record{
		wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), TTLMinutes: 3, Locators: locators(named...)}),
	}}
	message, err := m.AppendTo(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	rtr := w.rtr.addrs[0].String()
	ecm := wire.EncapsulatedControlMessage{ForRTR: true, Inner: wire.InnerPacket{
		Source: netip.AddrPortFrom(w.ms.addrs[0], 4342), Destination: netip.AddrPortFrom(w.rtr.addrs[0], 4342), Message: message,
	}}
	if key != nil {
		ecm.Security = true
		ecm.AuthData, err = wire.AppendRTRAuthentication(nil, wire.RTRKey{ID: key.ID, Algorithm: key.Algorithm, Secret: key.Secret}, 32, message)
		if err != nil {
			w.t.Fatal(err)
		}
	}
	b, err := ecm.AppendTo(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.rtr.inject(netip.AddrPortFrom(netip.MustParseAddr(rtr), 4342).String(), netip.AddrPortFrom(netip.MustParseAddr(from), 4342).String(), b)
}

// wantReplaced asserts that the RTR sends the node's packets to where it is now, and relays them still.
func (w *natNews) wantReplaced(what string) {
	w.t.Helper()
	e := w.rtr.cache[lisp.MustParsePrefix("10.1.0.0/16")]
	if len(e.Mapping.Locators) != 1 || e.Mapping.Locators[0].RLOC != rloc(w.public) || !e.Registered || e.Static {
		w.t.Errorf("%s: %+v", what, e)
	}
	if bindings, _ := w.rtr.rtr.Size(); bindings != 0 {
		w.t.Errorf("%s: %d bindings", what, bindings)
	}
	if !slices.ContainsFunc(w.rtr.notices, func(n Notice) bool { return n.Kind == NoticeNATBindingRemoved && n.Reason == "moved" }) {
		w.t.Errorf("%s: it is not reported", what)
	}
}

// TestUnsolicitedNotifyForTheNode: one that names the RTR goes to the node, as from its Map-Server.
func TestUnsolicitedNotifyForTheNode(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		w := newNATNews(t, v6)
		before := w.rtr.counter(counter.NATNotifySent)
		key := rtrKeys()[0]
		w.notify(w.server, &key, w.private, w.rtr.addrs[0].String())
		w.rtr.wantCounter(counter.NATNotifyUnsolicited, 1)
		w.rtr.wantCounter(counter.NATNotifySent, before+1)
		w.rtr.wantCounter(counter.MapRequestSent, 0)
		last := w.rtr.sent[len(w.rtr.sent)-1]
		_, rest, err := wire.ParseDataHeader(last.Payload)
		if err != nil {
			t.Fatal(err)
		}
		inner, err := wire.Parser{}.ParseInner(rest)
		if err != nil || inner.Destination.Addr().String() != w.private || inner.Source.Addr().String() != w.server || last.Local.Port() != wire.ControlPort {
			t.Errorf("%+v from %s: %v", inner, last.Local, err)
		}
		w.rtr.wantForwarded("10.1.0.0/16", w.x)
	}
}

// TestNodeThatLeftItsRTR: by a Map-Notify without the RTR, or an SMR, the RTR asks, and sends the node's packets to
// where it is now.
func TestNodeThatLeftItsRTR(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		w := newNATNews(t, v6)
		w.moves()
		key := rtrKeys()[0]
		w.notify(w.server, &key, w.public)
		w.run(time.Second)
		w.wantReplaced("Map-Notify")
		w = newNATNews(t, v6)
		w.moves()
		w.solicit()
		w.run(time.Second)
		w.wantReplaced("SMR")
	}
}

// TestMapServerTellsTheDepartedRTR: a node that leaves its NAT is found by its RTR within a second, if that has a key.
func TestMapServerTellsTheDepartedRTR(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		w := newNATNews(t, v6)
		w.x.behind, w.x.addrs = nil, []netip.Addr{netip.MustParseAddr(w.public)}
		w.x.configure(natNode(1, w.server, w.public, "10.1.0.0/16"))
		before := w.ms.counter(counter.MapNotifyUnsolicitedSent)
		for range 30 {
			if w.run(time.Second); w.ms.counter(counter.MapNotifyUnsolicitedSent) > before {
				break
			}
		}
		w.run(time.Second)
		w.wantReplaced("told by the Map-Server")
		told := w.ms.counter(counter.MapNotifyUnsolicitedSent)
		w.run(2 * time.Minute)
		w.ms.wantCounter(counter.MapNotifyUnsolicitedSent, told)
	}
}

// TestRestartBehindNATIsNoDeparture: a node begins with a Map-Register to its Map-Server, without an RTR. The RTR
// forwards all the time.
func TestRestartBehindNATIsNoDeparture(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		w := newNATNews(t, v6)
		told := w.ms.counter(counter.MapNotifyUnsolicitedSent)
		w.x.start()
		for range 400 {
			w.run(oneWay)
			w.rtr.wantForwarded("10.1.0.0/16", w.x)
		}
		w.ms.wantCounter(counter.MapNotifyUnsolicitedSent, told)
		w.rtr.wantCounter(counter.NATBindingExpired, 0)
	}
}

// solicit gives the RTR an SMR about the node's EID-Prefix.
func (w *natNews) solicit() {
	w.t.Helper()
	m := wire.MapRequest{SMR: true, Nonce: 5, SourceEID: wire.NoAddress{}, ITRRLOCs: []wire.Address{wire.RLOCAddress(rloc(w.public))},
		Records: []wire.RequestRecord{{MaskLen: 16, EID: wire.IPv4{10, 1, 0, 0}}}}
	b, err := m.AppendTo(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.rtr.inject(netip.AddrPortFrom(w.rtr.addrs[0], 4342).String(), netip.AddrPortFrom(netip.MustParseAddr(w.public), 4342).String(), b)
}

// TestMapReplyThatNamesTheRTR is discarded: the binding stays, whatever asked for it.
func TestMapReplyThatNamesTheRTR(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		w := newNATNews(t, v6)
		key := rtrKeys()[0]
		w.solicit()
		w.run(2 * time.Second)
		w.notify(w.server, &key, w.public)
		w.run(2 * time.Second)
		if w.rtr.counter(counter.MapRequestSent) != 2 {
			t.Errorf("%d Map-Requests", w.rtr.counter(counter.MapRequestSent))
		}
		w.rtr.wantForwarded("10.1.0.0/16", w.x)
		w.rtr.wantCounter(counter.NATBindingExpired, 0)
	}
}

// TestForgedUnsolicitedNotifies: without or with a wrong key, of another router, none has the RTR ask or send anything.
func TestForgedUnsolicitedNotifies(t *testing.T) {
	key, wrong := rtrKeys()[0], Key{ID: 9, Algorithm: 2, Secret: []byte("another one")}
	for _, c := range []struct {
		from    string
		key     *Key
		refused counter.Counter
	}{
		{natServer, nil, counter.RefusedRTRAuthentication}, {natServer, &wrong, counter.RefusedRTRAuthentication}, {"203.0.113.66", &key, counter.RefusedNATMapServer},
	} {
		w := newNATNews(t, false)
		sent := len(w.rtr.sent)
		w.notify(c.from, c.key, w.public)
		w.notify(c.from, c.key, rtrOne)
		w.run(100 * time.Millisecond)
		w.rtr.wantCounter(c.refused, 2)
		w.rtr.wantCounter(counter.NATNotifyUnsolicited, 0)
		if len(w.rtr.sent) != sent {
			t.Errorf("%d messages sent", len(w.rtr.sent)-sent)
		}
	}
	w := newNATNews(t, false)
	c := w.rtr.config
	relay := *c.NATRelay
	relay.MapServers = []NATMapServer{{Address: netip.MustParseAddr(natServer)}} // no key
	c.NATRelay = &relay
	w.rtr.configure(c)
	w.notify(natServer, nil, w.public)
	w.rtr.wantCounter(counter.RefusedNATNonce, 1)
	w.rtr.wantCounter(counter.MapRequestSent, 0)
}

// TestFloodOfUnsolicitedNotifies: replays are passed on, and ask, no more often than Map-Notifies and SMRs may.
func TestFloodOfUnsolicitedNotifies(t *testing.T) {
	w := newNATNews(t, false)
	key := rtrKeys()[0]
	before := len(w.rtr.sent)
	w.rtr.host.Limits.MapNotifies = timing.Rate{PerSecond: 10, Burst: 10}
	for range 500 {
		w.notify(w.server, &key, rtrOne)
		w.notify(w.server, &key, w.public)
	}
	if sent := len(w.rtr.sent) - before; sent > 11 || w.rtr.counter(counter.RefusedNotifyLimit) == 0 {
		t.Errorf("%d messages for 1000", sent)
	}
}

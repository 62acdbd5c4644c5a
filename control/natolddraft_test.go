// SPDX-License-Identifier: Apache-2.0

package control

// NAT traversal before draft-ermagan-lisp-nat-traversal-04 (OpenOverlayRouter's draft-version OLD): between RTR and
// Map-Server Map-Register and Map-Notify have no ECM around them.

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// oldDraftKeys are as OpenOverlayRouter has them: Key ID 1 is HMAC-SHA-1.
func oldDraftKeys() []Key {
	return []Key{{ID: 0, Algorithm: 1, Secret: []byte("between Map-Server and RTR")}}
}

// oldDraftRTR are a node behind a NAT, its Map-Server, and its RTR, which speak without ECMs, by IPv4 or IPv6.
type oldDraftRTR struct {
	natNews
	box *natBox
}

func newOldDraftRTR(t *testing.T, v6 bool, keys []Key) *oldDraftRTR {
	t.Helper()
	w := &oldDraftRTR{natNews: natNews{server: natServer, private: "192.168.1.2"}}
	rtr, outside := rtrOne, "198.51.100.1"
	if v6 {
		w.server, w.private, rtr, outside = natServer6, "fd00::2", "2001:db8:f::101", "2001:db8:e::1"
	}
	w.testNetwork = newNetwork(t)
	c := mapServerConfig("10.1.0.0/16 2001:db8:1::/48")
	c.LocalRLOCs = []lisp.RLOC{rloc(w.server)}
	c.MapServer.RTRs = []RTRPeer{{Address: netip.MustParseAddr(rtr), Keys: keys}}
	relay := rtrConfig(rtr, keys)
	relay.ITR.MapResolvers = []netip.AddrPort{addrPort(w.server)}
	relay.NATRelay.MapServers[0].Address, relay.NATRelay.MapServers[0].OldDraft = netip.MustParseAddr(w.server),
		true
	w.rtr, w.ms, w.x = w.add("rtr", relay, rtr), w.add("ms", c, w.server), w.add("x", Config{}, w.private)
	w.box = w.nat([]string{outside}, w.x)
	return w
}

func (w *oldDraftRTR) register() {
	w.x.configure(natNode(1, w.server, w.private, "10.1.0.0/16", "2001:db8:1::/48"))
	w.run(time.Second)
}

// lastTo is the last message of a node to an address that has that type.
func (d *testNode) lastTo(t *testing.T, to netip.Addr, of wire.MessageType) []byte {
	t.Helper()
	for i := len(d.sent) - 1; i >= 0; i-- {
		p := d.sent[i]
		if p.Remote.Addr() == to && p.Local.Port() == wire.ControlPort && p.Remote.Port() == wire.ControlPort &&
			p.Payload[0]>>4 == byte(of) {
			return p.Payload
		}
	}
	t.Fatalf("%s sent no %s to %s", d.name, of, to)
	return nil
}

// TestOldDraftRTR: the node is forwarded to, and stays so; the RTR changes nothing of a Map-Register, and passes on a
// Map-Notify with an empty field in place of the authentication that is for itself.
func TestOldDraftRTR(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, keys := range [][]Key{oldDraftKeys(), rtrKeys(), nil} {
			w := newOldDraftRTR(t, v6, keys)
			w.register()
			for range 2 {
				w.rtr.wantForwarded("10.1.0.0/16", w.x)
				w.rtr.wantForwarded("2001:db8:1::/48", w.x)
				w.x.wantByRTR(w.rtr.addrs[0].String())
				if r := w.ms.registered(); len(r) != 2 || !r[0].ByRTR ||
					r[0].From.Addr() != w.rtr.addrs[0] {
					t.Errorf("registered: %+v", r)
				}
				w.run(20 * time.Minute)
			}
			w.x.wantCounter(counter.NATBindingLost, 0)
			w.rtr.wantCounter(counter.NATBindingMoved, 0)
			w.wantBytes(keys)
			w.box.flush()
			w.run(settings.DefaultKeepalive + time.Second)
			w.rtr.wantForwarded("10.1.0.0/16", w.x)
			clear(w.rtr.cache)
			w.rtr.start()
			w.run(settings.DefaultKeepalive + time.Second)
			w.rtr.wantForwarded("10.1.0.0/16", w.x)
		}
	}
}

// wantBytes asserts what the last messages of RTR and Map-Server were.
func (w *oldDraftRTR) wantBytes(keys []Key) {
	w.t.Helper()
	ecm, err := wire.Parse(natRegister(w.t, w.x))
	if err != nil {
		w.t.Fatal(err)
	}
	if relayed := w.rtr.lastTo(w.t, w.ms.addrs[0], wire.TypeMapRegister); !bytes.Equal(relayed,
		ecm.(*wire.EncapsulatedControlMessage).Inner.Message) {
		w.t.Errorf("the RTR relays %x", relayed)
	}
	notify := w.ms.lastTo(w.t, w.rtr.addrs[0], wire.TypeMapNotify)
	octets := 0
	if len(keys) > 0 {
		octets = wire.FullMACOctets(keys[0].Algorithm)
		if head := notify[len(notify)-octets-4:]; head[0] != keys[0].ID || head[1] != keys[0].Algorithm ||
			head[3] != byte(octets) {
			w.t.Errorf("MS-RTR authentication %x", head)
		}
	}
	if notify[0] != 0x4c {
		w.t.Errorf("the Map-Notify begins with %x: neither I nor R, or others", notify[0])
	}
	var passed []byte
	for _, p := range w.rtr.sent {
		if _, rest, err := wire.ParseDataHeader(p.Payload); err == nil && p.Remote.Addr() != w.ms.addrs[0] {
			if inner, err := (wire.Parser{}).ParseInner(rest); err == nil &&
				inner.MessageType() == wire.TypeMapNotify {
				passed = inner.Message
				if p.Local.Port() != wire.ControlPort || inner.Source.Addr() != w.ms.addrs[0] ||
					inner.Destination.Addr() != w.x.addrs[0] {
					w.t.Errorf("a Data-Map-Notify from %s, inside from %s to %s", p.Local,
						inner.Source, inner.Destination)
				}
			}
		}
	}
	want := append(bytes.Clone(notify[:len(notify)-octets-4]), 0, 0, 0, 0)
	if !bytes.Equal(passed, want) {
		w.t.Errorf("the RTR passes on\n%x, want\n%x", passed, want)
	}
}

// TestOldDraftRegisterAsOpenOverlayRouter: octet by octet as its xTR sends it, and what becomes of it.
func TestOldDraftRegisterAsOpenOverlayRouter(t *testing.T) {
	w := newOldDraftRTR(t, false, oldDraftKeys())
	c := w.ms.config
	site := []byte("the-key-of-site")
	c.MapServer.Sites[0].Keys = []Key{{ID: 0, Algorithm: 1, Secret: site}}
	w.ms.configure(c)
	m := &wire.MapRegister{ProxyReply: true, XTRIDPresent: true, ByRTR: true, WantMapNotify: true, Nonce: 77,
		AlgorithmID: 1, Authentication: make([]byte, 20),
		XTRID: [16]byte{9}, Records: []wire.Record{wire.RecordOf(lisp.Mapping{
			Prefix: lisp.MustParsePrefix("10.1.0.0/16"), TTLMinutes: 10, Locators: locators(rtrOne)})}}
	packet := forRTR(t, m, natServer+":4342", site)
	if !bytes.Equal(packet[:4], []byte{0x80, 0x40, 0, 0}) ||
		!bytes.Equal(packet[4+20+8:][:4], []byte{0x3b, 0, 1, 1}) {
		t.Fatalf("%x", packet)
	}
	w.rtr.inject(rtrOne+":4342", "198.51.100.9:40001", packet)
	w.run(time.Second)
	if got := w.rtr.outside("10.1.0.0/16"); got != "198.51.100.9:40001" {
		t.Errorf("packets go to %s", got)
	}
	last := w.rtr.sent[len(w.rtr.sent)-1]
	if last.Remote.String() != "198.51.100.9:40001" || last.Local.String() != rtrOne+":4342" ||
		!bytes.HasSuffix(last.Payload, make([]byte, 4+8)) {
		t.Errorf("from %s to %s: %x", last.Local, last.Remote, last.Payload)
	}
}

// TestForgedOldDraftNotifies: without the authentication for the RTR, with a wrong one, changed, with another nonce, of
// an other router, or where the RTR does not expect that form, none verifies anything.
func TestForgedOldDraftNotifies(t *testing.T) {
	right := oldDraftKeys()[0]
	for _, c := range []struct {
		what     string
		from     string
		key      *Key
		change   func([]byte)
		relays   bool // in ECMs
		refused  counter.Counter
		verifies bool
	}{
		{"right", natServer, &right, nil, false, counter.RefusedRTRAuthentication, true},
		{"without", natServer, nil, nil, false, counter.RefusedRTRAuthentication, false},
		{"wrong key", natServer, &Key{Algorithm: 1, Secret: []byte("another one")}, nil, false,
			counter.RefusedRTRAuthentication, false},
		{"wrong key ID", natServer, &Key{ID: 3, Algorithm: 1, Secret: right.Secret}, nil, false,
			counter.RefusedRTRAuthentication, false},
		{"wrong algorithm", natServer, &Key{Algorithm: 2, Secret: right.Secret}, nil, false,
			counter.RefusedRTRAuthentication, false},
		{"changed", natServer, &right, func(b []byte) { b[20] ^= 1 }, false, counter.RefusedRTRAuthentication,
			false},
		{"another nonce", natServer, &right, nil, false, counter.RefusedNATNonce, false},
		{"of another router", "203.0.113.66", &right, nil, false, counter.RefusedRole, false},
		{"unexpected", natServer, &right, nil, true, counter.RefusedRole, false},
	} {
		w := newOldDraftRTR(t, false, oldDraftKeys())
		if c.relays {
			config := w.rtr.config
			relay := *config.NATRelay
			relay.MapServers = []NATMapServer{{Address: netip.MustParseAddr(natServer),
				Keys: oldDraftKeys()}}
			config.NATRelay = &relay
			w.rtr.configure(config)
		}
		w.lose = func(from *testNode, p SendPacket) bool {
			return from == w.ms &&
				p.Remote.Addr() == w.rtr.addrs[0]
		}
		w.x.configure(natNode(1, w.server, w.private, "10.1.0.0/16"))
		w.run(100 * time.Millisecond)
		ecm, err := wire.Parse(natRegister(t, w.x))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := wire.Parse(ecm.(*wire.EncapsulatedControlMessage).Inner.Message)
		if err != nil {
			t.Fatal(err)
		}
		m := parsed.(*wire.MapRegister)
		notify := &wire.MapNotify{XTRIDPresent: true, XTRID: m.XTRID, SiteID: m.SiteID, Nonce: m.Nonce,
			AlgorithmID: 1, Authentication: make([]byte, 20)}
		if c.refused == counter.RefusedNATNonce {
			notify.Nonce++
		}
		key, octets := wire.RTRKey{}, 0
		if c.key != nil {
			key, octets = wire.RTRKey{ID: c.key.ID, Algorithm: c.key.Algorithm, Secret: c.key.Secret},
				wire.FullMACOctets(c.key.Algorithm)
		}
		b, err := wire.AppendSignedForRTR(nil, notify, []byte("the site's key"), key, octets)
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(b)
		}
		w.rtr.inject(rtrOne+":4342", c.from+":4342", b)
		if c.verifies {
			w.rtr.wantForwarded("10.1.0.0/16", w.x)
			continue
		}
		w.rtr.wantNotCached("10.1.0.0/16")
		if w.rtr.counter(c.refused) != 1 {
			t.Errorf("%s: %s is %d", c.what, c.refused, w.rtr.counter(c.refused))
		}
	}
}

// TestOldDraftRegisterOfOthers: a Map-Register with R that none of the offered RTRs relayed is answered as a direct
// one. A late duplicate by an RTR is not answered: it is a replay.
func TestOldDraftRegisterOfOthers(t *testing.T) {
	w := newOldDraftRTR(t, false, oldDraftKeys())
	w.register()
	register := bytes.Clone(w.rtr.lastTo(t, w.ms.addrs[0], wire.TypeMapRegister))
	sent := w.ms.counter(counter.MapNotifySent)
	w.ms.inject(natServer+":4342", rtrOne+":4342", register)
	w.ms.wantCounter(counter.MapNotifySent, sent+1)
	w.run(11 * time.Second)
	w.ms.inject(natServer+":4342", rtrOne+":4342", register)
	w.ms.wantCounter(counter.MapNotifySent, sent+1)
	w.ms.inject(natServer+":4342", "192.0.2.9:4342", register)
	answer := w.ms.lastTo(t, netip.MustParseAddr("192.0.2.9"), wire.TypeMapNotify)
	if m, err := wire.Parse(answer); err != nil || m.(*wire.MapNotify).ByRTR || m.(*wire.MapNotify).XTRIDPresent {
		t.Errorf("%+v, %v", m, err)
	}
}

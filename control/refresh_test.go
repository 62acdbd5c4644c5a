// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/mapserver"
	"loci/control/internal/message"
	"loci/lisp"
	"loci/wire"
)

// TestARefreshMovesTheTimesAlone says the same again, and then something else in each respect.
func TestARefreshMovesTheTimesAlone(t *testing.T) {
	c := mapServerConfig("10.1.0.0/16")
	c.MapServer.Journal = true
	s := newJournalledServer(t, c, epoch)
	m := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.1.2.0/24"), TTLMinutes: 10, Locators: locators("192.0.2.1", "192.0.2.2"), Version: 7}
	from, nonce := netip.MustParseAddrPort("192.0.2.1:4342"), uint64(0)
	send := func(change func(*wire.MapRegister)) Registration {
		t.Helper()
		nonce++
		r := &message.MapRegister{Arrival: message.Arrival{From: from}, Site: c.MapServer.Sites[0].Name, Mappings: []lisp.Mapping{m}}
		r.MapRegister = &wire.MapRegister{Nonce: nonce, KeyID: 1, AlgorithmID: 3, UseTTL: true, XTRIDPresent: true, XTRID: [16]byte{1}, Authentication: make([]byte, 32)}
		if change != nil {
			change(r.MapRegister)
		}
		s.now = s.now.Add(time.Minute)
		s.host.Advance(s.now)
		s.mapServer.HandleMapRegister(r)
		s.drain()
		verifyRegistrations(&s.mapServer.Registrations, t)
		list := s.list()
		if len(list) != 1 {
			t.Fatalf("%d registrations", len(list))
		}
		return list[0]
	}
	first := send(nil)
	began := s.now
	again := send(nil)
	if !again.Mapping.Equal(first.Mapping) || !again.Merged.Equal(first.Merged) || !again.FirstRegisteredAt.Equal(began) ||
		!again.LastRegisteredAt.Equal(s.now) || !again.ExpiresAt.Equal(s.now.Add(10*time.Minute)) {
		t.Errorf("after a refresh %+v, before %+v", again, first)
	}
	for _, change := range []struct {
		what    string
		mapping func()
		message func(*wire.MapRegister)
	}{
		{what: "TTL", mapping: func() { m.TTLMinutes = 5 }},
		{what: "Map-Version", mapping: func() { m.Version = 8 }},
		{what: "A", mapping: func() { m.Authoritative = true }},
		{what: "weight", mapping: func() { m.Locators = locators("192.0.2.1", "192.0.2.2"); m.Locators[1].Weight = 3 }},
		{what: "locators", mapping: func() { m.Locators = locators("192.0.2.1") }},
		{what: "ACT", mapping: func() { m.Locators, m.Action = nil, lisp.ActionDrop }},
		{what: "P", message: func(r *wire.MapRegister) { r.ProxyReply = true }},
		{what: "source", mapping: func() { from = netip.MustParseAddrPort("192.0.2.9:4342") }},
	} {
		if change.mapping != nil {
			change.mapping()
		}
		got := send(change.message)
		wantProxy, answered := change.message != nil, m
		answered.Authoritative = false // a Map-Server is not
		if !got.Mapping.Equal(m) || !got.Merged.Equal(answered) || got.ProxyReply != wantProxy || got.From != from || !got.FirstRegisteredAt.Equal(began) {
			t.Errorf("%s: registered is %+v: want %+v from %s", change.what, got, m, from)
		}
		sameRegistrations(t, s.restarted(t), s)
	}
	s.wait(20 * time.Minute)
	if left := s.list(); len(left) != 0 {
		t.Errorf("%d registrations after their TTL", len(left))
	}
}

// TestReplayOfALongEntry takes over an entry of several batches, whole and cut off within every record.
func TestReplayOfALongEntry(t *testing.T) {
	const count = 2*mapserver.ReplayAhead + 5
	c := mapServerConfig("10.1.0.0/16")
	c.MapServer.Journal = true
	s := newJournalledServer(t, c, epoch)
	m := &message.MapRegister{Arrival: message.Arrival{From: netip.MustParseAddrPort("192.0.2.1:4342")}, Site: c.MapServer.Sites[0].Name}
	m.MapRegister = &wire.MapRegister{Nonce: 1, KeyID: 1, AlgorithmID: 3, XTRIDPresent: true, XTRID: [16]byte{1}, Authentication: make([]byte, 32)}
	sets := []lisp.LocatorSet{locators("192.0.2.1", "192.0.2.2"), locators("192.0.2.1", "192.0.2.3")}
	for i := range count {
		p, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, 1, byte(i)})), 24)
		m.Mappings = append(m.Mappings, lisp.Mapping{Prefix: p, TTLMinutes: 10, Locators: sets[i/3%2]})
	}
	s.mapServer.HandleMapRegister(m)
	s.drain()
	sameRegistrations(t, s.restarted(t), s)
	entry := s.pieces[0].Octets
	alone := newJournalledServer(t, c, epoch)
	m.Mappings = m.Mappings[:1]
	alone.mapServer.HandleMapRegister(m)
	alone.drain()
	record := (len(entry) - len(alone.pieces[0].Octets)) / (count - 1)
	for whole := range count {
		n, err := New(c, epoch, testRandom(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := n.ReplayJournal(epoch, sealed(entry[:len(entry)-record*(count-whole)+record/2])); err == nil {
			t.Fatalf("an entry of %d records and a half is taken for whole", whole)
		}
		if got := n.Sizes().Registrations; got != whole {
			t.Fatalf("%d registrations of %d whole records", got, whole)
		}
		if n, err = New(c, epoch, testRandom(1)); err != nil {
			t.Fatal(err)
		}
		if err := n.ReplayJournal(epoch, entry[:len(entry)-record*(count-whole)+record/2]); err == nil || n.Sizes().Registrations > 0 {
			t.Fatalf("%d registrations of an entry without its checksum, %v", n.Sizes().Registrations, err)
		}
	}
}

// TestReplayAmongConfiguredPrefixes: whose an EID-Prefix is depends on the most specific configured one.
func TestReplayAmongConfiguredPrefixes(t *testing.T) {
	c := mapServerConfig("10.1.0.0/16")
	c.MapServer.Journal = true
	s := newJournalledServer(t, c, epoch)
	m := &message.MapRegister{Arrival: message.Arrival{From: netip.MustParseAddrPort("192.0.2.1:4342")}, Site: c.MapServer.Sites[0].Name}
	m.MapRegister = &wire.MapRegister{Nonce: 1, KeyID: 1, AlgorithmID: 3, Authentication: make([]byte, 32)}
	for _, p := range []string{"10.1.1.0/24", "10.1.2.0/24", "10.1.2.128/25", "10.1.3.0/24"} {
		m.Mappings = append(m.Mappings, lisp.Mapping{Prefix: lisp.MustParsePrefix(p), TTLMinutes: 10, Locators: locators("192.0.2.1")})
	}
	s.mapServer.HandleMapRegister(m)
	s.drain()
	site := c.MapServer.Sites[0]
	other := Site{Name: "another", Keys: []Key{{ID: 1, Secret: []byte("another secret")}}, Prefixes: []SitePrefix{{Prefix: lisp.MustParsePrefix("10.1.2.0/24"), AcceptMoreSpecifics: true}}}
	c.MapServer = &MapServerConfig{Sites: []Site{site, other}, Journal: true}
	var left []string
	for _, r := range newJournalledServer(t, c, epoch, s.pieces...).list() {
		left = append(left, r.Mapping.Prefix.String())
	}
	if len(left) != 2 || left[0] != "10.1.1.0/24" || left[1] != "10.1.3.0/24" {
		t.Errorf("%v are registered: 10.1.2.0/24 is another site's", left)
	}
}

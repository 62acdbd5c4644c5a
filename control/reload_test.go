// SPDX-License-Identifier: Apache-2.0

package control

// A reload of a hundred thousand sites and as many static mappings: changes are applied in short
// event-loop iterations. In between, every answer is one that the old or the new configuration would give.

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"loci/control/internal/itr"
	"loci/control/internal/mapserver"
	"loci/lisp"
)

func reloadPrefix(net byte, i int) lisp.Prefix {
	p, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{net, byte(i >> 12), byte(i >> 4), byte(i << 4)})), 28)
	return p
}

// reloadConfig has the sites and static mappings of those numbers that want names; the mappings have
// the locator, the sites the TTL in proxy replies.
func reloadConfig(count int, locator string, ttl uint32, want func(int) bool) Config {
	c := Config{MapServer: &MapServerConfig{Journal: true}, ITR: &ITRConfig{IdleTimeout: -1, RLOCProbing: ProbingConfig{Off: true}}}
	for i := range count {
		if want(i) {
			c.MapServer.Sites = append(c.MapServer.Sites, Site{
				Name: fmt.Sprint("site ", i), Keys: []Key{secret(1)}, Prefixes: []SitePrefix{{Prefix: reloadPrefix(10, i)}}, Policy: SitePolicy{ProxyReplyTTLMinutes: ttl},
			})
			c.ITR.StaticMappings = append(c.ITR.StaticMappings, lisp.Mapping{Prefix: reloadPrefix(20, i), TTLMinutes: lisp.TTLUnlimited, Locators: locators(locator)})
		}
	}
	return c
}

// registerAll registers every site's EID-Prefix.
func (s *journalledServer) registerAll(count int) {
	t := &s.mapServer.Registrations
	who := t.Xtrs.Acquire(mapserver.XTR{ID: mapserver.RegistrantID{XTRID: [16]byte{1}}, From: journalXTRs[0]})
	for i := range count {
		mapping := lisp.Mapping{Prefix: reloadPrefix(10, i), TTLMinutes: 1, Locators: locators("192.0.2.1")}
		t.Put(t.PlaceOf(mapping.Prefix), t.Sites.At(i), mapping, mapserver.Registrant{
			XTR: who, FirstAt: s.host.Now, LastAt: s.host.Now, ExpiresAt: s.host.After(time.Hour),
		})
	}
	t.Xtrs.Release(who)
}

// staticAs fails unless the map-cache has exactly those static mappings.
func (s *journalledServer) staticAs(t *testing.T, c Config) {
	t.Helper()
	for _, m := range c.ITR.StaticMappings {
		if _, e, ok := s.itr.Cache.Get(m.Prefix); !ok || !e.Static || !e.Mapping.Equal(m) {
			t.Fatalf("the map-cache has no static mapping %v", m)
		}
	}
	if got := s.Sizes().MapCache; got != len(c.ITR.StaticMappings) {
		t.Errorf("%d mappings in the map-cache: want %d", got, len(c.ITR.StaticMappings))
	}
}

func TestIterationsOfAReload(t *testing.T) {
	count := 100_000
	if testing.Short() || raceEnabled {
		count = 5_000 // the work of each iteration is counted all the same
	}
	all := func(int) bool { return true }
	s := newJournalledServer(t, reloadConfig(count, "192.0.2.1", 0, all), epoch)
	s.registerAll(count)
	s.staticAs(t, reloadConfig(count, "192.0.2.1", 0, all))
	fresh := reloadConfig(count, "192.0.2.2", 7, func(i int) bool { return i%2 == 0 })
	prepared, err := Prepare(fresh, s.Current())
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	short := func(what string, least int, work func() bool) {
		t.Helper()
		most := 0
		n, longest := s.iterations(func() bool {
			done := work()
			most = max(most, len(s.host.Effects))
			return done
		})
		t.Logf("%s: %d iterations, the longest took %v, the fullest had %d effects", what, n, longest, most)
		if n < least || most > 2*(itr.StaticBatch/itr.StaticChangeCost) || count == 100_000 && longest > longestIteration {
			t.Errorf("%s: %d iterations, of which the longest took %v of processor time and the fullest had %d effects", what, n, longest, most)
		}
	}
	s.now = s.now.Add(time.Second)
	short("the reload", 1, func() bool { s.Apply(s.now, prepared); return true })

	known := &s.mapServer.Registrations
	for i := range 2 {
		_, row, ok := known.Get(reloadPrefix(10, count-2+i))
		if !ok {
			t.Fatal("the pass is over already: the test proves nothing")
		}
		site := known.SiteOf(row)
		if got, kept := s.mapServer.Owners.Allows(row.Prefix, site), i == 0; got != kept || kept && site.Config.Policy.ProxyReplyTTLMinutes != 7 {
			t.Errorf("%s: allowed %v, by %+v", row.Prefix, got, site.Config.Policy)
		}
	}
	short("what follows", count/(itr.StaticBatch/itr.StaticChangeCost), s.timeouts)
	s.staticAs(t, fresh)
	if sizes := s.Sizes(); sizes.Registrations != count/2 || len(known.Sites.Known) != count/2 || len(known.Sites.Free) != count/2 {
		t.Errorf("%d registrations, %d sites known, %d numbers free: want %d of each", sizes.Registrations, len(known.Sites.Known), len(known.Sites.Free), count/2)
	}
	if err := s.Configure(s.now, reloadConfig(count, "192.0.2.1", 0, all)); err != nil {
		t.Fatal(err)
	}
	s.iterations(s.timeouts)
	s.staticAs(t, reloadConfig(count, "192.0.2.1", 0, all))
	for i := range count {
		known.Sites.At(i)
	}
	if len(known.Sites.Numbered) != count || len(known.Sites.Free) != 0 {
		t.Errorf("%d sites with %d numbers, %d of them free", count, len(known.Sites.Numbered), len(known.Sites.Free))
	}
}

// TestReloadWhileAnotherIsUnderWay takes mappings away, and before the pass is over brings some of them
// back and takes others.
func TestReloadWhileAnotherIsUnderWay(t *testing.T) {
	const count = 4 * itr.StaticBatch
	s := newJournalledServer(t, reloadConfig(count, "192.0.2.1", 0, func(int) bool { return true }), epoch)
	for n, want := range []func(int) bool{
		func(i int) bool { return i%2 == 0 },
		func(i int) bool { return i%3 == 0 },
		func(i int) bool { return i%5 == 0 },
	} {
		if err := s.Configure(s.now, reloadConfig(count, fmt.Sprint("192.0.2.", n+2), 0, want)); err != nil {
			t.Fatal(err)
		}
		if s.drain(); !s.itr.Statics.Work.Waits() {
			t.Fatal("the pass is over already: the test proves nothing")
		}
	}
	s.iterations(s.timeouts)
	s.staticAs(t, reloadConfig(count, "192.0.2.4", 0, func(i int) bool { return i%5 == 0 }))
}

// TestSiteThatComesBack has a site that is gone and comes back before it is forgotten: its nonces are
// known still. Once it is forgotten, they are not.
func TestSiteThatComesBack(t *testing.T) {
	const count = 2 * mapserver.RegistrationSweepRows
	all, none := reloadConfig(count, "192.0.2.1", 0, func(int) bool { return true }), reloadConfig(count, "192.0.2.1", 0, func(i int) bool { return i > 0 })
	s := newJournalledServer(t, all, epoch)
	sites := &s.mapServer.Registrations.Sites
	for i := range count {
		sites.At(i)
	}
	sites.At(0).Nonces[mapserver.NonceKey{KeyID: 1}] = mapserver.SeenNonce{Nonce: 9}
	configure := func(c Config) {
		if err := s.Configure(s.now, c); err != nil {
			t.Fatal(err)
		}
	}
	configure(none)
	if sites.Named("site 0") != nil || !s.mapServer.Sweeping() {
		t.Fatal("the site is there still, or forgotten already")
	}
	configure(all)
	if site := sites.Named("site 0"); len(site.Nonces) != 1 {
		t.Error("what the site sent is forgotten while it was away for a moment: it could be replayed")
	}
	configure(none)
	s.iterations(s.timeouts)
	configure(all)
	if site := sites.Named("site 0"); len(site.Nonces) != 0 {
		t.Error("the site is remembered for ever")
	}
}

// TestPreparedForAnotherConfiguration puts two in force that were both prepared for the first.
func TestPreparedForAnotherConfiguration(t *testing.T) {
	s := newJournalledServer(t, reloadConfig(4, "192.0.2.1", 0, func(int) bool { return true }), epoch)
	configs := []Config{
		reloadConfig(4, "192.0.2.1", 0, func(i int) bool { return i < 2 }), reloadConfig(4, "192.0.2.1", 0, func(i int) bool { return i == 3 }),
	}
	var prepared []*Prepared
	for _, c := range configs {
		p, err := Prepare(c, s.Current())
		if err != nil {
			t.Fatal(err)
		}
		prepared = append(prepared, p)
	}
	for i, p := range prepared {
		keys := s.Keyring()
		s.Apply(s.now, p)
		s.drain()
		if s.staticAs(t, configs[i]); s.Keyring() == keys {
			t.Errorf("%d: other sites with the same Keyring", i)
		}
	}
}

func TestRefusedConfigurationIsNotPrepared(t *testing.T) {
	s := newJournalledServer(t, reloadConfig(4, "192.0.2.1", 0, func(int) bool { return true }), epoch)
	c := reloadConfig(2, "192.0.2.1", 0, func(int) bool { return true })
	c.MapServer.Sites[1].Keys = nil
	before := s.Current()
	if err := s.Configure(s.now, c); err == nil || s.Current() != before || len(before.config.MapServer.Sites) != 4 {
		t.Errorf("got %v", err)
	}
}

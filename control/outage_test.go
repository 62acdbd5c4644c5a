// SPDX-License-Identifier: Apache-2.0

package control

// A Map-Server that was away for longer than registrations last: it says nothing about what is not registered again yet,
// or ITRs would give up mappings that work.

import (
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/wire"
)

func TestMapServerThatCameBackErasesNothing(t *testing.T) {
	for _, ttl := range []uint32{1, 10} {
		n, x1, x2, ms := twoSites(t)
		for _, x := range []*testNode{x1, x2} {
			c := x.config
			etr := *c.ETR
			etr.Database = append([]DatabaseMapping(nil), etr.Database...)
			for i := range etr.Database {
				etr.Database[i].TTLMinutes = ttl
			}
			c.ETR = &etr
			x.configure(c)
		}
		n.run(5 * time.Second)
		asked := func() {
			x1.miss("10.1.0.1", "10.2.0.1")
			x1.miss("2001:db8:1::1", "2001:db8:2::1")
		}
		used := func(d time.Duration) { // packets go on
			for end := n.now.Add(d); n.now.Before(end); n.run(time.Second) {
				for prefix := range x1.cache {
					x1.use(prefix.String())
				}
				asked()
				for prefix, e := range x1.cache {
					if e.Mapping.Negative() {
						t.Fatalf("TTL %d, %s: %s is negative", ttl, n.now.Sub(epoch), prefix)
					}
				}
			}
		}
		used(time.Minute)
		if len(x1.cache) != 2 {
			t.Fatalf("the map-cache is %v", x1.cachedPrefixes())
		}
		away := true
		n.lose = func(from *testNode, p SendPacket) bool {
			return away && (from == ms || p.Remote.Addr() == ms.addrs[0] || p.Remote.Addr() == ms.addrs[1])
		}
		used(4 * time.Minute)
		ms.start() // without what it had
		away = false
		used(3 * time.Minute)
		x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
		x1.wantCached("2001:db8:2::/48", "192.0.2.2", "2001:db8:f::2")
		ms.wantCounter(counter.NegativeMapReplySent, 0)
		if ttl == 1 && ms.counter(counter.RefusedStarting) == 0 {
			t.Error("no ITR asked in time: the test proves nothing")
		}
	}
}

// TestMapServerSpeaksUpAfterItsStart answers negatively for what is not registered, a registration interval after its start;
// at once for EIDs of no site, and from what the journal kept.
func TestMapServerSpeaksUpAfterItsStart(t *testing.T) {
	for _, c := range []struct {
		asked    string
		at       time.Duration
		timeout  time.Duration
		answered bool
	}{
		{"10.1.7.1/32", 0, 0, false},
		{"2001:db8:1::7/128", 59 * time.Second, 0, false},
		{"10.1.7.1/32", time.Minute, 0, true},
		{"2001:db8:1::7/128", time.Minute, 0, true},
		{"10.1.7.1/32", 9 * time.Second, 30 * time.Second, false},
		{"10.1.7.1/32", 10 * time.Second, 30 * time.Second, true},
		{"10.9.7.1/32", 0, 0, true},
		{"2001:db8:9::7/128", 0, 0, true},
	} {
		n := newNetwork(t)
		cfg := mapServerConfig("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16")
		cfg.MapServer.RegistrationTimeout = c.timeout
		ms := n.add("ms", cfg, "192.0.2.100")
		n.run(c.at)
		cfg.MapServer.Sites = cfg.MapServer.Sites[:1]
		ms.configure(cfg) // a reload is no start
		ms.inject("192.0.2.100:4342", "192.0.2.9:4342", encapsulated(t, wire.MapRequest{Nonce: 1}, c.asked, "192.0.2.9"))
		if got := len(sentMessages[*wire.MapReply](ms)) == 1; got != c.answered {
			t.Errorf("%s after %s with registrations of %s: answered %v", c.asked, c.at, c.timeout, got)
		}
		if refused := ms.counter(counter.RefusedStarting) == 1; refused == c.answered {
			t.Errorf("%s after %s: counted %v", c.asked, c.at, refused)
		}
	}
}

// TestMapServerAnswersFromItsJournal does so at once for what had not expired.
func TestMapServerAnswersFromItsJournal(t *testing.T) {
	s := newJournalledServer(t, journalledConfig(), epoch)
	s.take(addrPortOf("192.0.2.1"), register(t, func(m *wire.MapRegister) { m.ProxyReply = true }, "10.1.0.0/16"))
	again := newJournalledServer(t, journalledConfig(), epoch.Add(2*time.Minute), s.pieces...)
	for _, asked := range []string{"10.1.0.9/32", "2001:db8:1::9/128"} {
		again.take(addrPortOf("192.0.2.9"), encapsulated(t, wire.MapRequest{Nonce: 1}, asked, "192.0.2.9"))
	}
	if got := again.host.Counters; got[counter.ProxyMapReplySent] != 1 || got[counter.NegativeMapReplySent] != 0 || got[counter.RefusedStarting] != 1 {
		t.Errorf("%d answers, %d negative ones, %d times silent", got[counter.ProxyMapReplySent], got[counter.NegativeMapReplySent], got[counter.RefusedStarting])
	}
}

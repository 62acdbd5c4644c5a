// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/mapserver"
	"loci/lisp"
	"loci/wire"
)

var (
	journalLocal = netip.MustParseAddrPort("192.0.2.100:4342")
	journalXTRs  = []netip.AddrPort{
		netip.MustParseAddrPort("192.0.2.1:61000"), netip.MustParseAddrPort("192.0.2.2:4342"), netip.MustParseAddrPort("[2001:db8::3]:4342"),
	}
	journalPrefixes = []string{"10.1.0.0/16", "10.1.2.0/24", "[5]10.1.0.0/16", "2001:db8:1::/48", "2001:db8:1:2::/64", "10.1.2.128/25"}
)

// journalledServer keeps its journal, as a store would.
type journalledServer struct {
	*Node
	now    time.Time
	pieces []Journal
	sent   []SendPacket
}

func journalledConfig() Config {
	c := mapServerConfig("10.1.0.0/16", "[5]10.1.0.0/16", "2001:db8:1::/48")
	for _, other := range c.MapServer.Sites[1:] {
		c.MapServer.Sites[0].Prefixes = append(c.MapServer.Sites[0].Prefixes, other.Prefixes...)
	}
	c.MapServer.Sites = c.MapServer.Sites[:1]
	c.MapServer.Journal = true
	return c
}

func newJournalledServer(t *testing.T, c Config, at time.Time, pieces ...Journal) *journalledServer {
	t.Helper()
	n, err := New(c, at, testRandom(1))
	if err != nil {
		t.Fatal(err)
	}
	s := &journalledServer{Node: n, now: at}
	for _, p := range pieces {
		if err := n.ReplayJournal(at, p.Octets); err != nil {
			t.Fatalf("replay: %v", err)
		}
	}
	s.drain()
	return s
}

func (s *journalledServer) drain() {
	for e, ok := s.Poll(); ok; e, ok = s.Poll() {
		switch e := e.(type) {
		case Journal:
			s.pieces = append(s.pieces, e)
		case SendPacket:
			s.sent = append(s.sent, e)
		}
	}
}

func (s *journalledServer) take(from netip.AddrPort, b []byte) {
	s.HandlePacket(s.now, journalLocal, from, b)
	s.drain()
}

func (s *journalledServer) wait(d time.Duration) {
	end := s.now.Add(d)
	for {
		next, ok := s.NextDeadline()
		if !ok || next.After(end) {
			break
		}
		s.now = next
		s.HandleTimeout(next)
		s.drain()
	}
	s.now = end
}

// restarted is another run with the journal of this one.
func (s *journalledServer) restarted(t *testing.T) *journalledServer {
	return newJournalledServer(t, s.config, s.now, s.pieces...)
}

func (s *journalledServer) list() []Registration { return slices.Collect(s.Registrations()) }

func sameRegistrations(t *testing.T, got, want *journalledServer) {
	t.Helper()
	a, b := got.list(), want.list()
	same := func(x, y Registration) bool {
		equal := x.Mapping.Equal(y.Mapping) && x.Merged.Equal(y.Merged) && x.FirstRegisteredAt.Equal(y.FirstRegisteredAt) &&
			x.LastRegisteredAt.Equal(y.LastRegisteredAt) && x.ExpiresAt.Equal(y.ExpiresAt)
		x.Mapping, x.Merged, y.Mapping, y.Merged = lisp.Mapping{}, lisp.Mapping{}, lisp.Mapping{}, lisp.Mapping{}
		x.FirstRegisteredAt, x.LastRegisteredAt, x.ExpiresAt = y.FirstRegisteredAt, y.LastRegisteredAt, y.ExpiresAt
		return equal && x.Site == y.Site && x.Prefix == y.Prefix && x.From == y.From && x.XTRID == y.XTRID && x.SiteID == y.SiteID &&
			x.KeyID == y.KeyID && x.Algorithm == y.Algorithm && x.ProxyReply == y.ProxyReply && x.UseTTL == y.UseTTL &&
			x.MergeRequest == y.MergeRequest && x.WantMapNotify == y.WantMapNotify
	}
	if !slices.EqualFunc(a, b, same) {
		t.Fatalf("after the restart:\n%+v\nbefore:\n%+v", a, b)
	}
	verifyRegistrations(&got.mapServer.Registrations, t)
	verifyRegistrations(&want.mapServer.Registrations, t)
}

// verifyRegistrations checks that every shared value has as many users as there are.
func verifyRegistrations(t *mapserver.Registrations, test *testing.T) {
	test.Helper()
	xtrs, sets, registrants := map[uint32]uint32{}, map[uint32]uint32{}, 0
	for i := range t.Rows.Len() {
		row := t.Rows.At(uint32(i))
		if row.Prefix.IsZero() {
			continue
		}
		sets[row.Merged.Locators]++
		for r := range t.Each(row) {
			xtrs[r.XTR]++
			sets[r.Content.Locators]++
			registrants++
		}
	}
	for _, id := range t.Sets.Ids {
		if told := t.Sets.Told(id); told != id {
			sets[told]++
		}
	}
	if len(xtrs) != len(t.Xtrs.Ids) || len(sets) != len(t.Sets.Ids) || registrants != t.Registrants.Len()-t.Registrants.Free.Len() {
		test.Fatalf("%d xTRs, %d sets, %d registrants in use; the table has %d, %d, %d",
			len(xtrs), len(sets), registrants, len(t.Xtrs.Ids), len(t.Sets.Ids), t.Registrants.Len()-t.Registrants.Free.Len())
	}
	for id, users := range xtrs {
		if t.Xtrs.Rows.At(id).Users != users {
			test.Fatalf("an xTR has %d users: want %d", t.Xtrs.Rows.At(id).Users, users)
		}
	}
	for id, users := range sets {
		if t.Sets.Rows.At(id).Users != users {
			test.Fatalf("a locator-set has %d users: want %d", t.Sets.Rows.At(id).Users, users)
		}
	}
}

// anyRegister makes a Map-Register of one of three xTRs.
func anyRegister(t *testing.T, random *rand.Rand, nonce uint64) (netip.AddrPort, []byte) {
	who := random.IntN(len(journalXTRs))
	m := wire.MapRegister{
		ProxyReply: random.IntN(2) == 0, UseTTL: random.IntN(3) == 0, MergeRequest: random.IntN(3) > 0, WantMapNotify: random.IntN(2) == 0,
		Nonce: nonce, KeyID: 1, AlgorithmID: 3, Authentication: make([]byte, 32),
	}
	if who != 1 {
		m.XTRIDPresent, m.XTRID, m.SiteID = true, [16]byte{byte(who + 1)}, 7
	}
	for range 1 + random.IntN(3) {
		mapping := lisp.Mapping{Prefix: lisp.MustParsePrefix(journalPrefixes[random.IntN(len(journalPrefixes))]), TTLMinutes: uint32(random.IntN(6))}
		for i := range random.IntN(3) {
			set := locators("192.0.2.1", "192.0.2.2", "2001:db8::3")
			set[(who+i)%3].Local = random.IntN(2) == 0
			mapping.Locators = append(mapping.Locators, set[(who+i)%3])
		}
		if random.IntN(4) == 0 {
			paths := []string{"explicit locator path", "the same with other bits", "path of both families", "path of one hop", "path with reserved bits"}
			path := unhex(t, registeredAddresses[paths[random.IntN(len(paths))]])
			mapping.Locators = append(mapping.Locators, lisp.Locator{Reachable: true, Address: string(path)})
		}
		mapping.Locators, _ = lisp.NewLocatorSet(mapping.Locators...)
		m.Records = append(m.Records, wire.RecordOf(mapping))
	}
	b, err := wire.AppendSigned(nil, &m, secret(1).Secret)
	if err != nil {
		t.Fatal(err)
	}
	return journalXTRs[who], b
}

// TestJournal lets Map-Servers be killed at any time, checkpoints under way: the next run
// knows what the last one knew.
func TestJournal(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 2))
		s := newJournalledServer(t, journalledConfig(), epoch)
		for i := range 120 {
			from, b := anyRegister(t, random, uint64(i+1))
			s.take(from, b)
			s.wait(time.Duration(random.IntN(8000)) * time.Millisecond)
			if random.IntN(10) == 0 {
				s.Checkpoint(s.now)
				s.drain()
			}
			if random.IntN(10) > 0 {
				continue
			}
			next := s.restarted(t)
			next.wait(0)
			s.wait(0)
			sameRegistrations(t, next, s)
			next.take(from, b) // the very last one: an exact duplicate, acknowledged, changes nothing
			sameRegistrations(t, next, s)
			if next.counters()[counter.RefusedReplay] != 0 {
				t.Fatalf("seed %d: the duplicate is called a replay", seed)
			}
			next.pieces = append(s.pieces, next.pieces...)
			s = next
		}
	}
}

func (s *journalledServer) counters() counter.Totals { return s.host.Counters }

// TestCheckpoint wants that everything before a finished checkpoint can be forgotten.
func TestCheckpoint(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		s := newJournalledServer(t, journalledConfig(), epoch)
		for i := range 100 {
			from, b := anyRegister(t, random, uint64(i+1))
			s.take(from, b)
			if i == 50 {
				s.Checkpoint(s.now)
				s.drain()
			}
			s.wait(time.Millisecond)
		}
		begin := slices.IndexFunc(s.pieces, func(p Journal) bool { return p.Begin })
		end := slices.IndexFunc(s.pieces, func(p Journal) bool { return p.End })
		if begin < 0 || end < begin {
			t.Fatalf("the checkpoint goes from %d to %d", begin, end)
		}
		sameRegistrations(t, newJournalledServer(t, s.config, s.now, s.pieces[begin:]...), s)
		// All nonces were said again: nothing old is taken.
		next := newJournalledServer(t, s.config, s.now, s.pieces[begin:]...)
		for i := range journalXTRs {
			m := wire.MapRegister{Nonce: 1, KeyID: 1, AlgorithmID: 3, Authentication: make([]byte, 32), Records: []wire.Record{
				wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), TTLMinutes: 1}),
			}}
			if i != 1 {
				m.XTRIDPresent, m.XTRID, m.SiteID = true, [16]byte{byte(i + 1)}, 7
			}
			b, _ := wire.AppendSigned(nil, &m, secret(1).Secret)
			next.take(journalXTRs[i], b)
		}
		if got := next.counters()[counter.RefusedReplay]; got != uint64(len(journalXTRs)) {
			t.Errorf("seed %d: %d of %d old Map-Registers are called replays", seed, got, len(journalXTRs))
		}
	}
}

// TestCheckpointOfManyNonces has a site of many xTRs, which use another key by now: no piece is much longer than another, and
// nothing that any of them said before is taken after a restart.
func TestCheckpointOfManyNonces(t *testing.T) {
	const xtrs = 3 * mapserver.CheckpointBatch
	c := journalledConfig()
	c.MapServer.Sites[0].Keys = []Key{secret(1), secret(2)}
	s := newJournalledServer(t, c, epoch)
	site := s.mapServer.Registrations.Sites.At(0)
	for i := range 2 * xtrs {
		site.Saw(mapserver.NonceKey{XTRID: [16]byte{1, byte(i >> 8), byte(i)}, SiteID: 7, KeyID: 1}, mapserver.SeenNonce{Nonce: 1000})
		if i%2 == 0 {
			site.Saw(mapserver.NonceKey{XTRID: [16]byte{1, byte(i >> 8), byte(i)}, SiteID: 7, KeyID: 2}, mapserver.SeenNonce{Nonce: 500})
		}
		if i%4 == 0 { // and back
			site.Saw(mapserver.NonceKey{XTRID: [16]byte{1, byte(i >> 8), byte(i)}, SiteID: 7, KeyID: 1}, mapserver.SeenNonce{Nonce: 1001})
		}
	}
	s.Checkpoint(s.now)
	s.wait(time.Minute)
	octets, longest := 0, 0
	for _, p := range s.pieces {
		octets, longest = octets+len(p.Octets), max(longest, len(p.Octets))
	}
	if most := octets / (3 * xtrs / mapserver.CheckpointBatch) * 2; longest > most || longest == 0 {
		t.Errorf("of %d octets in %d pieces, the longest has %d: want %d at most", octets, len(s.pieces), longest, most)
	}
	next := s.restarted(t).mapServer.Registrations.Sites.At(0)
	if !maps.Equal(next.Nonces, site.Nonces) || !maps.Equal(next.KeysInUse, site.KeysInUse) {
		t.Errorf("%d nonces and %d keys in use after the restart, before it %d and %d, or others", len(next.Nonces), len(next.KeysInUse), len(site.Nonces), len(site.KeysInUse))
	}
}

// Shows RFC 9301 s.5.6 (6).
func TestReplayAfterRestartIsRefused(t *testing.T) {
	s := newJournalledServer(t, journalledConfig(), epoch)
	first := register(t, nil, "10.1.0.0/16")
	second := register(t, func(m *wire.MapRegister) { m.Nonce = 1001 }, "10.1.0.0/16")
	s.take(journalXTRs[0], first)
	s.take(journalXTRs[0], second)
	s = s.restarted(t)
	s.take(journalXTRs[0], first)
	if got := s.counters()[counter.RefusedReplay]; got != 1 {
		t.Errorf("%d replays were refused", got)
	}
	s.take(journalXTRs[0], second) // its Map-Notify may have been lost with the process
	if s.counters()[counter.RefusedReplay] != 1 || len(s.sent) != 1 {
		t.Errorf("the duplicate of the last one: %d replays, %d Map-Notifies", s.counters()[counter.RefusedReplay], len(s.sent))
	}
}

// A message under a key that the xTR has left, and which never arrived, takes nothing back to what it said: not before and not after a
// restart, with the journal as it came or as a checkpoint has it. Who cannot store his nonces takes a new key and begins anew.
func TestReplayUnderAFormerKey(t *testing.T) {
	type step struct {
		key     uint8
		nonce   uint64
		refused bool
	}
	rotation := []step{{1, 1000, false}, {2, 1010, false}, {1, 1005, true}, {2, 1011, false}, {1, 1011, true}, {1, 1020, false}, {2, 1015, true}, {2, 1030, false}}
	anew := []step{{2, 1000, false}, {1, 5, false}, {1, 6, false}, {3, 1, false}, {3, 2, false}, {1, 7, false}, {3, 6, true}}
	restarted := func(t *testing.T, s *journalledServer) *journalledServer {
		next := s.restarted(t)
		next.pieces = append(s.pieces, next.pieces...) // it appends to the journal that it found
		return next
	}
	between := map[string]func(t *testing.T, s *journalledServer) *journalledServer{
		"in one run":      func(_ *testing.T, s *journalledServer) *journalledServer { return s },
		"after a restart": restarted,
		"by a checkpoint": func(t *testing.T, s *journalledServer) *journalledServer {
			s.pieces = nil
			s.Checkpoint(s.now)
			s.wait(time.Second)
			return restarted(t, s)
		},
	}
	for name, next := range between {
		for what, steps := range map[string][]step{"keys take turns": rotation, "nonces begin anew": anew} {
			t.Run(what+" "+name, func(t *testing.T) {
				c := journalledConfig()
				c.MapServer.Sites[0].Keys = []Key{secret(1), secret(2), secret(3)}
				s := newJournalledServer(t, c, epoch)
				for i, step := range steps {
					s = next(t, s)
					before := s.counters()[counter.RefusedReplay]
					s.take(journalXTRs[0], register(t, func(m *wire.MapRegister) { m.Nonce, m.KeyID = step.nonce, step.key }, "10.1.0.0/16"))
					if refused := s.counters()[counter.RefusedReplay] > before; refused != step.refused {
						t.Fatalf("step %d: nonce %d under key %d: refused %v, want %v", i, step.nonce, step.key, refused, step.refused)
					}
				}
			})
		}
	}
}

// Several xTRs of a site that do not say who they are rotate their keys at different times.
func TestFormerKeyOfAnonymousXTRs(t *testing.T) {
	c := journalledConfig()
	c.MapServer.Sites[0].Keys = []Key{secret(1), secret(2)}
	s := newJournalledServer(t, c, epoch)
	for _, last := range []struct {
		key   uint8
		nonce uint64
	}{{1, 1000}, {2, 2000}, {1, 1001}, {2, 2001}} {
		s.take(journalXTRs[0], register(t, func(m *wire.MapRegister) { m.XTRIDPresent, m.KeyID, m.Nonce = false, last.key, last.nonce }, "10.1.0.0/16"))
	}
	if got := s.counters()[counter.RefusedReplay]; got != 0 {
		t.Errorf("%d replays were refused", got)
	}
}

func TestJournalWithoutPermission(t *testing.T) {
	s := newJournalledServer(t, journalledConfig(), epoch)
	s.take(journalXTRs[0], register(t, nil, "2001:db8:1::/48", "10.1.0.0/16", "10.1.2.0/24"))
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   int
	}{
		{"as it was", func(*Config) {}, 3},
		{"the site is gone", func(c *Config) { c.MapServer.Sites[0].Name = "another" }, 0},
		{"an EID-Prefix is gone", func(c *Config) { c.MapServer.Sites[0].Prefixes = c.MapServer.Sites[0].Prefixes[:2] }, 2},
		{"more specifics are not accepted", func(c *Config) { c.MapServer.Sites[0].Prefixes[0].AcceptMoreSpecifics = false }, 2},
		{"a smaller limit", func(c *Config) { c.Limits.Registrations = 2 }, 2},
		{"the Map-Server is off", func(c *Config) { c.MapServer, c.MapResolver = nil, &MapResolverConfig{} }, 0},
	} {
		config := journalledConfig()
		c.change(&config)
		n := newJournalledServer(t, config, s.now, s.pieces...)
		if got := len(n.list()); got != c.want {
			t.Errorf("%s: %d registrations, want %d", c.name, got, c.want)
		}
	}
	// What a reload removed does not come back.
	barred := journalledConfig()
	barred.MapServer.Sites[0].Prefixes = barred.MapServer.Sites[0].Prefixes[1:]
	if err := s.Configure(s.now, barred); err != nil {
		t.Fatal(err)
	}
	s.drain()
	if n := newJournalledServer(t, journalledConfig(), s.now, s.pieces...); len(n.list()) != 1 {
		t.Errorf("%d registrations after a reload that removed two of three", len(n.list()))
	}
}

func TestJournalAndClocks(t *testing.T) {
	s := newJournalledServer(t, journalledConfig(), epoch)
	s.take(journalXTRs[0], register(t, nil, "10.1.0.0/16"))
	for _, c := range []struct {
		name string
		at   time.Duration
		left time.Duration // of the registration's three minutes; 0 is gone
	}{
		{"at once", 0, 3 * time.Minute},
		{"two minutes away", 2 * time.Minute, time.Minute},
		{"three minutes away", 3 * time.Minute, 0},
		{"the clock was set back", -time.Hour, 3 * time.Minute},
		{"the clock stands at 1970", -time.Duration(epoch.UnixNano()) + time.Second, 3 * time.Minute},
		{"the clock jumped a century", 100 * 365 * 24 * time.Hour, 0},
	} {
		n := newJournalledServer(t, journalledConfig(), epoch.Add(c.at), s.pieces...)
		list := n.list()
		if (len(list) == 1) != (c.left > 0) {
			t.Errorf("%s: %d registrations", c.name, len(list))
			continue
		}
		if c.left > 0 && list[0].ExpiresAt.Sub(n.now) != c.left {
			t.Errorf("%s: %s left, want %s", c.name, list[0].ExpiresAt.Sub(n.now), c.left)
		}
	}
}

// TestJournalAfterAClockWasSet restarts after the clock was set while the Map-Server ran: registrations from before have the time left
// that they had, once anybody has registered since.
func TestJournalAfterAClockWasSet(t *testing.T) {
	for _, step := range clockSteps {
		s := newJournalledServer(t, journalledConfig(), epoch)
		s.take(journalXTRs[0], register(t, nil, "10.1.0.0/16"))
		s.wait(time.Minute)
		s.host.Follow(s.now.Add(step), s.host.Instant(s.now))
		s.now = s.now.Add(step)
		s.take(journalXTRs[1], register(t, func(m *wire.MapRegister) { m.XTRID[0], m.Nonce = 7, m.Nonce+1 }, "2001:db8:1::/48"))
		s.wait(time.Second)
		begin := slices.IndexFunc(s.pieces[1:], func(p Journal) bool { return p.Begin })
		s.pieces = s.pieces[begin+1:] // as a store forgets what was before
		n := s.restarted(t)
		sameRegistrations(t, n, s)
		for _, r := range n.list() {
			if left := r.ExpiresAt.Sub(n.now); left > 3*time.Minute || left < 119*time.Second || r.FirstRegisteredAt.After(n.now) {
				t.Errorf("set by %v: %s has %v left", step, r.Prefix, left)
			}
		}
	}
}

func TestMalformedJournal(t *testing.T) {
	s := newJournalledServer(t, journalledConfig(), epoch)
	s.take(journalXTRs[2], register(t, nil, "10.1.0.0/16", "2001:db8:1::/48"))
	whole := s.pieces[0].Octets
	for n := range whole {
		fresh := newJournalledServer(t, journalledConfig(), epoch)
		if err := fresh.ReplayJournal(epoch, whole[:n]); (err == nil) != (n == 0) {
			t.Fatalf("%d of %d octets: %v", n, len(whole), err)
		}
	}
	fresh := newJournalledServer(t, journalledConfig(), epoch)
	if err := fresh.ReplayJournal(epoch, append(slices.Clone(whole), 0)); err == nil || len(fresh.list()) != 2 {
		t.Errorf("an entry, then nonsense: %v, %d registrations", err, len(fresh.list()))
	}
}

// sealed is an entry with the length and the checksum of what it holds.
func sealed(entry []byte) []byte {
	made := slices.Clone(entry)
	if len(made) >= mapserver.EntryBodyAt {
		mapserver.SealEntry(made)
	}
	return made
}

// TestDamagedJournal damages 64 octets at every place: what is in no damaged entry is taken over, and how many records are missing is told
// as soon as a whole entry follows, be it of the next piece or of the next run.
func TestDamagedJournal(t *testing.T) {
	s := newJournalledServer(t, journalledConfig(), epoch)
	const entries = 20
	for i := range entries {
		s.take(journalXTRs[2], register(t, func(m *wire.MapRegister) { m.Nonce += uint64(i) }, fmt.Sprintf("10.1.%d.0/24", i), fmt.Sprintf("2001:db8:1:%d::/64", i)))
	}
	var piece, ends = []byte{}, []int{}
	for _, p := range s.pieces {
		piece = append(piece, p.Octets...)
		ends = append(ends, len(piece))
	}
	next := s.restarted(t)
	next.pieces = nil
	next.take(journalXTRs[2], register(t, func(m *wire.MapRegister) { m.Nonce += entries }, "10.1.100.0/24"))
	const damagedOctets = 64
	for at := 0; at < len(piece); at += 7 {
		broken := slices.Clone(piece)
		for i := at; i < min(at+damagedOctets, len(broken)); i++ {
			broken[i] ^= 0x5a
		}
		begin, hit := 0, 0
		for _, end := range ends {
			if begin < at+damagedOctets && at < end {
				hit++
			}
			begin = end
		}
		n := newJournalledServer(t, journalledConfig(), epoch)
		missing, octets := 0, 0
		for _, p := range [][]byte{broken, next.pieces[0].Octets} {
			var damage *JournalDamage
			if errors.As(n.ReplayJournal(epoch, p), &damage) {
				missing, octets = missing+damage.Records, octets+damage.Octets
			}
		}
		wantMissing := 2 * hit
		if at < ends[0] {
			wantMissing = 0 // where the numbers begin is not known
		}
		if got := len(n.list()); got != 2*(entries-hit)+1 || missing != wantMissing || octets < damagedOctets && at+damagedOctets <= len(piece) {
			t.Fatalf("damage at %d of %d in %d entries: %d registrations, %d records and %d octets missing", at, len(piece), hit, got, missing, octets)
		}
	}
}

func FuzzReplayJournal(f *testing.F) {
	t := &testing.T{}
	s := newJournalledServer(t, journalledConfig(), epoch)
	s.take(journalXTRs[2], register(t, nil, "10.1.0.0/16", "2001:db8:1::/48"))
	f.Add(s.pieces[0].Octets)
	f.Fuzz(func(t *testing.T, b []byte) {
		n := newJournalledServer(t, journalledConfig(), epoch)
		_ = n.ReplayJournal(epoch, b)
		_ = n.ReplayJournal(epoch, sealed(b))
		verifyRegistrations(&n.mapServer.Registrations, t)
		n.Checkpoint(epoch)
		n.drain()
		n.wait(time.Second)
		next := newJournalledServer(t, journalledConfig(), n.now, n.pieces...)
		if len(next.list()) > len(n.list()) {
			t.Fatalf("%d registrations became %d", len(n.list()), len(next.list()))
		}
	})
}

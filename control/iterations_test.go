// SPDX-License-Identifier: Apache-2.0

package control

// No event-loop iteration may take longer than 5 ms at a million registrations. The tests measure
// processor time of the thread: other load on the machine does not count.

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/control/internal/mapserver"
	"loci/control/internal/settings"
	"loci/lisp"
)

const (
	millionRows      = 1_000_000
	longestIteration = 5 * time.Millisecond
)

// millionMappings is a Map-Server with so many registrations, a tenth of which are of a second
// EID-Prefix that a reload may take away.
func millionMappings(t *testing.T, count int) *journalledServer {
	t.Helper()
	c := mapServerConfig("10.0.0.0/8", "2001:db8::/32")
	c.MapServer.Sites[0].Prefixes = append(c.MapServer.Sites[0].Prefixes, c.MapServer.Sites[1].Prefixes...)
	c.MapServer.Sites = c.MapServer.Sites[:1]
	c.MapServer.Journal = true
	s := newJournalledServer(t, c, epoch)
	site := s.mapServer.Registrations.Sites.At(0)
	s.HandleTimeout(epoch)
	for i := range count {
		address, bits := netip.AddrFrom4([4]byte{10, byte(i >> 12), byte(i >> 4), byte(i << 4)}), 28
		if i%10 == 0 {
			address, bits = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, byte(i >> 16), byte(i >> 8), byte(i)}), 64
		}
		p, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(address), bits)
		who := s.mapServer.Registrations.Xtrs.Acquire(mapserver.XTR{ID: mapserver.RegistrantID{XTRID: [16]byte{byte(i >> 10), byte(i >> 18)}}, From: journalXTRs[0]})
		s.mapServer.Registrations.Put(s.mapServer.Registrations.PlaceOf(p), site,
			lisp.Mapping{Prefix: p, TTLMinutes: 1, Locators: locators("192.0.2.1", "192.0.2.2")},
			mapserver.Registrant{XTR: who, FirstAt: s.host.Now, LastAt: s.host.Now, ExpiresAt: s.host.After(3 * time.Minute)})
		s.mapServer.Registrations.Xtrs.Release(who)
	}
	return s
}

// iterations calls work until it is done, and returns how many iterations that took and the longest.
func (s *journalledServer) iterations(work func() bool) (n int, longest time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for done := false; !done; n++ {
		before := threadTime()
		done = work()
		for e, ok := s.Poll(); ok; e, ok = s.Poll() {
			_ = e
		}
		longest = max(longest, threadTime()-before)
	}
	return n, longest
}

func threadTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	return time.Duration(now.Nano())
}

// timeouts handles what is due until nothing is.
func (s *journalledServer) timeouts() bool {
	s.HandleTimeout(s.now)
	next, ok := s.NextDeadline()
	if ok && next.After(s.now) && next.Sub(s.now) < time.Second {
		s.now = next // a pause between two pieces
	}
	return !ok || next.Sub(s.now) >= time.Second
}

func TestIterationsAtAMillionRegistrations(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("it fills a table of a million rows; the race detector makes everything ten times as long")
	}
	s := millionMappings(t, millionRows)
	runtime.GC()
	check := func(what string, least int, work func() bool) {
		t.Helper()
		n, longest := s.iterations(work)
		t.Logf("%s: %d iterations, the longest took %v", what, n, longest)
		if longest > longestIteration || n < least {
			t.Errorf("%s: %d iterations, the longest took %v of processor time: want at most %v", what, n, longest, longestIteration)
		}
	}
	s.now = s.now.Add(time.Second)
	s.Checkpoint(s.now)
	check("a checkpoint", millionRows/mapserver.CheckpointBatch, s.timeouts)

	after, listed := lisp.Prefix{}, 0
	check("a list", millionRows/512, func() bool {
		page := s.RegistrationsPage(nil, lisp.Prefix{}, after, 512)
		if len(page) > 0 {
			after = page[len(page)-1].Prefix
		}
		listed += len(page)
		return len(page) == 0
	})
	if listed != millionRows {
		t.Errorf("%d registrations listed", listed)
	}

	config := s.config
	site := config.MapServer.Sites[0]
	site.Prefixes = site.Prefixes[:1]
	config.MapServer = &MapServerConfig{Sites: []Site{site}, Journal: true}
	check("a reload", 1, func() bool {
		if err := s.Configure(s.now, config); err != nil {
			t.Error(err)
		}
		return true
	})
	check("what the reload takes away", millionRows/mapserver.RegistrationSweepRows/2, s.timeouts)
	if got := s.Sizes().Registrations; got != millionRows-millionRows/10 {
		t.Errorf("%d registrations after the reload", got)
	}

	s.now = epoch.Add(4 * time.Minute)
	check("the end of all registrations", (millionRows-millionRows/10)/settings.TimeoutBatch, s.timeouts)
	if got := s.Sizes().Registrations; got != 0 {
		t.Errorf("%d registrations after their end", got)
	}
}

// TestNothingIsAnsweredFromWhatAReloadTookAway asks before the pass over the table is done.
func TestNothingIsAnsweredFromWhatAReloadTookAway(t *testing.T) {
	s := millionMappings(t, 2*mapserver.RegistrationSweepRows)
	last := 2*mapserver.RegistrationSweepRows - 2 // of the second EID-Prefix, in the last batch
	for last%10 != 0 {
		last--
	}
	address := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, byte(last >> 16), byte(last >> 8), byte(last)})
	config := s.config
	site, other := config.MapServer.Sites[0], config.MapServer.Sites[0]
	other.Name, other.Keys = "another", []Key{{ID: 1, Secret: []byte("another secret")}}
	site.Prefixes, other.Prefixes = site.Prefixes[:1], site.Prefixes[1:]
	config.MapServer = &MapServerConfig{Sites: []Site{site, other}, Journal: true}
	if err := s.Configure(s.now, config); err != nil {
		t.Fatal(err)
	}
	if !s.mapServer.Sweeping() {
		t.Fatal("the pass is over already: the test proves nothing")
	}
	before := s.Sizes().Registrations
	asked := lisp.HostPrefix(0, lisp.EIDFromAddr(address))
	another := s.mapServer.Registrations.Sites.Named("another")
	if row, ok := s.mapServer.Registered(asked, other.Prefixes[0].Prefix, another); ok {
		t.Errorf("answered from %s, which is another site's now", row.Prefix)
	}
	if s.Sizes().Registrations != before-1 {
		t.Errorf("%d registrations, before the question %d", s.Sizes().Registrations, before)
	}
	for !s.timeouts() {
		s.drain()
	}
	if got := s.Sizes().Registrations; got >= before-1 || s.mapServer.Sweeping() {
		t.Errorf("%d registrations after the pass", got)
	}
}

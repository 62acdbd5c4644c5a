// SPDX-License-Identifier: Apache-2.0

package control

// No event-loop iteration may take longer than 5 ms at a million map-cache entries either. The tests
// measure processor time of the thread: other load on the machine does not count.

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"loci/control/internal/mapcache"
	"loci/control/internal/message"
	"loci/lisp"
)

// sharedRLOCs is how many RLOCs the mappings share: as many as there is room for.
const sharedRLOCs = 1 << 16

func cachedPrefix(i int) lisp.Prefix {
	p, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{20, byte(i >> 12), byte(i >> 4), byte(i << 4)})), 28)
	return p
}

// millionCached is an ITR with so many mappings.
func millionCached(t *testing.T, count int) *journalledServer {
	t.Helper()
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16")
	c.ITR.RLOCProbing.Off = false
	c.ITR.IdleTimeout = -1
	s := newJournalledServer(t, c, epoch)
	for i := range count {
		rloc := lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}))
		s.itr.Cache.Install(mapcache.Entry{
			Mapping:   lisp.Mapping{Prefix: cachedPrefix(i), TTLMinutes: 60, Locators: lisp.LocatorSet{{RLOC: rloc, Priority: 1, Weight: 1, Reachable: true}}},
			ExpiresAt: s.host.After(time.Hour),
		})
		for _, ok := s.Poll(); ok; _, ok = s.Poll() {
		}
	}
	return s
}

func TestIterationsAtAMillionMappings(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("it fills a table of a million rows; the race detector makes everything ten times as long")
	}
	s := millionCached(t, millionRows)
	runtime.GC()
	check := func(what string, work func() bool) {
		t.Helper()
		n, longest := s.iterations(work)
		t.Logf("%s: %d iterations, the longest took %v", what, n, longest)
		if longest > longestIteration {
			t.Errorf("%s: the longest of %d iterations took %v of processor time: want at most %v", what, n, longest, longestIteration)
		}
	}
	at := 0
	check("reports of use", func() bool {
		usage := make([]Usage, 0, 1024)
		for ; len(usage) < cap(usage) && at < millionRows; at++ {
			usage = append(usage, Usage{Prefix: cachedPrefix(at), LastUsedAt: s.now})
		}
		s.HandleUsage(s.now, usage)
		return at == millionRows
	})
	check("RLOC-probes", func() bool {
		s.now = s.now.Add(20 * time.Millisecond)
		s.HandleTimeout(s.now)
		return s.now.Sub(epoch) > 5*time.Second
	})
	c := s.config
	itr := *c.ITR
	itr.LocatorPolicies = []LocatorPolicy{{RLOCs: netip.MustParsePrefix("198.18.0.0/24"), Priority: new(uint8)}}
	c.ITR = &itr
	check("a reload with other policies", func() bool {
		if err := s.Configure(s.now, c); err != nil {
			t.Error(err)
		}
		return true
	})
	check("a reload that ends RLOC-probing", func() bool {
		itr.RLOCProbing.Off = true
		if err := s.Configure(s.now, c); err != nil {
			t.Error(err)
		}
		return true
	})
	check("what both change", s.timeouts)
	from, listed := uint32(0), 0
	check("a list of the locators", func() bool {
		page, next, more := s.LocatorsPage(from, 512)
		from, listed = next, listed+len(page)
		return !more
	})
	if listed != sharedRLOCs {
		t.Errorf("%d locators listed", listed)
	}
	check("an SMR about all", func() bool {
		s.itr.HandleSolicitMapRequest([]lisp.Prefix{lisp.MustParsePrefix("0.0.0.0/0")})
		return true
	})
	check("an answer that covers all", func() bool {
		s.itr.Take(lisp.MustParsePrefix("0.0.0.0/0"), &message.MapReply{Mappings: []lisp.Mapping{{Prefix: lisp.MustParsePrefix("0.0.0.0/0"), TTLMinutes: 15}}})
		return true
	})
	check("what follows from it", s.timeouts)
	s.now = epoch.Add(2 * time.Hour)
	check("the end of all TTLs", s.timeouts)
	if got := s.Sizes().MapCache; got != 0 {
		t.Errorf("%d mappings after the end of their TTLs", got)
	}
}

func TestIterationsOfSwitchingTheITROffAtAMillionMappings(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("it fills a table of a million rows; the race detector makes everything ten times as long")
	}
	s := millionCached(t, millionRows)
	runtime.GC()
	c := s.config
	c.ITR = nil
	removed := 0
	done := func() bool {
		for e, ok := s.Poll(); ok; e, ok = s.Poll() {
			if _, ok := e.(RemoveMapping); ok {
				removed++
			}
		}
		return len(s.retired) == 0
	}
	begun := false
	n, longest := s.iterations(func() bool {
		if !begun {
			begun = true
			if err := s.Configure(s.now, c); err != nil {
				t.Error(err)
			}
			return done()
		}
		s.timeouts()
		return done()
	})
	t.Logf("%d iterations, the longest took %v", n, longest)
	if longest > longestIteration || removed != millionRows {
		t.Errorf("%d mappings removed, the longest of %d iterations took %v of processor time: want %d, and at most %v", removed, n, longest, millionRows, longestIteration)
	}
}

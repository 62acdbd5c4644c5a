// SPDX-License-Identifier: Apache-2.0

package control

// Gleaning: RFC 9300 s.4.2, s.9.

import (
	"fmt"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/itr"
	"loci/lisp"
)

// gleaningSites is twoSites with gleaning at x1.
func gleaningSites(t *testing.T) (n *testNetwork, x1, x2, ms *testNode) {
	t.Helper()
	n, x1, x2, ms = twoSites(t)
	x1.gleaning(func(c *ITRConfig) { c.Gleaning = true })
	n.run(time.Second)
	return n, x1, x2, ms
}

func (d *testNode) gleaning(change func(*ITRConfig)) {
	c := d.config
	itr := *c.ITR
	change(&itr)
	c.ITR = &itr
	d.configure(c)
}

func (d *testNode) gleaned(source, from string) {
	d.HandleGleaned(d.net.now, Gleaned{Source: eid(source), Destination: eid("10.1.0.5"), From: rloc(from)})
	d.drain()
}

// TestGleanedMappingIsVerified: it serves at once, by one locator of the best priority and
// weight zero, and what the mapping system says takes its place.
// Shows RFC 9300 s.4.2 (1), RFC 9300 s.9 (2), RFC 9300 s.9 (4).
func TestGleanedMappingIsVerified(t *testing.T) {
	n, x1, _, _ := gleaningSites(t)
	x1.gleaned("10.2.0.9", "192.0.2.77")
	x1.wantCached("10.2.0.9/32", "192.0.2.77")
	got := x1.cache[lisp.MustParsePrefix("10.2.0.9/32")]
	if l := got.Mapping.Locators[0]; l.Priority != 1 || l.Weight != 0 || !l.Reachable {
		t.Errorf("gleaned locator %v", l)
	}
	n.lose = deaf("192.0.2.100")
	x1.gleaned("10.2.0.10", "192.0.2.78") // another host of the site, about which no answer comes
	n.lose = nil
	x1.wantCounter(counter.MapRequestSent, 2)
	n.run(500 * time.Millisecond)
	x1.wantNotCached("10.2.0.9/32")
	x1.wantNotCached("10.2.0.10/32")
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
	if got := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")]; got.ExpiresAt.Sub(n.now) < time.Hour {
		t.Errorf("the verified mapping ends with the gleaned ones: at %v", got.ExpiresAt)
	}
	x1.gleaned("10.2.0.9", "192.0.2.77") // there is a verified one
	x1.wantNotCached("10.2.0.9/32")
	x1.wantCounter(counter.MappingGleaned, 2)
	x1.wantCounter(counter.RefusedGleaning, 0)
}

// TestGleanedMappingLastsThreeSeconds where no Map-Reply verifies it, and not again before the
// pause of its Map-Requests is over. Shows RFC 9300 s.9 (3).
func TestGleanedMappingLastsThreeSeconds(t *testing.T) {
	n, x1, _, _ := gleaningSites(t)
	n.lose = deaf("192.0.2.100")
	x1.gleaned("10.2.0.9", "192.0.2.77")
	x1.use("10.2.0.9/32")
	n.run(itr.GleanLifetime - time.Millisecond)
	x1.wantCached("10.2.0.9/32", "192.0.2.77")
	x1.use("10.2.0.9/32")
	x1.wantState("10.2.0.9/32", MapCacheGleaned)
	n.run(2 * time.Millisecond)
	x1.wantNotCached("10.2.0.9/32")
	x1.gleaned("10.2.0.9", "192.0.2.77")
	x1.wantNotCached("10.2.0.9/32")
	x1.wantCounter(counter.RefusedGleaning, 1)
	if sent := x1.counter(counter.MapRequestSent); sent < 2 {
		t.Errorf("%d Map-Requests: the gleaned mapping passed for an answer", sent)
	}
	n.lose = nil
	n.run(10 * time.Minute)
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
}

func (d *testNode) wantState(prefix string, want MapCacheState) {
	d.net.t.Helper()
	if state := d.stateOf(prefix); state != want {
		d.net.t.Errorf("%s: %s is %q, want %s", d.name, prefix, state, want)
	}
}

// TestGleanedNegativeAnswer: what the mapping system does not know is over at once.
func TestGleanedNegativeAnswer(t *testing.T) {
	n, x1, _, _ := gleaningSites(t)
	x1.gleaned("10.77.0.9", "192.0.2.77")
	x1.wantCached("10.77.0.9/32", "192.0.2.77")
	n.run(time.Second)
	x1.wantNotCached("10.77.0.9/32")
	x1.gleaned("10.77.0.9", "192.0.2.77")
	x1.wantNotCached("10.77.0.9/32")
}

// TestGleaningHelpsWhoWaits: a miss under way does not keep its answer's sender from being
// heard, and the gleaned mapping does not end the resolution.
func TestGleaningHelpsWhoWaits(t *testing.T) {
	n, x1, _, _ := gleaningSites(t)
	n.lose = deaf("192.0.2.100")
	x1.miss("10.1.0.5", "10.2.0.9")
	x1.gleaned("10.2.0.9", "192.0.2.2")
	x1.wantCached("10.2.0.9/32", "192.0.2.2")
	n.run(2 * time.Second)
	n.lose = nil
	n.run(4 * time.Second)
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
}

func TestWhatIsNotGleaned(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(*ITRConfig)
		source, from string
		counter      Counter
	}{
		"off by default":  {func(c *ITRConfig) { c.Gleaning = false }, "10.2.0.9", "192.0.2.2", counter.RefusedGleaning},
		"public Internet": {func(c *ITRConfig) { c.PublicInternet = true }, "10.2.0.9", "192.0.2.2", counter.RefusedGleaning},
		"no Map-Resolver": {func(c *ITRConfig) { c.MapResolvers = nil }, "10.2.0.9", "192.0.2.2", counter.RefusedGleaning},
		"our own RLOC":    {nil, "10.2.0.9", "192.0.2.1", counter.RefusedGleaning},
		"an EID of ours":  {nil, "10.1.0.9", "192.0.2.2", counter.RefusedOwnEID},
	} {
		t.Run(name, func(t *testing.T) {
			_, x1, _, _ := gleaningSites(t)
			if test.change != nil {
				x1.gleaning(test.change)
			}
			x1.gleaned(test.source, test.from)
			if len(x1.cache) != 0 {
				t.Errorf("gleaned %v", x1.cachedPrefixes())
			}
			x1.wantCounter(test.counter, 1)
		})
	}
}

// TestGleaningKeepsToItsBounds: a flood of forged sources pushes no mapping out, sends no
// RLOC-probe, and makes no more Map-Requests than its rate.
func TestGleaningKeepsToItsBounds(t *testing.T) {
	n, x1, _, _ := gleaningSites(t)
	x1.gleaning(func(c *ITRConfig) { c.RLOCProbing.Off = false })
	c := x1.config
	c.Limits.MapCacheEntries = itr.Gleanings().Burst + 50
	x1.configure(c)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	probes := x1.counter(counter.RLOCProbeSent)
	n.lose = func(*testNode, SendPacket) bool { return true }
	for i := range 4000 {
		x1.gleaned(fmt.Sprintf("10.3.%d.%d", i/250, 1+i%250), fmt.Sprintf("198.51.100.%d", 1+i%250))
	}
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
	x1.wantCounter(counter.MappingGleaned, uint64(itr.Gleanings().Burst))
	x1.wantCounter(counter.MappingEvicted, 0)
	n.run(100 * time.Millisecond)
	if got := x1.counter(counter.RLOCProbeSent) - probes; got > 4 {
		t.Errorf("%d RLOC-probes to gleaned RLOCs", got)
	}
	n.run(itr.GleanLifetime)
	if len(x1.cache) != 1 {
		t.Errorf("%d entries are left", len(x1.cache))
	}
}

// TestGleanedLocatorIsDown: what is known of an RLOC is known better than by a packet.
func TestGleanedLocatorIsDown(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	x1.gleaning(func(c *ITRConfig) { c.Gleaning = true })
	x1.bits(0b10, 32)
	n.run(time.Second)
	x1.gleaned("10.3.0.9", hinted)
	x1.wantNotCached("10.3.0.9/32")
	x1.wantCounter(counter.RefusedGleaning, 1)
}

// The data plane is told what is gleaned, and tells it to the process after a crash.
func TestGleanedIsToldAndAdopted(t *testing.T) {
	n, x1, _, _ := gleaningSites(t)
	x1.gleaned("10.2.0.9", "192.0.2.77")
	kept := x1.cache[lisp.MustParsePrefix("10.2.0.9/32")]
	if !kept.Gleaned {
		t.Errorf("%v in the data plane is not known as gleaned", kept)
	}
	n.run(time.Second)
	if verified := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")]; verified.Mapping.Prefix.IsZero() || verified.Gleaned {
		t.Errorf("%v is taken for gleaned", verified)
	}
	kept.Mapping.Prefix, kept.ExpiresAt = lisp.MustParsePrefix("10.3.0.9/32"), n.now.Add(time.Second)
	x1.AdoptMapCache(n.now, []MapCacheEntry{kept})
	x1.drain()
	if state := x1.stateOf("10.3.0.9/32"); state != MapCacheGleaned {
		t.Errorf("an adopted gleaned mapping is %q", state)
	}
	n.run(time.Second + time.Millisecond)
	if state := x1.stateOf("10.3.0.9/32"); state != "" {
		t.Errorf("an adopted gleaned mapping outlives its three seconds, as %q", state)
	}
}

// stateOf is the state of a mapping, "" where there is none.
func (d *testNode) stateOf(prefix string) MapCacheState {
	for e := range d.MapCache() {
		if e.Mapping.Prefix == lisp.MustParsePrefix(prefix) {
			return e.State
		}
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// TestGivenMappingsOverwriteNothing, and end when those of the giver do.
func TestGivenMappingsOverwriteNothing(t *testing.T) {
	n := newDeafNetwork(t)
	n.b.miss("10.1.0.11", "10.2.0.10")
	n.run(2 * time.Second)
	own := n.b.cache[lisp.MustParsePrefix("10.2.0.0/16")]
	n.a.miss("10.1.0.10", "10.9.0.1") // a negative mapping, of the giver alone
	n.run(2 * time.Second)
	at := slices.IndexFunc(n.a.cachedPrefixes(), func(p string) bool { return p != "10.2.0.0/16" })
	if at < 0 {
		t.Fatal("no negative mapping")
	}
	negative := n.a.cachedPrefixes()[at]
	n.deaf = []string{rlocA}
	n.forward(4*time.Second, nil, n.a)
	n.wantPath(n.a, linkB, "a is deaf")
	if now := n.b.cache[own.Mapping.Prefix]; !now.ExpiresAt.Equal(own.ExpiresAt) {
		t.Errorf("b's own mapping ends at %s, before %s", now.ExpiresAt, own.ExpiresAt)
	}
	mine, theirs := n.a.cache[lisp.MustParsePrefix(negative)], n.b.cache[lisp.MustParsePrefix(negative)]
	if left := mine.ExpiresAt.Sub(theirs.ExpiresAt); theirs.ExpiresAt.IsZero() || left < 0 || left > 2*time.Second {
		t.Errorf("%s ends at %s here, at %s there", negative, mine.ExpiresAt, theirs.ExpiresAt)
	}
}

// TestAnswersAboutTheCoreAreNotForged: another address, nonce, EID-Prefix or locator is no yes, and nothing that was not asked for
// comes into the map-cache.
func TestAnswersAboutTheCoreAreNotForged(t *testing.T) {
	n := newDeafNetwork(t)
	n.deaf = everyRLOC
	n.forward(3*time.Second, nil, n.a)
	var nonce uint64
	for _, m := range sentMessages[*wire.MapRequest](n.a) {
		if m.MapReplyRecord != nil {
			nonce = m.Nonce
		}
	}
	if nonce == 0 {
		t.Fatal("a asks nothing")
	}
	mapping := func(p, r string) lisp.Mapping {
		return lisp.Mapping{Prefix: lisp.MustParsePrefix(p), TTLMinutes: 10, Locators: locators(r)}
	}
	for name, c := range map[string]struct {
		from  string
		probe bool
		nonce uint64
		m     lisp.Mapping
	}{
		"another address":    {"10.1.0.3", true, nonce, mapping("10.2.0.0/16", rlocC)},
		"another nonce":      {linkB, true, nonce + 1, mapping("10.2.0.0/16", rlocC)},
		"another EID-Prefix": {linkB, true, nonce, mapping("10.3.0.0/16", rlocC)},
		"another locator":    {linkB, true, nonce, mapping("10.2.0.0/16", "192.0.2.77")},
		"not asked for":      {linkB, false, nonce, mapping("10.3.0.0/16", rlocC)},
	} {
		payload, err := wire.AppendMapReply(nil, &wire.MapReply{Probe: c.probe, Nonce: c.nonce}, []lisp.Mapping{c.m})
		if err != nil {
			t.Fatal(err)
		}
		n.a.inject(linkA+":4342", c.from+":4342", payload)
		n.run(300 * time.Millisecond)
		n.wantPath(n.a, "", name)
		n.a.wantNotCached("10.3.0.0/16")
	}
	n.a.wantCounter(counter.SiblingMappingTaken, 0)
}

// TestGivenMappingsOutliveGleanedOnes: what a data packet made the sibling believe for three seconds does not end what it is given.
func TestGivenMappingsOutliveGleanedOnes(t *testing.T) {
	n := newDeafNetwork(t)
	c := quadConfig(2, rlocB, rlocA, linkB, linkA, "10.1.0.0/16")
	c.ITR.Gleaning = true
	n.b.configure(c)
	n.deaf = []string{rlocA, "192.0.2.100"}
	n.forward(time.Second, nil, n.a)
	n.b.gleaned("10.2.0.10", rlocC)
	n.b.wantCached("10.2.0.10/32", rlocC)
	n.forward(3*time.Second, nil, n.a)
	n.wantPath(n.a, linkB, "a is deaf")
	n.b.wantNotCached("10.2.0.10/32")
	n.run(10 * time.Second)
	n.b.wantCached("10.2.0.0/16", rlocC, rlocD)
}

// TestGivenMappingsAreInUse: a mapping that the sibling has already, and did not use, does not end as idle at the handover.
func TestGivenMappingsAreInUse(t *testing.T) {
	n := newDeafNetwork(t)
	c := quadConfig(2, rlocB, rlocA, linkB, linkA, "10.1.0.0/16")
	c.ITR.IdleTimeout = 30 * time.Second
	n.b.configure(c)
	n.b.miss("10.1.0.11", "10.2.0.10")
	n.forward(25*time.Second, nil, n.a)
	n.b.wantCached("10.2.0.0/16", rlocC, rlocD)
	n.deaf = []string{rlocA}
	n.forward(4*time.Second, nil, n.a)
	n.wantPath(n.a, linkB, "a is deaf")
	n.run(3 * time.Second) // past the idle time, before the data plane reports the use
	n.b.wantCached("10.2.0.0/16", rlocC, rlocD)
}

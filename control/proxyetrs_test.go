// SPDX-License-Identifier: Apache-2.0

package control

// Proxy ETRs (RFC 6832 s.6.1).

import (
	"testing"
	"time"

	"loci/lisp"
)

func withProxies(c Config, addresses ...string) Config {
	itr := *c.ITR
	itr.ProxyETRs = locators(addresses...)
	c.ITR = &itr
	return c
}

// Shows RFC 6832 s.6 (2), RFC 6832 s.6.1 (1).
func TestNativelyForwardGoesToTheProxyETR(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	x1.configure(withProxies(x1.config, "203.0.113.1", "203.0.113.2"))
	n.run(time.Second)
	x1.miss("10.1.0.5", "198.51.100.9")
	n.run(time.Second)
	var hole lisp.Prefix
	for p, e := range x1.cache {
		hole = p
		if !ByProxyETR(e.Mapping) || len(e.Mapping.Locators) != 2 {
			t.Errorf("the data plane has %s, want the proxy ETRs", e.Mapping)
		}
	}
	for s := range x1.MapCache() { // what the mapping system said stays what it said
		if s.State != MapCacheNegative {
			t.Errorf("%s is %s", s.Mapping, s.State)
		}
	}
	for s := range x1.Locators() {
		t.Errorf("the proxy ETR %s is probed", s.RLOC)
	}
	// Another proxy ETR, then none, by reload.
	x1.configure(withProxies(x1.config, "203.0.113.3"))
	n.run(time.Second)
	x1.wantCached(hole.String(), "203.0.113.3")
	x1.configure(withProxies(x1.config))
	n.run(time.Second)
	if e := x1.cache[hole]; !e.Mapping.Negative() {
		t.Errorf("without proxy ETRs the data plane has %s", e.Mapping)
	}
	// Positive mappings are none of theirs.
	x1.configure(withProxies(x1.config, "203.0.113.1"))
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
}

func TestProxyETRLeavesOtherActionsAndStaticMappings(t *testing.T) {
	n, x := loneITR(t, Limits{})
	c := withProxies(x.config, "203.0.113.1")
	c.ITR.StaticMappings = []lisp.Mapping{{Prefix: lisp.MustParsePrefix("10.9.0.0/16"), Action: lisp.ActionNativelyForward}}
	x.configure(c)
	x.miss("10.1.0.1", "10.2.0.1")
	answerAll(x, lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: 1, Action: lisp.ActionDrop})
	n.run(time.Second)
	for _, p := range []string{"10.9.0.0/16", "10.2.0.0/16"} {
		if e := x.cache[lisp.MustParsePrefix(p)]; !e.Mapping.Negative() || e.Mapping.Prefix.IsZero() {
			t.Errorf("%s goes to a proxy ETR: %s", p, e.Mapping)
		}
	}
}

func TestProxyETRSurvivesARestart(t *testing.T) {
	n, x := loneITR(t, Limits{})
	x.configure(withProxies(x.config, "203.0.113.1"))
	x.miss("10.1.0.1", "10.2.0.1")
	answerAll(x, lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: 15, Action: lisp.ActionNativelyForward})
	n.run(time.Second)
	kept := x.cache[lisp.MustParsePrefix("10.2.0.0/16")]
	x.config = withProxies(x.config, "203.0.113.2") // changed while the daemon was away
	x.start()
	x.AdoptMapCache(n.now, []MapCacheEntry{kept})
	x.drain()
	x.wantCached("10.2.0.0/16", "203.0.113.2")
	for s := range x.MapCache() {
		if s.State != MapCacheNegative {
			t.Errorf("adopted as %s", s.State)
		}
	}
}

func TestRefusedProxyETRs(t *testing.T) {
	_, x := loneITR(t, Limits{})
	for _, address := range []string{"224.0.1.1", "255.255.255.255", "::"} {
		c := withProxies(x.config, address)
		if c.Validate() == nil {
			t.Errorf("proxy ETR %s is taken", address)
		}
	}
}

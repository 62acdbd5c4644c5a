// SPDX-License-Identifier: Apache-2.0

package control

// What becomes of traffic when a control plane is dead and its data plane forwards: RFC 9300
// s.10, RFC 9301 s.5.4.

import (
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/maprequest"
	"loci/control/internal/message"
	"loci/control/internal/reach"
	"loci/lisp"
)

const (
	prefix4, prefix6 = "10.2.0.0/16", "2001:db8:2::/48"
	probedRLOC4      = "192.0.2.2"
	probedRLOC6      = "2001:db8:f::2"
)

// planeState is what the data plane was told of an RLOC.
func (d *testNode) planeState(r string) LocatorState {
	if state, ok := d.states[rloc(r)]; ok {
		return state
	}
	return LocatorUp
}

// bothWays lets packets go to both EID-Prefixes of the peer, and come from these RLOCs, for so long.
func bothWays(n *testNetwork, x1 *testNode, d time.Duration, from ...string) {
	for range int(d / time.Second) {
		n.run(time.Second)
		x1.use(prefix4)
		x1.use(prefix6)
		for _, r := range from {
			x1.heard(r, 0)
		}
	}
}

func (n *testNetwork) kill(dead *testNode) {
	n.lose = func(from *testNode, p SendPacket) bool {
		if from == dead {
			return true
		}
		for _, a := range dead.addrs {
			if p.Remote.Addr() == a {
				return true
			}
		}
		return false
	}
}

// A control plane that is dead for hours, long past the expiry of its registration, stops no
// packet as long as packets come from its data plane and the TTL runs.
// Shows RFC 9300 s.10 (3).
func TestDeadControlPlaneStopsNoTraffic(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	x1.miss("2001:db8:1::5", "2001:db8:2::9")
	bothWays(n, x1, 30*time.Second, probedRLOC4, probedRLOC6)
	n.kill(x2)
	died := n.now
	for n.now.Sub(died) < 8*time.Minute { // the registration lives for 3
		bothWays(n, x1, time.Second, probedRLOC4, probedRLOC6)
		for _, r := range []string{probedRLOC4, probedRLOC6} {
			if told := x1.planeState(r); told != LocatorUp && told != LocatorHeard {
				t.Fatalf("after %s the data plane is told that %s is %s", n.now.Sub(died), r, told)
			}
		}
		x1.wantCached(prefix4, probedRLOC4, probedRLOC6)
		x1.wantCached(prefix6, probedRLOC4, probedRLOC6)
	}
	x1.wantLocator(probedRLOC4, LocatorUnconfirmed, LocatorUnanswered)
	if x1.counter(counter.MappingKept) == 0 {
		t.Error("no negative Map-Reply came: the test proves nothing")
	}
	kept := x1.KeptMappings()
	if len(kept) == 0 || x1.cache[kept[0].Prefix].Mapping.Negative() || kept[0].Since.Before(died) || !kept[0].ExpiresAt.After(n.now) {
		t.Errorf("kept mappings: %+v", kept)
	}
	n.lose = nil
	x2.start()
	bothWays(n, x1, time.Minute, probedRLOC4, probedRLOC6)
	x1.wantLocator(probedRLOC4, LocatorUp, LocatorAnswered)
	x1.wantCached(prefix4, probedRLOC4, probedRLOC6)
}

// Where nothing comes from it any more either, a negative answer replaces the mapping, and
// at the end of the TTL it leaves whatever comes.
func TestDeadSiteLosesItsMapping(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	bothWays(n, x1, 30*time.Second, probedRLOC4)
	n.kill(x2)
	bothWays(n, x1, 3*time.Minute, probedRLOC4)
	x1.wantCached(prefix4, probedRLOC4, probedRLOC6)
	bothWays(n, x1, 10*time.Minute) // one way
	if e, ok := x1.cache[lisp.MustParsePrefix(prefix4)]; ok && !e.Mapping.Negative() {
		t.Errorf("the mapping stays: %+v", e)
	}
}

// A mapping that is kept leaves at the end of its TTL, and is asked for again several times before.
func TestKeptMappingLeavesWithItsTTL(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	c := x2.config
	etr := *c.ETR
	etr.Database = append([]DatabaseMapping(nil), etr.Database...)
	for i := range etr.Database {
		etr.Database[i].TTLMinutes = 10
	}
	c.ETR = &etr
	x2.configure(c)
	bothWays(n, x1, time.Minute, probedRLOC4)
	x2.configure(c)
	n.kill(x2)
	kept := uint64(0)
	for range 10 * 60 {
		bothWays(n, x1, time.Second, probedRLOC4)
		e, ok := x1.cache[lisp.MustParsePrefix(prefix4)]
		if !ok || e.Mapping.Negative() {
			break
		}
		if n.now.After(e.ExpiresAt) {
			t.Fatalf("it is used after its TTL: %+v", e)
		}
		if left := e.ExpiresAt.Sub(n.now); left < time.Second {
			kept = x1.counter(counter.MappingKept)
		}
	}
	if kept < 2 || kept > 20 {
		t.Errorf("%d negative answers until the TTL ended, want several", kept)
	}
	n.lose = nil
	x2.start()
	n.run(2 * time.Minute)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(2 * time.Minute)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	x1.wantCached(prefix4, probedRLOC4, probedRLOC6)
	if kept := x1.KeptMappings(); len(kept) != 0 {
		t.Errorf("kept although it is registered: %+v", kept)
	}
}

// A negative answer that says more than "nothing is registered" is believed, even while a locator lives.
func TestNegativeAnswersThatReplaceALivingMapping(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*lisp.Mapping)
		solicited bool
		kept      bool
	}{
		"not registered":                        {func(*lisp.Mapping) {}, false, true},
		"not registered, no action":             {func(m *lisp.Mapping) { m.Action = lisp.ActionNoAction }, false, true},
		"a wider prefix":                        {func(m *lisp.Mapping) { m.Prefix = lisp.MustParsePrefix("10.2.0.0/15") }, false, true},
		"the site itself had us ask":            {func(*lisp.Mapping) {}, true, false},
		"denied by policy":                      {func(m *lisp.Mapping) { m.Action = lisp.ActionDropPolicyDenied }, false, false},
		"to be dropped":                         {func(m *lisp.Mapping) { m.Action = lisp.ActionDrop }, false, false},
		"the TTL is 0":                          {func(m *lisp.Mapping) { m.TTLMinutes = 0 }, false, false},
		"other locators, not a word of absence": {func(m *lisp.Mapping) { m.Locators = locators("192.0.2.77") }, false, false},
	} {
		for _, prefix := range []string{prefix4, prefix6} {
			n, x1, _ := probedSites(t, "10.2.0.9")
			x1.miss("2001:db8:1::5", "2001:db8:2::9")
			bothWays(n, x1, 5*time.Second, probedRLOC4)
			p := lisp.MustParsePrefix(prefix)
			answer := lisp.Mapping{Prefix: p, TTLMinutes: 1, Action: lisp.ActionNativelyForward}
			c.change(&answer)
			if answer.Prefix.Bits() == 15 && prefix == prefix6 {
				answer.Prefix = lisp.MustParsePrefix("2001:db8:2::/47")
			}
			x1.itr.Requester.Ask(maprequest.Request{Prefix: p, SMRInvoked: c.solicited})
			_, q, _ := x1.itr.Requester.Pending.Get(p)
			x1.itr.HandleMapReply(&message.MapReply{Nonce: q.Nonces[0], Mappings: []lisp.Mapping{answer}})
			x1.drain()
			e, ok := x1.cache[p]
			if kept := ok && len(e.Mapping.Locators) == 2; kept != c.kept {
				t.Errorf("%s, %s: kept %t, want %t", name, prefix, kept, c.kept)
			}
			x1.wantCounter(counter.MappingKept, map[bool]uint64{true: 1}[c.kept])
			if listed := len(x1.KeptMappings()) == 1; listed != c.kept {
				t.Errorf("%s, %s: listed %t, want %t", name, prefix, listed, c.kept)
			}
		}
	}
}

// TestKeptMappingsAreAskedForTogether: an answer to an RLOC-probe has all kept mappings of the site asked for, not that alone of which
// the RLOC was a locator first.
func TestKeptMappingsAreAskedForTogether(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	x1.miss("2001:db8:1::5", "2001:db8:2::9")
	bothWays(n, x1, 5*time.Second, probedRLOC4, probedRLOC6)
	for _, prefix := range []string{prefix4, prefix6} {
		p := lisp.MustParsePrefix(prefix)
		x1.itr.Requester.Ask(maprequest.Request{Prefix: p})
		_, q, _ := x1.itr.Requester.Pending.Get(p)
		x1.itr.HandleMapReply(&message.MapReply{Nonce: q.Nonces[0], Mappings: []lisp.Mapping{{Prefix: p, TTLMinutes: 1, Action: lisp.ActionNativelyForward}}})
		x1.drain()
	}
	if kept := x1.KeptMappings(); len(kept) != 2 {
		t.Fatalf("kept: %+v", kept)
	}
	answered, asked := x1.counter(counter.RLOCProbeAnswered), x1.counter(counter.MapRequestSent)
	for x1.counter(counter.RLOCProbeAnswered) < answered+2 { // by each RLOC
		bothWays(n, x1, time.Second, probedRLOC4, probedRLOC6)
	}
	bothWays(n, x1, 2*time.Second, probedRLOC4, probedRLOC6)
	if kept := x1.KeptMappings(); len(kept) != 0 {
		t.Errorf("kept although they are registered: %+v", kept)
	}
	if asked = x1.counter(counter.MapRequestSent) - asked; asked != 2 {
		t.Errorf("%d Map-Requests, want one for each EID-Prefix", asked)
	}
}

// An unconfirmed locator from which packets came is told as one for ten seconds.
func TestUnconfirmedLocatorIsHeard(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	n.kill(x2)
	n.run(20 * time.Second)
	for _, r := range []string{probedRLOC4, probedRLOC6} {
		x1.wantLocator(r, LocatorUnconfirmed, LocatorUnanswered)
		if x1.planeState(r) != LocatorUnconfirmed {
			t.Fatalf("%s is told as %s before anything came from it", r, x1.planeState(r))
		}
	}
	x1.heard(probedRLOC6, 0)
	if x1.planeState(probedRLOC6) != LocatorHeard || x1.planeState(probedRLOC4) != LocatorUnconfirmed {
		t.Errorf("told %v, want %s alone as heard", x1.states, probedRLOC6)
	}
	n.run(reach.HeardFor - time.Second)
	x1.heard(probedRLOC6, reach.HeardFor-time.Second)
	if x1.planeState(probedRLOC6) != LocatorHeard {
		t.Errorf("told %v within %s", x1.states, reach.HeardFor)
	}
	n.run(time.Second)
	x1.heard(probedRLOC6, reach.HeardFor)
	if x1.planeState(probedRLOC6) != LocatorUnconfirmed {
		t.Errorf("told %v after %s", x1.states, reach.HeardFor)
	}
	x1.heard(probedRLOC6, 0)
	n.run(time.Minute) // the data plane reports no more: the next RLOC-probe finds out
	if x1.planeState(probedRLOC6) != LocatorUnconfirmed {
		t.Errorf("told %v after a minute without a report", x1.states)
	}
	x1.wantCounter(counter.LocatorWentUnconfirmed, 2)
	x1.wantCounter(counter.LocatorWentDown, 0)
}

// One that answers again is used before those that do not, and after those that are up.
func TestLocatorThatReturnsIsPreferred(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	n.kill(x2)
	n.run(20 * time.Second)
	n.lose = deaf(probedRLOC4)
	for x1.locator(probedRLOC6).Reason != LocatorReturning {
		n.run(100 * time.Millisecond)
	}
	if x1.planeState(probedRLOC6) != LocatorHeard || x1.planeState(probedRLOC4) != LocatorUnconfirmed {
		t.Errorf("told %v, want %s as heard", x1.states, probedRLOC6)
	}
	n.run(10 * time.Second)
	x1.wantLocator(probedRLOC6, LocatorUp, LocatorAnswered)
	x1.wantLocator(probedRLOC4, LocatorUnconfirmed, LocatorUnanswered)
}

// A hint is forgotten when nothing answers for long: no packets go there any more, so no new hint
// comes, and a mapping that has no other locator needs it.
func TestOldHintMakesNoLocatorDown(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	n.kill(x2)
	x1.unreachable(probedRLOC4)
	x1.wantLocator(probedRLOC4, LocatorDown, LocatorUnreachable)
	n.run(reach.HintHold - time.Second)
	x1.wantLocator(probedRLOC4, LocatorDown, LocatorUnreachable)
	n.run(time.Minute)
	x1.wantLocator(probedRLOC4, LocatorUnconfirmed, LocatorUnanswered)
	x1.bits(0b10, 32)
	n.run(time.Minute)
	x1.wantLocator(probedRLOC4, LocatorDown, LocatorStatusBit) // which holds
}

// A restart takes over what the data plane was told; what was down and does not answer is no
// more than unconfirmed then.
func TestRestartWhileTheControlPlaneOfAPeerIsDead(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	n.kill(x2)
	n.run(20 * time.Second)
	x1.start()
	x1.states[rloc(probedRLOC4)] = LocatorDown // by a hint, say
	x1.AdoptMapCache(n.now, []MapCacheEntry{x1.cache[lisp.MustParsePrefix(prefix4)]})
	x1.AdoptLocatorStates(n.now, []SetLocatorState{{RLOC: rloc(probedRLOC4), State: LocatorDown}, {RLOC: rloc(probedRLOC6), State: LocatorHeard}})
	x1.drain()
	x1.wantLocator(probedRLOC4, LocatorDown, LocatorAdopted)
	x1.wantLocator(probedRLOC6, LocatorUnconfirmed, LocatorAdopted)
	n.run(30 * time.Second)
	for _, r := range []string{probedRLOC4, probedRLOC6} {
		x1.wantLocator(r, LocatorUnconfirmed, LocatorUnanswered)
		if x1.planeState(r) != LocatorUnconfirmed {
			t.Errorf("the data plane has %v", x1.states)
		}
	}
}

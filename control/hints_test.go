// SPDX-License-Identifier: Apache-2.0

package control

// What data packets and ICMP say about locators: RFC 9300 s.10 and s.10.1, RFC 9301 s.7.

import (
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/reach"
	"loci/control/internal/system"
	"loci/lisp"
)

const (
	hinted      = "192.0.2.2" // the first locator of 10.2.0.0/16
	alternative = "2001:db8:f::2"
)

// bits reports Locator-Status-Bits of the site of 10.2.0.0/16.
func (d *testNode) bits(bits uint32, count int) {
	said := StatusBits{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), From: rloc(alternative), Bits: bits, Count: count}
	if set := d.cache[said.Prefix].Mapping.Locators; len(set) > 0 {
		said.From = set[len(set)-1].Path().Last() // as the site sends it
	}
	d.HandleStatusBits(d.net.now, said)
	d.drain()
}

func (d *testNode) unreachable(r string) {
	d.HandleUnreachable(d.net.now, rloc(r))
	d.drain()
}

func (d *testNode) probing(p ProbingConfig) {
	c := d.config
	itr := *c.ITR
	itr.RLOCProbing = p
	c.ITR = &itr
	d.configure(c)
}

// TestStatusBitLowersItsLocator: RFC 9300 s.10: it is left at once and used again only
// when its bit returns, whatever probes say.
func TestStatusBitLowersItsLocator(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	x1.bits(0b10, 32)
	x1.wantLocator(hinted, LocatorDown, LocatorStatusBit)
	x1.wantLocator(alternative, LocatorUp, LocatorAnswered)
	n.run(2 * time.Minute) // it answers every probe
	x1.wantLocator(hinted, LocatorDown, LocatorStatusBit)
	x1.bits(0b11, 32)
	if l := x1.locator(hinted); l.State == LocatorDown {
		t.Errorf("%s is down after its bit returned", hinted)
	}
	n.run(time.Second)
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered)
}

func TestStatusBitsBeyondTheHeaderOrTheSetSayNothing(t *testing.T) {
	_, x1, _ := probedSites(t, "10.2.0.9")
	x1.bits(0xffff_fffc|0b11, 8)
	x1.bits(0, 0)
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered)
	x1.HandleStatusBits(x1.net.now, StatusBits{Prefix: lisp.MustParsePrefix("10.77.0.0/16"), Count: 32})
	x1.wantCounter(counter.RefusedHint, 1)
}

// Shows RFC 9300 s.3 (2).
func TestFlappingStatusBitIsHeldDown(t *testing.T) {
	for _, p := range []ProbingConfig{{}, {Off: true}} {
		n, x1, _ := probedSites(t, "10.2.0.9")
		x1.probing(p)
		n.run(3 * time.Second)
		for range 3 {
			x1.bits(0b10, 32)
			x1.bits(0b11, 32)
		}
		x1.wantLocator(hinted, LocatorUnconfirmed, LocatorReturning) // other locators are used before it
		n.run(reach.FlapHold + 15*time.Second)                       // the third fall: 20 seconds, and a probe
		if l := x1.locator(hinted); l.State != LocatorUnconfirmed && l.State != LocatorUnknown && l.State != LocatorUp {
			t.Errorf("probing off %v: %s is held for ever: %+v", p.Off, hinted, l)
		}
	}
}

// TestStatusBitsGoWithTheirMapping: they are of one locator-set (RFC 9300 s.10).
func TestStatusBitsGoWithTheirMapping(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	x1.bits(0b10, 32)
	c := x2.config
	etr := *c.ETR
	etr.Database = append([]DatabaseMapping(nil), etr.Database...)
	etr.Database[0].Locators = locators(hinted, alternative, "192.0.2.222")
	c.ETR = &etr
	x2.configure(c)
	n.run(3 * time.Second)
	if l := x1.locator(hinted); l.State == LocatorDown {
		t.Errorf("the status bit of another locator-set holds %s down", hinted)
	}
}

// TestStatusBitsStayWithTheLocatorSet: the data plane does not tell them again where only
// something else of the mapping changed.
func TestStatusBitsStayWithTheLocatorSet(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	x1.bits(0b10, 32)
	c := x2.config
	etr := *c.ETR
	etr.Database = append([]DatabaseMapping(nil), etr.Database...)
	etr.Database[0].Version = 5
	c.ETR = &etr
	x2.configure(c)
	n.run(3 * time.Second)
	for m := range x1.MapCache() {
		if m.Mapping.Prefix == etr.Database[0].Prefix && m.Mapping.Version != 5 {
			t.Fatalf("the map-cache has version %d", m.Mapping.Version)
		}
	}
	x1.wantLocator(hinted, LocatorDown, LocatorStatusBit)
}

// TestStatusBitGivesWayToALaterMapReply: while the peer sends no packets, no bit returns.
func TestStatusBitGivesWayToALaterMapReply(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	x1.bits(0b10, 32)
	for version, want := range []LocatorState{LocatorDown, LocatorUp} {
		c := x2.config
		etr := *c.ETR
		etr.Database = append([]DatabaseMapping(nil), etr.Database...)
		etr.Database[0].Version = uint16(version + 1)
		c.ETR = &etr
		x2.configure(c) // which makes x1 ask
		n.run(3 * time.Second)
		if l := x1.locator(hinted); l.State != want {
			t.Errorf("%s is %s by %s, want %s", hinted, l.State, l.Reason, want)
		}
		n.run(reach.StatusBitHold)
	}
}

// TestStatusBitsOfAGleanedMappingSayNothing: their places are those of a locator-set that is not known yet.
func TestStatusBitsOfAGleanedMappingSayNothing(t *testing.T) {
	n, x1, _, _ := gleaningSites(t)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	static := *x1.config.ITR
	static.StaticMappings = []lisp.Mapping{{Prefix: lisp.MustParsePrefix("10.9.0.0/16"), Locators: locators(hinted)}}
	c := x1.config
	c.ITR = &static
	x1.configure(c)
	n.lose = deaf("192.0.2.100")
	x1.gleaned("10.3.0.9", hinted)
	x1.HandleStatusBits(n.now, StatusBits{Prefix: lisp.MustParsePrefix("10.3.0.9/32"), From: rloc(hinted), Bits: 0b10, Count: 32})
	x1.drain()
	if l := x1.locator(hinted); l.State == LocatorDown {
		t.Errorf("the first status bit of a site with several locators took %s out of use", hinted)
	}
	x1.wantCounter(counter.RefusedHint, 1)
}

// TestStatusBitsFromAnotherLocatorSetSayNothing: a static mapping sends everything to relays, and the site that sends packets with bits
// numbers its own locators. So does one that is reached by a path: its bits come from the last hop.
func TestStatusBitsFromAnotherLocatorSetSayNothing(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	byRelays := lisp.Mapping{Prefix: lisp.MustParsePrefix("0.0.0.0/0"), Locators: lisp.LocatorSet{
		{RLOC: rloc(rtr1), Priority: 1, Weight: 100, Reachable: true}, testPath(nil, rtr2, "192.0.2.2"),
	}}
	c := x1.config
	itr := *c.ITR
	itr.StaticMappings = []lisp.Mapping{byRelays}
	c.ITR = &itr
	x1.configure(c)
	n.run(time.Second)
	say := func(from string) {
		x1.HandleStatusBits(n.now, StatusBits{Prefix: byRelays.Prefix, From: rloc(from), Bits: 0b10, Count: 32})
		x1.drain()
	}
	say("192.0.2.77")
	say(rtr2) // a relay has no bits of its own
	x1.wantCounter(counter.RefusedHint, 2)
	if s := x1.locator(rtr1); s.State == LocatorDown {
		t.Errorf("%s is down by bits of another locator-set", rtr1)
	}
	say("192.0.2.2")
	if s := x1.locator(rtr1); s.State != LocatorDown {
		t.Errorf("%s is %s, its bit is 0", rtr1, s.State)
	}
}

// TestStatusBitsOfAnUnusedLocatorGoToo: a mapping that takes no traffic by a locator may speak of it all the same.
func TestStatusBitsOfAnUnusedLocatorGoToo(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	c := x1.config
	itr := *c.ITR
	itr.StaticMappings = []lisp.Mapping{{Prefix: lisp.MustParsePrefix("10.9.0.0/16"), Locators: locators(hinted)}}
	c.ITR = &itr
	x1.configure(c)
	reachable := func(up bool) {
		c := x2.config
		etr := *c.ETR
		etr.Database = append([]DatabaseMapping(nil), etr.Database...)
		etr.Database[0].Locators = locators(hinted, alternative)
		etr.Database[0].Locators[0].Reachable = up
		c.ETR = &etr
		x2.configure(c)
		n.run(3 * time.Second)
	}
	reachable(false)
	x1.bits(0b10, 32)
	x1.wantLocator(hinted, LocatorDown, LocatorStatusBit)
	reachable(true)
	if l := x1.locator(hinted); l.State == LocatorDown {
		t.Errorf("the status bit of another locator-set holds %s down", hinted)
	}
}

// TestNonceMismatch: RFC 9300 s.10.1: the path is unreachable; other algorithms override.
func TestNonceMismatch(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	x1.HandleNonceMismatch(n.now, rloc(hinted))
	x1.drain()
	x1.wantLocator(hinted, LocatorDown, LocatorNonceMismatch)
	n.run(time.Second)
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered) // the probe at once overrides it
	n.lose = deaf(hinted)
	n.run(2 * time.Second)
	x1.HandleNonceMismatch(n.now, rloc(hinted))
	x1.drain()
	n.run(10 * time.Second)
	if l := x1.locator(hinted); l.State != LocatorDown {
		t.Errorf("%s is %s", hinted, l.State)
	}
}

func TestUnreachableMovesTrafficWhereAnotherLocatorAnswers(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	n.lose = deaf(hinted)
	x1.unreachable(hinted)
	x1.wantLocator(hinted, LocatorDown, LocatorUnreachable) // at once
	x1.unreachable(alternative)
	x1.wantLocator(alternative, LocatorUp, LocatorAnswered) // the only one left: a forgery stops no traffic
	n.run(10 * time.Second)
	if l := x1.locator(hinted); l.State != LocatorDown {
		t.Errorf("%s is %s", hinted, l.State)
	}
}

// TestForgedUnreachablesFlapNoTraffic: the hold grows, as for any locator that flaps.
func TestForgedUnreachablesFlapNoTraffic(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	for range 600 {
		x1.unreachable(hinted)
		n.run(time.Second)
	}
	if fell := x1.counter(counter.LocatorWentDown); fell > 8 {
		t.Errorf("the locator fell %d times in ten minutes", fell)
	}
	x1.wantLocator(alternative, LocatorUp, LocatorAnswered)
}

func TestHintsWithoutProbing(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	x1.probing(ProbingConfig{Off: true})
	n.run(time.Second)
	x1.unreachable(hinted)
	x1.wantLocator(hinted, LocatorDown, LocatorUnreachable)
	n.run(reach.HintHold + time.Second)
	x1.wantLocator(hinted, LocatorUnknown, LocatorNotProbed)
	x1.bits(0b10, 32)
	n.run(5 * time.Minute)
	x1.wantLocator(hinted, LocatorDown, LocatorStatusBit)
	x1.bits(0b11, 32)
	n.run(time.Minute)
	x1.wantLocator(hinted, LocatorUnknown, LocatorNotProbed)
}

// Shows RFC 9300 s.4.1 (2), RFC 9300 s.10 (1), RFC 9300 s.10.1 (3), RFC 9300 s.16 (1), RFC 9302 s.8 (1).
func TestPublicInternetBelievesNoDataPacket(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	c := x1.config
	itr := *c.ITR
	itr.PublicInternet = true
	c.ITR = &itr
	x1.configure(c)
	n.run(time.Second)
	x1.bits(0, 32)
	x1.HandleNonceMismatch(n.now, rloc(hinted))
	x1.drain()
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered)
	x1.wantLocator(alternative, LocatorUp, LocatorAnswered)
}

func TestHintsWithoutAnITR(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	ms.HandleStatusBits(n.now, StatusBits{})
	ms.HandleNonceMismatch(n.now, rloc(hinted))
	ms.HandleUnreachable(n.now, rloc(hinted))
	ms.wantCounter(counter.LocatorHintReceived, 3)
}

// TestHintCutsNoMappingOff: what anybody can forge takes no mapping its only locator, not
// even where the locator stands beside others in another mapping.
func TestHintCutsNoMappingOff(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	c := x1.config
	itr := *c.ITR
	itr.StaticMappings = []lisp.Mapping{{Prefix: lisp.MustParsePrefix("10.9.0.0/16"), Locators: locators(hinted)}}
	c.ITR = &itr
	x1.configure(c)
	n.run(3 * time.Second)
	x1.unreachable(hinted)
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered)
	itr.StaticMappings = nil
	c.ITR = &itr
	x1.configure(c)
	n.run(3 * time.Second)
	x1.unreachable(hinted)
	x1.wantLocator(hinted, LocatorDown, LocatorUnreachable)
}

// heard reports when data packets last came from an RLOC, some time before now.
func (d *testNode) heard(r string, ago time.Duration) {
	d.HandleHeard(d.net.now, []Heard{{RLOC: rloc(r), LastHeardAt: d.net.now.Add(-ago)}})
	d.drain()
}

// silentSites has packets go to and come from a locator of 10.2.0.0/16, the next regular RLOC-probe far away.
func silentSites(t *testing.T) (n *testNetwork, x1 *testNode) {
	t.Helper()
	n, x1, _ = probedSites(t, "10.2.0.9")
	x1.probing(ProbingConfig{Interval: time.Hour})
	n.run(20 * time.Second)
	x1.use("10.2.0.0/16")
	x1.heard(hinted, 0)
	return n, x1
}

// RFC 9300 s.10: silence says nothing by itself.
func TestSilenceMakesTheITRAsk(t *testing.T) {
	n, x1 := silentSites(t)
	before := x1.locator(hinted)
	if before.Silent || before.LastHeardAt.IsZero() {
		t.Fatalf("%+v", before)
	}
	n.run(reach.LongSilence)
	x1.use("10.2.0.0/16")
	x1.heard(hinted, reach.LongSilence)
	x1.wantCounter(counter.LocatorWentSilent, 1)
	n.run(time.Second)
	after := x1.locator(hinted)
	if !after.Silent || after.ProbesSent != before.ProbesSent+1 || after.State != LocatorUp || !after.LastHeardAt.Equal(before.LastHeardAt) {
		t.Errorf("%+v, want one RLOC-probe more than %+v and the same state", after, before)
	}
	for range 10 { // a path that goes one way from now on costs nothing more
		n.run(time.Second)
		x1.use("10.2.0.0/16")
		x1.heard(hinted, n.now.Sub(before.LastHeardAt))
	}
	x1.wantCounter(counter.LocatorWentSilent, 1)
	x1.heard(hinted, 0) // and again after that it is heard from
	if x1.locator(hinted).Silent {
		t.Error("it is silent when it was heard from")
	}
	n.run(reach.LongSilence)
	x1.use("10.2.0.0/16")
	x1.heard(hinted, reach.LongSilence)
	x1.wantCounter(counter.LocatorWentSilent, 2)
}

// A locator that is gone is found by the RLOC-probe that its silence caused.
func TestSilenceFindsWhoIsGone(t *testing.T) {
	n, x1 := silentSites(t)
	n.lose = deaf(hinted)
	n.run(reach.LongSilence)
	x1.use("10.2.0.0/16")
	x1.heard(hinted, reach.LongSilence)
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered)
	n.run(4 * time.Second)
	x1.wantLocator(hinted, LocatorUnconfirmed, LocatorUnanswered)
	x1.use("10.2.0.0/16")
	x1.heard(hinted, 6*time.Second)
	x1.wantCounter(counter.LocatorWentSilent, 1)
}

func TestWhatIsNoSilence(t *testing.T) {
	for name, then := range map[string]func(n *testNetwork, x1 *testNode){
		"no packets go there": func(_ *testNetwork, x1 *testNode) { x1.heard(hinted, reach.LongSilence) },
		"it is too short": func(_ *testNetwork, x1 *testNode) {
			x1.use("10.2.0.0/16")
			x1.heard(hinted, reach.LongSilence-time.Millisecond)
		},
		"it was never heard from": func(_ *testNetwork, x1 *testNode) {
			x1.use("10.2.0.0/16")
			x1.heard(alternative, time.Hour)
		},
		"it is no locator": func(_ *testNetwork, x1 *testNode) {
			x1.use("10.2.0.0/16")
			x1.heard("198.51.100.77", reach.LongSilence)
		},
		"probing is off": func(_ *testNetwork, x1 *testNode) {
			x1.probing(ProbingConfig{Off: true})
			x1.use("10.2.0.0/16")
			x1.heard(hinted, reach.LongSilence)
		},
		"it is down": func(_ *testNetwork, x1 *testNode) {
			x1.bits(0b10, 32)
			x1.use("10.2.0.0/16")
			x1.heard(hinted, reach.LongSilence)
		},
		"it was heard from in another state alone": func(_ *testNetwork, x1 *testNode) {
			x1.use("10.2.0.0/16")
			x1.bits(0b10, 32)
			x1.bits(0b11, 32)
			x1.heard(hinted, reach.LongSilence)
		},
		"the clock of the data plane is ahead": func(_ *testNetwork, x1 *testNode) {
			x1.heard(hinted, -time.Hour)
			x1.use("10.2.0.0/16")
			x1.heard(hinted, reach.LongSilence)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, x1 := silentSites(t)
			n.run(reach.LongSilence)
			then(n, x1)
			x1.wantCounter(counter.LocatorWentSilent, 0)
		})
	}
}

// What packets are not sent to need not be there: of two locators that of the lower priority is meant.
func TestSpareLocatorMayBeSilent(t *testing.T) {
	h := system.New(epoch, testRandom(1))
	h.Configure(Config{Limits: DefaultLimits()}.WithDefaults())
	h.Advance(epoch)
	table := reach.NewTable(h)
	set := locators(hinted, alternative)
	set[1].Priority = set[0].Priority + 1
	m := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), Locators: set}
	table.Track(m)
	table.Used(m, 5)
	_, first, _ := table.Get(rloc(hinted))
	_, spare, _ := table.Get(rloc(alternative))
	if first.SentAt != 5 || spare.SentAt != 0 {
		t.Errorf("sent at %d and %d, want 5 and never", first.SentAt, spare.SentAt)
	}
	table.Set(first, LocatorUnconfirmed, LocatorUnanswered)
	table.Used(m, 7)
	if first.SentAt != 5 || spare.SentAt != 7 {
		t.Errorf("sent at %d and %d, want 5 and 7", first.SentAt, spare.SentAt)
	}
}

// Locators that become silent at once are probed at the rate of all RLOC-probes.
func TestManySilencesKeepTheRateOfProbes(t *testing.T) {
	n, x1 := silentSites(t)
	c := x1.config
	c.Limits.RLOCProbes = Rate{PerSecond: 1, Burst: 1}
	x1.configure(c)
	x1.heard(alternative, 0)
	sent := x1.counter(counter.RLOCProbeSent)
	n.run(reach.LongSilence)
	x1.use("10.2.0.0/16")
	x1.heard(hinted, reach.LongSilence)
	x1.heard(alternative, reach.LongSilence)
	x1.wantCounter(counter.LocatorWentSilent, 2)
	n.run(10 * time.Millisecond)
	x1.wantCounter(counter.RLOCProbeSent, sent+1)
	n.run(3 * time.Second)
	x1.wantCounter(counter.RLOCProbeSent, sent+2)
}

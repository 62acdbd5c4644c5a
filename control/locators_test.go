// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/reach"
	"loci/lisp"
	"loci/wire"
)

// probedSites is twoSites with RLOC-probing at x1, x2 known to it.
func probedSites(t *testing.T, eid string) (n *testNetwork, x1, x2 *testNode) {
	t.Helper()
	n, x1, x2, _ = twoSites(t)
	c := x1.config
	itr := *c.ITR
	itr.RLOCProbing = ProbingConfig{}
	c.ITR = &itr
	x1.configure(c)
	n.run(time.Second)
	source := "10.1.0.5"
	if lisp.EIDFromAddr(addrPort("2001:db8::1").Addr()).Kind() == mustEID(eid).Kind() {
		source = "2001:db8:1::5"
	}
	x1.miss(source, eid)
	n.run(3 * time.Second)
	return n, x1, x2
}

func mustEID(s string) lisp.EID { return eid(s) }

func (d *testNode) locator(r string) LocatorStatus {
	d.net.t.Helper()
	for l := range d.Locators() {
		if l.RLOC == rloc(r) {
			return l
		}
	}
	d.net.t.Fatalf("%s knows nothing about %s", d.name, r)
	return LocatorStatus{}
}

func (d *testNode) wantLocator(r string, state LocatorState, reason LocatorReason) LocatorStatus {
	d.net.t.Helper()
	l := d.locator(r)
	if l.State != state || l.Reason != reason {
		d.net.t.Errorf("%s: locator %s is %s (%s), want %s (%s)", d.name, r, l.State, l.Reason, state, reason)
	}
	want := map[LocatorState]LocatorState{LocatorDown: LocatorDown, LocatorUnconfirmed: LocatorUnconfirmed}[state]
	if told := d.states[rloc(r)]; told != want && (want != LocatorUnconfirmed || told != LocatorHeard) {
		d.net.t.Errorf("%s: the data plane was told %v about %s, which is %s", d.name, d.states, r, state)
	}
	return l
}

func deaf(address string) func(*testNode, SendPacket) bool {
	return func(_ *testNode, p SendPacket) bool {
		return p.Remote.Addr().String() == address || p.Local.Addr().String() == address
	}
}

func TestProbedLocatorsAreUp(t *testing.T) {
	for _, eid := range []string{"10.2.0.9", "2001:db8:2::9"} {
		n, x1, x2 := probedSites(t, eid)
		for _, r := range []string{"192.0.2.2", "2001:db8:f::2"} {
			l := x1.wantLocator(r, LocatorUp, LocatorAnswered)
			if l.Mappings != 1 || l.RoundTrip.Samples != 1 || l.RoundTrip.Average != 2*oneWay || l.RoundTrip.Percentile99 != 2*oneWay {
				t.Errorf("locator %+v", l)
			}
		}
		for range 20 {
			n.run(30 * time.Second)
			x1.use("10.2.0.0/16")
			x1.use("2001:db8:2::/48")
		}
		l := x1.locator("192.0.2.2")
		if l.ProbesSent < 50 || l.ProbesSent > 70 || l.ProbesAnswered != l.ProbesSent {
			t.Errorf("%d probes in ten minutes, %d answered", l.ProbesSent, l.ProbesAnswered)
		}
		x2.wantCounter(counter.RLOCProbeReplySent, x1.counter(counter.RLOCProbeAnswered))
		x1.wantCounter(counter.RLOCProbeNews, 0)
		x1.wantCounter(counter.LocatorWentDown, 0)
	}
}

// Shows RFC 9301 s.5.2 (3), (9), RFC 9301 s.5.8 (4).
func TestProbesAreJitteredAndHaveTheirOwnNonces(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	n.run(10 * time.Minute)
	gaps, nonces := make(map[time.Duration]bool), make(map[uint64]bool)
	var last time.Time
	probes := 0
	for i, p := range x1.sent {
		m, _ := wire.Parse(p.Payload)
		probe, ok := m.(*wire.MapRequest)
		if !ok || !probe.Probe || !p.Remote.Addr().Is4() {
			continue
		}
		if !last.IsZero() {
			gap := x1.sentAt[i].Sub(last)
			gaps[gap.Round(100*time.Millisecond)] = true
			if gap < 8*time.Second || gap > 12100*time.Millisecond {
				t.Errorf("probes %s apart", gap)
			}
		}
		last = x1.sentAt[i]
		nonces[probe.Nonce] = true
		probes++
		if p.Remote.String() != "192.0.2.2:4342" || p.Local.Addr().String() != "192.0.2.1" || probe.SourceEID.AFI() != wire.AFINone ||
			len(probe.ITRRLOCs) != 1 || len(probe.Records) != 1 || probe.Records[0].MaskLen != 16 {
			t.Errorf("probe %+v from %s to %s", probe, p.Local, p.Remote)
		}
	}
	if len(gaps) < 10 || len(nonces) != probes {
		t.Errorf("%d probes with %d nonces, gaps %v", probes, len(nonces), gaps)
	}
}

// Shows RFC 9300 s.10 (4).
func TestSilentLocatorIsUnconfirmedAndComesBack(t *testing.T) {
	for _, family := range []struct{ dead, alive string }{{"192.0.2.2", "2001:db8:f::2"}, {"2001:db8:f::2", "192.0.2.2"}} {
		n, x1, _ := probedSites(t, "10.2.0.9")
		n.lose = deaf(family.dead)
		at := n.now
		n.run(10*time.Second*12/10 + 4*time.Second)
		l := x1.wantLocator(family.dead, LocatorUnconfirmed, LocatorUnanswered)
		if took := l.ChangedAt.Sub(at); took > 3*10*time.Second {
			t.Errorf("noticed after %s", took)
		}
		x1.wantLocator(family.alive, LocatorUp, LocatorAnswered)
		n.run(5 * time.Minute)
		sent := x1.locator(family.dead).ProbesSent
		n.run(10 * time.Minute)
		if more := x1.locator(family.dead).ProbesSent - sent; more < 10 || more > 20 {
			t.Errorf("%d probes in ten minutes of silence", more) // backed off to 40 seconds, never given up
		}
		n.lose = nil
		n.run(60 * time.Second)
		x1.wantLocator(family.dead, LocatorUp, LocatorAnswered)
		x1.wantCounter(counter.LocatorWentUnconfirmed, 1)
		x1.wantCounter(counter.LocatorCameUp, 1)
		x1.wantCounter(counter.LocatorWentDown, 0)
		kinds := []NoticeKind{}
		for _, notice := range x1.notices {
			if notice.Kind == NoticeLocatorUnconfirmed || notice.Kind == NoticeLocatorDown || notice.Kind == NoticeLocatorUp {
				kinds = append(kinds, notice.Kind)
			}
		}
		if !slices.Equal(kinds, []NoticeKind{NoticeLocatorUnconfirmed, NoticeLocatorUp}) {
			t.Errorf("notices %v", kinds)
		}
	}
}

func TestLostProbeIsRetried(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	lost := 0
	n.lose = func(from *testNode, p SendPacket) bool {
		if from == x1 && p.Remote.Addr().String() == "192.0.2.2" && lost < 3 {
			lost++
			return true
		}
		return false
	}
	n.run(30 * time.Second)
	x1.wantLocator("192.0.2.2", LocatorUp, LocatorAnswered)
	x1.wantCounter(counter.LocatorWentDown, 0)
	if lost != 3 {
		t.Errorf("%d probes lost", lost)
	}
}

func TestFlappingLocatorIsHeldDown(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	var up time.Duration
	for range 12 { // down for 20 s, back for 40 s
		n.lose = deaf("192.0.2.2")
		n.run(20 * time.Second)
		n.lose = nil
		before := n.now
		for n.now.Sub(before) < 40*time.Second {
			n.run(time.Second)
			if _, fallen := x1.states[rloc("192.0.2.2")]; !fallen {
				up += time.Second
			}
		}
	}
	if falls := x1.counter(counter.LocatorWentUnconfirmed); falls > 8 {
		t.Errorf("%d of 12 falls moved the traffic", falls)
	}
	if l := x1.locator("192.0.2.2"); l.HeldUntil.IsZero() && l.State != LocatorUp {
		t.Error("nothing tells until when it is held back")
	}
	n.run(10 * time.Minute)
	x1.wantLocator("192.0.2.2", LocatorUp, LocatorAnswered)
}

// TestSiteThatAnswersNoProbes: a filter for probes must not cut a site off.
// Shows RFC 9300 s.10 (3).
func TestSiteThatAnswersNoProbes(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	c := x1.config
	c.ITR = &ITRConfig{MapResolvers: c.ITR.MapResolvers}
	x1.configure(c)
	n.run(time.Second)
	n.lose = func(_ *testNode, p SendPacket) bool {
		m, err := wire.Parse(p.Payload)
		probe, ok := m.(*wire.MapRequest)
		return err == nil && ok && probe.Probe
	}
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(10 * time.Minute)
	for _, r := range []string{"192.0.2.2", "2001:db8:f::2"} {
		x1.wantLocator(r, LocatorUnconfirmed, LocatorUnanswered) // both alike: they share the traffic
	}
	n.lose = deaf("192.0.2.2") // the other one answers now
	n.run(2 * time.Minute)
	x1.wantLocator("2001:db8:f::2", LocatorUp, LocatorAnswered)
	x1.wantLocator("192.0.2.2", LocatorUnconfirmed, LocatorUnanswered)
}

func TestLocatorThatNoMappingHasIsForgotten(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	n.lose = deaf("192.0.2.2")
	n.run(20 * time.Second)
	x1.wantLocator("192.0.2.2", LocatorUnconfirmed, LocatorUnanswered)
	n.run(31 * time.Minute) // idle
	x1.wantNotCached("10.2.0.0/16")
	if got := len(slices.Collect(x1.Locators())); got != 0 || len(x1.states) != 0 || len(x1.itr.Prober.ByNonce) != 0 {
		t.Errorf("%d locators, %v not up, %d nonces", got, x1.states, len(x1.itr.Prober.ByNonce))
	}
}

func TestProbingSwitchedOffAndOn(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	n.lose = deaf("192.0.2.2")
	n.run(20 * time.Second)
	c := x1.config
	off := *c.ITR
	off.RLOCProbing.Off = true
	c.ITR = &off
	x1.configure(c)
	x1.wantLocator("192.0.2.2", LocatorUnknown, LocatorNotProbed)
	sent := x1.counter(counter.RLOCProbeSent)
	n.run(time.Minute)
	x1.wantCounter(counter.RLOCProbeSent, sent)
	on := off
	on.RLOCProbing.Off = false
	c.ITR = &on
	x1.configure(c)
	n.run(6 * time.Second)
	x1.wantLocator("192.0.2.2", LocatorUnconfirmed, LocatorUnanswered)
}

func TestRestartKeepsWhatWasKnownOfLocators(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	n.lose = deaf("192.0.2.2")
	n.run(20 * time.Second)
	x1.states[rloc("203.0.113.9")] = LocatorDown // of a mapping that is gone
	x1.start()
	x1.AdoptMapCache(n.now, []MapCacheEntry{x1.cache[lisp.MustParsePrefix("10.2.0.0/16")]})
	x1.AdoptLocatorStates(n.now, []SetLocatorState{{RLOC: rloc("192.0.2.2"), State: LocatorUnconfirmed}, {RLOC: rloc("203.0.113.9"), State: LocatorDown}})
	x1.drain()
	x1.wantLocator("192.0.2.2", LocatorUnconfirmed, LocatorAdopted)
	if _, left := x1.states[rloc("203.0.113.9")]; left {
		t.Error("a locator of no mapping stays down")
	}
	n.run(3 * time.Second)
	x1.wantLocator("2001:db8:f::2", LocatorUp, LocatorAnswered)
	n.lose = nil
	n.run(30 * time.Second)
	x1.wantLocator("192.0.2.2", LocatorUp, LocatorAnswered)
}

// TestRestartThatForgetsDeadLocators: the data plane keeps its word of an earlier run,
// and must hear of the first answer.
func TestRestartThatForgetsDeadLocators(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	n.lose = deaf("192.0.2.2")
	n.run(20 * time.Second)
	x1.wantLocator("192.0.2.2", LocatorUnconfirmed, LocatorUnanswered)
	n.lose = nil
	x1.start()
	x1.AdoptMapCache(n.now, []MapCacheEntry{x1.cache[lisp.MustParsePrefix("10.2.0.0/16")]})
	x1.drain()
	n.run(3 * time.Second)
	x1.wantLocator("192.0.2.2", LocatorUp, LocatorAnswered)
}

// answerProbe answers the last probe to an RLOC, changed before it is sent.
func answerProbe(t *testing.T, x *testNode, to string, change func(*wire.MapReply)) {
	t.Helper()
	for i := len(x.sent) - 1; i >= 0; i-- {
		m, _ := wire.Parse(x.sent[i].Payload)
		probe, ok := m.(*wire.MapRequest)
		if !ok || !probe.Probe || x.sent[i].Remote.Addr().String() != to {
			continue
		}
		mapping := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: 1440, Authoritative: true,
			Locators: slices.Clone(locators("192.0.2.2", "2001:db8:f::2"))}
		reply := wire.MapReply{Probe: true, Nonce: probe.Nonce, Records: []wire.Record{wire.RecordOf(mapping)}}
		change(&reply)
		b, err := reply.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		x.inject("192.0.2.1:4342", netip.AddrPortFrom(netip.MustParseAddr(to), 4342).String(), b)
		return
	}
	t.Fatalf("no probe to %s", to)
}

// Shows RFC 9301 s.5.4 (1), (9).
func TestProbeReplyChecks(t *testing.T) {
	for _, c := range []struct {
		name    string
		refused Counter
		change  func(*wire.MapReply)
	}{
		{"no p bit", 0, func(*wire.MapReply) {}},
		{"p bit", 0, func(m *wire.MapReply) { m.Records[0].Locators[0].Probed = true }},
		{"several p bits: the first counts", 0, func(m *wire.MapReply) {
			m.Records[0].Locators[0].Probed, m.Records[0].Locators[1].Probed = true, true
		}},
		{"not authoritative", counter.RefusedProbeNotAuthoritative, func(m *wire.MapReply) { m.Records[0].Authoritative = false }},
		{"one of two not authoritative", counter.RefusedProbeNotAuthoritative, func(m *wire.MapReply) {
			m.Records = append(m.Records, wire.RecordOf(positive("10.2.1.0/24", 10)))
		}},
		{"another nonce", counter.RefusedProbeReply, func(m *wire.MapReply) { m.Nonce++ }},
		{"without the P bit", counter.RefusedNonce, func(m *wire.MapReply) { m.Probe = false }},
		{"p bit on a locator that was not probed", counter.RefusedProbeLocator, func(m *wire.MapReply) {
			m.Records[0].Locators[0].Address = wire.IPv4{203, 0, 113, 1}
			m.Records[0].Locators[0].Probed = true
		}},
	} {
		n, x1, x2, _ := twoSites(t)
		n.lose = func(from *testNode, p SendPacket) bool {
			return from == x2 && p.Payload[0]>>4 == 2 && p.Payload[0]&8 != 0
		}
		cfg := x1.config
		cfg.ITR = &ITRConfig{MapResolvers: cfg.ITR.MapResolvers}
		x1.configure(cfg)
		n.run(time.Second)
		x1.miss("10.1.0.5", "10.2.0.9")
		n.run(1500 * time.Millisecond)
		answerProbe(t, x1, "192.0.2.2", c.change)
		if c.refused != 0 {
			x1.wantCounter(c.refused, 1)
			x1.wantLocator("192.0.2.2", LocatorUnknown, LocatorAwaitsReply)
			continue
		}
		x1.wantLocator("192.0.2.2", LocatorUp, LocatorAnswered)
		x1.wantLocator("2001:db8:f::2", LocatorUnknown, LocatorAwaitsReply)
	}
}

// TestNonAuthoritativeProbeReplies are taken where the operator says so, as word that the probed RLOC answers and as nothing else: the RTR
// of OpenOverlayRouter and Cisco's proxy ETRs answer with A clear and no locators (testdata/vectors/cisco.pcap, frame 15).
func TestNonAuthoritativeProbeReplies(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*wire.MapReply)
	}{
		{"no locators", func(m *wire.MapReply) { m.Records[0].Authoritative, m.Records[0].Locators = false, nil }},
		{"no locators, TTL 0, another EID-Prefix", func(m *wire.MapReply) {
			m.Records[0] = wire.Record{EID: wire.IPv4{}}
		}},
		{"other locators", func(m *wire.MapReply) {
			m.Records[0].Authoritative, m.Records[0].Locators[0].Address = false, wire.IPv4{203, 0, 113, 1}
		}},
		{"p bit on another locator", func(m *wire.MapReply) {
			m.Records[0].Authoritative, m.Records[0].Locators[1].Probed = false, true
		}},
	} {
		n, x1, x2, _ := twoSites(t)
		n.lose = func(from *testNode, p SendPacket) bool {
			return from == x2 && p.Payload[0]>>4 == 2 && p.Payload[0]&8 != 0
		}
		cfg := x1.config
		cfg.ITR = &ITRConfig{MapResolvers: cfg.ITR.MapResolvers}
		x1.configure(cfg)
		n.run(time.Second)
		x1.miss("10.1.0.5", "10.2.0.9")
		n.run(1500 * time.Millisecond)
		cached, asked := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")], x1.counter(counter.MapRequestSent)
		answerProbe(t, x1, "192.0.2.2", c.change)
		x1.wantCounter(counter.RefusedProbeNotAuthoritative, 1)
		x1.wantLocator("192.0.2.2", LocatorUnknown, LocatorAwaitsReply)

		itr := *cfg.ITR
		itr.RLOCProbing.AcceptNonAuthoritative = true
		cfg.ITR = &itr
		x1.configure(cfg) // by a reload
		n.run(time.Second)
		answerProbe(t, x1, "192.0.2.2", c.change)
		x1.wantCounter(counter.RefusedProbeNotAuthoritative, 1)
		x1.wantLocator("192.0.2.2", LocatorUp, LocatorAnswered)
		if l := x1.locator("2001:db8:f::2"); l.State == LocatorUp {
			t.Errorf("%s: the other locator is %s", c.name, l.State)
		}
		if got := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")]; !got.Mapping.Equal(cached.Mapping) || !got.ExpiresAt.Equal(cached.ExpiresAt) {
			t.Errorf("%s: the mapping is %+v, it was %+v", c.name, got, cached)
		}
		x1.wantCounter(counter.MapRequestSent, asked)
		x1.wantCounter(counter.RLOCProbeNews, 0)
		answerProbe(t, x1, "2001:db8:f::2", func(m *wire.MapReply) { c.change(m); m.Nonce++ })
		x1.wantCounter(counter.RefusedProbeReply, 1)
	}
}

// TestProbedLocatorOfTheMappingCounts: the state that changes is that of the locator
// with the p bit, also when the probe went to another one of the mapping.
// Shows RFC 9301 s.5.4 (8).
func TestProbedLocatorOfTheMappingCounts(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	n.lose = func(from *testNode, p SendPacket) bool {
		return from == x2 && p.Payload[0]>>4 == 2 && p.Payload[0]&8 != 0
	}
	cfg := x1.config
	cfg.ITR = &ITRConfig{MapResolvers: cfg.ITR.MapResolvers}
	x1.configure(cfg)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(1500 * time.Millisecond)
	answerProbe(t, x1, "192.0.2.2", func(m *wire.MapReply) { m.Records[0].Locators[1].Probed = true })
	x1.wantLocator("192.0.2.2", LocatorUnknown, LocatorAwaitsReply)
	if l := x1.wantLocator("2001:db8:f::2", LocatorUp, LocatorAnswered); l.RoundTrip.Samples != 0 {
		t.Errorf("a round-trip time to another locator: %+v", l.RoundTrip)
	}
}

// TestNewsInAProbeReplyIsVerified: a mapping in a probe's answer changes nothing but
// makes the mapping system be asked, once for each news.
func TestNewsInAProbeReplyIsVerified(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	n.lose = func(from *testNode, p SendPacket) bool {
		return from == x2 && p.Payload[0]>>4 == 2 && p.Payload[0]&8 != 0
	}
	before := x1.counter(counter.MapRequestSent)
	n.run(12 * time.Second)
	poison := func(m *wire.MapReply) { m.Records[0].Locators[0].Address = wire.IPv4{203, 0, 113, 66} }
	for range 5 {
		answerProbe(t, x1, "2001:db8:f::2", poison)
		n.run(13 * time.Second)
	}
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
	x1.wantCounter(counter.RLOCProbeNews, 1)
	x1.wantCounter(counter.MapRequestSent, before+1+x1.counter(counter.MappingStranded)) // no answer came
}

// Shows RFC 9300 s.3 (2).
func TestLocatorHintProbesAtOnce(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	x1.gleaning(func(c *ITRConfig) { c.PublicInternet = true })
	n.lose = deaf("192.0.2.2")
	for range 10 {
		x1.HandleNonceMismatch(n.now, rloc("192.0.2.2"))
	}
	x1.HandleNonceMismatch(n.now, rloc("203.0.113.1")) // an RLOC of no mapping
	sent := x1.counter(counter.RLOCProbeSent)
	n.run(500 * time.Millisecond)
	x1.wantCounter(counter.RLOCProbeSent, sent+1)
	x1.wantLocator("192.0.2.2", LocatorUp, LocatorAnswered) // a hint is not believed
	n.run(4 * time.Second)
	x1.wantLocator("192.0.2.2", LocatorUnconfirmed, LocatorUnanswered)
}

func TestLocatorTableIsBounded(t *testing.T) {
	_, x := loneITR(t, Limits{Locators: 2})
	x.miss("10.1.0.1", "10.2.0.1")
	m := positive("10.2.0.0/16", 10)
	m.Locators = locators("192.0.2.7", "192.0.2.8", "192.0.2.9")
	answerAll(x, m)
	x.wantCounter(counter.RefusedLocatorTable, 1)
	if got := len(slices.Collect(x.Locators())); got != 2 {
		t.Errorf("%d locators", got)
	}
	x.wantLocator("192.0.2.7", LocatorUnknown, LocatorNotProbed)
}

func TestRoundTripPercentiles(t *testing.T) {
	var r reach.RoundTrips
	if got := r.Status(); got != (RoundTrip{}) {
		t.Errorf("without samples: %+v", got)
	}
	for i := range 1000 {
		r.Add(time.Duration(i+1) * time.Millisecond)
	}
	got := r.Status()
	want := RoundTrip{Samples: 1000, Last: 1000 * time.Millisecond, Average: got.Average, Median: 968 * time.Millisecond,
		Percentile90: 994 * time.Millisecond, Percentile99: 1000 * time.Millisecond, Min: 937 * time.Millisecond, Most: time.Second}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Average < 990*time.Millisecond || got.Average > 995*time.Millisecond {
		t.Errorf("average %s", got.Average)
	}
	r.Add(-time.Second) // a clock that went back
	if r.Status().Last != 0 {
		t.Error("a negative round-trip time")
	}
}

func TestRefusedProbingConfigurations(t *testing.T) {
	for _, c := range []ProbingConfig{
		{Interval: time.Millisecond}, {Interval: 48 * time.Hour}, {Interval: time.Second, RetriesInterval: 2 * time.Second},
		{RetriesInterval: -1}, {Retries: 101},
	} {
		if err := (Config{ITR: &ITRConfig{RLOCProbing: c}}).Validate(); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if err := (Config{ITR: &ITRConfig{RLOCProbing: ProbingConfig{Interval: 100 * time.Millisecond, Retries: -1}}}).Validate(); err != nil {
		t.Error(err)
	}
}

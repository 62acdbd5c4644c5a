// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control"
	"loci/forward"
	"loci/lisp"
)

var own4, own6 = netip.MustParseAddr("10.200.0.1"), netip.MustParseAddr("fd00::1")

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// peer is another site's router, as far as checks see it.
type peer struct {
	mapping  lisp.Mapping
	hops     int           // the TTL that ends there
	rate     int           // packets a second of others that go by its mapping
	packets  uint64        // that went
	oneWay   bool          // no data packets come from it
	filters  bool          // it answers no echo request
	dead     bool          // nor RLOC-probes
	towards  int           // packets longer than this are lost on the way to it, 0 for none
	back     int           // the same for those that come back, which are short
	tooBig   bool          // Packet Too Big comes for them
	says     int           // octets that the path is said to carry
	from     string        // its answers come from there; empty for an address of its EID-Prefix
	limit    *limiter      // of its answers; nil for none
	taken    int           // index of the locator that packets take
	gone     bool          // the map-cache does not have its mapping
	lag      time.Duration // by which what is reported of its packets is late
	reports  []uint64      // that are late
	probedAt time.Time     // of its last answer to an RLOC-probe
	heardAt  time.Time
	checks   []time.Time // that came
}

// world runs a Watch in virtual time.
type world struct {
	t     *testing.T
	now   time.Time
	watch *Watch
	peers []*peer

	answered uint64 // checks of others, and echo requests, by this host
	each     func() // every second
	reached  func() // for a check that arrives

	limits []*limiter
	drops  func() bool // an answer, on its way
	late   []Answer    // that come at the next step
	sent   []time.Time
	news   []string
}

func newWorld(t *testing.T, peers ...*peer) *world {
	w := &world{t: t, now: start, watch: NewWatch(), peers: peers}
	w.watch.SetSources(own4, own6)
	return w
}

// site is a peer that works.
func site(number int) *peer {
	p := &peer{hops: 3, rate: 50, says: 1444}
	p.mapping = lisp.Mapping{
		Prefix:   lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", number/256, number%256)),
		Locators: lisp.LocatorSet{{RLOC: lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, byte(number / 256), byte(number)})), Priority: 1, Weight: 100, Reachable: true}},
	}
	return p
}

// facts are what the control plane knows of a peer.
func (p *peer) facts() Facts {
	f := Facts{Known: true, Up: true, To: eidWithin(p.mapping.Prefix), Octets: p.says, ProbedAt: p.probedAt, HeardAt: p.heardAt}
	for i, l := range p.mapping.Locators {
		f.Addresses = append(f.Addresses, l.RLOC.Addr())
		if i == min(p.taken, len(p.mapping.Locators)-1) {
			f.Taken = append(f.Taken, l.Path())
		}
	}
	if p.gone {
		return Facts{}
	}
	return f
}

// step is a quarter of a second.
func (w *world) step() {
	w.now = w.now.Add(tick)
	if w.each != nil && w.now.Sub(start)%time.Second == 0 {
		w.each()
	}
	for _, p := range w.peers {
		w.live(p)
	}
	for _, l := range w.limits {
		l.refill()
	}
	for _, a := range w.late {
		w.watch.Answer(w.now, a)
	}
	w.late = nil
	for _, q := range w.watch.Wanted(w.now) {
		w.watch.Learn(q, w.of(q.To).facts())
	}
	w.watch.Expire(w.now)
	for _, c := range w.watch.Next(w.now) {
		w.sent = append(w.sent, w.now)
		w.reach(w.of(c.To), c)
	}
	for _, s := range w.watch.Changes(w.now) {
		w.news = append(w.news, fmt.Sprintf("%s %s", s.EIDPrefix, s.Outcome))
	}
}

func (w *world) of(to netip.Addr) *peer {
	at := slices.IndexFunc(w.peers, func(p *peer) bool { return p.mapping.Prefix.Netip().Contains(to) })
	return w.peers[at]
}

// live is what a peer does by itself: packets, and RLOC-probes every ten seconds.
func (w *world) live(p *peer) {
	if elapsed := w.now.Sub(start); elapsed%time.Second == 0 {
		p.packets += uint64(p.rate)
		p.reports = append(p.reports, p.packets)
		if n := len(p.reports) - int(p.lag/time.Second); n > 0 && p.reports[n-1] > 0 {
			w.watch.SetAnswers(true, w.answered)
			w.watch.Use(w.now, &p.mapping, p.reports[n-1])
			p.reports = p.reports[n-1:]
		}
	}
	if !p.oneWay && !p.dead && p.back == 0 && p.rate > 0 {
		p.heardAt = w.now
	}
	if !p.dead && (p.probedAt.IsZero() || w.now.Sub(p.probedAt) >= 10*time.Second) {
		p.probedAt = w.now
	}
}

// reach is what becomes of a check.
func (w *world) reach(p *peer, c Check) {
	for _, ttl := range c.TTLs {
		p.packets++
		a := Answer{Check: c, TTL: ttl, From: p.mapping.Prefix.EID().Addr().Next()}
		if p.from != "" {
			a.From = netip.MustParseAddr(p.from)
		}
		lost := p.towards != 0 && c.Octets > p.towards
		switch {
		case lost && p.tooBig:
			a.Kind, a.Octets = TooBig, p.towards
		case lost, p.dead, p.filters, p.back != 0, ttl < p.hops, ttl > p.hops && p.limit == nil:
			continue
		case !p.limit.take():
			p.checks = append(p.checks, w.now)
			continue
		}
		p.checks = append(p.checks, w.now)
		if w.drops != nil && w.drops() {
			continue
		}
		w.late = append(w.late, a)
		if w.reached != nil {
			w.reached()
		}
	}
}

// run runs for so long.
func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.step()
	}
}

// until runs until the path of a peer has an outcome, and returns how long that took.
func (w *world) until(p *peer, want Outcome, limit time.Duration) time.Duration {
	w.t.Helper()
	for began := w.now; ; w.step() {
		if s := w.state(p); s.Outcome == want {
			return w.now.Sub(began)
		}
		if w.now.Sub(began) > limit {
			w.t.Fatalf("not %s within %s: %+v", want, limit, w.state(p))
		}
	}
}

func (w *world) state(p *peer) State {
	for _, s := range w.watch.States(w.now) {
		if s.EIDPrefix == p.mapping.Prefix {
			return s
		}
	}
	return State{}
}

// TestLostPathsAreTold within 30 seconds, and their end within 60, whenever the fault begins.
func TestLostPathsAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		cut     func(*peer)
		oneWay  bool
		want    Outcome
		towards bool
		octets  int
		within  time.Duration
	}{
		"4341 towards it, one way":  {func(p *peer) { p.towards = 1 }, true, Lost, false, 84, 30 * time.Second},
		"4341 towards it, heard":    {func(p *peer) { p.towards = 1 }, false, Lost, true, 84, 80 * time.Second}, // the other one hears nothing, and tells sooner
		"4341 from it":              {func(p *peer) { p.back = 1 }, false, Lost, false, 84, 30 * time.Second},
		"large packets, one way":    {func(p *peer) { p.towards = 1400 }, true, LargeLost, false, 1444, 30 * time.Second},
		"large packets, both ways":  {func(p *peer) { p.towards = 1400 }, false, LargeLost, true, 1444, 30 * time.Second},
		"large packets, and larger": {func(p *peer) { p.towards, p.says = 1400, 1464 }, false, LargeLost, true, 1464, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for phase := range 20 {
				p := site(1)
				p.oneWay = c.oneWay
				w := newWorld(t, p)
				w.run(time.Minute + time.Duration(phase)*time.Second)
				if s := w.state(p); s.Outcome != Passes || s.Octets != 1444 || len(w.news) > 0 {
					t.Fatalf("before: %+v, %v", s, w.news)
				}
				began := w.now
				c.cut(p)
				w.until(p, c.want, c.within)
				if s := w.state(p); s.Since.Before(began) || s.Since.After(w.now) || s.Octets != c.octets || s.Towards != c.towards {
					t.Errorf("after %d s: %+v", phase, s)
				}
				w.run(time.Minute)
				if s := w.state(p); s.Outcome != c.want {
					t.Errorf("a minute later: %+v", s)
				}
				p.towards, p.back = 0, 0
				w.until(p, Passes, 60*time.Second)
				w.run(time.Minute)
				if want := []string{fmt.Sprintf("%s %s", p.mapping.Prefix, c.want), fmt.Sprintf("%s %s", p.mapping.Prefix, Passes)}; !slices.Equal(w.news, want) {
					t.Errorf("the news are %v, want %v", w.news, want)
				}
			}
		})
	}
}

// TestWhatIsNoLostPath for ten minutes each: nothing is told.
func TestWhatIsNoLostPath(t *testing.T) {
	nothing := func(*world, *peer) {}
	for name, c := range map[string]struct {
		peer  func(*peer)
		then  func(*world, *peer) // after a minute
		state Outcome
	}{
		"one-way UDP":           {func(p *peer) { p.oneWay = true }, nothing, Passes},
		"a peer filters ICMP":   {func(p *peer) { p.filters = true }, nothing, NotKnown},
		"its router died":       {func(*peer) {}, func(_ *world, p *peer) { p.dead = true }, Passes},
		"another RLOC answers":  {func(p *peer) { p.from = "203.0.113.9" }, nothing, NotKnown},
		"its RLOC answers":      {func(p *peer) { p.from = "192.0.0.1" }, nothing, Passes},
		"the path is longer":    {func(*peer) {}, func(_ *world, p *peer) { p.hops = 11 }, Passes},
		"the path is shorter":   {func(*peer) {}, func(_ *world, p *peer) { p.hops = 2 }, Passes},
		"far away":              {func(p *peer) { p.hops = 23 }, nothing, Passes},
		"Packet Too Big":        {func(*peer) {}, func(_ *world, p *peer) { p.towards, p.tooBig = 1300, true }, Passes},
		"large ones never came": {func(p *peer) { p.towards = 1400 }, nothing, Passes},
		"it restarts lost":      {func(*peer) {}, func(w *world, p *peer) { w.watch = NewWatch(); w.watch.SetSources(own4, own6); p.towards = 1 }, NotKnown},
		"other locators": {func(*peer) {}, func(_ *world, p *peer) {
			p.mapping.Locators = lisp.LocatorSet{{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("198.51.100.7")), Priority: 1, Weight: 100, Reachable: true}}
			p.filters = true
		}, NotKnown},
		"two checks are lost": {func(*peer) {}, func(w *world, p *peer) {
			p.oneWay = true
			w.until(p, Passes, 0)
			p.towards = 1
			w.run(5 * time.Second)
			p.towards = 0
		}, Passes},
		"no longer used": {func(*peer) {}, func(_ *world, p *peer) { p.rate, p.towards = 0, 0 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := site(1)
			c.peer(p)
			w := newWorld(t, p)
			w.run(time.Minute)
			c.then(w, p)
			w.run(10 * time.Minute)
			if len(w.news) > 0 {
				t.Errorf("told: %v", w.news)
			}
			if s := w.state(p); s.Outcome != c.state {
				t.Errorf("%+v, want %q", s, c.state)
			}
			if name == "Packet Too Big" && w.state(p).Octets != 1300 {
				t.Errorf("%+v, want what passes", w.state(p))
			}
		})
	}
}

// TestOneRouterIsAskedSlowly where a hundred locators are its: what it does not answer in time is not lost. What is lost is told.
func TestOneRouterIsAskedSlowly(t *testing.T) {
	w, _ := hundred(t)
	w.run(20 * time.Minute)
	if len(w.news) > 0 {
		t.Errorf("told %v", w.news)
	}
	for cut, within := range map[int]time.Duration{1: 30 * time.Second, 100: 30 * time.Second} {
		w, peers := hundred(t)
		w.limits = nil
		for _, p := range peers {
			p.limit = nil
		}
		w.run(2 * time.Minute)
		for _, p := range peers[:cut] {
			p.towards = 1
		}
		for began := w.now; len(w.news) == 0; w.step() {
			if w.now.Sub(began) > within {
				t.Fatalf("%d lost: nothing is told within %s", cut, within)
			}
		}
		w.run(time.Minute)
		for _, p := range peers {
			p.towards = 0
		}
		w.run(time.Minute)
		for _, p := range peers {
			if s := w.state(p); s.Outcome != Passes {
				t.Errorf("%d lost, a minute after the end: %+v", cut, s)
			}
		}
	}
}

// TestNoOwnEID: where no check can be sent, nothing is known.
func TestNoOwnEID(t *testing.T) {
	p := site(1)
	w := newWorld(t, p)
	w.watch.SetSources(netip.Addr{}, own6)
	w.run(time.Minute)
	if s := w.state(p); s.Outcome != NotKnown || len(w.sent) != 0 {
		t.Errorf("%+v, %d checks", s, len(w.sent))
	}
	w.watch.SetSources(own4, own6)
	w.until(p, Passes, 10*time.Second)
}

// TestRates: every ten seconds where nothing comes, every minute and full size every 15 s where something does; ten a second in all,
// none starves.
func TestRates(t *testing.T) {
	for _, c := range []struct {
		peers       int
		oneWay      bool
		least, most int // checks of each in ten minutes
	}{{1, true, 70, 120}, {1, false, 38, 60}, {100, true, 50, 70}, {100, false, 18, 30}} {
		var peers []*peer
		for i := range c.peers {
			p := site(i + 1)
			p.oneWay, p.limit = c.oneWay, newLimiter(1)
			peers = append(peers, p)
		}
		w := newWorld(t, peers...)
		for _, p := range peers {
			w.limits = append(w.limits, p.limit)
		}
		w.run(2 * time.Minute)
		w.sent = nil
		for _, p := range peers {
			p.checks = nil
		}
		w.run(10 * time.Minute)
		for _, p := range peers {
			if s := w.state(p); s.Outcome != Passes || len(p.checks) < c.least || len(p.checks) > c.most {
				t.Fatalf("%+v: %d checks, %+v", c, len(p.checks), s)
			}
		}
		for i := range w.sent {
			if i >= 2*checksPerSecond && w.sent[i].Sub(w.sent[i-2*checksPerSecond]) < time.Second-tick {
				t.Fatalf("%+v: more than %d checks a second", c, checksPerSecond)
			}
		}
		if len(w.news) > 0 {
			t.Errorf("%+v: told %v", c, w.news)
		}
	}
}

// TestChecksAreNoUse: neither the own checks nor the answers to a peer's keep a mapping in use.
func TestChecksAreNoUse(t *testing.T) {
	p := site(1)
	p.oneWay = true
	w := newWorld(t, p)
	w.run(2 * time.Minute)
	p.rate = 0
	w.run(2 * time.Minute)
	w.sent = nil
	for range 60 { // a peer's checks are answered
		p.packets += 7
		w.answered += 7
		w.run(10 * time.Second)
	}
	if len(w.sent) > 0 {
		t.Errorf("%d checks of a mapping that is not in use", len(w.sent))
	}
	p.rate = 2
	w.until(p, Passes, 30*time.Second)
}

// TestLostPathOutlivesItsUse: hosts give up on a lost path, and the problem stays for as long as people may need to find it.
func TestLostPathOutlivesItsUse(t *testing.T) {
	p := site(1)
	p.oneWay = true
	w := newWorld(t, p)
	w.run(time.Minute)
	p.towards = 1
	w.until(p, Lost, 30*time.Second)
	p.rate = 0
	w.run(8 * time.Minute)
	if s := w.state(p); s.Outcome != Lost {
		t.Errorf("%+v", s)
	}
	w.run(5 * time.Minute)
	if s := w.state(p); s.Outcome != "" {
		t.Errorf("%+v", s)
	}
}

// TestSameLocatorsAreOnePath: a hundred EID-Prefixes of a site are not a hundred checks.
func TestSameLocatorsAreOnePath(t *testing.T) {
	p := site(1)
	p.mapping.Prefix = lisp.MustParsePrefix("10.9.0.0/16")
	w := newWorld(t, p)
	for second := range 120 {
		for i := range 100 {
			m := p.mapping
			m.Prefix = lisp.MustParsePrefix(fmt.Sprintf("10.9.%d.0/24", i))
			w.watch.Use(w.now, &m, uint64(second*50))
		}
		w.run(time.Second)
	}
	if len(w.watch.paths) != 1 || len(w.sent) > 20 {
		t.Errorf("%d paths, %d checks", len(w.watch.paths), len(w.sent))
	}
	for range 2 * maxPaths { // bounded
		m := site(1).mapping
		m.Locators[0].RLOC = lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{203, 0, byte(len(w.watch.paths) / 256), byte(len(w.watch.paths))}))
		w.watch.Use(w.now, &m, 1)
	}
	if len(w.watch.paths) != maxPaths {
		t.Errorf("%d paths, want at most %d", len(w.watch.paths), maxPaths)
	}
}

// TestEachLocatorIsChecked where packets of a mapping take several: one of two is lost, and is named.
func TestEachLocatorIsChecked(t *testing.T) {
	a, b := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")), lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.2"))
	for name, c := range map[string]struct {
		weights [2]uint8
		prefix  string
		paths   int
	}{"shared": {[2]uint8{50, 50}, "10.2.0.0/24", 2}, "all by one": {[2]uint8{100, 0}, "10.2.0.0/24", 1}, "one host": {[2]uint8{50, 50}, "10.2.0.1/32", 1}} {
		m := lisp.Mapping{Prefix: lisp.MustParsePrefix(c.prefix), Locators: lisp.LocatorSet{
			{RLOC: a, Priority: 1, Weight: c.weights[0], Reachable: true}, {RLOC: b, Priority: 1, Weight: c.weights[1], Reachable: true},
		}}
		w, now := NewWatch(), start
		w.SetSources(own4, own6)
		explain := func(to netip.Addr) control.Explanation {
			e := control.Explanation{Entry: &control.MapCacheStatus{}, Told: m}
			e.Entry.Mapping = m
			if m.Prefix.Bits() < 32 && to == eidWithin(m.Prefix).Next() { // another mapping has that one
				e.Entry.Mapping.Prefix = lisp.MustParsePrefix("10.2.0.2/32")
			}
			for _, l := range m.Locators {
				e.Locators = append(e.Locators, control.ExplainedLocator{Locator: l, State: &control.LocatorStatus{RLOC: l.RLOC, State: control.LocatorUp, LastReplyAt: now}})
			}
			return e
		}
		all := forward.Buckets(m.Locators, func(*lisp.Locator) (int, bool) { return 0, true })
		var lost lisp.RLOC
		var news []string
		run := func(d time.Duration) {
			for end := now.Add(d); now.Before(end); now = now.Add(tick) {
				w.Use(now, &m, uint64(now.Sub(start)/time.Millisecond)*10)
				for _, q := range w.Wanted(now) {
					w.Learn(q, FactsOf(q, explain))
				}
				w.Expire(now)
				for _, check := range w.Next(now) {
					taken, _ := forward.SelectLocator(m.Locators, &all, flowHash(own4, check.To))
					if check.To == eidWithin(m.Prefix).Next() && m.Prefix.Bits() < 32 {
						t.Errorf("%s: an EID of another mapping is checked", name)
					}
					if taken.RLOC != lost && check.TTLs[0] <= 3 {
						w.Answer(now, Answer{Check: check, TTL: 3, From: taken.RLOC.Addr()})
					}
				}
				for _, s := range w.Changes(now) {
					news = append(news, s.Peer()+" "+string(s.Outcome))
				}
			}
		}
		run(time.Minute)
		if states := w.States(now); len(states) != c.paths || states[0].Outcome != Passes || states[len(states)-1].Outcome != Passes {
			t.Errorf("%s: %+v", name, states)
		}
		if c.paths == 1 {
			continue
		}
		lost = b
		run(time.Minute)
		lost = lisp.RLOC{}
		run(time.Minute)
		if want := []string{"192.0.2.2 lost", "192.0.2.2 passes"}; !slices.Equal(news, want) {
			t.Errorf("%s: told %v, want %v", name, news, want)
		}
		m.Locators[1].Reachable = false // the site takes it away
		m.Locators = slices.Clone(m.Locators)
		run(3 * time.Minute)
		if states := w.States(now); len(states) != 1 || states[0].Peer() != "192.0.2.1" {
			t.Errorf("%s: %+v", name, states)
		}
	}
}

// TestLargeChecksLostWithSmallOnesDoNotCount: what was lost with all others says nothing about the size.
func TestLargeChecksLostWithSmallOnesDoNotCount(t *testing.T) {
	for phase := range 60 {
		p := site(1)
		w := newWorld(t, p)
		w.run(time.Minute + time.Duration(phase)*500*time.Millisecond)
		p.towards = 1
		w.run(7 * time.Second)
		p.towards = 0
		w.run(2 * time.Second)
		began := w.now
		p.towards = 1400
		w.until(p, LargeLost, 40*time.Second)
		// One that was lost shortly before may count, if the small one that followed it passed.
		if s := w.state(p); w.now.Sub(s.Since) < 2*retryInterval+answerWait || w.now.Sub(began) < retryInterval+answerWait {
			t.Fatalf("phase %d: told after %s: %+v", phase, w.now.Sub(began), s)
		}
	}
}

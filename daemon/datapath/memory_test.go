// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/lisp"
)

func (p *peer) with(rlocs ...string) {
	p.mapping.Locators = nil
	for _, r := range rlocs {
		p.mapping.Locators = append(p.mapping.Locators, lisp.Locator{
			RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(r)), Priority: 1, Weight: 100, Reachable: true,
		})
	}
}

// TestAnswersAreRemembered: a router that answered before is one that answered before, whatever happened in between.
func TestAnswersAreRemembered(t *testing.T) {
	for name, between := range map[string]func(*world, *peer){
		"not used for hours": func(w *world, p *peer) {
			p.rate = 0
			w.run(3 * time.Hour)
			if s := w.state(p); s.Outcome != "" {
				t.Fatalf("%+v: the test proves nothing", s)
			}
		},
		"another locator for a while": func(w *world, p *peer) {
			p.taken = 1
			w.until(p, Passes, 20*time.Second)
			w.run(2 * time.Minute)
			p.taken = 0
		},
		"another locator-set": func(_ *world, p *peer) { p.with("192.0.2.1") },
		"no mapping for a while": func(w *world, p *peer) {
			p.gone = true
			w.run(3 * time.Minute)
			p.gone = false
		},
		"lost for hours, and not used": func(w *world, p *peer) {
			p.towards = 1
			w.until(p, Lost, 30*time.Second)
			p.rate = 0
			w.run(3 * time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, lost := range []Outcome{Lost, LargeLost} {
				p := site(1)
				p.oneWay = true
				p.with("192.0.2.1", "192.0.2.2")
				w := newWorld(t, p)
				w.run(time.Minute)
				began := w.now
				between(w, p)
				p.towards, p.rate = map[Outcome]int{Lost: 1, LargeLost: 1400}[lost], 50
				w.until(p, lost, 35*time.Second)
				if s := w.state(p); lost == Lost && name == "lost for hours, and not used" && s.Since.Sub(began) > 30*time.Second {
					t.Errorf("lost since %s, which is %s after the cut", s.Since, s.Since.Sub(began))
				}
				p.towards = 0
				w.until(p, Passes, time.Minute)
			}
		})
	}
}

// TestWhatIsRememberedIsNoEvidence of other routers, or of what is now.
func TestWhatIsRememberedIsNoEvidence(t *testing.T) {
	p := site(1)
	p.oneWay = true
	w := newWorld(t, p)
	w.run(time.Minute)
	p.towards = 1
	w.until(p, Lost, 30*time.Second)
	p.rate = 0
	w.run(time.Hour)
	p.rate, p.towards, w.news = 50, 0, nil
	w.run(5 * time.Minute)
	if s := w.state(p); s.Outcome != Passes || slices.Contains(w.news, "10.0.1.0/24 lost") {
		t.Errorf("the cut ended while nothing was sent: %+v, %v", s, w.news)
	}

	// A relay in front of two sites, of which one answers nothing.
	answers, silent := site(1), site(2)
	answers.oneWay, silent.oneWay, silent.filters = true, true, true
	answers.with("192.0.2.1")
	silent.with("192.0.2.1", "192.0.2.9")
	silent.rate = 0
	w = newWorld(t, answers, silent)
	w.run(time.Minute)
	silent.rate = 50
	w.run(10 * time.Minute)
	if s := w.state(silent); s.Outcome != NotKnown || len(w.news) > 0 {
		t.Errorf("another site by the same relay: %+v, %v", s, w.news)
	}
}

// TestMemoryIsBounded: the oldest is forgotten.
func TestMemoryIsBounded(t *testing.T) {
	w := NewWatch()
	at := func(i int) lisp.Path {
		return lisp.PathTo(lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})))
	}
	for i := range maxRemembered + 10 {
		p := &path{key: key{is4: true}, facts: Facts{Taken: []lisp.Path{at(i)}}}
		p.small.answered(start)
		w.remember(start.Add(time.Duration(i)*time.Second), p)
	}
	_, oldest := w.remembered[place{at(9), true}]
	_, next := w.remembered[place{at(10), true}]
	if len(w.remembered) != maxRemembered || oldest || !next {
		t.Errorf("%d remembered, want %d; the oldest: %v, %v", len(w.remembered), maxRemembered, oldest, next)
	}
}

// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// limiter is Linux's limit of the ICMP messages that a router sends to one address (net.ipv4.icmp_ratelimit,
// net.ipv6.icmp.ratelimit): so many a second, burst 6. What goes past the router is answered as well: no host has the
// EID. nil is no limit.
type limiter struct{ tokens, rate float64 }

func newLimiter(rate float64) *limiter { return &limiter{6, rate} }

func (l *limiter) refill() { l.tokens = min(l.tokens+l.rate*tick.Seconds(), 6) }

func (l *limiter) take() bool {
	if l == nil {
		return true
	}
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}

// behindOneRouter are peers from which no packets come, behind one router that answers so many checks a second.
func behindOneRouter(t *testing.T, count int, rate float64) (*world, []*peer) {
	shared := newLimiter(rate)
	var peers []*peer
	for i := range count {
		p := site(i + 1)
		p.oneWay, p.limit = true, shared
		peers = append(peers, p)
	}
	w := newWorld(t, peers...)
	w.limits = []*limiter{shared}
	return w, peers
}

func hundred(t *testing.T) (*world, []*peer) { return behindOneRouter(t, 100, 1) }

// TestOneRouterLimitsItsAnswers: what its limit leaves unanswered is not lost, however many it answers and however
// many paths lead to it, while it is looked for behind some of them and later. What is lost then is reported.
func TestOneRouterLimitsItsAnswers(t *testing.T) {
	for _, count := range []int{2, 6, 7, 20, 100} {
		for _, rate := range []float64{1, 2, 3, 5} {
			t.Run(fmt.Sprintf("%d paths, %g answers a second", count, rate), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(max(1, 3-count/50)) {
					random := rand.New(rand.NewPCG(seed, 1))
					w, peers := behindOneRouter(t, count, rate)
					for _, p := range peers {
						p.rate = 0
					}
					w.each = func() { // more and more are used
						for _, p := range peers {
							if p.rate == 0 && random.IntN(10+90*int(seed)) == 0 {
								p.rate = 50
							}
						}
					}
					w.run(10 * time.Minute)
					if c := w.watch.Counts(); len(w.news) > 0 || count == 100 && c.Unanswered < 20 {
						t.Fatalf("seed %d: reported %v, %+v", seed, w.news, c)
					}
					lost := peers[random.IntN(len(peers))]
					lost.towards = 1
					w.until(lost, Lost, 4*time.Minute)
					w.run(2 * time.Minute)
					lost.towards = 0
					w.until(lost, Passes, 10*time.Minute)
					w.run(2 * time.Minute)
					if len(w.news) != 2 {
						t.Errorf("seed %d: reported %v", seed, w.news)
					}
				}
			})
		}
	}
}

// TestOneOfAHundredIsLost while some of the answers of all get lost by chance. The check that went when all went fast
// is not one of the three.
func TestOneOfAHundredIsLost(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 2))
		w, peers := hundred(t)
		w.limits = nil
		for _, p := range peers {
			p.limit = nil
		}
		w.drops = func() bool { return random.IntN(100) == 0 }
		w.run(2*time.Minute + time.Duration(seed)*time.Second)
		peers[50].towards = 1
		w.until(peers[50], Lost, 30*time.Second)
		if len(w.news) != 1 {
			t.Errorf("seed %d: reported %v", seed, w.news)
		}
		for _, p := range w.watch.paths {
			if l := p.small; l.isLost() && (!l.suspected || l.missed != missedTell) {
				t.Errorf("seed %d: %+v", seed, l)
			}
		}
	}
}

// TestEachEchoRequestIsCounted: a search is several, of which a router with a limit may answer one.
func TestEachEchoRequestIsCounted(t *testing.T) {
	w, _ := behindOneRouter(t, 6, 1)
	for len(w.sent) == 0 {
		w.step()
	}
	count := 0
	for _, p := range w.watch.paths {
		if p.small.counts {
			count++
		}
	}
	if count != 2 || len(w.sent) != 6 {
		t.Errorf("%d of %d searches count, with %d echo requests each", count, len(w.sent), len(searches[0]))
	}
}

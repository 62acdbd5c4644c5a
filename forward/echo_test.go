// SPDX-License-Identifier: Apache-2.0

package forward

// Echo-Nonce between two routers that both ask (RFC 9300 s.10.1): a path that dies one
// way is noticed by the side that still hears the other, and one that works never is.

import (
	"math/rand/v2"
	"testing"
	"time"
)

// echoPair is two routers whose packets take turns at random.
type echoPair struct {
	now    time.Time
	sides  [2]Echo
	news   [2]map[EchoNews]int
	random *rand.Rand
	times  EchoTimes
}

func newEchoPair(seed uint64) *echoPair {
	return &echoPair{
		now: time.Unix(1e9, 0), random: rand.New(rand.NewPCG(seed, 1)), times: EchoTimes{Wait: 10 * time.Second, Interval: time.Minute},
		news: [2]map[EchoNews]int{{}, {}},
	}
}

// packet sends one from a side; it arrives where the path works.
func (p *echoPair) packet(from int, arrives bool) {
	nonce, request, _ := p.sides[from].Send(p.now, p.random.Uint32()&0xffffff, true)
	if arrives {
		p.news[1-from][p.sides[1-from].Receive(p.now, nonce, true, request, p.times)]++
	}
}

// run lets packets flow for a time, with pauses up to a length, as one side answers the other's or at random.
func (p *echoPair) run(d, pause time.Duration, answers bool, arrives func(from int) bool) {
	for end := p.now.Add(d); p.now.Before(end); {
		p.now = p.now.Add(time.Duration(p.random.Int64N(int64(pause))))
		from := p.random.IntN(2)
		p.packet(from, arrives(from))
		if answers && arrives(from) {
			p.packet(1-from, arrives(1-from))
		}
	}
}

func TestEchoNonceOfTwoThatAsk(t *testing.T) {
	for seed := range uint64(200) {
		p := newEchoPair(seed)
		pause := []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second}[seed%4]
		both := func(int) bool { return true }
		p.run(5*time.Minute, pause, seed%3 == 0, both)
		for side := range p.sides {
			if p.news[side][EchoReturned] == 0 || p.news[side][EchoMissing] > 0 {
				t.Fatalf("seed %d: a path that works: side %d has %v", seed, side, p.news[side])
			}
		}
		p.news = [2]map[EchoNews]int{{}, {}}
		began := p.now
		p.run(3*time.Minute, pause, false, func(from int) bool { return from == 1 }) // nothing of side 0 arrives
		if p.news[0][EchoMissing] == 0 || p.news[1][EchoMissing] > 0 {
			t.Fatalf("seed %d: a path dead one way: %v and %v", seed, p.news[0], p.news[1])
		}
		if noticed := p.sides[0].MissingAt.Sub(began); noticed < 0 {
			t.Errorf("seed %d: noticed at %v", seed, p.sides[0].MissingAt)
		}
		// It works again: an echo comes, and none is missed any more.
		p.run(2*time.Minute, pause, false, both)
		if last := p.sides[0]; !last.EchoedAt.After(last.MissingAt) {
			t.Errorf("seed %d: echoed at %v, missing at %v", seed, last.EchoedAt, last.MissingAt)
		}
	}
}

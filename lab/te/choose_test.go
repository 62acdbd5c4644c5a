// SPDX-License-Identifier: Apache-2.0

package te

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// relayed is a graph of two sites, nodes 0 and 1, with an RTR for each RTT: half of it on each side.
func relayed(rtts ...time.Duration) *Graph {
	g := newGraph(2 + len(rtts))
	for i := range g.Nodes {
		g.Nodes[i].RLOC = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
	}
	for i, rtt := range rtts {
		g.setRTT(0, i+2, rtt/2)
		g.setRTT(i+2, 1, rtt-rtt/2)
	}
	return g
}

func usual() Policy { return Policy{From: 0, To: 1, Candidates: 8, Ratio: 1.5, Paths: 2} }

// chosen is the RTTs of the set that is chosen.
func chosen(t *testing.T, g *Graph, p Policy) (*Choice, []time.Duration) {
	t.Helper()
	c, err := g.Choose(p)
	if err != nil {
		t.Fatal(err)
	}
	return c, rttsOf(c.Chosen)
}

func rttsOf(s Set) (rtts []time.Duration) {
	for _, p := range s.Paths {
		rtts = append(rtts, p.RTT)
	}
	return rtts
}

// TestLeastDifferentialRTT: of those within the ratio.
func TestLeastDifferentialRTT(t *testing.T) {
	for _, c := range []struct {
		name  string
		rtts  []time.Duration
		paths int
		ratio float64
		want  []time.Duration
	}{
		{"two of four", []time.Duration{10 * ms, 12 * ms, 13 * ms, 15 * ms}, 2, 1.5,
			[]time.Duration{12 * ms, 13 * ms}},
		{"equally slow ones are beyond the ratio", []time.Duration{10 * ms, 12 * ms, 90 * ms, 90 * ms}, 2, 1.5,
			[]time.Duration{10 * ms, 12 * ms}},
		{"unless it is large", []time.Duration{10 * ms, 12 * ms, 90 * ms, 90 * ms}, 2, 9,
			[]time.Duration{90 * ms, 90 * ms}},
		{"the ratio itself is within it", []time.Duration{10 * ms, 15 * ms}, 2, 1.5,
			[]time.Duration{10 * ms, 15 * ms}},
		{"of equal differences the shorter ones", []time.Duration{10 * ms, 11 * ms, 12 * ms}, 2, 1.5,
			[]time.Duration{10 * ms, 11 * ms}},
		{"of equal differences the least spread", []time.Duration{10 * ms, 13 * ms, 14 * ms, 15 * ms}, 3, 1.5,
			[]time.Duration{13 * ms, 14 * ms, 15 * ms}},
		{"one path", []time.Duration{11 * ms, 10 * ms, 10*ms + 1}, 1, 1.5, []time.Duration{10 * ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := usual()
			p.Paths, p.Ratio = c.paths, c.ratio
			choice, got := chosen(t, relayed(c.rtts...), p)
			if !slices.Equal(got, c.want) {
				t.Errorf("chosen %v, want %v: %s", got, c.want, choice.Reason)
			}
		})
	}
}

// TestBestSetOfRandomGraphs: no other set of the candidates has a less differential RTT, and no two paths of a
// link-disjoint one share a link.
func TestBestSetOfRandomGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 28))
	made := 0
	for range 2000 {
		g := randomGraph(r, 4+r.IntN(4), func() time.Duration { return time.Duration(1+r.IntN(30)) * ms })
		p := Policy{From: 0, To: len(g.Nodes) - 1, Candidates: 8, Ratio: 1 + 3*r.Float64(),
			Paths: 1 + r.IntN(4), LinkDisjoint: r.IntN(2) == 0}
		c, err := g.Choose(p)
		best := noLink
		if len(g.Shortest(p.From, p.To, 8, nil)) > 0 {
			best = leastDifferential(g, p)
		}
		switch {
		case err != nil && best != noLink:
			t.Fatalf("%v, but there is a set with %s", err, best)
		case err != nil:
			continue
		case c.Chosen.Differential != best || len(c.Chosen.Paths) != p.Paths:
			t.Fatalf("chosen %v with %s, want %s", c.Chosen.Paths, c.Chosen.Differential, best)
		}
		made++
	}
	if made < 500 {
		t.Errorf("%d sets were chosen: too few to mean anything", made)
	}
}

// leastDifferential tries every subset of the candidates.
func leastDifferential(g *Graph, p Policy) time.Duration {
	candidates, best := g.Shortest(p.From, p.To, p.Candidates, nil), noLink
	for subset := range 1 << len(candidates) {
		var set []Path
		for i, c := range candidates {
			if subset>>i&1 == 1 {
				set = append(set, c)
			}
		}
		if len(set) != p.Paths || float64(set[len(set)-1].RTT) > p.Ratio*float64(candidates[0].RTT) ||
			p.LinkDisjoint && commonLinks(set) {
			continue
		}
		least := noLink
		for i, a := range set {
			for _, b := range set[:i] {
				least = min(least, (a.RTT - b.RTT).Abs())
			}
		}
		if len(set) == 1 {
			least = 0
		}
		best = min(best, least)
	}
	return best
}

func commonLinks(set []Path) bool {
	uses := map[string]int{}
	for i, p := range set {
		for j := range p.Nodes[1:] {
			pair := []int{p.Nodes[j], p.Nodes[j+1]}
			slices.Sort(pair)
			key := string(rune(pair[0])) + string(rune(pair[1]))
			if other, used := uses[key]; used && other != i {
				return true
			}
			uses[key] = i
		}
	}
	return false
}

// TestLinkDisjoint: the paths with the least difference share their last link.
func TestLinkDisjoint(t *testing.T) {
	g := relayed(10*ms, 12*ms)
	g.setRTT(0, 3, 20*ms)
	g.setRTT(0, 2, 5*ms)
	g.setRTT(3, 2, time.Microsecond) // 0-3-2-1 has 25 ms, 0-3-1 26 ms
	p := usual()
	p.Ratio = 3
	if _, got := chosen(t, g, p); !slices.Equal(got, []time.Duration{25*ms + time.Microsecond, 26 * ms}) {
		t.Errorf("chosen %v", got)
	}
	p.LinkDisjoint = true
	if _, got := chosen(t, g, p); !slices.Equal(got, []time.Duration{10 * ms, 26 * ms}) {
		t.Errorf("link-disjoint %v", got)
	}
	p.Paths = 3
	if _, err := g.Choose(p); err == nil || !strings.Contains(err.Error(), "every 3 of them share a link") {
		t.Errorf("%v", err)
	}
	var none *NoChoiceError
	p.Ratio, p.Paths = 1, 2
	if _, err := g.Choose(p); !errors.As(err, &none) || !strings.Contains(err.Error(),
		"1 of 3 candidates are within 1 times the shortest RTT, 10.000 ms; 2 paths are wanted") {
		t.Errorf("%v", err)
	}
	p.Avoid = []int{2, 3}
	if _, err := g.Choose(p); err == nil ||
		!strings.Contains(err.Error(), "no path by at most 3 RTRs leads from 192.0.2.0 to 192.0.2.1") {
		t.Errorf("%v", err)
	}
}

// TestKeep: a set from before stays unless it cannot be used or the new one is better by the gain.
func TestKeep(t *testing.T) {
	end := netip.MustParseAddr("192.0.2.1")
	by := func(rtrs ...byte) (set [][]netip.Addr) {
		for _, r := range rtrs {
			set = append(set, []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, r}), end})
		}
		return set
	}
	four := []time.Duration{10 * ms, 11 * ms, 11900 * time.Microsecond, 20 * ms} // differences of 1, 0.9, 8.1 ms
	for _, c := range []struct {
		name  string
		old   [][]netip.Addr
		gain  float64
		avoid []int
		paths int
		kept  bool
		says  string
	}{
		{"better by exactly the gain", by(2, 3), 0.1, nil, 2, false,
			"its differential RTT is 1.000 ms, that of the new one is less by 10 % or more"},
		{"not better by the gain", by(2, 3), 0.11, nil, 2, true, "the set from before stays: its differential RTT is 1.000 ms, that of the best set is 0.900 ms, which is not less by 11 %"},
		{"the same", by(4, 3), 0, nil, 2, true, "is the best one still"},
		{"no gain is asked for", by(2, 4), 0, nil, 2, false, "is left"},
		{"beyond the ratio", by(2, 5), 1, nil, 2, false,
			"path 192.0.2.5 -> 192.0.2.1: its RTT, 20.000 ms, is more than 1.5 times the shortest one"},
		{"unknown RTR", by(2, 9), 1, nil, 2, false, "192.0.2.9 is no node"},
		{"avoided RTR", by(2, 3), 1, []int{3}, 2, false, "192.0.2.3 is to be avoided"},
		{"another number", by(2), 1, nil, 2, false, "it has 1 paths"},
		{"no link", append(by(2), []netip.Addr{end}), 1, nil, 2, false,
			"there is no link from 192.0.2.0 to 192.0.2.1"},
		{"another end", append(by(2), by(3)[0][:1]), 1, nil, 2, false, "does not end at 192.0.2.1"},
		{"twice", by(2, 2), 1, nil, 2, false, "stands there twice"},
		{"one path, within the gain", by(3), 0.1, nil, 1, true,
			"its RTT is 11.000 ms, that of the best set is 10.000 ms"},
		{"one path, better by the gain", by(3), 0.09, nil, 1, false, "its RTT is 11.000 ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, p := relayed(four...), usual()
			p.Avoid, p.Paths = c.avoid, c.paths
			choice, best := chosen(t, g, p)
			choice.Keep(g, p, c.old, c.gain)
			if choice.Kept != c.kept || !strings.Contains(choice.Reason, c.says) {
				t.Errorf("kept %v: %s", choice.Kept, choice.Reason)
			}
			if !c.kept && !slices.Equal(rttsOf(choice.Chosen), best) {
				t.Errorf("chosen %v, want the new set %v", rttsOf(choice.Chosen), best)
			}
		})
	}
}

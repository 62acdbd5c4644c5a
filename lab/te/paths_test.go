// SPDX-License-Identifier: Apache-2.0

package te

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// randomGraph is a graph in which some links are missing, and some nodes are RLOCs of one router.
func randomGraph(r *rand.Rand, nodes int, rtt func() time.Duration) *Graph {
	g := newGraph(nodes)
	for i := range g.Nodes {
		g.Nodes[i].RLOC = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		if i > 0 && r.IntN(10) == 0 {
			g.Nodes[i].router = g.Nodes[i-1].router
		}
	}
	missing := r.IntN(4)
	for from := range nodes {
		for to := range nodes {
			if g.Nodes[from].router != g.Nodes[to].router && r.IntN(10) >= missing {
				g.setRTT(from, to, rtt())
			}
		}
	}
	return g
}

// enumerate lists all paths by at most three RTRs by trying every sequence of nodes.
func enumerate(g *Graph, from, to int, avoid []int) (all []Path) {
	sequences := [][]int{{}}
	for range MaxRelays + 1 {
		var longer [][]int
		for _, s := range sequences {
			nodes := append(append([]int{from}, s...), to)
			if p, ok := measure(g, nodes); ok &&
				!slices.ContainsFunc(s, func(n int) bool { return slices.Contains(avoid, n) }) {
				all = append(all, p)
			}
			for n := range g.Nodes {
				if n != from && n != to && !slices.Contains(s, n) {
					longer = append(longer, append(slices.Clone(s), n))
				}
			}
		}
		sequences = longer
	}
	slices.SortStableFunc(all, func(a, b Path) int {
		return cmp.Or(cmp.Compare(a.RTT, b.RTT), cmp.Compare(len(a.Nodes), len(b.Nodes)),
			slices.Compare(a.Nodes, b.Nodes))
	})
	return all
}

// measure is a path by some nodes, if it is one: every link is there, and no router is met twice.
func measure(g *Graph, nodes []int) (Path, bool) {
	p := Path{Nodes: nodes}
	met := 0 // routers, by bit
	for i, n := range nodes {
		bit := 1 << g.Nodes[n].router
		if met&bit != 0 {
			return p, false
		}
		met |= bit
		if i > 0 {
			rtt := g.rtt(nodes[i-1], n)
			if rtt == noLink {
				return p, false
			}
			p.RTT += rtt
		}
	}
	return p, true
}

// TestShortestPathsAsByEnumeration: RTTs, order and paths are those that trying all sequences gives; no loop, no path
// twice.
func TestShortestPathsAsByEnumeration(t *testing.T) {
	const graphs = 10_000
	r := rand.New(rand.NewPCG(28, 6))
	paths := 0
	for i := range graphs {
		rtt := func() time.Duration { return time.Duration(1+r.IntN(100_000)) * time.Microsecond }
		if i%2 == 1 {
			same := r.IntN(3)
			rtt = func() time.Duration { return time.Duration(1+r.IntN(1+same)) * time.Millisecond }
		}
		g := randomGraph(r, 2+r.IntN(6), rtt)
		from, k := r.IntN(len(g.Nodes)), 1+r.IntN(MaxCandidates)
		to := (from + 1 + r.IntN(len(g.Nodes)-1)) % len(g.Nodes)
		var avoid []int
		for n := range g.Nodes {
			if n != from && n != to && r.IntN(8) == 0 {
				avoid = append(avoid, n)
			}
		}
		got, want := g.Shortest(from, to, k, avoid), enumerate(g, from, to, avoid)
		want = want[:min(k, len(want))]
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("graph %d of %d nodes, %d to %d, k %d:\n got %v\nwant %v", i, len(g.Nodes), from, to,
				k, got, want)
		}
		for a, p := range got {
			if again, ok := measure(g, p.Nodes); !ok || again.RTT != p.RTT {
				t.Fatalf("graph %d: %v is no path, or its RTT is %s", i, p, again.RTT)
			}
			if isIn(p, got[:a]) {
				t.Fatalf("graph %d: %v is there twice", i, p)
			}
		}
		paths += len(got)
	}
	if paths < graphs {
		t.Errorf("%d paths in %d graphs: these are hardly connected", paths, graphs)
	}
}

// TestPathsGoByThreeRTRsAtMost: a shorter one by four is none.
func TestPathsGoByThreeRTRsAtMost(t *testing.T) {
	g := newGraph(6)
	for i := range 5 {
		g.setRTT(i, i+1, time.Millisecond)
	}
	if got := g.Shortest(0, 5, 8, nil); got != nil {
		t.Errorf("a path by four RTRs: %v", got)
	}
	g.setRTT(0, 2, time.Second)
	if got := fmt.Sprint(g.Shortest(0, 5, 8, nil)); got != "[{[0 2 3 4 5] 1.003s}]" {
		t.Errorf("%s, want the long way by three RTRs", got)
	}
}

// benchmarkGraph is a graph of 50 nodes in which each knows each.
func benchmarkGraph() *Graph {
	r := rand.New(rand.NewPCG(50, 8))
	g := newGraph(50)
	for from := range g.Nodes {
		for to := range g.Nodes {
			if from != to {
				g.setRTT(from, to, time.Duration(1+r.IntN(100_000))*time.Microsecond)
			}
		}
	}
	return g
}

// BenchmarkChoose compares finding 8 candidates, and the whole choice, with one Dijkstra from every node, which needs
// no heap where each node has a link to each.
func BenchmarkChoose(b *testing.B) {
	g := benchmarkGraph()
	b.Run("candidates", func(b *testing.B) {
		for b.Loop() {
			g.Shortest(0, 49, MaxCandidates, nil)
		}
	})
	b.Run("choice", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.Choose(Policy{From: 0, To: 49, Candidates: MaxCandidates, Ratio: 100,
				Paths: 4}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("all-pairs-dijkstra", func(b *testing.B) {
		for b.Loop() {
			for from := range g.Nodes {
				dijkstra(g, from)
			}
		}
	})
}

// dijkstra finds the least RTT from a node to each.
func dijkstra(g *Graph, from int) []time.Duration {
	least, done := make([]time.Duration, len(g.Nodes)), make([]bool, len(g.Nodes))
	for i := range least {
		least[i] = noLink
	}
	least[from] = 0
	for range g.Nodes {
		next := -1
		for v := range g.Nodes {
			if !done[v] && (next < 0 || least[v] < least[next]) {
				next = v
			}
		}
		done[next] = true
		for v := range g.Nodes {
			least[v] = min(least[v], least[next]+g.rtt(next, v))
		}
	}
	return least
}

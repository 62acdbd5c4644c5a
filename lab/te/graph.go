// SPDX-License-Identifier: Apache-2.0

package te

// The graph: a node for each RLOC, a link where one of two routers measured the round-trip time between them.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/daemon/api"
)

const (
	// MaxNodes is how many nodes a graph has at most.
	MaxNodes = 256
	// maxRTT is the longest round-trip time that is believed, in seconds.
	maxRTT = 3600
	// differ is the ratio from which on what both ends of a link measured is noted.
	differ = 2
)

// Told is what the router of one node tells: `loci show locators --json`. Nodes with the same file are one router with
// several RLOCs.
type Told struct {
	RLOC     netip.Addr
	File     string
	Locators []api.LocatorState
}

// Node is an RLOC of a router.
type Node struct {
	RLOC   netip.Addr
	File   string
	router int // the first node of its file
}

// Link is what is known of the way from one node to another.
type Link struct {
	From, To   int
	RTT        time.Duration // 0 where there is no link
	MeasuredAt time.Time
	ByOther    bool   // the router at its end measured it
	Note       string // why there is no link, or what is odd about it
}

// Graph has the nodes in the order of their RLOCs.
type Graph struct {
	Nodes []Node
	Links []Link // of each two nodes of one family, in both directions
	Notes []string
	rtts  []time.Duration // of each pair
}

func (g *Graph) rtt(from, to int) time.Duration { return g.rtts[from*len(g.Nodes)+to] }

func (g *Graph) setRTT(from, to int, d time.Duration) { g.rtts[from*len(g.Nodes)+to] = d }

// Find is the node of an RLOC.
func (g *Graph) Find(rloc netip.Addr) (int, bool) {
	return slices.BinarySearchFunc(g.Nodes, rloc, func(n Node, r netip.Addr) int { return n.RLOC.Compare(r) })
}

// Age bounds how old a measurement may be. Clocks of routers differ: one may be as far in the future.
type Age struct {
	Now time.Time
	Max time.Duration
}

func (a Age) fits(t time.Time) bool { return a.Now.Sub(t).Abs() <= a.Max }

// measurement is what one router tells of another.
type measurement struct {
	rtt      time.Duration
	at       time.Time
	problem  string // why it is none
	conclude bool   // what the other end measured does not help
}

// NewGraph makes the graph of what routers tell. It refuses what contradicts itself.
func NewGraph(told []Told, age Age) (*Graph, error) {
	if len(told) > MaxNodes {
		return nil, fmt.Errorf("%d nodes: want at most %d", len(told), MaxNodes)
	}
	told = slices.SortedFunc(slices.Values(told), func(a, b Told) int { return a.RLOC.Compare(b.RLOC) })
	g := newGraph(len(told))
	measured := make([]map[netip.Addr]measurement, len(told))
	for i, t := range told {
		if i > 0 && told[i-1].RLOC == t.RLOC {
			return nil, fmt.Errorf("node %s is named twice", t.RLOC)
		}
		router := slices.IndexFunc(told, func(o Told) bool { return o.File == t.File })
		g.Nodes[i] = Node{RLOC: t.RLOC, File: t.File, router: router}
		if isOfOther(t) {
			g.Notes = append(g.Notes, fmt.Sprintf("%s: %s is none of this router's locators", t.File,
				t.RLOC))
		}
		var err error
		if measured[i], err = measurementsOf(t, age); err != nil {
			return nil, err
		}
	}
	g.connect(measured)
	return g, nil
}

// newGraph is a graph of so many nodes without links.
func newGraph(nodes int) *Graph {
	g := &Graph{Nodes: make([]Node, nodes), rtts: make([]time.Duration, nodes*nodes)}
	for i := range g.Nodes {
		g.Nodes[i].router = i
	}
	for i := range g.rtts {
		g.rtts[i] = noLink
	}
	return g
}

// isOfOther reports whether a router tells of own RLOCs, and the node's is not among them.
func isOfOther(t Told) bool {
	isOwn := func(l api.LocatorState) bool { return l.Local && len(l.Path) == 0 }
	return slices.ContainsFunc(t.Locators, isOwn) &&
		!slices.ContainsFunc(t.Locators, func(l api.LocatorState) bool {
			return isOwn(l) && l.RLOC.Addr() == t.RLOC
		})
}

// measurementsOf are those of one router, by the RLOC of the other.
func measurementsOf(t Told, age Age) (map[netip.Addr]measurement, error) {
	all := make(map[netip.Addr]measurement)
	for _, l := range t.Locators {
		// own ones, paths, and routers behind NATs are no nodes
		if l.Local || len(l.Path) > 0 || l.RLOC.Port() != 0 {
			continue
		}
		if _, twice := all[l.RLOC.Addr()]; twice {
			return nil, fmt.Errorf("%s: locator %s stands there twice", t.File, l.RLOC)
		}
		if l.RLOC.Addr() == t.RLOC && l.RoundTrip != nil {
			return nil, fmt.Errorf("%s: the router at %s has a round-trip time to itself: is the file another router's?", t.File, t.RLOC)
		}
		m, err := measurementOf(l, age)
		if err != nil {
			return nil, fmt.Errorf("%s: locator %s: %w", t.File, l.RLOC, err)
		}
		all[l.RLOC.Addr()] = m
	}
	return all, nil
}

func measurementOf(l api.LocatorState, age Age) (m measurement, err error) {
	switch {
	case l.State == "down" || l.State == "unconfirmed":
		return measurement{problem: l.State, conclude: true}, nil
	case l.RoundTrip == nil && l.Probes != nil && l.Probes.Sent > 0:
		return measurement{problem: "no RLOC-probe answered", conclude: true}, nil
	case l.RoundTrip == nil:
		return measurement{problem: "not probed"}, nil
	}
	name, rtt := "round_trip_seconds", *l.RoundTrip
	if l.RoundTrips != nil { // a single late answer moves the average for long
		name, rtt = "median_seconds", l.RoundTrips.Median
	}
	m.rtt = rtt.Duration()
	switch {
	case rtt > maxRTT || m.rtt <= 0:
		return m, fmt.Errorf("%s %g: want more than 0 and at most %d", name, rtt, maxRTT)
	case l.Probes == nil || l.Probes.LastReplyAt == nil:
		return m, errors.New("round_trip_seconds without probes.last_reply_at")
	}
	m.at = *l.Probes.LastReplyAt
	switch since := age.Now.Sub(m.at); {
	case age.fits(m.at):
	case since < 0:
		m.problem = fmt.Sprintf("measured %s in the future: are the clocks in step?",
			(-since).Round(time.Second))
	default:
		m.problem = fmt.Sprintf("stale: measured %s ago", since.Round(time.Second))
	}
	return m, nil
}

// connect makes the links.
func (g *Graph) connect(measured []map[netip.Addr]measurement) {
	for from := range g.Nodes {
		for to := range g.Nodes {
			a, b := &g.Nodes[from], &g.Nodes[to]
			if a.router == b.router || a.RLOC.Is4() != b.RLOC.Is4() {
				continue
			}
			own, knowsOwn := measured[from][b.RLOC]
			other, knowsOther := measured[to][a.RLOC]
			if !knowsOwn {
				own.problem = "not probed"
			}
			if !knowsOther {
				other.problem = "not probed"
			}
			l := linkOf(own, other)
			if l.From, l.To = from, to; l.RTT > 0 {
				g.setRTT(from, to, l.RTT)
			}
			g.Links = append(g.Links, l)
		}
	}
}

// linkOf takes the measurement of the router that sends. Where that one did not measure, what the other end measured
// does: a round trip is both ways.
func linkOf(own, other measurement) Link {
	switch {
	case own.problem == "" && other.problem != "" && other.conclude:
		return Link{RTT: own.rtt, MeasuredAt: own.at, Note: "the other end: " + other.problem}
	case own.problem == "" && other.problem == "" && isFarFrom(own.rtt, other.rtt):
		return Link{RTT: own.rtt, MeasuredAt: own.at, Note: "the other end measured " + rttText(other.rtt)}
	case own.problem == "":
		return Link{RTT: own.rtt, MeasuredAt: own.at}
	case own.conclude || other.problem != "":
		return Link{Note: own.problem}
	}
	return Link{RTT: other.rtt, MeasuredAt: other.at, ByOther: true, Note: own.problem}
}

// isFarFrom reports whether two round-trip times differ by more than measuring explains.
func isFarFrom(a, b time.Duration) bool { return a > differ*b || b > differ*a }

// rttText is a time in milliseconds.
func rttText(d time.Duration) string {
	return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond))
}

// SPDX-License-Identifier: Apache-2.0

package temptcp

// What `loci te choose` would have taken, by the RTTs that a round drew.

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lab/te"
	"loci/lisp"
)

// sameSite is the RTT between xTR and RTR of one site: two veth pairs.
const sameSite = 100 * time.Microsecond

// choices are those of one source, for two paths and more.
func (p *parameters) choices(d drawn, s source, round int) (all []Choice) {
	for paths := 2; paths <= mostPaths; paths++ {
		c := Choice{Round: round, Source: s.Site, Paths: paths, Chosen: []string{}, Papers: s.Paths[:paths]}
		var rtts []time.Duration
		for _, by := range c.Papers {
			rtts = append(rtts, p.pathRTT(d, s.Site, by))
		}
		c.PapersDifferential = jsondoc.SecondsOf(leastDifference(rtts))
		p.choose(d, &c)
		all = append(all, c)
	}
	return all
}

// leastDifference is that of two of some times.
func leastDifference(all []time.Duration) time.Duration {
	least := time.Duration(math.MaxInt64)
	for i, a := range all {
		for _, b := range all[:i] {
			least = min(least, (a - b).Abs())
		}
	}
	return least
}

func (p *parameters) choose(d drawn, c *Choice) {
	now := time.Unix(0, 0)
	g, err := te.NewGraph(p.told(d, c.Source, now), te.Age{Now: now, Max: time.Minute})
	if err != nil {
		c.Reason = err.Error()
		return
	}
	from, known := g.Find(p.xtr(c.Source))
	to, knownToo := g.Find(p.xtr(p.Destination))
	if !known || !knownToo {
		c.Reason = "the graph has not both ends"
		return
	}
	choice, err := g.Choose(te.Policy{From: from, To: to, Candidates: p.Choose.Candidates, Ratio: p.Choose.Ratio,
		Paths: c.Paths})
	if none := new(te.NoChoiceError); errors.As(err, &none) {
		c.Reason = none.Reason
		return
	} else if err != nil {
		c.Reason = err.Error()
		return
	}
	c.Differential, c.Reason = jsondoc.SecondsOf(choice.Chosen.Differential), choice.Reason
	for _, path := range choice.Chosen.Paths {
		c.Chosen = append(c.Chosen, p.nameOf(g, path))
	}
}

// nameOf is a path by the sites of its RTRs.
func (p *parameters) nameOf(g *te.Graph, path te.Path) string {
	var by []string
	for _, node := range path.Nodes[1 : len(path.Nodes)-1] {
		by = append(by, p.siteOfRTR(g.Nodes[node].RLOC))
	}
	if len(by) == 0 {
		return "direct"
	}
	return strings.Join(by, " ")
}

// told is what RLOC-probes would have told: of the xTRs of source and destination, and of all RTRs.
func (p *parameters) told(d drawn, source string, now time.Time) (all []te.Told) {
	type router struct {
		site string
		rloc lisp.RLOC
	}
	routers := []router{{source, lisp.RLOCFromAddr(p.xtr(source))},
		{p.Destination, lisp.RLOCFromAddr(p.xtr(p.Destination))}}
	for _, site := range p.withRTR() {
		routers = append(routers, router{site, lisp.RLOCFromAddr(p.rtr(site))})
	}
	for _, a := range routers {
		t := te.Told{RLOC: a.rloc.Addr(), File: a.rloc.String()}
		for _, b := range routers {
			if a == b {
				continue
			}
			rtt := jsondoc.SecondsOf(sameSite)
			if a.site != b.site {
				rtt = jsondoc.SecondsOf(p.rtt(d, a.site, b.site))
			}
			t.Locators = append(t.Locators, api.LocatorState{RLOC: b.rloc, State: "up", RoundTrip: &rtt,
				Probes: &api.Probes{Sent: 1, Answered: 1, LastReplyAt: &now}})
		}
		all = append(all, t)
	}
	return all
}

// text is one line for people.
func (c *Choice) text() string {
	line := fmt.Sprintf("round %d  %s, %d paths: the paper's are by %s (differential RTT %.1f ms); ", c.Round,
		c.Source,
		c.Paths, strings.Join(c.Papers, ", "), c.PapersDifferential.Milliseconds())
	if len(c.Chosen) == 0 {
		return line + "te choose takes none: " + c.Reason
	}
	return line + fmt.Sprintf("te choose takes those by %s (%.1f ms)", strings.Join(c.Chosen, ", "),
		c.Differential.Milliseconds())
}

// SPDX-License-Identifier: Apache-2.0

package te

// A choice as a document: what `loci te choose --json` prints, and what its text is made of.

import (
	"net/netip"
	"slices"
	"time"

	"loci/internal/jsondoc"
)

// Document is a choice with all that led to it.
type Document struct {
	From       netip.Addr     `json:"from"`
	To         netip.Addr     `json:"to"`
	Policy     PolicyDocument `json:"policy"`
	Nodes      []NodeDocument `json:"nodes"`
	Links      []LinkDocument `json:"links"` // of each two nodes of one family, in both directions
	Notes      []string       `json:"notes"`
	Candidates []PathDocument `json:"candidates"` // the shortest first
	Chosen     SetDocument    `json:"chosen"`
}

// PolicyDocument is what was asked for.
type PolicyDocument struct {
	Candidates   int     `json:"candidates"`
	Ratio        float64 `json:"ratio"`
	Paths        int     `json:"paths"`
	LinkDisjoint bool    `json:"link_disjoint"`
}

// NodeDocument is an RLOC of a router.
type NodeDocument struct {
	RLOC    netip.Addr `json:"rloc"`
	File    string     `json:"file"`
	Avoided bool       `json:"avoided"`
}

// LinkDocument is what is known of the way from one node to another.
type LinkDocument struct {
	From       netip.Addr       `json:"from"`
	To         netip.Addr       `json:"to"`
	RTT        *jsondoc.Seconds `json:"rtt_seconds"` // nil: no path goes here
	Age        *jsondoc.Seconds `json:"age_seconds"` // since it was measured
	MeasuredBy *netip.Addr      `json:"measured_by"`
	Note       string           `json:"note"`
}

// PathDocument is a candidate.
type PathDocument struct {
	Hops   []netip.Addr    `json:"hops"` // RTRs, then the end
	RTT    jsondoc.Seconds `json:"rtt_seconds"`
	Within bool            `json:"within_ratio"`
	Chosen bool            `json:"chosen"`
}

// SetDocument is the set that was chosen.
type SetDocument struct {
	Name         string          `json:"locator_set"`
	Paths        []PathDocument  `json:"paths"`
	Differential jsondoc.Seconds `json:"differential_rtt_seconds"`
	Spread       jsondoc.Seconds `json:"spread_seconds"` // between its shortest and its longest path
	Kept         bool            `json:"kept"`           // it is the set from before
	Reason       string          `json:"reason"`
}

// Describe makes the document.
func Describe(g *Graph, p Policy, c *Choice, now time.Time, name string) *Document {
	d := &Document{
		From: g.Nodes[p.From].RLOC, To: g.Nodes[p.To].RLOC, Notes: append([]string{}, g.Notes...),
		Candidates: []PathDocument{},
		Policy: PolicyDocument{Candidates: p.Candidates, Ratio: p.Ratio, Paths: p.Paths,
			LinkDisjoint: p.LinkDisjoint},
		Chosen: SetDocument{
			Name: name, Differential: jsondoc.SecondsOf(c.Chosen.Differential),
			Spread: jsondoc.SecondsOf(c.Chosen.Spread), Kept: c.Kept, Reason: c.Reason,
		},
	}
	for i, n := range g.Nodes {
		d.Nodes = append(d.Nodes, NodeDocument{RLOC: n.RLOC, File: n.File,
			Avoided: slices.Contains(p.Avoid, i)})
	}
	for _, l := range g.Links {
		d.Links = append(d.Links, g.linkDocument(l, now))
	}
	for i, path := range c.Candidates {
		d.Candidates = append(d.Candidates, g.pathDocument(path, i < c.Within, isIn(path, c.Chosen.Paths)))
	}
	for _, path := range c.Chosen.Paths {
		d.Chosen.Paths = append(d.Chosen.Paths, g.pathDocument(path, true, true))
	}
	return d
}

func (g *Graph) linkDocument(l Link, now time.Time) LinkDocument {
	d := LinkDocument{From: g.Nodes[l.From].RLOC, To: g.Nodes[l.To].RLOC, RTT: jsondoc.Known(l.RTT), Note: l.Note}
	if l.RTT == 0 {
		return d
	}
	age, by := jsondoc.SecondsOf(now.Sub(l.MeasuredAt)), d.From
	if l.ByOther {
		by = d.To
	}
	d.Age, d.MeasuredBy = &age, &by
	return d
}

func (g *Graph) pathDocument(p Path, within, chosen bool) PathDocument {
	d := PathDocument{RTT: jsondoc.SecondsOf(p.RTT), Within: within, Chosen: chosen}
	for _, n := range p.Nodes[1:] {
		d.Hops = append(d.Hops, g.Nodes[n].RLOC)
	}
	return d
}

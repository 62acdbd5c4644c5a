// SPDX-License-Identifier: Apache-2.0

package te

// A choice as a drawing: the start on the left, the end on the right, the other nodes between them. Links that the
// chosen paths take have a colour for each path, with the RTT of each; the others are grey.

import (
	"net/netip"

	"loci/lab/chart"
)

// SVG draws the graph with the chosen paths.
func (d *Document) SVG() string {
	n := chart.Network{Title: d.Chosen.Name + ": from " + d.From.String() + " to " + d.To.String()}
	at := map[netip.Addr]int{}
	add := func(a netip.Addr) {
		if _, known := at[a]; !known {
			at[a] = len(n.Nodes)
			n.Nodes = append(n.Nodes, a.String())
		}
	}
	add(d.From)
	add(d.To)
	rtts := map[[2]netip.Addr]string{}
	for _, node := range d.Nodes {
		add(node.RLOC)
	}
	for _, l := range d.Links {
		if l.RTT == nil {
			continue
		}
		rtts[[2]netip.Addr{l.From, l.To}] = rttText(l.RTT.Duration())
		if l.From.Less(l.To) || rtts[[2]netip.Addr{l.To, l.From}] == "" {
			n.Links = append(n.Links, chart.NetworkLink{From: at[l.From], To: at[l.To]})
		}
	}
	for _, p := range d.Chosen.Paths {
		path := chart.NetworkPath{Name: hopsText(p.Hops) + ", " + rttText(p.RTT.Duration())}
		last := d.From
		for _, hop := range p.Hops {
			path.Links = append(path.Links,
				chart.NetworkLink{From: at[last], To: at[hop], Label: rtts[[2]netip.Addr{last, hop}]})
			last = hop
		}
		n.Paths = append(n.Paths, path)
	}
	return chart.DrawNetwork(n)
}

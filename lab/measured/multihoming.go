// SPDX-License-Identifier: Apache-2.0

package measured

// oor-multihoming: what many TCP flows carry over one to four links of one router, into its site and out of it.

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"loci/internal/testnet"
	"loci/lab"
	"loci/lab/bench/report"
	"loci/lab/chart"
)

const (
	multihomingFlows  = 100
	multihomingLinks  = 4
	multihomingRounds = 3
	// multihomingSettles is how long flows run before they are measured, and multihomingLasts for how long they
	// are.
	multihomingSettles = 2 * time.Second
	multihomingLasts   = 5 * time.Second
	// linksWait is how long a change of links may take to reach the other site.
	linksWait = 90 * time.Second
	// leastOfLinks is what n links must carry of n times what one does.
	leastOfLinks = 0.95

	metricGoodput = "goodput"
)

// multihomingDirections are the cases: client and server of the flows.
var multihomingDirections = []struct{ name, client, server string }{
	{"out of the site", "host-a", "host-b"}, {"into the site", "host-b", "host-a"},
}

var multihomingHosts = map[string]netip.Addr{
	"host-a": netip.AddrFrom4([4]byte{10, 1, 0, 2}), "host-b": netip.AddrFrom4([4]byte{10, 2, 0, 2}),
}

func linksArm(engine string, links int) string { return fmt.Sprintf("%s, %d links", engine, links) }

func measureMultihoming(ctx context.Context, m *measuring) error {
	for round := range multihomingRounds {
		for links := 1; links <= multihomingLinks; links++ {
			if err := m.useLinks(ctx, links); err != nil {
				return fmt.Errorf("%d links: %w", links, err)
			}
			if err := m.bothDirections(ctx, round, links); err != nil {
				return fmt.Errorf("%d links: %w", links, err)
			}
		}
	}
	return nil
}

func (m *measuring) bothDirections(ctx context.Context, round, links int) error {
	for _, d := range multihomingDirections {
		rate, err := m.goodput(ctx, transfer{
			client: m.Nodes[d.client], server: m.Nodes[d.server], to: multihomingHosts[d.server],
			flows: multihomingFlows, settles: multihomingSettles, lasts: multihomingLasts,
		})
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		m.report.Add(d.name, linksArm(m.engine, links), []report.Sample{report.Figure(metricGoodput, "Mbit/s", rate/1e6)})
		m.screen.Line("round %d  %-18s %-16s %s Mbit/s", round+1, linksArm(m.engine, links), d.name, report.Digits(rate/1e6))
	}
	return nil
}

// useLinks sets the first links up and the others down, leads to the RLOCs of the other site by those that are up in
// turn, and waits until the other site knows.
func (m *measuring) useLinks(ctx context.Context, links int) error {
	router := m.Nodes["xtr-a"]
	for link := 1; link <= multihomingLinks; link++ {
		if err := router.SetUp(fmt.Sprintf("wan%d", link), link <= links); err != nil {
			return err
		}
	}
	for i := range multihomingLinks {
		to := netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, 9, byte(11 + i)}), 32)
		if err := router.ReplaceRoute(testnet.Route{Destination: to, Via: netip.AddrFrom4([4]byte{172, 16, byte(1 + i%links), 1})}); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, linksWait)
	defer cancel()
	found := 0
	err := lab.Poll(limited, m.Started, func() (bool, error) {
		entries, err := m.Daemons["xtr-b"].Client.MapCache(limited)
		found = 0
		for _, e := range entries {
			for _, l := range e.Locators {
				if l.Reachable && e.EIDPrefix.String() == "10.1.0.0/24" {
					found++
				}
			}
		}
		m.poke()
		return err == nil && found == links, nil
	})
	if err != nil {
		return fmt.Errorf("the other site knows %d locators: %w", found, err)
	}
	return nil
}

// poke has the other site ask for the mapping, by a datagram to it.
func (m *measuring) poke() {
	// without a route meanwhile, which the next one finds
	_ = m.Send("host-b", multihomingHosts["host-b"], multihomingHosts["host-a"], 0)
}

func judgeMultihoming(r *report.Report, engines []string) {
	for _, engine := range engines {
		for _, d := range multihomingDirections {
			one := r.Find(d.name, linksArm(engine, 1), metricGoodput)
			for links := 2; links <= multihomingLinks; links++ {
				many := r.Find(d.name, linksArm(engine, links), metricGoodput)
				r.Want(fmt.Sprintf("%s, %s: %d links / %d x one link", engine, d.name, links, links),
					many.Median/(float64(links)*max(one.Median, 1e-9)), report.AtLeast(leastOfLinks))
			}
		}
	}
}

func drawMultihoming(r *report.Report, engines []string) []chart.Panel {
	panels := []chart.Panel{{
		Title: "The paper, Figure 5", Notes: []string{"A virtual machine, 4 interfaces of 10 Mbit/s, 100 flows.", "From the text: efficient multihoming, limited",
			"by the overhead of the encapsulation headers.", "The text has no figures."},
	}}
	for _, d := range multihomingDirections {
		p := chart.Panel{Title: fmt.Sprintf("Loci, %s, %s", r.Environment.Date, d.name), X: "links of 10 Mbit/s", Y: "goodput of 100 flows, Mbit/s", YTo: 10 * multihomingLinks}
		for _, engine := range engines {
			l := chart.Line{Name: engine, Points: []chart.Point{{}}}
			for links := 1; links <= multihomingLinks; links++ {
				l.Points = append(l.Points, chart.Point{X: float64(links), Y: r.Find(d.name, linksArm(engine, links), metricGoodput).Median})
			}
			p.Lines = append(p.Lines, l)
		}
		panels = append(panels, p)
	}
	return panels
}

// SPDX-License-Identifier: Apache-2.0

package measured

// oor-nat: what a NAT costs a site that is reached by an RTR, how many bindings its flows make there, how soon it is
// reached again when the NAT has forgotten, and what it sends while it is idle.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"loci/internal/testnet"
	"loci/lab"
	"loci/lab/bench/report"
	"loci/lab/chart"
	"loci/lab/experiment"
)

const (
	natRounds    = 9
	natFlows     = 200
	natForgets   = 3
	natTransfers = 8
	natSettles   = time.Second
	natLasts     = 2 * time.Second
	// natKeepalive is that of the file.
	natKeepalive = 5 * time.Second
	// natIdle is how long an idle node is watched.
	natIdle = time.Minute
	// natRegister is how long the next Map-Register may take, which comes each minute.
	natRegister = 90 * time.Second
	// natBroken is how long a node without keepalives must stay unreachable.
	natBroken = 2 * natKeepalive

	dataPort, controlPort = 4341, 4342

	metricBindings, metricBack, metricAnswered = "bindings", "back", "pings answered"
	metricSends, metricGets                    = "datagrams out", "datagrams in"
)

var (
	natRTR   = netip.AddrFrom4([4]byte{172, 16, 7, 2})
	natHosts = map[string]netip.Addr{
		"host-a": netip.AddrFrom4([4]byte{10, 1, 0, 2}), "host-b": netip.AddrFrom4([4]byte{10, 2, 0, 2}),
		"host-c": netip.AddrFrom4([4]byte{10, 3, 0, 2}), "host-d": netip.AddrFrom4([4]byte{10, 4, 0, 2}),
	}
)

// natCases are the directions in which the site behind the NAT and the one without it transfer.
var natCases = []struct {
	name string
	out  bool
}{{"out of the site", true}, {"into the site", false}}

func masqueraded(engine string) string { return engine + ", masquerade" }
func routed(engine string) string      { return engine + ", no NAT" }

func measureNAT(ctx context.Context, m *measuring) error {
	for _, host := range []string{"host-a", "host-c", "host-d"} {
		if _, reached, err := m.reached(ctx, host, experiment.DefaultTimeout); err != nil || !reached {
			return errors.Join(fmt.Errorf("%s does not reach %s", "host-b", host), err)
		}
	}
	for round := range natRounds {
		if err := m.natGoodput(ctx, round); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{m.natBindings, m.natForgotten, m.natIdle} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m *measuring) natGoodput(ctx context.Context, round int) error {
	for _, c := range natCases {
		for arm, host := range map[string]string{masqueraded(m.engine): "host-a", routed(m.engine): "host-c"} {
			client, server := host, "host-b"
			if !c.out {
				client, server = server, client
			}
			rate, err := m.goodput(ctx, transfer{
				client: m.Nodes[client], server: m.Nodes[server], to: natHosts[server],
				flows: natTransfers, settles: natSettles, lasts: natLasts,
			})
			if err != nil {
				return err
			}
			m.add(c.name, arm, metricGoodput, "Mbit/s", rate/1e6)
			m.screen.Line("round %d  %-18s %-16s %s Mbit/s", round+1, arm, c.name, report.Digits(rate/1e6))
		}
	}
	return nil
}

func (m *measuring) add(caseName, arm, metric, unit string, value float64) {
	m.report.Add(caseName, arm, []report.Sample{report.Figure(metric, unit, value)})
}

// reached pings a host from the site without a NAT until it answers.
func (m *measuring) reached(ctx context.Context, host string, within time.Duration) (after time.Duration, reached bool, err error) {
	for began := time.Now(); time.Since(began) < within; {
		result, err := testnet.Ping{Namespace: m.Nodes["host-b"], Destination: natHosts[host],
			Timeout: 100 * time.Millisecond}.Run(ctx)
		if err != nil || result.Received > 0 {
			return time.Since(began), result.Received > 0, err
		}
	}
	return within, false, nil
}

func (m *measuring) box(name string) testnet.NAT {
	return testnet.NAT{Namespace: m.Nodes[name], Outside: "core"}
}

// natBindings counts what many flows of the node leave in the NAT.
func (m *measuring) natBindings(context.Context) error {
	if err := m.box("nat-a").Forget(); err != nil {
		return err
	}
	for i := range natFlows {
		if err := m.Send("host-a", natHosts["host-a"], natHosts["host-b"], uint64(i)); err != nil {
			return err
		}
	}
	time.Sleep(natSettles)
	count := 0
	for _, port := range []uint16{dataPort, controlPort} {
		found, err := m.box("nat-a").Bindings(netip.AddrPortFrom(natRTR, port))
		if err != nil {
			return err
		}
		count += found
	}
	m.add(fmt.Sprintf("%d flows", natFlows), masqueraded(m.engine), metricBindings, "", float64(count))
	return nil
}

// natForgotten has the NATs forget, while only the other site sends: one node with keepalives, and one without.
func (m *measuring) natForgotten(ctx context.Context) error {
	for range natForgets {
		if err := m.box("nat-a").Forget(); err != nil {
			return err
		}
		after, _, err := m.reached(ctx, "host-a", 3*natKeepalive)
		if err != nil {
			return err
		}
		m.add("NAT forgets", masqueraded(m.engine), metricBack, "s", after.Seconds())
		m.screen.Line("%s: back %.2f s after the NAT has forgotten", m.engine, after.Seconds())
	}
	return nil
}

// natWithoutKeepalive has the NAT forget a node that sends no keepalives, as soon as it has registered: the next
// Map-Register is far away.
func (m *measuring) natWithoutKeepalive(ctx context.Context) error {
	if err := m.awaitRegister(ctx, "xtr-d"); err != nil {
		return err
	}
	if err := m.box("nat-d").Forget(); err != nil {
		return err
	}
	after, answered, err := m.reached(ctx, "host-d", natBroken)
	if err != nil {
		return err
	}
	value := 0.0
	if answered {
		value = 1
		m.screen.Line("%s: without keepalives back after %.2f s", m.engine, after.Seconds())
	}
	m.add("NAT forgets", m.engine+", no keepalive", metricAnswered, "", value)
	return nil
}

// awaitRegister waits until a router has registered once more.
func (m *measuring) awaitRegister(ctx context.Context, router string) error {
	limited, cancel := context.WithTimeout(ctx, natRegister)
	defer cancel()
	var first time.Time
	err := lab.Poll(limited, m.Started, func() (bool, error) {
		nat, err := m.Daemons[router].Client.NAT(limited)
		if err != nil || len(nat.RTRs) == 0 || nat.RTRs[0].ConfirmedAt == nil {
			return false, err
		}
		if first.IsZero() {
			first = *nat.RTRs[0].ConfirmedAt
		}
		return nat.RTRs[0].ConfirmedAt.After(first), nil
	})
	if err != nil {
		return fmt.Errorf("%s does not register: %w", router, err)
	}
	return nil
}

// natIdle counts the datagrams of a node that has nothing to send.
func (m *measuring) natIdle(ctx context.Context) error {
	var out, in atomic.Int64
	running, err := testnet.Capture{Namespace: m.Nodes["nat-a"],
		Links: []string{"inside"}}.Start(func(c testnet.Captured) error {
		switch {
		case len(c.Data) < 14 || c.Data[12] != 8 || c.Data[13] != 0: // of Ethernet: not IPv4
		case c.Outgoing:
			in.Add(1)
		default:
			out.Add(1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	other := make(chan error, 1)
	go func() { other <- m.natWithoutKeepalive(ctx) }() // which does not concern this node
	err = lab.Sleep(ctx, natIdle)
	sent, got := out.Load(), in.Load()
	if err := errors.Join(err, <-other, running.Stop()); err != nil {
		return err
	}
	m.add("idle for a minute", masqueraded(m.engine), metricSends, "", float64(sent))
	m.add("idle for a minute", masqueraded(m.engine), metricGets, "", float64(got))
	return nil
}

func judgeNAT(r *report.Report, engines []string) {
	const mostIdle = 1.2 * float64(time.Minute/natKeepalive)
	for _, engine := range engines {
		on, off := masqueraded(engine), routed(engine)
		r.Compare(metricGoodput, on, off)
		r.WantRatio(metricGoodput, on, off, report.AtLeast(0.95))
		want := func(caseName, arm, metric string, bound report.Bound) {
			r.Want(fmt.Sprintf("%s: %s: %s", caseName, arm, metric), r.Find(caseName, arm, metric).Max, bound)
		}
		want(fmt.Sprintf("%d flows", natFlows), on, metricBindings, report.AtMost(2))
		want("NAT forgets", on, metricBack, report.AtMost((natKeepalive + time.Second).Seconds()))
		want("NAT forgets", engine+", no keepalive", metricAnswered, report.AtMost(0))
		want("idle for a minute", on, metricSends, report.AtMost(mostIdle))
		want("idle for a minute", on, metricGets, report.AtMost(mostIdle))
	}
}

// drawNAT draws the goodput of each round, round by round.
func drawNAT(r *report.Report, engines []string) (panels []chart.Panel) {
	for _, c := range natCases {
		p := chart.Panel{Title: fmt.Sprintf("Loci, %s, %s", r.Environment.Date, c.name), X: "round", Y: "goodput by the RTR, Mbit/s"}
		for _, engine := range engines {
			p.Lines = append(p.Lines, natLine(r, c.name, masqueraded(engine)), natLine(r, c.name, routed(engine)))
		}
		for _, l := range p.Lines {
			p.YTo = max(p.YTo, slices.MaxFunc(l.Points, func(a, b chart.Point) int { return cmp.Compare(a.Y, b.Y) }).Y)
		}
		panels = append(panels, p)
	}
	return panels
}

func natLine(r *report.Report, caseName, arm string) chart.Line {
	l := chart.Line{Name: arm}
	for i, v := range r.Find(caseName, arm, metricGoodput).Samples {
		l.Points = append(l.Points, chart.Point{X: float64(i + 1), Y: v})
	}
	return l
}

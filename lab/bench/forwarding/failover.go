// SPDX-License-Identifier: Apache-2.0

// `loci bench failover`: a site with two routers, each with a provider of its own (docs/multihoming.md). How long packets are
// missing when one provider dies, with its link and behind a link that stays up, and how flows are spread by weights.
//
// Echo requests go a thousand times a second from a host of the site, whose gateway is the router that loses its provider,
// and TCP transfers run in both directions; one that ends is an error. The figures are gaps: how long no request was answered.

package forwarding

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	armSiblings = "two routers"

	caseLink  = "provider-dies/link"
	casePath  = "provider-dies/path"
	caseSplit = "weights"

	// Two addresses are pinged at the same time, of pingTargets: the answers of one come back by the first router, of the
	// other by the second.
	pingFlows   = 2
	pingTargets = 24
	pingsEvery  = time.Millisecond
	// dieAfter is how long traffic runs before the provider dies.
	dieAfter = 500 * time.Millisecond
	// linkTraffic and pathTraffic are how long it runs in all: longer than the gap that is waited for.
	linkTraffic = 3 * time.Second
	pathTraffic = 6 * time.Second
	// failoverPatience bounds what is waited for: three RLOC-probes that are answered, for the most part.
	failoverPatience = 25 * time.Second

	// probeInterval is that of the routers' RLOC-probes.
	probeInterval = time.Second

	fewerFlows, moreFlows = 1000, 20000
	flowsOfSocket         = 1000
	// shareOfFirst is what weights 10 and 15 give the first router, in per cent.
	shareOfFirst = 40
)

// Failover is the bench of a site with two routers.
func Failover() testbed.Bench {
	return testbed.Bench{
		Name: "failover", Title: "a site with two routers when one of their providers dies, and flows by weights",
		Rounds: 1, Length: 20 * time.Second, Cases: []string{caseLink, casePath, caseSplit}, Whole: measureFailover, Judge: judgeFailover,
	}
}

func measureFailover(ctx context.Context, b *testbed.Run) error {
	n, err := buildFailover(ctx, b)
	if err != nil {
		return err
	}
	for round := range b.Bench.Rounds {
		b.Screen.Progress(round, b.Bench.Rounds)
		for _, name := range b.Bench.Cases {
			samples, err := n.measure(ctx, name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			b.Report.Add(name, armSiblings, samples)
		}
	}
	b.Screen.Progress(b.Bench.Rounds, b.Bench.Rounds)
	return nil
}

func (n *failoverNetwork) measure(ctx context.Context, name string) ([]report.Sample, error) {
	if err := n.awaitBoth(ctx); err != nil {
		return nil, err
	}
	if name == caseSplit {
		return n.splits(ctx)
	}
	die, length := n.link, linkTraffic
	if name == casePath {
		die, length = n.path, pathTraffic
	}
	gap, err := n.gapDuring(ctx, length, die)
	return []report.Sample{report.Figure("longest gap", "ms", float64(gap)/1e6)}, errors.Join(err, die(true))
}

// link takes the carrier of the first router's link, or gives it back.
func (n *failoverNetwork) link(up bool) error { return n.at["isp1"].SetUp("to-xtr1", up) }

// path makes the first router's provider drop everything silently, or pass it again.
func (n *failoverNetwork) path(up bool) error {
	value := "0"
	if up {
		value = "1"
	}
	return errors.Join(n.at["isp1"].SetSysctl("net.ipv4.ip_forward", value), n.at["isp1"].SetSysctl("net.ipv6.conf.all.forwarding", value))
}

// gapDuring runs traffic while something dies.
func (n *failoverNetwork) gapDuring(ctx context.Context, length time.Duration, die func(up bool) error) (time.Duration, error) {
	targets, err := n.chooseTargets(ctx)
	if err != nil {
		return 0, err
	}
	pings := make(chan testnet.PingResult, pingFlows)
	errs := make(chan error, pingFlows+2)
	for _, to := range targets {
		go func() {
			result, err := testnet.Ping{
				Namespace: n.at["host1"], Source: failoverHost1, Destination: to, Count: int(length / pingsEvery), Interval: pingsEvery, Timeout: time.Second,
			}.Run(ctx)
			pings <- result
			errs <- err
		}()
	}
	for _, t := range []testnet.TCP{
		{Client: n.at["host1"], Source: failoverHost1, Server: n.at["host2"], Destination: failoverHost2},
		{Client: n.at["host2"], Source: failoverHost2, Server: n.at["host1"], Destination: failoverHost1},
	} {
		t.Duration, t.Verify, t.Timeout = length, true, length+failoverPatience
		go func() {
			_, err := t.Run(ctx)
			errs <- err
		}()
	}
	time.Sleep(dieAfter)
	all := []error{die(false)}
	for range cap(errs) {
		all = append(all, <-errs)
	}
	longest := time.Duration(0)
	for range pingFlows {
		longest = max(longest, longestGap(<-pings))
	}
	return longest, errors.Join(all...)
}

// chooseTargets finds an address whose answers come back by the first router, and one of the second.
func (n *failoverNetwork) chooseTargets(ctx context.Context) (targets [pingFlows]netip.Addr, err error) {
	const tries = 20
	for i := range pingTargets {
		before, err := n.decapsulated(ctx)
		if err != nil {
			return targets, err
		}
		ping := testnet.Ping{Namespace: n.at["host1"], Source: failoverHost1, Destination: pingTarget(i), Count: tries, Interval: pingsEvery}
		if result, err := ping.Run(ctx); err != nil || result.Received < tries {
			return targets, errors.Join(err, fmt.Errorf("%d of %d pings to %s answered", result.Received, tries, pingTarget(i)))
		}
		after, err := n.decapsulated(ctx)
		if err != nil {
			return targets, err
		}
		for router := range targets {
			if after[router]-before[router] >= tries {
				targets[router] = pingTarget(i)
			}
		}
		if targets[0].IsValid() && targets[1].IsValid() {
			return targets, nil
		}
	}
	return targets, fmt.Errorf("the answers of all %d addresses come back by one router", pingTargets)
}

// pingTarget is one of the other host's addresses.
func pingTarget(i int) netip.Addr {
	octets := failoverHost2.As4()
	octets[3] += byte(i)
	return netip.AddrFrom4(octets)
}

// longestGap is the longest time without an answer.
func longestGap(r testnet.PingResult) time.Duration {
	longest, gap := 0, 0
	for _, trip := range r.RoundTrips {
		if gap++; trip >= 0 {
			gap = 0
		}
		longest = max(longest, gap)
	}
	return time.Duration(longest) * pingsEvery
}

// awaitBoth waits until traffic goes by both routers again.
func (n *failoverNetwork) awaitBoth(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, failoverPatience)
	defer cancel()
	for {
		if n.bothWork(limited) {
			return nil
		}
		select {
		case <-limited.Done():
			return fmt.Errorf("both routers in use: not within %v", failoverPatience)
		case <-time.After(testbed.PollInterval):
		}
	}
}

func (n *failoverNetwork) bothWork(ctx context.Context) bool {
	ping, err := testnet.Ping{Namespace: n.at["host1"], Source: failoverHost1, Destination: failoverHost2, Timeout: 100 * time.Millisecond}.Run(ctx)
	if err != nil || ping.Received == 0 {
		return false
	}
	siblings, err := n.xtr1.Client.Siblings(ctx)
	if err != nil || siblings.ForwardingSibling != "" || len(siblings.Siblings) == 0 || !siblings.Siblings[0].Answers {
		return false
	}
	locators, err := n.xtr2.Client.Locators(ctx)
	up := func(rloc netip.Addr) bool {
		return slices.ContainsFunc(locators, func(l api.LocatorState) bool { return l.RLOC.Addr() == rloc && l.State == "up" })
	}
	return err == nil && up(failoverRLOC1) && up(failoverRLOC3)
}

// splits counts by which router flows of random ports come in.
func (n *failoverNetwork) splits(ctx context.Context) ([]report.Sample, error) {
	var samples []report.Sample
	for _, flows := range []int{fewerFlows, moreFlows} {
		share, err := n.split(ctx, flows)
		if err != nil {
			return nil, err
		}
		samples = append(samples, report.Figure(fmt.Sprintf("share of weight 10, %d flows", flows), "%", share))
	}
	return samples, nil
}

func (n *failoverNetwork) split(ctx context.Context, flows int) (share float64, err error) {
	before, err := n.decapsulated(ctx)
	if err != nil {
		return 0, err
	}
	if err := n.sendFlows(flows); err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(failoverPatience); ; {
		after, err := n.decapsulated(ctx)
		if err != nil {
			return 0, err
		}
		one, three := after[0]-before[0], after[1]-before[1]
		if int(one+three) >= flows {
			return 100 * float64(one) / float64(one+three), nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("%d of %d flows arrived", one+three, flows)
		}
		time.Sleep(testbed.PollInterval)
	}
}

func (n *failoverNetwork) decapsulated(ctx context.Context) (packets [2]uint64, err error) {
	for i, p := range []*testbed.Process{n.xtr1, n.xtr3} {
		counters, err := p.Client.Counters(ctx)
		if err != nil {
			return packets, err
		}
		packets[i] = counters.DataPlane["decapsulated_packets_total"]
	}
	return packets, nil
}

// sendFlows sends a datagram of each flow.
func (n *failoverNetwork) sendFlows(flows int) error {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(flows)))
	for port := uint16(20000); flows > 0; port++ {
		conn, err := n.at["host2"].ListenUDP(netip.AddrPortFrom(failoverHost2, port))
		if err != nil {
			return err
		}
		for _, to := range random.Perm(50000)[:min(flows, flowsOfSocket)] {
			if _, err := conn.WriteToUDPAddrPort([]byte("a flow"), netip.AddrPortFrom(failoverHost1, uint16(1024+to))); err != nil {
				return errors.Join(err, conn.Close())
			}
		}
		flows -= min(flows, flowsOfSocket)
		if err := conn.Close(); err != nil {
			return err
		}
	}
	return nil
}

func judgeFailover(r *report.Report) {
	if gap := r.Find(caseLink, armSiblings, "longest gap"); gap != nil {
		r.Want(caseLink+": longest gap in ms", gap.Value, report.AtMost(100))
	}
	if gap := r.Find(casePath, armSiblings, "longest gap"); gap != nil {
		r.Want(casePath+": longest gap in RLOC-probe intervals", gap.Value*1e6/float64(probeInterval), report.AtMost(3))
	}
	for flows, points := range map[int]float64{fewerFlows: 5, moreFlows: 1.5} {
		if share := r.Find(caseSplit, armSiblings, fmt.Sprintf("share of weight 10, %d flows", flows)); share != nil {
			r.Want(fmt.Sprintf("%s: points off 40 %%, %d flows", caseSplit, flows), max(share.Value-shareOfFirst, shareOfFirst-share.Value), report.AtMost(points))
		}
	}
	slices.SortFunc(r.Targets, func(a, b report.Target) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) })
}

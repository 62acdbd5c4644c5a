// SPDX-License-Identifier: Apache-2.0

package relay

// The arms: the same three routers in a line, each arm with another way through them.

import (
	"context"
	"errors"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
)

// Names of arms, as they stand in reports. The others have those of every bench.
const (
	armTC        = "loci tc, with a relay"
	armXDP       = "loci XDP, with a relay"
	armAlone     = "loci XDP relay alone"
	armAlonePath = "loci XDP relay alone, path of four hops" // the same relay, with packets to other EIDs
)

func arms() []testbed.Arm {
	arm := func(a testbed.Arm, name, key string, build func(context.Context, *testbed.Run, *testbed.Line) error) testbed.Arm {
		a.Name, a.Key, a.Relayed, a.Build = name, key, true, build
		return a
	}
	routing, vxlan, redirect := testbed.Routing, testbed.VXLAN, testbed.Redirect
	return []testbed.Arm{
		arm(routing, routing.Name, routing.Key, buildRouting), arm(vxlan, vxlan.Name, vxlan.Key, buildVXLAN),
		arm(redirect, redirect.Name, redirect.Key, buildRedirect),
		arm(testbed.LociTC, armTC, "loci", func(ctx context.Context, b *testbed.Run, l *testbed.Line) error { return buildLoci(ctx, b, l, "tc") }),
		arm(testbed.LociXDP, armXDP, "lxdp", func(ctx context.Context, b *testbed.Run, l *testbed.Line) error { return buildLoci(ctx, b, l, "xdp") }),
		arm(testbed.LociXDP, armAlone, "alone", buildAlone),
	}
}

// buildRouting gives all routers routes to both sites.
func buildRouting(_ context.Context, _ *testbed.Run, l *testbed.Line) error {
	var all []error
	for _, p := range testbed.Pairs {
		for i, hop := range p.CoreHops(false) {
			near, far := routersOf(l, i)
			all = append(all,
				near.AddRoute(testnet.Route{Destination: testbed.DestinationsOf(p), Via: hop.Far.Addr()}),
				far.AddRoute(testnet.Route{Destination: p.Sources, Via: hop.Near.Addr()}))
		}
	}
	return errors.Join(all...)
}

// routersOf are the two at one of the links from Enc to Dec.
func routersOf(l *testbed.Line, link int) (near, far *testnet.Namespace) {
	if link == 0 {
		return l.Enc, l.Rel
	}
	return l.Rel, l.Dec
}

// buildVXLAN joins Enc and Rel, and Rel and Dec, by a tunnel over each family, and routes each pair through its own.
func buildVXLAN(_ context.Context, _ *testbed.Run, l *testbed.Line) error {
	for i, over := range twoPairs {
		if err := errors.Join(buildTunnel(l, over, i, 0), buildTunnel(l, over, 2+i, 1)); err != nil {
			return err
		}
	}
	return nil
}

// buildTunnel makes one at a link from Enc to Dec, for the pairs whose RLOCs are of that family.
func buildTunnel(l *testbed.Line, over testbed.Pair, number, link int) error {
	near, far := routersOf(l, link)
	hop := over.CoreHops(true)[link]
	t := testbed.Tunnel{Number: number, Ends: [2]testbed.TunnelEnd{
		{Namespace: near, Underlay: linkOf(link, true), Address: hop.Near.Addr()},
		{Namespace: far, Underlay: linkOf(link, false), Address: hop.Far.Addr()},
	}}
	if err := t.Build(); err != nil {
		return err
	}
	for _, p := range testbed.Pairs {
		if p.Outer4() != over.Outer4() {
			continue
		}
		if err := t.Lead(p); err != nil {
			return err
		}
	}
	return nil
}

// linkOf is the interface at one of the links from Enc to Dec, at its end towards Enc or towards Dec.
func linkOf(link int, near bool) string {
	if link == 1 && near {
		return testbed.OnwardLink
	}
	return testbed.CoreLink
}

// buildRedirect makes each router an XDP program that knows its one next hop.
func buildRedirect(_ context.Context, _ *testbed.Run, l *testbed.Line) error {
	return errors.Join(
		l.Redirect(l.Enc, testbed.SiteLink, testbed.CoreLink, l.Rel, testbed.CoreLink),
		l.Redirect(l.Rel, testbed.CoreLink, testbed.OnwardLink, l.Dec, testbed.CoreLink),
		l.Redirect(l.Dec, testbed.CoreLink, testbed.SiteLink, l.Dst, testbed.HostLink),
	)
}

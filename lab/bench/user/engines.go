// SPDX-License-Identifier: Apache-2.0

package user

// The engines that are Loci's own, and the floor.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
	"loci/lab/bench/tunnel"
)

// Names of arms, as they stand in reports.
const (
	ArmRouting   = testbed.ArmRouting
	ArmBare      = "bare TUN-UDP loop"
	ArmUser      = "loci user"
	ArmUserPort  = "loci user, one source port"
	ArmKernel    = "loci kernel"
	ArmOOR       = "OpenOverlayRouter"
	ArmOpenVPN   = "OpenVPN without cipher"
	ArmWireGuard = "wireguard-go"
)

// Engine carries packets between Enc and Dec.
type Engine struct {
	Name string
	key  string // in names of namespaces
	hops int    // by which the TTL of inner packets shrinks in both routers together
	// ipv4 says that it carries IPv4 over IPv4 alone here.
	ipv4 bool
	need tool // what has to be installed; zero where nothing has
	// start runs what carries packets on one router. Nil: the routers' kernels do.
	start func(ctx context.Context, b *testbed.Run, s side) error
	// build completes the line once, before anything is started.
	build func(ctx context.Context, b *testbed.Run, l *testbed.Line) error
}

// side is one of the two routers.
type side struct {
	at            *testnet.Namespace
	number        int // 0 is Enc, 1 is Dec
	own, other    func(testbed.Pair) netip.Prefix
	local, remote func(testbed.Pair) netip.Prefix // RLOCs
}

func sidesOf(l *testbed.Line) [2]side {
	enc := func(p testbed.Pair) netip.Prefix { return p.EncCore }
	dec := func(p testbed.Pair) netip.Prefix { return p.DecCore }
	return [2]side{
		{l.Enc, 0, testbed.SourcesOf, testbed.DestinationsOf, enc, dec},
		{l.Dec, 1, testbed.DestinationsOf, testbed.SourcesOf, dec, enc},
	}
}

// Pairs are the pairs of families that are measured, by the names of cases.
var pairs = map[string]testbed.Pair{"ipv4": testbed.Pairs[0], "ipv6": testbed.Pairs[3]}

// Engines are all of them, in the order of reports.
func Engines() []*Engine {
	return []*Engine{
		{Name: ArmRouting, key: "plain", hops: 2, build: testbed.Routing.Build},
		{Name: ArmBare, key: "bare", hops: 2, start: startBare},
		{Name: ArmOOR, key: "oor", hops: 2, ipv4: true, need: oor, start: startOOR},
		{Name: ArmOpenVPN, key: "ovpn", hops: 2, ipv4: true, need: openVPN, start: startOpenVPN},
		{Name: ArmWireGuard, key: "wg", hops: 2, ipv4: true, need: wireGuard, start: startWireGuard},
		{Name: ArmUser, key: "user", hops: 2, start: lociWith("user")},
		{Name: ArmUserPort, key: "uport", hops: 2, start: lociFromPort},
		{Name: ArmKernel, key: "kern", hops: 2, start: lociWith("kernel")},
	}
}

// lociWith runs a router with static mappings: no control message is part of this.
func lociWith(engine string) func(context.Context, *testbed.Run, side) error {
	return func(ctx context.Context, b *testbed.Run, s side) error {
		interfaces := fmt.Sprintf("interfaces:\n  site: [%s]\n  core: [%s]\n", testbed.SiteLink, testbed.CoreLink)
		site := testbed.SiteConfig(s.own, s.other, func(p testbed.Pair) (own, remote netip.Prefix) { return s.local(p), s.remote(p) })
		_, err := b.StartDaemon(ctx, s.at, interfaces+site+"datapath:\n  engine: "+engine+"\n")
		return err
	}
}

// lociFromPort is lociWith of the user engine, whose packets all leave from one source port.
func lociFromPort(ctx context.Context, b *testbed.Run, s side) error {
	if err := b.WithMapSockets(func() error { return lociWith("user")(ctx, b, s) }); err != nil {
		return err
	}
	return b.LeaveFromPort(ctx, s.at, s.other, s.remote)
}

// startBare runs a loop for each family of RLOCs, and routes the pair of the same family of EIDs through it.
func startBare(ctx context.Context, b *testbed.Run, s side) error {
	const port = 4341
	for name, p := range pairs {
		link, local, remote := "bare-"+name, s.local(p).Addr(), s.remote(p).Addr()
		cmd := exec.Command(b.Options.Self, "tunnel", link, netip.AddrPortFrom(local, port).String(), netip.AddrPortFrom(remote, port).String())
		overhead := udpOctets + tunnel.HeaderOctets + testbed.IPv6Octets
		if p.Outer4() {
			overhead = udpOctets + tunnel.HeaderOctets + testbed.IPv4Octets
		}
		if err := startTunnel(ctx, b, s, cmd, link); err != nil {
			return err
		}
		if err := errors.Join(s.at.SetMTU(link, testbed.LinkMTUOctets-overhead), s.lead(p, link)); err != nil {
			return err
		}
	}
	return nil
}

const udpOctets = 8

// startTunnel runs a command that makes a TUN.
func startTunnel(ctx context.Context, b *testbed.Run, s side, cmd *exec.Cmd, link string) error {
	_, err := b.StartCommand(ctx, s.at, link, cmd, func() bool {
		_, err := testbed.LinkOf(s.at, link)
		return err == nil
	})
	return err
}

// lead routes the other site's EIDs into a tunnel.
func (s side) lead(p testbed.Pair, link string) error {
	if err := s.at.SetUp(link, true); err != nil {
		return err
	}
	return s.at.AddRoute(testnet.Route{Destination: s.other(p), Link: link})
}

// Arm is an engine as an arm of a bench. Its processes are started with its line.
func (e *Engine) Arm() testbed.Arm {
	return testbed.Arm{Name: e.Name, Key: e.key, Hops: e.hops / 2, Outer: func(testbed.Pair) int { return 0 }, Build: e.Build}
}

// Build completes a line, and starts the engine.
func (e *Engine) Build(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
	if e.build != nil {
		if err := e.build(ctx, b, l); err != nil {
			return err
		}
	}
	return e.Start(ctx, b, l)
}

// Start starts the engine on both routers, and waits until packets get through.
func (e *Engine) Start(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
	if e.start == nil {
		return nil
	}
	for _, s := range sidesOf(l) {
		if err := e.start(ctx, b, s); err != nil {
			return err
		}
	}
	for name, p := range pairs {
		if e.carries(name) {
			if err := awaitPath(ctx, l, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restart stops the engine and starts it again: what an overload did to it is gone.
func (e *Engine) Restart(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
	if e.start == nil {
		return nil
	}
	if err := stopAt(b, l.Enc, l.Dec); err != nil {
		return err
	}
	return e.Start(ctx, b, l)
}

// stopAt ends what runs in namespaces.
func stopAt(b *testbed.Run, at ...*testnet.Namespace) error {
	var errs []error
	for _, ns := range at {
		for _, p := range b.ProcessesAt(ns) {
			errs = append(errs, b.Stop(p))
		}
	}
	return errors.Join(errs...)
}

// carries says whether it is measured with a family.
func (e *Engine) carries(family string) bool { return !e.ipv4 || family == "ipv4" }

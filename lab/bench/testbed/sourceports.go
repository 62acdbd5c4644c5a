// SPDX-License-Identifier: Apache-2.0

// Arms of which all data packets leave from one source port, with an outer UDP checksum, as a node's behind a NAT do.
// The mappings get it by `loci map`: static ones of a configuration have none.

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"

	"loci/internal/testnet"
)

// Names of the arms in reports.
const (
	ArmTCPort  = "loci tc, one source port"
	ArmXDPPort = "loci XDP, one source port"
)

var (
	// LociTCPort is LociTC, from one source port.
	LociTCPort = Arm{Name: ArmTCPort, Key: "tcport", Build: fromPort(buildLoci), Hops: 1, Outer: outerOctets}
	// LociXDPPort is LociXDP, from one source port.
	LociXDPPort = Arm{Name: ArmXDPPort, Key: "lxport", Build: fromPort(buildLociXDP), Frames: true, Hops: 1, Outer: outerOctets}
)

// fromPort is a build after which the packets of both routers leave from one port.
func fromPort(build func(context.Context, *Run, *Line) error) func(context.Context, *Run, *Line) error {
	return func(ctx context.Context, b *Run, l *Line) error {
		if err := b.WithMapSockets(func() error { return build(ctx, b, l) }); err != nil {
			return err
		}
		return errors.Join(
			b.LeaveFromPort(ctx, l.Enc, DestinationsOf, func(p Pair) netip.Prefix { return p.DecCore }),
			b.LeaveFromPort(ctx, l.Dec, SourcesOf, func(p Pair) netip.Prefix { return p.EncCore }))
	}
}

// mapSocket is the mapping socket of a daemon.
func (b *Run) mapSocket(ns *testnet.Namespace) string { return b.Instance.Path(ns.Role() + ".map") }

// WithMapSockets gives the daemons that are started meanwhile mapping sockets, which LeaveFromPort needs.
func (b *Run) WithMapSockets(start func() error) error {
	b.mapSockets = true
	defer func() { b.mapSockets = false }()
	return start()
}

// mapSocketKey is the line of a configuration for it.
func (b *Run) mapSocketKey(ns *testnet.Namespace) string {
	if !b.mapSockets {
		return ""
	}
	return fmt.Sprintf("  mapping-socket: {path: %s}\n", b.mapSocket(ns))
}

// LeaveFromPort has packets to the remote EID-Prefixes of each pair leave from port 4341 of a router.
func (b *Run) LeaveFromPort(ctx context.Context, ns *testnet.Namespace, remote, rloc func(Pair) netip.Prefix) error {
	for _, p := range Pairs {
		eid := remote(p).String()
		for _, words := range [][]string{{"delete", eid}, {"add", eid, rloc(p).Addr().String() + "@4341", "1", "100", "1"}} {
			cmd := exec.CommandContext(ctx, b.Options.Executable, append([]string{"map", "--socket", b.mapSocket(ns)}, words...)...)
			if output, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("loci map %v: %w: %s", words, err, output)
			}
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

// Arms whose mappings have two locators, the second one in reserve, without bindings and with all flows of the benches
// bound to the first. The mappings and the flows come by the mapping socket.

package testbed

import (
	"context"
	"errors"
	"net/netip"

	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
	"loci/mapsock"
)

// Names of the arms in reports.
const (
	ArmTCTwo    = "loci tc, two locators"
	ArmTCBound  = "loci tc, bound flows"
	ArmXDPTwo   = "loci XDP, two locators"
	ArmXDPBound = "loci XDP, bound flows"
)

// boundFlows is how many flows between the hosts are bound, from firstPort on.
const boundFlows = 1000

var (
	// LociTCTwo is LociTC with two locators in each mapping.
	LociTCTwo = Arm{Name: ArmTCTwo, Key: "tctwo", Build: withTwo(buildLoci, 0), Hops: 1, Outer: outerOctets}
	// LociTCBound is LociTCTwo with bound flows.
	LociTCBound = Arm{Name: ArmTCBound, Key: "tcbnd", Build: withTwo(buildLoci, boundFlows), Hops: 1,
		Outer: outerOctets}
	// LociXDPTwo is LociXDP with two locators in each mapping.
	LociXDPTwo = Arm{Name: ArmXDPTwo, Key: "lxtwo", Build: withTwo(buildLociXDP, 0), Frames: true, Hops: 1,
		Outer: outerOctets}
	// LociXDPBound is LociXDPTwo with bound flows.
	LociXDPBound = Arm{Name: ArmXDPBound, Key: "lxbnd", Build: withTwo(buildLociXDP, boundFlows), Frames: true,
		Hops: 1, Outer: outerOctets}
)

// withTwo is a build after which the mappings of Enc have two locators, and so many flows of each pair are bound.
func withTwo(build func(context.Context, *Run, *Line) error, flows int) func(context.Context, *Run, *Line) error {
	return func(ctx context.Context, b *Run, l *Line) error {
		if err := b.WithMapSockets(func() error { return build(ctx, b, l) }); err != nil {
			return err
		}
		return b.bind(l.Enc, flows)
	}
}

// bind gives the mappings of a router another locator in reserve, and binds so many flows of each pair to the first
// one.
func (b *Run) bind(ns *testnet.Namespace, flows int) error {
	client, err := mapsock.Dial(b.mapSocket(ns))
	if err != nil {
		return err
	}
	var operations []dataplane.Operation
	for _, p := range Pairs {
		mapping, err := p.mappingOfTwo()
		if err != nil {
			return errors.Join(err, client.Close())
		}
		operations = append(operations,
			dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: mapping, Static: true}})
		for i := range flows {
			operations = append(operations, dataplane.PutFlow{Path: lisp.PathTo(lisp.RLOCFromAddr(p.DecCore.Addr())), Flow: lisp.Flow{
				Source: lisp.EIDFromAddr(p.Source()), Destination: lisp.EIDFromAddr(p.Destination()),
				Protocol:   protocolUDP,
				SourcePort: uint16(firstPort + i), DestinationPort: sinkPort,
			}})
		}
	}
	return errors.Join(errors.Join(client.Apply(operations...)...), client.Close())
}

// mappingOfTwo is the mapping of the site at Dec, with its RLOC of the other family in reserve.
func (p Pair) mappingOfTwo() (lisp.Mapping, error) {
	other := map[netip.Prefix]netip.Prefix{Core4Dec: Core6Dec, Core6Dec: Core4Dec}[p.DecCore]
	prefix, err := lisp.PrefixFromNetip(0, p.destinations.Masked())
	if err != nil {
		return lisp.Mapping{}, err
	}
	locators, err := lisp.NewLocatorSet(
		lisp.Locator{RLOC: lisp.RLOCFromAddr(p.DecCore.Addr()), Priority: 1, Weight: 100, Reachable: true},
		lisp.Locator{RLOC: lisp.RLOCFromAddr(other.Addr()), Priority: 2, Weight: 100, Reachable: true},
	)
	return lisp.Mapping{Prefix: prefix, Locators: locators, TTLMinutes: lisp.TTLUnlimited}, err
}

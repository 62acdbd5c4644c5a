// SPDX-License-Identifier: Apache-2.0

// Arms whose mappings have two locators, the second one in reserve, without bindings and with all flows of the benches
// bound to the first. The mappings and the flows come by the mapping socket.

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

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

	ArmTCSubflows = "loci tc, subflows bound"
)

// SecondSiteLink is the interface of Enc to a second host of its site, where an arm has one.
const SecondSiteLink = "site2"

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
	// LociTCSubflows is LociTCBound with an ITR that binds subflows of Multipath TCP, and a second host at its
	// site.
	LociTCSubflows = Arm{Name: ArmTCSubflows, Key: "tcsub", Build: buildSubflows, Hops: 1,
		Outer: outerOctets}
)

// buildSubflows is buildLoci with `itr.mptcp`, and the second host. The ITR itself has the mappings of two locators.
func buildSubflows(ctx context.Context, b *Run, l *Line) error {
	if err := l.AddSecondHost(b.Network); err != nil {
		return err
	}
	const keys = "hook: tc"
	enc := siteInterfaces(keys, SiteLink, SecondSiteLink) + SiteConfig(SourcesOf, DestinationsOf, encRLOCs)
	enc = strings.Replace(enc, "itr:\n", "itr:\n  mptcp: {binding: stateless}\n", 1)
	for _, p := range Pairs {
		own := fmt.Sprintf("{address: %q}]}\n", p.DecCore.Addr())
		two := fmt.Sprintf("{address: %q, priority: 1}, {address: %q, priority: 2}]}\n", p.DecCore.Addr(),
			p.reserve())
		eid := fmt.Sprintf("{eid: %q, rlocs: [", p.destinations)
		enc = strings.Replace(enc, eid+own, eid+two, 1)
	}
	if err := b.WithMapSockets(func() error {
		_, err := b.StartDaemon(ctx, l.Enc, enc)
		return err
	}); err != nil {
		return err
	}
	_, err := b.StartDaemon(ctx, l.Dec,
		siteInterfaces(keys, SiteLink)+SiteConfig(DestinationsOf, SourcesOf, decRLOCs))
	return err
}

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

// reserve is Dec's RLOC of the other family.
func (p Pair) reserve() netip.Addr {
	return map[netip.Prefix]netip.Prefix{Core4Dec: Core6Dec, Core6Dec: Core4Dec}[p.DecCore].Addr()
}

// mappingOfTwo is the mapping of the site at Dec, with its RLOC of the other family in reserve.
func (p Pair) mappingOfTwo() (lisp.Mapping, error) {
	prefix, err := lisp.PrefixFromNetip(0, p.destinations.Masked())
	if err != nil {
		return lisp.Mapping{}, err
	}
	locators, err := lisp.NewLocatorSet(
		lisp.Locator{RLOC: lisp.RLOCFromAddr(p.DecCore.Addr()), Priority: 1, Weight: 100, Reachable: true},
		lisp.Locator{RLOC: lisp.RLOCFromAddr(p.reserve()), Priority: 2, Weight: 100, Reachable: true},
	)
	return lisp.Mapping{Prefix: prefix, Locators: locators, TTLMinutes: lisp.TTLUnlimited}, err
}

// BoundAt are the source ports of a pair's TCP flows that are bound at a router with a mapping socket, and how many
// events its engine has lost.
func (b *Run) BoundAt(ns *testnet.Namespace, p Pair) (ports map[uint16]bool, lost uint64, err error) {
	client, err := mapsock.Dial(b.mapSocket(ns))
	if err != nil {
		return nil, 0, err
	}
	ports = map[uint16]bool{}
	source := lisp.EIDFromAddr(p.Source())
	for entry, dumpErr := range client.DumpFlows() {
		err = errors.Join(err, dumpErr)
		if entry.Flow.Source == source && entry.Flow.Protocol == unix.IPPROTO_TCP {
			ports[entry.Flow.SourcePort] = true
		}
	}
	return ports, client.Counters().EventsLost, errors.Join(err, client.Close())
}

// SPDX-License-Identifier: Apache-2.0

// Package lispnat is `loci bench lisp-nat`: packets of established flows that LISP-NAT translates (RFC 6832 s.7),
// beside the same translation by rules of nftables without Loci, and for packets to EIDs by those rules and the
// kernel's VXLAN.
package lispnat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	rounds = 9

	manyFlows = 100
)

// Names of arms, as they stand in reports.
const (
	armRules = "rules of nftables"
	armLoci  = "loci, kernel"
	armUser  = "loci, user space"
)

// The cases of RFC 6832, as names of cases begin.
const (
	eidsOutside    = "7.1"
	privateOutside = "7.2"
	privateInside  = "7.3"
)

// The prefixes of the network: sources are the site's at Enc, destinations at Dec.
var (
	eids, private     = testbed.Pairs[0], testbed.Pairs[1] // by their sources
	inside, outside   = testbed.Pairs[0], testbed.Pairs[1] // by their destinations
	poolOfEIDs        = netip.MustParsePrefix("192.0.2.0/24")
	poolOfPrivate     = netip.MustParsePrefix("203.0.113.0/24")
	sourceOf          = map[string]testbed.Pair{eidsOutside: eids, privateOutside: private, privateInside: private}
	destinationOf     = map[string]testbed.Pair{eidsOutside: outside, privateOutside: outside, privateInside: inside}
	poolOf            = map[string]netip.Prefix{eidsOutside: poolOfEIDs, privateOutside: poolOfPrivate, privateInside: poolOfPrivate}
	casesInTheirOrder = []string{eidsOutside, privateOutside, privateInside}
	flowsInTheirOrder = []uint32{1, manyFlows}
)

// Bench is the bench of LISP-NAT.
func Bench() testbed.Bench {
	s := &state{bursts: testbed.Lossless{}}
	none := func(testbed.Pair) int { return 0 }
	k := testbed.Bench{
		Name: "lisp-nat", Title: "packets per second of flows that LISP-NAT translates, beside the same rules without Loci",
		Rounds: rounds, Length: testbed.DefaultMeasure, Attach: (*testbed.Line).Attach, Measure: s.measure, Judge: judge,
		Arms: []testbed.Arm{
			{Name: armRules, Key: "rules", Build: buildRules, Hops: 1, Outer: none},
			{Name: armLoci, Key: "loci", Build: buildLoci("kernel"), Hops: 1, Outer: none},
			{Name: armUser, Key: "user", Build: buildLoci("user"), Hops: 1, Outer: none},
		},
	}
	for _, name := range casesInTheirOrder {
		for _, flows := range flowsInTheirOrder {
			k.Cases = append(k.Cases, caseOf(name, flows))
		}
	}
	return k
}

func caseOf(name string, flows uint32) string {
	if flows == 1 {
		return name + "/1-flow"
	}
	return fmt.Sprintf("%s/%d-flows", name, flows)
}

// buildRoutes leads packets to hosts outside LISP. The default route is for the reverse path filter of loci0, too.
func buildRoutes(l *testbed.Line) error {
	return errors.Join(
		l.Enc.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: testbed.Core4Dec.Addr()}),
		l.Dec.AddRoute(testnet.Route{Destination: poolOfEIDs, Via: testbed.Core4Enc.Addr()}))
}

// buildRules translates by rules, and leads packets that Loci encapsulates through a tunnel.
func buildRules(_ context.Context, _ *testbed.Run, l *testbed.Line) error {
	tunnel := testbed.Tunnel{Ends: [2]testbed.TunnelEnd{
		{Namespace: l.Enc, Underlay: testbed.CoreLink, Address: testbed.Core4Enc.Addr()},
		{Namespace: l.Dec, Underlay: testbed.CoreLink, Address: testbed.Core4Dec.Addr()},
	}}
	return errors.Join(buildRoutes(l), tunnel.Build(), tunnel.Lead(inside), addRules(l.Enc))
}

// buildLoci runs a daemon on each router; that of the site has the engine.
func buildLoci(engine string) func(context.Context, *testbed.Run, *testbed.Line) error {
	return func(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
		if err := buildRoutes(l); err != nil {
			return err
		}
		if engine == "user" { // its trains of datagrams are cut before they leave: the sinks know single packets
			if err := l.Enc.SetOffload(testbed.CoreLink, testnet.UDPSegmentation, false); err != nil {
				return err
			}
		}
		if _, err := b.StartDaemon(ctx, l.Enc, siteConfig(engine)); err != nil {
			return err
		}
		_, err := b.StartDaemon(ctx, l.Dec, peerConfig())
		return err
	}
}

const (
	interfaces = "interfaces:\n  site: [{interface: %s, forwarding: %s}]\n  core: [{interface: %s}]\n"
	ownEID     = "    - {eid: %q, rlocs: [{address: %q}]}\n"
	mapping    = "      - {eid: %q, rlocs: [{address: %q}]}\n"
)

// siteConfig is that of the router that translates.
func siteConfig(engine string) string {
	enc, dec := testbed.Core4Enc.Addr(), testbed.Core4Dec.Addr()
	return fmt.Sprintf(interfaces, testbed.SiteLink, "stack", testbed.CoreLink) +
		"itr:\n  lisp-nat:\n" +
		fmt.Sprintf("    - {from: %q, pool: %q, translate: address}\n", eids.Sources, poolOfEIDs) +
		fmt.Sprintf("    - {from: %q, pool: %q, translate: address}\n", private.Sources, poolOfPrivate) +
		"  map-cache:\n    mappings:\n" + fmt.Sprintf(mapping, testbed.DestinationsOf(inside), dec) +
		fmt.Sprintf("      - {eid: %q, map-reply-action: natively-forward}\n", testbed.DestinationsOf(outside)) +
		"etr:\n  local-eids:\n" + fmt.Sprintf(ownEID, eids.Sources, enc) + fmt.Sprintf(ownEID, poolOfPrivate, enc) +
		"control:\ndatapath:\n  source-routes: false\n  engine: " + engine + "\n"
}

// peerConfig is that of the other site.
func peerConfig() string {
	enc, dec := testbed.Core4Enc.Addr(), testbed.Core4Dec.Addr()
	return fmt.Sprintf(interfaces, testbed.SiteLink, "fast", testbed.CoreLink) + "itr:\n  map-cache:\n    mappings:\n" +
		fmt.Sprintf(mapping, poolOfPrivate, enc) + "etr:\n  local-eids:\n" + fmt.Sprintf(ownEID, testbed.DestinationsOf(inside), dec) + "control:\n"
}

// state is what the rounds of a run know of each other.
type state struct {
	bursts testbed.Lossless
}

func (s *state) measure(ctx context.Context, _ *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	for _, name := range casesInTheirOrder {
		for _, flows := range flowsInTheirOrder {
			if caseOf(name, flows) != caseName {
				continue
			}
			if err := aim(l, name, flows); err != nil {
				return nil, err
			}
			if l.Arm.Name == armUser {
				return l.Traffic.MeasureArriving(ctx, slot)
			}
			return s.bursts.Measure(ctx, l.Traffic, l.Arm.Name+"/"+caseName, slot)
		}
	}
	return nil, fmt.Errorf("no case %q", caseName)
}

// aim has Src send packets of a case, and the sink expect them with the source of the pool.
func aim(l *testbed.Line, name string, flows uint32) error {
	source, destination := sourceOf[name].Source(), destinationOf[name].Destination()
	stream := testbed.Stream{Pair: destinationOf[name], Flows: flows, Destinations: 1}
	if err := l.Aim(stream); err != nil {
		return err
	}
	t := l.Traffic
	sent := testbed.InnerPacket(source, destination, t.Streams)
	link, ttl := t.Settings.Ifindex, t.Settings.Ttl
	frame := append(slices.Clone(t.Settings.Frame[:testbed.EthernetOctets]), sent[:]...)
	t.Expect(stream, testbed.InnerPacket(testbed.Nth(poolOf[name], source.AsSlice()[3]), destination, t.Streams), destination)
	t.Settings.Ifindex, t.Settings.Ttl, t.Settings.Checksum = link, ttl, testbed.HeaderSum(sent)
	t.Send(frame, testbed.EthernetOctets)
	return nil
}

func judge(r *report.Report) {
	r.Compare("rate", armLoci, armRules)
	r.WantRatio("rate", armLoci, armRules, report.AtLeast(0.95))
}

// SPDX-License-Identifier: Apache-2.0

package relay

// An RTR with bindings of nodes behind NATs, beside one with as many static mappings. Encapsulated packets come from
// Enc, one for each EID in turn, and a sink at Dec takes them. A Map-Server at Enc acknowledges the bindings; Dec is
// where the nodes are.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	casesBindings = "bindings/"

	// bindingsOfEach is how many EIDs of each family the RTR has; a node has at most mostOfNode of them.
	bindingsOfEach = 10_000
	mostOfNode     = 1000
)

// nodeEIDs are where the EIDs of the nodes begin, one address each, in the families of a pair.
func nodeEIDs(p testbed.Pair) netip.Prefix {
	if p.Inner4() {
		return netip.MustParsePrefix("10.64.0.0/16")
	}
	return netip.MustParsePrefix("2001:db8:64::/64")
}

// rtrOf is an RTR that is measured alone.
type rtrOf struct {
	title, key string // in names of arms, and of namespaces
	like       testbed.Arm
	datapath   string // key of that section
	hook       string
}

var rtrs = []rtrOf{
	{"loci tc RTR", "bt", testbed.LociTC, "", "tc"},
	{"loci XDP RTR", "bx", testbed.LociXDP, "", "xdp"},
	{userRTR, "bu", testbed.LociTC, "  engine: user\n", "tc"},
}

const userRTR = "loci user RTR"

func armStatic(title string) string   { return title + ", static mappings" }
func armBindings(title string) string { return title + ", bindings" }

// isRTRAlone says whether an arm is one of bindingArms.
func isRTRAlone(arm string) bool {
	return slices.ContainsFunc(rtrs, func(r rtrOf) bool { return arm == armStatic(r.title) || arm == armBindings(r.title) })
}

// bindingArms are two for each RTR, with so many EIDs of each family.
func bindingArms(each int) (arms []testbed.Arm) {
	for _, r := range rtrs {
		static, binds := r.like, r.like
		static.Name, static.Key, static.Relayed = armStatic(r.title), r.key+"s", true
		static.Build = func(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
			_, err := r.start(ctx, b, l, staticMappings(each), "")
			return err
		}
		binds.Name, binds.Key, binds.Relayed = armBindings(r.title), r.key+"b", true
		binds.Build = func(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
			return r.buildBindings(ctx, b, l, each)
		}
		arms = append(arms, static, binds)
	}
	return arms
}

// start runs the RTR with further static mappings, and further keys of its role.
func (r rtrOf) start(ctx context.Context, b *testbed.Run, l *testbed.Line, mappings, role string) (*testbed.Process, error) {
	if err := l.RouteCore(); err != nil {
		return nil, err
	}
	if r.datapath != "" { // trains of datagrams are cut before they leave: the sink knows single packets
		if err := l.Rel.SetOffload(testbed.OnwardLink, testnet.UDPSegmentation, false); err != nil {
			return nil, err
		}
	}
	var relayed []string
	for _, p := range twoPairs {
		mappings += fmt.Sprintf("      - {eid: %q, rlocs: [{address: %q}]}\n", p.Sources, encRLOC(p))
		relayed = append(relayed, fmt.Sprintf("%q", p.Sources))
		if role == "" {
			relayed = append(relayed, fmt.Sprintf("%q", nodeEIDs(p)))
		}
	}
	return b.StartDaemon(ctx, l.Rel,
		fmt.Sprintf("interfaces:\n  core: [{interface: %s, hook: %s}, {interface: %s, hook: %s}]\n", testbed.CoreLink, r.hook, testbed.OnwardLink, r.hook)+
			fmt.Sprintf("itr:\n  rloc-probing: {enabled: false}\n  itr-rlocs: [{address: %q}, {address: %q}]\n", testbed.Core4Rel.Addr(), testbed.Core6Rel.Addr())+
			"  map-cache:\n    mappings:\n"+mappings+
			"rtr:\n  relay: [{eid-prefixes: ["+strings.Join(relayed, ", ")+"]}]\n"+role+"control:\ndatapath:\n"+r.datapath)
}

// staticMappings are those of all EIDs of the nodes.
func staticMappings(each int) string {
	var mappings strings.Builder
	for _, p := range twoPairs {
		for eid := range eidsOf(p, each) {
			fmt.Fprintf(&mappings, "      - {eid: \"%s/%d\", rlocs: [{address: %q}]}\n", eid, eid.BitLen(), decRLOC(p))
		}
	}
	return mappings.String()
}

// buildBindings runs the RTR, which gets its mappings from nodes that register by it.
func (r rtrOf) buildBindings(ctx context.Context, b *testbed.Run, l *testbed.Line, each int) error {
	var servers []string
	for _, p := range twoPairs {
		servers = append(servers, fmt.Sprintf("{ms-address: %q}", encRLOC(p)))
	}
	key := rand.Text()
	if _, err := b.StartDaemon(ctx, l.Enc, mapServerConfig(key)); err != nil {
		return err
	}
	rtr, err := r.start(ctx, b, l, "", "  nat-traversal: {map-servers: ["+strings.Join(servers, ", ")+"]}\n")
	if err != nil {
		return err
	}
	for _, p := range twoPairs {
		if err := registerAll(ctx, l.Dec, p, key, each); err != nil {
			return err
		}
	}
	counters, err := rtr.Client.Counters(ctx)
	if made := counters.Control["nat_binding_added_total"]; err == nil && made != uint64(len(twoPairs)*each) {
		err = fmt.Errorf("the RTR made %d bindings of %d", made, len(twoPairs)*each)
	}
	return err
}

// mapServerConfig offers the RTR to the nodes.
func mapServerConfig(key string) string {
	var prefixes, offered strings.Builder
	for _, p := range twoPairs {
		fmt.Fprintf(&prefixes, "        - {eid: %q, more-specifics-accepted: true}\n", nodeEIDs(p))
		fmt.Fprintf(&offered, "    - {address: %q}\n", relRLOC(p))
	}
	return "map-server:\n  sites:\n    - name: bench\n      authentication-keys: [{auth-key-value: " + key + "}]\n      eid-prefixes:\n" +
		prefixes.String() + "  rtrs:\n" + offered.String() + "control:\n"
}

// attachRTR puts the generator to Enc, and the sink to Dec.
func attachRTR(l *testbed.Line) error {
	t, err := testbed.NewTraffic(testbed.TrafficSizes{})
	if err != nil {
		return err
	}
	l.Traffic = t
	l.Closers = append(l.Closers, t.Close)
	if err := testbed.KeepDispatchedIn(l.Enc, t, &l.Closers); err != nil {
		return err
	}
	if l.Arm.Frames {
		return l.AttachXDP(l.Dec, testbed.CoreLink, t.Programs().BenchSinkXdp)
	}
	return errors.Join(
		l.Rel.SetOffload(testbed.CoreLink, testnet.GRO, true),
		l.AttachTCX(l.Dec, testbed.CoreLink, t.Programs().BenchSinkTc, &l.Closers))
}

// measureBindings is the rate to all EIDs. User space takes fewer packets than the generator sends at any rate that it
// knows.
func (s *state) measureBindings(ctx context.Context, l *testbed.Line, p testbed.Pair, slot time.Duration) ([]report.Sample, error) {
	if err := aimAtRel(l, p, nodeEIDs(p).Addr(), s.bindings); err != nil {
		return nil, err
	}
	if strings.HasPrefix(l.Arm.Name, userRTR) {
		return l.Traffic.MeasureArriving(ctx, slot)
	}
	return s.bursts.Measure(ctx, l.Traffic, l.Arm.Name+"/"+p.Name, slot)
}

func judgeBindings(r *report.Report) {
	for _, rtr := range rtrs {
		for _, metric := range []string{"rate", testbed.MetricArriving} {
			r.Compare(metric, armBindings(rtr.title), armStatic(rtr.title))
			r.WantRatio(metric, armBindings(rtr.title), armStatic(rtr.title), report.AtLeast(0.95))
		}
	}
}

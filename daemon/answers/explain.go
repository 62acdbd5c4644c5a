// SPDX-License-Identifier: Apache-2.0

package answers

// Why a destination is reached as it is: what the Node knows (control.Explain), what the
// data plane has, and the verdict of both in words (RFC 9300 s.9, s.12; RFC 9301 s.5.4).
// It changes nothing and sends nothing.

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/datapath"
	"loci/daemon/eventloop"
	"loci/dataplane"
	"loci/forward"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// explainer puts an explanation together.
type explainer struct {
	now      time.Time
	query    api.ExplainQuery
	node     control.Explanation
	fromSite bool // the flow's source is an EID of this site
	binding  flowBinding
	nat      *control.NAT         // nil where this router does not look for NATs
	bindings []control.NATBinding // of the map-cache entry, none where this is no RTR for it
	hosts    []control.NATHost    // that the map-cache entry names by simple-nat
	settings dataplane.Settings
	entry    *dataplane.MapCacheEntry             // what packets meet
	from     *dataplane.MapCacheEntry             // what packets to the flow's source meet
	states   map[lisp.Path]dataplane.LocatorState // as the data plane has them
	families map[bool]bool                        // in which this router has an RLOC: IPv4

	dataPaths []datapath.State // that are checked
	answer    api.Explanation
}

// Explain answers `loci explain`.
func (a *Answers) Explain(ctx context.Context, q api.ExplainQuery) (api.Explanation, error) {
	x := explainer{query: q, states: map[lisp.Path]dataplane.LocatorState{}, families: map[bool]bool{}}
	_, err := eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) struct{} {
		x.askNode(node)
		return struct{}{}
	})
	if err != nil {
		return api.Explanation{}, err
	}
	x.now, x.settings = time.Now(), a.State.InForce().Settings
	if a.Plane != nil {
		x.look(a.Plane)
	}
	x.dataPaths = a.dataPathStates()
	return x.explain(), nil
}

// askNode runs in the loop.
func (x *explainer) askNode(node *control.Node) {
	q := x.query
	x.fromSite = !q.From.IsZero() && node.Explain(q.InstanceID, q.From).Own != nil
	x.node = node.Explain(q.InstanceID, q.EID)
	x.binding = bindingOf(&q, node)
	x.nat = node.NAT()
	if x.node.Entry == nil {
		return
	}
	x.bindings = node.NATBindingsOf(x.node.Entry.Mapping.Prefix)
	x.hosts = node.NATHostsOf(x.node.Entry.Mapping.Prefix)
}

// look finds the data plane's entry for the destination: by the prefix lengths, because an
// engine tells entries by their exact prefix only.
func (x *explainer) look(plane dataplane.Plane) {
	maps.Insert(x.states, plane.LocatorStates())
	x.binding.find(plane)
	for _, r := range x.settings.LocalRLOCs {
		x.families[r.Is4()] = true
	}
	x.entry = longest(plane, lisp.HostPrefix(x.query.InstanceID, x.query.EID))
	if !x.query.From.IsZero() {
		x.from = longest(plane, lisp.HostPrefix(x.query.InstanceID, x.query.From))
	}
}

// longest is the data plane's entry that packets of an EID meet; nil for none.
func longest(plane dataplane.Plane, host lisp.Prefix) *dataplane.MapCacheEntry {
	for bits := host.Bits(); bits >= 0; bits-- {
		p, err := lisp.PrefixFrom(host.Instance(), host.EID(), bits)
		if err != nil {
			continue
		}
		if e, ok := plane.Mapping(p); ok {
			return &e
		}
	}
	return nil
}

// rank is forward.Rank, as the data plane has it.
func (x *explainer) rank(l *lisp.Locator) (rank int, usable bool) {
	rank, usable = x.states[l.Path()].Rank()
	return rank, usable && x.families[l.NextHop().Is4()]
}

func (x *explainer) say(format string, arguments ...any) {
	x.answer.Why = append(x.answer.Why, fmt.Sprintf(format, arguments...))
}

func (x *explainer) explain() api.Explanation {
	x.answer = api.Explanation{EID: x.query.EID, InstanceID: x.query.InstanceID, Why: []string{},
		RTRs: []netip.Addr{}, NATHosts: []api.NATHost{}}
	x.explainOwn()
	x.explainRelays()
	switch {
	case x.answer.Outcome != "":
	case !x.node.ITR:
		x.answer.Outcome = api.OutcomeNotLISP
		x.say("this system is not an ITR: it encapsulates nothing")
	case x.node.Entry == nil:
		x.explainMiss()
	default:
		x.explainMapping()
		x.explainPlane()
	}
	return x.answer
}

// explainOwn: packets between hosts of one site are not LISP's.
func (x *explainer) explainOwn() {
	if x.node.Own == nil {
		x.say("not in the Database: %s is not an EID of this site", x.query.EID)
		return
	}
	own := *x.node.Own
	x.answer.Database = &api.DatabaseEntry{
		EIDPrefix: own.Prefix, Locators: api.LocatorsOf(own.Locators), TTL: api.TTLOf(own.TTLMinutes), MapVersion: own.Version, Site: own.Site,
	}
	x.answer.Outcome = api.OutcomeOwn
	x.say("in the Database: %s is an EID-Prefix of this site (etr.local-eids)", own.Prefix)
	x.say("packets to it go their plain way, and those from the core to it are decapsulated")
}

// explainMiss: nothing covers the destination yet.
func (x *explainer) explainMiss() {
	x.answer.Outcome = api.OutcomeUnresolved
	x.say("no entry of the map-cache covers it")
	x.explainPending()
	if x.node.Pending == nil {
		x.say("the next packet to it from an EID of this site sends a Map-Request")
	}
	x.say("until a Map-Reply comes, itr.miss-policy decides: %s", x.settings.MissPolicy)
	for _, r := range x.node.Resolvers {
		document := mapResolverDocument(r)
		x.answer.MapResolvers = append(x.answer.MapResolvers, document)
		x.say("Map-Resolver %s: %s", document.Address, document.State)
	}
	if len(x.node.Resolvers) == 0 {
		x.say("itr.map-resolvers is empty: nothing can be asked for")
	}
	if x.entry != nil {
		x.answer.Outcome = api.OutcomeOutOfStep
		x.say("but the data plane has %s: a change is under way, or was lost", x.entry.Mapping)
	}
}

func (x *explainer) explainPending() {
	p := x.node.Pending
	if p == nil {
		return
	}
	document := mapRequestDocument(*p)
	x.answer.Pending = &document
	if p.State == control.PendingSettled {
		x.say("a Map-Request for %s was answered just now: none goes for a second", p.Prefix)
		return
	}
	x.say("a Map-Request for %s is under way: %s, %d sent, last to %s", p.Prefix, p.State, p.Tries, x.answer.Pending.MapResolver)
}

// explainMapping: which entry decides, where it is from, how old it is.
func (x *explainer) explainMapping() {
	e := x.node.Entry
	m := &api.ExplainedMapping{
		EIDPrefix: e.Mapping.Prefix, State: string(e.State), Source: "configuration (itr.map-cache.mappings)", TTL: api.TTLOf(e.Mapping.TTLMinutes),
		MapVersion: e.Mapping.Version, CreatedAt: e.CreatedAt, ExpiresAt: jsondoc.KnownTime(e.ExpiresAt), LastUsedAt: jsondoc.KnownTime(e.LastUsedAt),
		Covering: x.node.Covering, MoreSpecific: x.node.MoreSpecific,
	}
	switch {
	case x.byNAT():
		m.TTL, m.Source = nil, "NAT traversal"
	case e.Static:
		m.TTL = nil
	case e.From.IsValid():
		m.Source = "Map-Reply from " + e.From.String()
	default:
		m.Source = "kept by the data plane through a restart"
	}
	if e.Mapping.Negative() {
		m.Action = &e.Mapping.Action
	}
	x.answer.Mapping = m
	x.say("the map-cache entry %s covers it: %s, from %s, %s old", m.EIDPrefix, m.State, m.Source, age(x.now, e.CreatedAt))
	x.explainNAT()
	for _, l := range x.node.Skipped {
		x.answer.Skipped = append(x.answer.Skipped, api.SkippedLocator(l))
		x.say("locator %s is skipped: %s", l.Address, l.Reason)
	}
	if e.Stale {
		x.say("its TTL ended %s ago: it is used while no Map-Reply about it comes, packets use it, and a locator of it lives", age(x.now, e.ExpiresAt))
	} else if m.ExpiresAt != nil {
		x.say("its TTL ends in %s; entries in use are asked for again before that", m.ExpiresAt.Sub(x.now).Round(time.Second))
	}
	if l := x.node.Lost; l != nil {
		x.answer.Lost = &api.LostMapping{EIDPrefix: l.Prefix, Since: l.Since, HadUntil: l.HadUntil, NextRequestAt: l.NextRequestAt}
		x.say("it had locators until %s ago, and is called not registered since %s ago: it is asked for again in %s",
			age(x.now, l.HadUntil), age(x.now, l.Since), max(l.NextRequestAt.Sub(x.now), 0).Round(time.Second))
	}
	if len(m.Covering) > 0 {
		x.say("less specific entries also cover it and do not count: %v", m.Covering)
	}
	x.explainPending()
}

func age(now, at time.Time) time.Duration { return max(now.Sub(at), 0).Round(time.Second) }

// explainPlane: what packets meet, and where they go.
func (x *explainer) explainPlane() {
	told := x.node.Told
	switch {
	case x.entry == nil:
		x.answer.Outcome = api.OutcomeOutOfStep
		x.say("the data plane has no entry for it: a change is under way, or was refused (`loci show counters`)")
		return
	case !sameForwarding(x.entry.Mapping, told):
		x.answer.Outcome = api.OutcomeOutOfStep
		x.say("the data plane has %s instead: a change is under way, or was refused (`loci show counters`)", x.entry.Mapping)
	default:
		x.say("the data plane has it as well: %d packets, %d octets so far", x.entry.Usage.Packets, x.entry.Usage.Octets)
	}
	document := mapCacheDocument(*x.entry)
	x.answer.DataPlane = &document
	x.explainLocators()
	if x.answer.Outcome == "" {
		x.decide(told)
	}
	if x.answer.Outcome == api.OutcomeEncapsulate {
		x.explainDataPath()
	}
}

// decide says where packets go.
func (x *explainer) decide(m lisp.Mapping) {
	used := 0
	for _, l := range x.answer.Locators {
		if l.Used {
			used++
		}
	}
	switch {
	case m.Negative() && m.Action == lisp.ActionNativelyForward:
		x.answer.Outcome = api.OutcomeNative
		x.say("its action is %s and no proxy ETR is configured: packets leave without encapsulation", m.Action)
	case m.Negative() && m.Action == lisp.ActionSendMapRequest:
		x.answer.Outcome = api.OutcomeUnresolved
		x.say("its action is %s: each packet asks anew", m.Action)
	case m.Negative() && m.Action == lisp.ActionNoAction && len(x.node.Skipped) > 0:
		x.answer.Outcome = api.OutcomeNoLocator
		x.say("none of its locators can be sent packets to: packets are dropped, and counted as %s", forward.DropNoAction)
	case m.Negative():
		x.answer.Outcome = api.OutcomeDrop
		x.say("its action is %s: packets are dropped and counted", m.Action)
	case used == 0:
		x.answer.Outcome = api.OutcomeNoLocator
		x.say("none of its locators may be used: packets are dropped, and counted as %s", x.dropReason())
	case control.ByProxyETR(m):
		x.answer.Outcome = api.OutcomeProxyETR
		x.say("its action is %s: packets go to the proxy ETRs (itr.proxy-etrs)", m.Action)
	default:
		x.answer.Outcome = api.OutcomeEncapsulate
		x.say("packets are encapsulated; %d of %d locators take them", used, len(x.answer.Locators))
	}
}

// dropReason is what the data plane counts packets as that no locator takes.
func (x *explainer) dropReason() string {
	for _, l := range x.node.Locators {
		layer, dropped := droppedLayer(l.SecondLayers)
		switch {
		case l.NotUsable == control.PathOwnNextHop && l.Locator.Usable(): // there are others of its kind alone
			return forward.DropOwnNextHop.String()
		case l.NotUsable == "" && dropped:
			return string(layer.Problem)
		case l.OffPath && l.RelaysAlone:
			return forward.DropNotOnPath.String()
		}
	}
	return forward.DropNoLocator.String()
}

// explainLocators: states, policies, shares, and the locator of the flow asked about.
func (x *explainer) explainLocators() {
	set := x.entry.Mapping.Locators
	if len(set) == 0 {
		return
	}
	buckets := forward.Buckets(set, x.rank)
	var shares [lisp.MaxLocators]int
	for _, i := range buckets {
		if int(i) < len(set) {
			shares[i]++
		}
	}
	for i, l := range set {
		document := x.locator(l)
		document.Share = float64(shares[i]) / forward.BucketCount
		if document.Used = shares[i] > 0 && document.WhyNot == ""; !document.Used && document.WhyNot == "" {
			document.WhyNot = x.whyNot(l.Path())
		}
		x.used(document.Used, l.Path())
		x.explainHops(&document)
		x.explainOnPath(i, &l)
		if shares[i] > 0 {
			x.explainOffPath(&l)
		}
		x.explainLayers(document.SecondLayers)
		x.answer.Locators = append(x.answer.Locators, document)
	}
	x.explainFlow(set, &buckets)
}

// whyNot says why a locator that may be used is not.
func (x *explainer) whyNot(p lisp.Path) string {
	switch x.states[p] {
	case dataplane.LocatorUnconfirmed:
		return "unconfirmed: another one is up, or packets came from it lately, or it has a lower priority, or its weight is 0"
	case dataplane.LocatorHeard:
		return "unconfirmed: another one is up, or has a lower priority, or its weight is 0"
	}
	return "another one has a lower priority, or its weight is 0"
}

// used notes that packets go to a locator that is not up.
func (x *explainer) used(is bool, p lisp.Path) {
	switch {
	case !is:
	case x.states[p] == dataplane.LocatorHeard:
		x.say("%s answers no RLOC-probe, but packets came from it lately or it begins to answer again: it is used, because no other one is up", p)
	case x.states[p] == dataplane.LocatorUnconfirmed:
		x.say("%s answers no RLOC-probe: it is used all the same, because no other one is up", p)
	}
}

func (x *explainer) locator(l lisp.Locator) api.ExplainedLocator {
	document := api.ExplainedLocator{Locator: api.LocatorsOf(lisp.LocatorSet{l})[0], State: stateOf(l)}
	for _, known := range x.node.Locators {
		if known.Locator.IsSame(&l) {
			addLocatorKnowledge(&document, known)
			if known.OffPath && known.RelaysAlone && x.settings.PolicyOf(dataplane.RolePITR, x.query.InstanceID) == nil {
				document.WhyNot = fmt.Sprintf("this router relays, and is none of its hops (%s)", control.PathNotOnPath)
			}
		}
	}
	switch {
	case !l.Reachable:
		document.WhyNot = "its site says that it is unreachable (R bit 0)"
	case document.WhyNot != "": // no packet can take the path
	case l.Priority == lisp.PriorityUnused:
		document.WhyNot = "priority 255 is never used"
	case document.State == string(control.LocatorDown):
		document.WhyNot = "down: " + document.Reason
	case l.RLOC.IsZero():
		document.WhyNot = "packets cannot be sent to addresses of its kind"
	case !x.mayUse(&l) && !l.Path().IsPlain():
		document.WhyNot = fmt.Sprintf("the data plane does not use it: down there, or this router has no RLOC of the family of its next hop, %s", l.NextHop())
	case !x.mayUse(&l):
		document.WhyNot = "the data plane does not use it: down there, or this router has no RLOC of its family"
	}
	return document
}

func (x *explainer) mayUse(l *lisp.Locator) bool {
	_, usable := x.rank(l)
	return usable
}

// explainFlow: the bucket and the locator of one flow (RFC 9300 s.12).
func (x *explainer) explainFlow(set lisp.LocatorSet, buckets *forward.BucketVector) {
	q := x.query
	if q.From.IsZero() {
		return
	}
	h := forward.Header{
		Source: q.From.Addr(), Destination: q.EID.Addr(), Protocol: q.Protocol,
		Ports: uint32(q.SourcePort)<<16 | uint32(q.DestinationPort),
	}
	hash := forward.FlowHash(&h)
	flow := &api.ExplainedFlow{Hash: hash, Bucket: forward.BucketOf(hash), SourcePort: forward.SourcePort(hash)}
	to := "nowhere: no locator is usable"
	l, ok := x.binding.locator(set, x.mayUse)
	if flow.Bound = ok; !ok {
		l, ok = forward.SelectLocator(set, buckets, hash)
	}
	if ok {
		next := l.NextHop()
		flow.RLOC = &next
		to = netip.AddrPortFrom(next.Addr(), cmp.Or(next.Port(), dataPort)).String()
	}
	x.answer.Flow, flow.Subflow = flow, x.binding.subflow
	if why := x.binding.why(flow.Bound); why != "" {
		x.say("%s", why)
	}
	x.say("the flow from %s has hash %08x, bucket %d of %d, outer source port %d: to %s", q.From, hash, flow.Bucket, forward.BucketCount, flow.SourcePort, to)
}

// dataPort is where encapsulated packets go (RFC 9300 s.5.3).
const dataPort = 4341

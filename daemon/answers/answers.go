// SPDX-License-Identifier: Apache-2.0

package answers

// What the control socket tells, from the loop's tables and the data plane's. A
// question to the loop copies what it needs and leaves: the documents are made
// outside of it.

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime/metrics"
	"slices"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/daemon/datapath"
	"loci/daemon/eventloop"
	"loci/daemon/handover"
	"loci/daemon/hostnet"
	"loci/daemon/plan"
	"loci/daemon/planeworker"
	"loci/daemon/remoteplane"
	"loci/daemon/store"
	"loci/daemon/transport"
	"loci/daemon/trouble"
	"loci/dataplane"
	"loci/internal/jsondoc"
	"loci/internal/version"
	"loci/lisp"
)

// State is what changes while a daemon runs.
type State interface {
	InForce() *plan.Plan
	IsReady() bool
	// Warnings are those about the configuration and about the host.
	Warnings() []trouble.Trouble
	// DataPlane names the engine ("kernel" or "user"), says why it is not the one that comes first, and which features of the
	// host are missing, with the effect of each.
	DataPlane() (name, reason string, missing []string)
}

// Answers answers at the control socket from the parts of a daemon. A part that the daemon does not have is nil.
type Answers struct {
	ConfigFile string
	StartedAt  time.Time
	Remote     bool // the data plane is another process's
	Loop       *eventloop.Loop
	Sockets    *transport.Sockets
	Handed     *handover.Handover
	Plane      dataplane.Plane // what the control plane drives
	Engine     dataplane.Plane // plane, or the engine behind it
	Worker     *planeworker.Worker
	Journal    *store.Journal
	Watch      *hostnet.Watch
	DataPaths  *datapath.Checker
	State      State
}

// Status answers `loci show status`.
func (a *Answers) Status(ctx context.Context) (api.Status, error) {
	p := a.State.InForce()
	engine, reason, missing := a.State.DataPlane()
	s := api.Status{
		Version: version.String, PID: os.Getpid(), StartedAt: a.StartedAt, Ready: a.State.IsReady(), Roles: p.Roles(), Policies: policiesOf(p.Settings.Roles), RecursionDepth: p.Settings.RecursionDepth,
		ConfigFile: a.ConfigFile, Missing: missing, LocalRLOCs: p.Control.LocalRLOCs, Warnings: trouble.Lines(a.warnings()), Waiting: p.Waiting(),
	}
	if a.Plane != nil {
		s.Engine, s.EngineReason = engine, reason
		if a.Remote {
			s.EngineReason = ""
			s.Engine = "behind " + meetingPoint(p.Config.Datapath)
		}
	}
	s.Interfaces = a.describeInterfaces(p.Settings.Interfaces)
	if p.Control.ITR != nil {
		for _, r := range p.Control.ITR.MapResolvers {
			s.MapResolvers = append(s.MapResolvers, r.String())
		}
	}
	node, err := eventloop.Ask(ctx, a.Loop, nodeStatusOf)
	if err != nil {
		return api.Status{}, err
	}
	s.MapResolverStates, s.LostMappings, s.DuplicateEIDs = node.mapResolvers, node.lost, node.duplicates
	s.HeapAllocations = heapAllocations()
	s.MapServers, s.MapCacheSize, s.Pending, s.Registrations = node.mapServers, node.sizes.MapCache, node.sizes.Pending, node.sizes.Registrations
	return s, nil
}

// heapAllocations is what Go's runtime counts.
func heapAllocations() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// policiesOf are the policies of RTR, PITR and PETR.
func policiesOf(roles []dataplane.RolePolicy) (list []api.Policy) {
	for _, p := range roles {
		list = append(list, api.Policy{Role: p.Role.String(), InstanceID: p.Instance, EIDPrefixes: p.EIDs, Sources: p.Sources})
	}
	return list
}

// planeWarnings tell that the data plane may not do what the tables here say.
func (a *Answers) planeWarnings() []trouble.Trouble {
	if a.Worker == nil {
		return nil
	}
	entries, since := a.Worker.Failing()
	if entries == 0 {
		return nil
	}
	return []trouble.Trouble{{
		Kind: trouble.PlaneRefused, What: fmt.Sprintf("the data plane refuses changes of its tables: entries %d", entries),
		Effect: "it may forward by other mappings than `loci show map-cache` has", Remedy: "the log names them (plane_changes_refused_total)", Since: since,
	}}
}

// warnings are all that `loci show status` lists.
func (a *Answers) warnings() []trouble.Trouble {
	list := slices.Concat(a.State.Warnings(), a.planeWarnings())
	if since, reason, failing := a.Journal.Trouble(); failing {
		list = append(list, trouble.Trouble{
			Kind: trouble.NotStored, What: "the registrations are not stored since " + since.Format(time.DateTime) + " (" + reason + ")",
			Effect: "a restart would lose what came since", Remedy: "free space on the disk, or replace it: the daemon tries again every few seconds", Since: since,
		})
	}
	return list
}

// describeInterfaces lists those of the settings, with what the engine says about them, if it
// says anything: one behind a socket does not.
func (a *Answers) describeInterfaces(settings []dataplane.Interface) []api.Interface {
	states := map[string]dataplane.InterfaceState{}
	if engine, ok := a.Engine.(dataplane.InterfaceReporter); ok {
		for _, state := range engine.InterfaceStates() {
			states[state.Name] = state
		}
	}
	var list []api.Interface
	for _, i := range settings {
		entry := api.Interface{Name: i.Name, Side: i.Side.String(), InstanceID: i.Instance, VLAN: i.VLAN, Forwarding: i.Forwarding.String()}
		if state, ok := states[i.Name]; ok && state.Present {
			entry.Hook, entry.HookReason, entry.HookWarning = state.Hook.String(), state.Reason, state.Warning
		}
		list = append(list, entry)
	}
	return list
}

// meetingPoint is where this process's control plane meets another's data plane.
func meetingPoint(d config.Datapath) string {
	if d.Lispers != nil {
		return d.Lispers.Directory
	}
	return d.MappingSocket.Path
}

// nodeStatus is what the loop adds to the status.
type nodeStatus struct {
	mapServers   []api.MapServer
	mapResolvers []api.MapResolver
	sizes        control.Sizes
	lost         int
	duplicates   int
}

// nodeStatusOf runs in the loop.
func nodeStatusOf(node *control.Node, _ time.Time) nodeStatus {
	s := nodeStatus{sizes: node.Sizes(), mapServers: MapServers(node)}
	for m := range node.MapResolvers() {
		s.mapResolvers = append(s.mapResolvers, mapResolverDocument(m))
	}
	_, s.lost = node.LostMappings(0)
	s.duplicates = len(node.DuplicateEIDs())
	return s
}

// MapServers lists the Map-Servers of an ETR; it runs in the loop.
func MapServers(node *control.Node) (list []api.MapServer) {
	for m := range node.MapServers() {
		list = append(list, mapServerDocument(m))
	}
	return list
}

func mapServerDocument(m control.MapServerStatus) api.MapServer {
	document := api.MapServer{
		Address: m.Address.String(), Site: m.Site, State: string(m.State), EIDPrefixes: m.Prefixes,
		LastRegisterAt: jsondoc.KnownTime(m.LastSentAt), LastNotifyAt: jsondoc.KnownTime(m.LastNotifyAt), NextRegisterAt: jsondoc.KnownTime(m.NextSendAt),
		Unacknowledged: m.Unacknowledged, LackingCount: m.LackingCount,
	}
	for _, l := range m.Lacking {
		document.Lacking = append(document.Lacking, api.UnacknowledgedEID{EIDPrefix: l.Prefix, Since: l.Since})
	}
	return document
}

func mapResolverDocument(m control.MapResolverStatus) api.MapResolver {
	return api.MapResolver{
		Address: m.Address.String(), State: string(m.State), ChangedAt: jsondoc.KnownTime(m.ChangedAt), RoundTrip: jsondoc.Known(m.RoundTrip),
		LastReplyAt: jsondoc.KnownTime(m.LastReplyAt), Sent: m.Sent, Answered: m.Answered,
	}
}

// Locators answers `loci show locators`.
func (a *Answers) Locators(ctx context.Context) ([]api.LocatorState, error) {
	states := map[lisp.Path]*api.LocatorState{}
	if a.Plane == nil {
		return []api.LocatorState{}, nil
	}
	count := func(set lisp.LocatorSet, local bool) {
		for i := range set {
			l := &set[i]
			if states[l.Path()] == nil {
				states[l.Path()] = locatorState(l, local)
			}
			states[l.Path()].EIDPrefixes++
		}
	}
	for e := range a.Plane.Database() {
		count(e.Locators, true)
	}
	for e := range a.Plane.Mappings() {
		count(e.Mapping.Locators, false)
	}
	for _, own := range a.State.InForce().Own {
		if state := states[lisp.PathTo(own.RLOC)]; state != nil {
			state.Reason, state.ChangedAt = string(own.Reason), jsondoc.KnownTime(own.ChangedAt)
		}
	}
	a.addPaths(states)
	a.addDataPaths(states)
	if err := a.addLocatorStates(ctx, states); err != nil {
		return nil, err
	}
	list := []api.LocatorState{}
	for _, path := range slices.SortedFunc(maps.Keys(states), lisp.Path.Compare) {
		list = append(list, *states[path])
	}
	return list, nil
}

// locatorState is what a mapping says of a locator.
func locatorState(l *lisp.Locator, local bool) *api.LocatorState {
	s := &api.LocatorState{RLOC: l.RLOC, State: stateOf(*l), Local: local && l.Local}
	if !l.Path().IsPlain() {
		next := l.NextHop()
		s.NextHop = &next
		for _, hop := range l.Path().Hops() {
			s.Path = append(s.Path, api.Hop{RLOC: hop})
		}
	}
	return s
}

// sentTo is where packets to a locator go from here.
func sentTo(path lisp.Path, s *api.LocatorState) lisp.RLOC {
	if s.NextHop != nil {
		return *s.NextHop
	}
	return path.RLOC
}

// addPaths adds what the data plane knows of the ways to remote locators.
func (a *Answers) addPaths(states map[lisp.Path]*api.LocatorState) {
	if remote, ok := a.Engine.(*remoteplane.Plane); ok {
		addRemotePaths(remote, states)
		return
	}
	paths, tellsPaths := a.Engine.(dataplane.PathReporter)
	echoes, tellsEchoes := a.Engine.(dataplane.EchoReporter)
	for path, state := range states {
		if state.Local {
			continue
		}
		if tellsPaths {
			mtu, learnt := paths.PathMTU(sentTo(path, state))
			setMTU(state, mtu, learnt)
		}
		if tellsEchoes {
			state.EchoNonce = echoDocument(echoes.EchoNonce(sentTo(path, state)))
		}
	}
}

// addRemotePaths is addPaths where the data plane is another process's.
func addRemotePaths(plane *remoteplane.Plane, states map[lisp.Path]*api.LocatorState) {
	by := map[lisp.RLOC][]*api.LocatorState{}
	for path, state := range states {
		if !state.Local {
			by[sentTo(path, state)] = append(by[sentTo(path, state)], state)
		}
	}
	for _, known := range plane.PathStates(slices.Collect(maps.Keys(by))) {
		for _, state := range by[known.RLOC] {
			setMTU(state, known.MTU, known.Learnt)
			state.EchoNonce = echoDocument(known.Echo)
		}
	}
}

// setMTU adds what is known of the path's MTU; 0 is nothing.
func setMTU(state *api.LocatorState, mtu int, learnt bool) {
	if mtu != 0 {
		state.PathMTU, state.MTULearnt = &mtu, learnt
	}
}

func echoDocument(s dataplane.EchoState) *api.EchoNonce {
	if s.AskedAt.IsZero() {
		return nil
	}
	return &api.EchoNonce{AskedAt: jsondoc.KnownTime(s.AskedAt), EchoedAt: jsondoc.KnownTime(s.EchoedAt), MissingAt: jsondoc.KnownTime(s.MissingAt), Fails: s.Fails()}
}

// locatorsPage bounds what one iteration lists.
const locatorsPage = 512

// addLocatorStates adds what the ITR knows of remote locators, page by page.
func (a *Answers) addLocatorStates(ctx context.Context, states map[lisp.Path]*api.LocatorState) error {
	type page struct {
		list []control.LocatorStatus
		next uint32
		more bool
	}
	for at := (page{more: true}); at.more; {
		from := at.next
		var err error
		at, err = eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) (p page) {
			p.list, p.next, p.more = node.LocatorsPage(from, locatorsPage)
			return p
		})
		if err != nil {
			return err
		}
		for _, s := range at.list {
			if state := states[lisp.Path{RLOC: s.RLOC, Behind: s.Behind}]; state != nil && !state.Local {
				addLocatorStatus(state, s)
			}
		}
	}
	return nil
}

// addLocatorStatus adds what the ITR knows of a remote locator. What the mapping
// itself rules out stays ruled out.
func addLocatorStatus(document *api.LocatorState, s control.LocatorStatus) {
	if document.State == dataplane.LocatorUp.String() {
		document.State = string(s.State)
	}
	document.Reason, document.ChangedAt = string(s.Reason), jsondoc.KnownTime(s.ChangedAt)
	document.RoundTrip, document.HeldUntil = jsondoc.Known(s.RoundTrip.Average), jsondoc.KnownTime(s.HeldUntil)
	document.ProxyETR = s.ProxyETR
	document.LastHeardAt, document.Silent = jsondoc.KnownTime(s.LastHeardAt), s.Silent
	document.Probes = &api.Probes{
		Sent: s.ProbesSent, Answered: s.ProbesAnswered,
		LastSentAt: jsondoc.KnownTime(s.LastProbeAt), LastReplyAt: jsondoc.KnownTime(s.LastReplyAt), NextAt: jsondoc.KnownTime(s.NextProbeAt),
	}
	if t := s.RoundTrip; t.Samples > 0 {
		document.RoundTrips = &api.RoundTrip{
			Samples: t.Samples, Last: jsondoc.SecondsOf(t.Last), Min: jsondoc.SecondsOf(t.Min), Median: jsondoc.SecondsOf(t.Median),
			Percentile90: jsondoc.SecondsOf(t.Percentile90), Percentile99: jsondoc.SecondsOf(t.Percentile99), Max: jsondoc.SecondsOf(t.Most),
		}
	}
}

// stateOf is what the mapping itself says of a locator.
func stateOf(l lisp.Locator) string {
	if !l.Reachable {
		return "unreachable (R bit 0)"
	}
	if l.Priority == lisp.PriorityUnused {
		return "unused (priority 255)"
	}
	return dataplane.LocatorUp.String()
}

// Counters answers `loci show counters`.
func (a *Answers) Counters(ctx context.Context) (api.Counters, error) {
	totals, err := eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) map[string]uint64 { return maps.Collect(node.Counters()) })
	if err != nil {
		return api.Counters{}, err
	}
	c := api.Counters{Control: totals, Times: map[string]jsondoc.Seconds{}}
	c.Control["control_queue_full_total"] = a.Sockets.Dropped()
	c.Control["control_message_unsent_total"] = a.Sockets.Unsent()
	a.addIterations(&c)
	if a.Journal != nil {
		journal := a.Journal.Stats()
		c.Control["journal_octets_total"] = journal.Written
		c.Control["journal_pieces_lost_total"] = journal.Lost
		c.Control["journal_writes_failed_total"] = journal.Failed
		c.Times["journal_slowest_write_seconds"] = jsondoc.SecondsOf(journal.SlowestWrite)
	}
	if a.DataPaths != nil {
		checks := a.DataPaths.Counts()
		c.Control["data_path_check_sent_total"] = checks.Sent
		c.Control["data_path_check_answered_total"] = checks.Answered
		c.Control["data_path_check_unanswered_total"] = checks.Unanswered
	}
	if a.Watch != nil {
		c.Control["interface_news_lost_total"] = a.Watch.Lost.Load()
		c.Control["reverse_path_filtered_packets_total"] = hostnet.FilteredPackets()
	}
	if a.Worker != nil {
		handed := a.Handed.Stats()
		c.Control["handed_packets_total"] = handed.Taken
		c.Control["handed_packets_sent_total"] = handed.Sent
		c.Control["handed_packets_dropped_total"] = handed.Dropped
		c.Control["plane_changes_refused_total"] = a.Worker.Refused()
		addPlaneCounters(&c, a.Plane.Counters())
	}
	return c, nil
}

// addIterations tells how long the event loop's iterations took.
func (a *Answers) addIterations(c *api.Counters) {
	t := a.Loop.Times()
	c.Times["longest_iteration_seconds"] = jsondoc.SecondsOf(t.Longest)
	c.Control["long_iterations_total"] = t.Long
}

func addPlaneCounters(c *api.Counters, p dataplane.Counters) {
	c.Drops = p.Drops
	c.DataPlane = map[string]uint64{
		"encapsulated_packets_total": p.EncapsulatedPackets, "encapsulated_octets_total": p.EncapsulatedOctets,
		"decapsulated_packets_total": p.DecapsulatedPackets, "decapsulated_octets_total": p.DecapsulatedOctets,
		"relayed_packets_total": p.RelayedPackets, "relayed_octets_total": p.RelayedOctets, "proxied_packets_total": p.ProxiedPackets,
		"native_packets_total": p.NativePackets, "miss_packets_total": p.MissPackets,
		"waiting_packets": p.WaitingPackets, "waiting_octets": p.WaitingOctets,
		"released_packets_total": p.ReleasedPackets, "plane_events_lost_total": p.EventsLost,
	}
	maps.Copy(c.DataPlane, p.Other)
}

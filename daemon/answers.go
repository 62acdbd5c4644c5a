// SPDX-License-Identifier: Apache-2.0

package daemon

// What the control socket tells, from the loop's tables and the data plane's. A
// question to the loop copies what it needs and leaves: the documents are made
// outside of it.

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/daemon/hostnet"
	"loci/dataplane"
	"loci/internal/version"
	"loci/lisp"
)

// roles are the names of what a configuration makes of this system.
func roles(c *config.Config) []string {
	var names []string
	for _, role := range []struct {
		name string
		on   bool
	}{
		{"itr", c.ITR != nil}, {"etr", c.ETR != nil}, {"map-server", c.MapServer != nil}, {"map-resolver", c.MapResolver != nil},
	} {
		if role.on {
			names = append(names, role.name)
		}
	}
	return names
}

func (d *daemon) status(ctx context.Context) (api.Status, error) {
	p := d.plan.Load()
	s := api.Status{
		Version: version.String, PID: os.Getpid(), StartedAt: d.startedAt, Ready: d.ready.Load(), Roles: roles(p.config),
		ConfigFile: d.options.ConfigFile, Missing: d.missing, LocalRLOCs: p.control.LocalRLOCs, Warnings: slices.Concat(p.warnings, d.hostWarnings(), d.planeWarnings(), d.store.Warnings()), Waiting: p.waiting(),
	}
	if d.plane != nil {
		s.Engine = "kernel"
		if d.options.Planes == PlanesControl {
			s.Engine = "behind " + meetingPoint(p.config.Datapath)
		}
	}
	s.Interfaces = d.describeInterfaces(p.settings.Interfaces)
	if p.control.ITR != nil {
		for _, r := range p.control.ITR.MapResolvers {
			s.MapResolvers = append(s.MapResolvers, r.String())
		}
	}
	node, err := ask(ctx, d.loop, d.nodeStatus)
	if err != nil {
		return api.Status{}, err
	}
	s.MapResolverStates = node.mapResolvers
	s.MapServers, s.MapCacheSize, s.Pending, s.Registrations = node.mapServers, node.sizes.MapCache, node.sizes.Pending, node.sizes.Registrations
	return s, nil
}

// planeWarnings tell that the data plane may not do what the tables here say.
func (d *daemon) planeWarnings() []string {
	if d.worker == nil || d.worker.refused.Load() == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the data plane has refused %d changes, so that it may forward by other mappings than `loci show map-cache` has: "+
		"the log names them (plane_changes_refused_total)", d.worker.refused.Load())}
}

// describeInterfaces lists those of the settings, with what the engine says about them, if it
// says anything: one behind a socket does not.
func (d *daemon) describeInterfaces(settings []dataplane.Interface) []api.Interface {
	states := map[string]dataplane.InterfaceState{}
	if engine, ok := d.engine.(dataplane.InterfaceReporter); ok {
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
}

// nodeStatus runs in the loop.
func (d *daemon) nodeStatus(time.Time) nodeStatus {
	s := nodeStatus{sizes: d.loop.node.Sizes()}
	s.mapServers = d.mapServers()
	for m := range d.loop.node.MapResolvers() {
		s.mapResolvers = append(s.mapResolvers, mapResolverDocument(m))
	}
	return s
}

// mapServers runs in the loop.
func (d *daemon) mapServers() (list []api.MapServer) {
	for m := range d.loop.node.MapServers() {
		list = append(list, mapServerDocument(m))
	}
	return list
}

func mapServerDocument(m control.MapServerStatus) api.MapServer {
	document := api.MapServer{
		Address: m.Address.String(), Site: m.Site, State: string(m.State), EIDPrefixes: m.Prefixes,
		LastRegisterAt: timeOrNil(m.LastSentAt), LastNotifyAt: timeOrNil(m.LastNotifyAt), NextRegisterAt: timeOrNil(m.NextSendAt),
		Unacknowledged: m.Unacknowledged, LackingCount: m.LackingCount,
	}
	for _, l := range m.Lacking {
		document.Lacking = append(document.Lacking, api.UnacknowledgedEID{EIDPrefix: l.Prefix, Since: l.Since})
	}
	return document
}

func mapResolverDocument(m control.MapResolverStatus) api.MapResolver {
	return api.MapResolver{
		Address: m.Address.String(), State: string(m.State), ChangedAt: timeOrNil(m.ChangedAt), RoundTrip: inMilliseconds(m.RoundTrip),
		LastReplyAt: timeOrNil(m.LastReplyAt), Sent: m.Sent, Answered: m.Answered,
	}
}

func (d *daemon) locators(ctx context.Context) ([]api.LocatorState, error) {
	states := map[lisp.RLOC]*api.LocatorState{}
	if d.plane == nil {
		return []api.LocatorState{}, nil
	}
	count := func(set lisp.LocatorSet, local bool) {
		for _, l := range set {
			if states[l.RLOC] == nil {
				states[l.RLOC] = &api.LocatorState{RLOC: l.RLOC, State: stateOf(l), Local: local && l.Local}
			}
			states[l.RLOC].EIDPrefixes++
		}
	}
	for e := range d.plane.Database() {
		count(e.Locators, true)
	}
	for e := range d.plane.Mappings() {
		count(e.Mapping.Locators, false)
	}
	for _, own := range d.plan.Load().own {
		if states[own.RLOC] != nil {
			states[own.RLOC].Reason, states[own.RLOC].ChangedAt = string(own.Reason), timeOrNil(own.ChangedAt)
		}
	}
	d.addPaths(states)
	if err := d.addLocatorStates(ctx, states); err != nil {
		return nil, err
	}
	list := []api.LocatorState{}
	for _, rloc := range slices.SortedFunc(maps.Keys(states), lisp.RLOC.Compare) {
		list = append(list, *states[rloc])
	}
	return list, nil
}

// addPaths adds what the data plane knows of the ways to remote locators.
func (d *daemon) addPaths(states map[lisp.RLOC]*api.LocatorState) {
	if remote, ok := d.engine.(*remotePlane); ok {
		addRemotePaths(remote, states)
		return
	}
	paths, tellsPaths := d.engine.(dataplane.PathReporter)
	echoes, tellsEchoes := d.engine.(dataplane.EchoReporter)
	for rloc, state := range states {
		if state.Local {
			continue
		}
		if tellsPaths {
			state.PathMTU, state.MTULearnt = paths.PathMTU(rloc)
		}
		if tellsEchoes {
			state.EchoNonce = echoDocument(echoes.EchoNonce(rloc))
		}
	}
}

// addRemotePaths is addPaths where the data plane is another process's.
func addRemotePaths(plane *remotePlane, states map[lisp.RLOC]*api.LocatorState) {
	var remote []lisp.RLOC
	for rloc, state := range states {
		if !state.Local {
			remote = append(remote, rloc)
		}
	}
	for _, path := range plane.pathStates(remote) {
		if state := states[path.RLOC]; state != nil {
			state.PathMTU, state.MTULearnt, state.EchoNonce = path.MTU, path.Learnt, echoDocument(path.Echo)
		}
	}
}

func echoDocument(s dataplane.EchoState) *api.EchoNonce {
	if s.AskedAt.IsZero() {
		return nil
	}
	return &api.EchoNonce{AskedAt: timeOrNil(s.AskedAt), EchoedAt: timeOrNil(s.EchoedAt), MissingAt: timeOrNil(s.MissingAt), Fails: s.Fails()}
}

// locatorsPage bounds what one turn of the loop lists.
const locatorsPage = 512

// addLocatorStates adds what the ITR knows of remote locators, page by page.
func (d *daemon) addLocatorStates(ctx context.Context, states map[lisp.RLOC]*api.LocatorState) error {
	type page struct {
		list []control.LocatorStatus
		next uint32
		more bool
	}
	for at := (page{more: true}); at.more; {
		from := at.next
		var err error
		at, err = ask(ctx, d.loop, func(time.Time) (p page) {
			p.list, p.next, p.more = d.loop.node.LocatorsPage(from, locatorsPage)
			return p
		})
		if err != nil {
			return err
		}
		for _, s := range at.list {
			if states[s.RLOC] != nil {
				addLocatorStatus(states[s.RLOC], s)
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
	document.Reason, document.ChangedAt = string(s.Reason), timeOrNil(s.ChangedAt)
	document.RoundTrip, document.HeldUntil = inMilliseconds(s.RoundTrip.Average), timeOrNil(s.HeldUntil)
	document.LastHeardAt, document.Silent = timeOrNil(s.LastHeardAt), s.Silent
	document.Probes = &api.Probes{
		Sent: s.ProbesSent, Answered: s.ProbesAnswered,
		LastSentAt: timeOrNil(s.LastProbeAt), LastReplyAt: timeOrNil(s.LastReplyAt), NextAt: timeOrNil(s.NextProbeAt),
	}
	if t := s.RoundTrip; t.Samples > 0 {
		document.RoundTrips = &api.RoundTrip{
			Samples: t.Samples, Last: inMilliseconds(t.Last), Min: inMilliseconds(t.Min), Median: inMilliseconds(t.Median),
			Percentile90: inMilliseconds(t.Percentile90), Percentile99: inMilliseconds(t.Percentile99), Max: inMilliseconds(t.Most),
		}
	}
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

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

func (d *daemon) counters(ctx context.Context) (api.Counters, error) {
	totals, err := ask(ctx, d.loop, func(time.Time) map[string]uint64 { return maps.Collect(d.loop.node.Counters()) })
	if err != nil {
		return api.Counters{}, err
	}
	c := api.Counters{Control: totals}
	c.Control["control_queue_full_total"] = d.sockets.Dropped()
	c.Control["control_message_unsent_total"] = d.sockets.Unsent()
	d.addTurns(&c)
	if d.store != nil {
		journal := d.store.Stats()
		c.Control["journal_octets_total"] = journal.Written
		c.Control["journal_pieces_lost_total"] = journal.Lost
		c.Control["journal_writes_failed_total"] = journal.Failed
		c.Control["journal_slowest_write_nanoseconds"] = uint64(journal.SlowestWrite)
	}
	if lost := d.newsLost.Load(); lost != nil {
		c.Control["interface_news_lost_total"] = lost.Load()
		c.Control["reverse_path_filtered_packets_total"] = hostnet.FilteredPackets()
	}
	if d.worker != nil {
		c.Control["handed_packets_total"] = d.loop.handed.taken.Load()
		c.Control["handed_packets_sent_total"] = d.loop.handed.sent.Load()
		c.Control["handed_packets_dropped_total"] = d.loop.handed.dropped.Load()
		c.Control["plane_changes_refused_total"] = d.worker.refused.Load()
		addPlaneCounters(&c, d.plane.Counters())
	}
	return c, nil
}

// addTurns tells how long the loop's turns took.
func (d *daemon) addTurns(c *api.Counters) {
	clock := &d.loop.clock
	c.Control["longest_turn_nanoseconds"], c.Control["long_turns_total"] = uint64(clock.longest.Load()), clock.long.Load()
	c.Control["longest_turn_processor_nanoseconds"], c.Control["long_turns_processor_total"] = uint64(clock.longestWork.Load()), clock.longWork.Load()
	c.Control["longest_turn_thread_nanoseconds"], c.Control["long_turns_thread_total"] = uint64(clock.longestOwn.Load()), clock.longOwn.Load()
	c.Control["longest_turn_thread_page_faults"], c.Control["longest_turn_thread_switches"] = clock.faults.Load(), clock.switches.Load()
	work, own := clock.ofKinds()
	c.Control["longest_messages_turn_processor_nanoseconds"], c.Control["longest_messages_turn_thread_nanoseconds"] = work[turnOfMessages], own[turnOfMessages]
	c.Control["longest_plane_turn_processor_nanoseconds"], c.Control["longest_plane_turn_thread_nanoseconds"] = work[turnOfPlane], own[turnOfPlane]
	c.Control["longest_usage_turn_processor_nanoseconds"], c.Control["longest_usage_turn_thread_nanoseconds"] = work[turnOfUsage], own[turnOfUsage]
	c.Control["longest_call_turn_processor_nanoseconds"], c.Control["longest_call_turn_thread_nanoseconds"] = work[turnOfCall], own[turnOfCall]
	c.Control["longest_timeout_turn_processor_nanoseconds"], c.Control["longest_timeout_turn_thread_nanoseconds"] = work[turnOfTimeout], own[turnOfTimeout]
	c.Control["longest_shutdown_turn_processor_nanoseconds"], c.Control["longest_shutdown_turn_thread_nanoseconds"] = work[turnOfShutdown], own[turnOfShutdown]
}

func addPlaneCounters(c *api.Counters, p dataplane.Counters) {
	c.Drops = p.Drops
	c.DataPlane = map[string]uint64{
		"encapsulated_packets_total": p.EncapsulatedPackets, "encapsulated_octets_total": p.EncapsulatedOctets,
		"decapsulated_packets_total": p.DecapsulatedPackets, "decapsulated_octets_total": p.DecapsulatedOctets,
		"native_packets_total": p.NativePackets, "miss_packets_total": p.MissPackets,
		"waiting_packets": p.WaitingPackets, "waiting_octets": p.WaitingOctets,
		"released_packets_total": p.ReleasedPackets, "plane_events_lost_total": p.EventsLost,
	}
	maps.Copy(c.DataPlane, p.Other)
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

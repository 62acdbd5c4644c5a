// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/datapath"
	"loci/daemon/eventloop"
	"loci/daemon/remoteplane"
	"loci/dataplane"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// What `loci show locators` is answered.

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
		s.NextHop, s.Path = &next, hopsOf(l.Path())
	}
	return s
}

// hopsOf are the hops of a path without their bits; none of a plain RLOC.
func hopsOf(p lisp.Path) (hops []api.Hop) {
	if p.IsPlain() {
		return nil
	}
	for _, hop := range p.Hops() {
		hops = append(hops, api.Hop{RLOC: hop})
	}
	return hops
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
			path := lisp.Path{RLOC: s.RLOC, Behind: s.Behind}
			if s.Peer && states[path] == nil {
				states[path] = &api.LocatorState{RLOC: s.RLOC, State: dataplane.LocatorUp.String()}
			}
			if state := states[path]; state != nil && !state.Local {
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
	document.ProxyETR, document.Peer = s.ProxyETR, s.Peer
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

// dataPathRank: what is told of a locator is the worst that is known of a path by it.
var dataPathRank = map[datapath.Outcome]int{datapath.NotKnown: 0, datapath.Passes: 1, datapath.LargeLost: 2, datapath.Lost: 3}

// addDataPaths adds what is known of the data paths to remote locators.
func (a *Answers) addDataPaths(states map[lisp.Path]*api.LocatorState) {
	worst := map[lisp.Path]datapath.State{}
	for _, s := range a.dataPathStates() {
		for _, path := range s.Locators {
			if known, ok := worst[path]; !ok || dataPathRank[s.Outcome] > dataPathRank[known.Outcome] {
				worst[path] = s
			}
		}
	}
	for path, state := range states {
		if !state.Local {
			state.DataPath = dataPathDocument(worst[path])
		}
	}
}

func dataPathDocument(s datapath.State) *api.DataPath {
	d := &api.DataPath{
		State: string(cmp.Or(s.Outcome, datapath.NotKnown)), Since: jsondoc.KnownTime(s.Since), CheckedAt: jsondoc.KnownTime(s.CheckedAt),
		AnsweredAt: jsondoc.KnownTime(s.AnsweredAt), PacketsCome: s.Towards,
	}
	if s.Octets != 0 {
		d.Octets = &s.Octets
	}
	return d
}

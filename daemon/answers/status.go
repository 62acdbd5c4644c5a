// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"os"
	"runtime/metrics"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/daemon/trouble"
	"loci/dataplane"
	"loci/internal/jsondoc"
	"loci/internal/version"
)

// What `loci show status` is answered.

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

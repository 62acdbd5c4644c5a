// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"cmp"
	"context"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/dataplane"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// What `loci show subflows` and `loci show answered-subflows` are answered.

// Subflows lists them by their sessions.
func (a *Answers) Subflows(ctx context.Context) ([]api.Subflow, error) {
	list, err := allPages(ctx, a.Loop, (*control.Node).SubflowsPage)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, compareSubflows)
	return subflowDocuments(list, a.Plane), nil
}

// AnsweredSubflows lists the flows whose paths the ETR chose.
func (a *Answers) AnsweredSubflows(ctx context.Context) ([]api.AnsweredSubflow, error) {
	list, err := allPages(ctx, a.Loop, (*control.Node).AnsweredFlowsPage)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b control.AnsweredFlow) int { return compareFlows(&a.Flow, &b.Flow) })
	documents := make([]api.AnsweredSubflow, len(list))
	for i := range list {
		f := &list[i]
		documents[i] = api.AnsweredSubflow{
			InstanceID: f.Flow.Instance, Source: f.Flow.Source, SourcePort: f.Flow.SourcePort,
			Destination: f.Flow.Destination, DestinationPort: f.Flow.DestinationPort,
			RLOC: f.Path.RLOC, Path: hopsOf(f.Path), AskedBy: f.AskedBy, ChosenAt: f.ChosenAt,
			AskedAt: f.AskedAt,
		}
	}
	return documents, nil
}

// allPages asks a Node for a whole table, one page in each event-loop iteration.
func allPages[T any](ctx context.Context, loop *eventloop.Loop,
	pageOf func(n *control.Node, from uint32, most int) ([]T, uint32, bool)) ([]T, error) {
	type page struct {
		list []T
		next uint32
		more bool
	}
	list := []T{}
	for at := (page{more: true}); at.more; {
		from := at.next
		var err error
		at, err = eventloop.Ask(ctx, loop, func(node *control.Node, _ time.Time) (p page) {
			p.list, p.next, p.more = pageOf(node, from, tablePage)
			return p
		})
		if err != nil {
			return nil, err
		}
		list = append(list, at.list...)
	}
	return list, nil
}

// subflowDocuments looks which bindings the data plane has.
func subflowDocuments(list []control.SubflowStatus, plane dataplane.Plane) []api.Subflow {
	documents := make([]api.Subflow, len(list))
	bound := map[lisp.Flow]lisp.Path{}
	if len(list) > 0 && plane != nil {
		for f := range plane.Flows() {
			bound[f.Flow] = f.Path
		}
	}
	for i := range list {
		documents[i] = subflowDocument(&list[i])
		path, has := bound[list[i].Flow]
		documents[i].InForce = has && path == list[i].Path
	}
	return documents
}

// compareSubflows orders by EIDs, then by sessions and ports.
func compareSubflows(a, b control.SubflowStatus) int {
	return cmp.Or(compareEIDs(&a.Flow, &b.Flow), cmp.Compare(a.Session, b.Session), comparePorts(&a.Flow, &b.Flow))
}

// compareFlows orders by EIDs, then by ports.
func compareFlows(f, g *lisp.Flow) int { return cmp.Or(compareEIDs(f, g), comparePorts(f, g)) }

func compareEIDs(f, g *lisp.Flow) int {
	return cmp.Or(cmp.Compare(f.Instance, g.Instance), f.Source.Compare(g.Source),
		f.Destination.Compare(g.Destination))
}

func comparePorts(f, g *lisp.Flow) int {
	return cmp.Or(cmp.Compare(f.SourcePort, g.SourcePort), cmp.Compare(f.DestinationPort, g.DestinationPort))
}

func subflowDocument(s *control.SubflowStatus) api.Subflow {
	f := &s.Flow
	document := api.Subflow{
		InstanceID: f.Instance, Source: f.Source, SourcePort: f.SourcePort, Destination: f.Destination,
		DestinationPort: f.DestinationPort,
		Why:             string(s.Why), State: string(s.State), OpenedAt: s.OpenedAt,
		LastHeardAt: jsondoc.KnownTime(s.LastHeardAt),
	}
	if s.AnsweredBy.IsValid() {
		document.AnsweredBy = &s.AnsweredBy
	}
	if !s.Path.IsZero() {
		document.RLOC, document.Path = &s.Path.RLOC, hopsOf(s.Path)
	}
	if s.Session != 0 {
		document.Session = &s.Session
	}
	if s.HasToken {
		document.Token = &s.Token
	}
	return document
}

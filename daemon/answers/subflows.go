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

// What `loci show subflows` is answered.

// Subflows lists them by their sessions, one page in each event-loop iteration.
func (a *Answers) Subflows(ctx context.Context) ([]api.Subflow, error) {
	type page struct {
		list []control.SubflowStatus
		next uint32
		more bool
	}
	list := []control.SubflowStatus{}
	for at := (page{more: true}); at.more; {
		from := at.next
		var err error
		at, err = eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) (p page) {
			p.list, p.next, p.more = node.SubflowsPage(from, tablePage)
			return p
		})
		if err != nil {
			return nil, err
		}
		list = append(list, at.list...)
	}
	slices.SortFunc(list, compareSubflows)
	return subflowDocuments(list, a.Plane), nil
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
	f, g := &a.Flow, &b.Flow
	return cmp.Or(cmp.Compare(f.Instance, g.Instance), f.Source.Compare(g.Source),
		f.Destination.Compare(g.Destination),
		cmp.Compare(a.Session, b.Session), cmp.Compare(f.SourcePort, g.SourcePort),
		cmp.Compare(f.DestinationPort, g.DestinationPort))
}

func subflowDocument(s *control.SubflowStatus) api.Subflow {
	f := &s.Flow
	document := api.Subflow{
		InstanceID: f.Instance, Source: f.Source, SourcePort: f.SourcePort, Destination: f.Destination,
		DestinationPort: f.DestinationPort,
		Why:             string(s.Why), State: string(s.State), OpenedAt: s.OpenedAt,
		LastHeardAt: jsondoc.KnownTime(s.LastHeardAt),
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

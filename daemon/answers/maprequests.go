// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"iter"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
)

// What `loci show map-requests` is answered.

// MapRequests lists them when it has read them all: they are few, and the table is in another order.
func (a *Answers) MapRequests(ctx context.Context, q api.ListQuery) iter.Seq2[api.PendingMapRequest, error] {
	return func(yield func(api.PendingMapRequest, error) bool) {
		list, err := a.pendingRequests(ctx, q)
		if err != nil {
			yield(api.PendingMapRequest{}, err)
			return
		}
		for _, r := range list {
			if !yield(mapRequestDocument(r), nil) {
				return
			}
		}
	}
}

func (a *Answers) pendingRequests(ctx context.Context, q api.ListQuery) (list []control.PendingRequest, err error) {
	type page struct {
		list []control.PendingRequest
		next uint32
		more bool
	}
	for at := (page{more: true}); at.more; {
		from := at.next
		at, err = eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) (p page) {
			p.list, p.next, p.more = node.PendingPage(from, tablePage)
			return p
		})
		if err != nil {
			return nil, err
		}
		for _, r := range at.list {
			if q.Wants(r.Prefix) && (q.After.IsZero() || r.Prefix.Compare(q.After) > 0) {
				list = append(list, r)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b control.PendingRequest) int { return a.Prefix.Compare(b.Prefix) })
	return list, nil
}

func mapRequestDocument(r control.PendingRequest) api.PendingMapRequest {
	document := api.PendingMapRequest{
		EIDPrefix: r.Prefix, SMRInvoked: r.SMRInvoked, State: string(r.State), Tries: r.Tries, StartedAt: r.StartedAt, NextAt: r.NextAt,
	}
	if !r.Source.IsZero() {
		document.SourceEID = r.Source.String()
	}
	if r.MapResolver.IsValid() {
		document.MapResolver = r.MapResolver.String()
	}
	return document
}

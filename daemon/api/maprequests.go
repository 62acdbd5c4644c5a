// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"iter"
	"time"

	"loci/lisp"
)

// What `loci show map-requests` tells.

// PendingMapRequest is a Map-Request under way.
type PendingMapRequest struct {
	EIDPrefix   lisp.Prefix `json:"eid_prefix"`
	SourceEID   string      `json:"source_eid"`  // of the packet that wants it; none for what is asked for again
	SMRInvoked  bool        `json:"smr_invoked"` // an SMR wants it
	State       string      `json:"state"`       // waiting, hold-down, settled
	Tries       int         `json:"tries"`
	MapResolver string      `json:"map_resolver"`
	StartedAt   time.Time   `json:"started_at"`
	NextAt      time.Time   `json:"next_at"`
}

// MapRequests asks an ITR for the Map-Requests that are under way.
func (c *Client) MapRequests(ctx context.Context) ([]PendingMapRequest, error) {
	return collect(c.EachMapRequests(ctx, ListQuery{}))
}

// EachMapRequests yields what MapRequests has as it comes.
func (c *Client) EachMapRequests(ctx context.Context, q ListQuery) iter.Seq2[PendingMapRequest, error] {
	return each[PendingMapRequest](ctx, c, PathMapRequests, q)
}

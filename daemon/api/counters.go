// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"

	"loci/internal/jsondoc"
)

// What `loci show counters` tells.

// Counters are totals by name; docs/counters.md describes each.
type Counters struct {
	Control   map[string]uint64 `json:"control"`
	DataPlane map[string]uint64 `json:"data_plane"`
	Drops     map[string]uint64 `json:"drops"`
	// Times are how long something took at most.
	Times map[string]jsondoc.Seconds `json:"times"`
}

// Counters asks for all counters.
func (c *Client) Counters(ctx context.Context) (counters Counters, err error) {
	return counters, c.get(ctx, PathCounters, &counters)
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"iter"

	"loci/internal/jsondoc"
	"loci/lisp"
)

// What `loci show database` tells.

// DatabaseEntry is one EID-Prefix of this site.
type DatabaseEntry struct {
	EIDPrefix  lisp.Prefix      `json:"eid_prefix"`
	Locators   []Locator        `json:"locators"`
	TTL        *jsondoc.Seconds `json:"ttl_seconds"` // nil: the receiver decides
	MapVersion uint16           `json:"map_version"`
	Site       string           `json:"site"`
}

// Database asks for this site's EID-Prefixes.
func (c *Client) Database(ctx context.Context) ([]DatabaseEntry, error) {
	return collect(c.EachDatabase(ctx, ListQuery{}))
}

// EachDatabase yields what Database has as it comes.
func (c *Client) EachDatabase(ctx context.Context, q ListQuery) iter.Seq2[DatabaseEntry, error] {
	return each[DatabaseEntry](ctx, c, PathDatabase, q)
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"iter"
	"time"

	"loci/internal/jsondoc"
	"loci/lisp"
)

// What `loci show registrations` tells.

// Registration is one EID-Prefix registered with this Map-Server.
type Registration struct {
	Site              string           `json:"site"`
	EIDPrefix         lisp.Prefix      `json:"eid_prefix"`
	Locators          []Locator        `json:"locators"`
	InForce           bool             `json:"in_force"` // Map-Requests are answered with it, alone or merged with others of the same EID-Prefix
	ETR               string           `json:"etr"`
	RTR               string           `json:"rtr"` // by which it came, empty where it came from the ETR itself
	XTRID             string           `json:"xtr_id"`
	SiteID            uint64           `json:"site_id"`
	KeyID             uint8            `json:"key_id"`
	Algorithm         string           `json:"algorithm"`
	ProxyReply        bool             `json:"proxy_reply"`
	UseRecordTTL      bool             `json:"use_record_ttl"`
	MergeRequest      bool             `json:"merge_request"`
	WantMapNotify     bool             `json:"want_map_notify"`
	RecordTTL         *jsondoc.Seconds `json:"record_ttl_seconds"` // nil: the receiver decides
	MapVersion        uint16           `json:"map_version"`
	Answered          []Locator        `json:"answered"` // what Map-Requests are answered, where that is something else
	FirstRegisteredAt time.Time        `json:"first_registered_at"`
	LastRegisteredAt  time.Time        `json:"last_registered_at"`
	ExpiresAt         time.Time        `json:"expires_at"`
}

// Registrations asks for the registrations at a Map-Server.
func (c *Client) Registrations(ctx context.Context) ([]Registration, error) {
	return collect(c.EachRegistrations(ctx, ListQuery{}))
}

// EachRegistrations yields what Registrations has as it comes.
func (c *Client) EachRegistrations(ctx context.Context, q ListQuery) iter.Seq2[Registration, error] {
	return each[Registration](ctx, c, PathRegistrations, q)
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"time"

	"loci/internal/jsondoc"
	"loci/lisp"
)

// What `loci show locators` tells.

// LocatorState is one locator of any mapping and whether it is used.
type LocatorState struct {
	RLOC        lisp.RLOC        `json:"rloc"`                  // of a path: its first hop
	Path        []Hop            `json:"explicit_locator_path"` // without bits, which each mapping has of its own
	NextHop     *lisp.RLOC       `json:"next_hop"`              // of a path: where this router sends
	State       string           `json:"state"`
	Reason      string           `json:"reason"`
	ChangedAt   *time.Time       `json:"changed_at"`
	RoundTrip   *jsondoc.Seconds `json:"round_trip_seconds"` // exponential average of its RLOC-probes
	RoundTrips  *RoundTrip       `json:"round_trips"`        // the rest of what they tell; nil before the first answer
	HeldUntil   *time.Time       `json:"held_until"`         // not up before, because it flapped
	Probes      *Probes          `json:"probes"`             // nil when it is not watched
	LastHeardAt *time.Time       `json:"last_heard_at"`      // when data packets last came from it
	Silent      bool             `json:"silent"`             // probed because none has come since, while packets are sent to it
	EIDPrefixes int              `json:"eid_prefixes"`       // mappings it stands in
	Local       bool             `json:"local"`
	ProxyETR    bool             `json:"proxy_etr"`       // of itr.proxy-etrs
	Peer        bool             `json:"peer"`            // of itr.rloc-probing.peers
	PathMTU     *int             `json:"path_mtu"`        // octets of the largest outer packet; nil where that is not known
	MTULearnt   bool             `json:"path_mtu_learnt"` // by ICMP, rather than from the route
	EchoNonce   *EchoNonce       `json:"echo_nonce"`      // nil where no echo was asked for
	DataPath    *DataPath        `json:"data_path"`       // nil of own locators, and of peers that no mapping names
}

// EchoNonce is what became of the nonces that a locator was to echo (RFC 9300 s.10.1).
type EchoNonce struct {
	AskedAt   *time.Time `json:"asked_at"`
	EchoedAt  *time.Time `json:"echoed_at"`
	MissingAt *time.Time `json:"missing_at"` // packets came from there for so long without the echo
	Fails     bool       `json:"fails"`      // that was the last news
}

// RoundTrip are the round-trip times of an RLOC's probes; all but the first two are of the last 64.
type RoundTrip struct {
	Samples      int             `json:"samples"` // ever
	Last         jsondoc.Seconds `json:"last_seconds"`
	Min          jsondoc.Seconds `json:"min_seconds"`
	Median       jsondoc.Seconds `json:"median_seconds"`
	Percentile90 jsondoc.Seconds `json:"percentile_90_seconds"`
	Percentile99 jsondoc.Seconds `json:"percentile_99_seconds"`
	Max          jsondoc.Seconds `json:"max_seconds"`
}

// Probes are the RLOC-probes to an RLOC.
type Probes struct {
	Sent        uint64     `json:"sent"`
	Answered    uint64     `json:"answered"`
	LastSentAt  *time.Time `json:"last_sent_at"`
	LastReplyAt *time.Time `json:"last_reply_at"`
	NextAt      *time.Time `json:"next_at"`
}

// DataPath is whether packets reach a router and come back, as the daemon's own checks tell.
type DataPath struct {
	State      string     `json:"state"`       // not-known, passes, lost or large-packets-lost
	Since      *time.Time `json:"since"`       // of what is lost: when the first check went that was not answered
	CheckedAt  *time.Time `json:"checked_at"`  // of the last check; nil for never, as the next
	AnsweredAt *time.Time `json:"answered_at"` // of the last answer
	// Octets is the size of what is lost, or of the largest packet that passed; nil before there is either.
	Octets *int `json:"octets"`
	// PacketsCome says of what is lost that data packets still come from there: it is lost towards it.
	PacketsCome bool `json:"packets_come"`
}

// Locators asks for the RLOCs of all mappings and their states.
func (c *Client) Locators(ctx context.Context) (list []LocatorState, err error) {
	return list, c.get(ctx, PathLocators, &list)
}

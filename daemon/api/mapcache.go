// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"iter"
	"time"

	"loci/lisp"
)

// What `loci show map-cache` tells.

// MapCacheEntry is one mapping of the map-cache. Negative ones have an action
// and no locators.
type MapCacheEntry struct {
	EIDPrefix     lisp.Prefix  `json:"eid_prefix"`
	Locators      []Locator    `json:"locators"`
	Action        *lisp.Action `json:"action"`
	ProxyETR      bool         `json:"proxy_etr"` // the locators are proxy ETRs, the mapping has none
	Static        bool         `json:"static"`
	Gleaned       bool         `json:"gleaned"`    // from the outer source of a packet, until the mapping system answers
	Stale         bool         `json:"stale"`      // used past its TTL, while the mapping system is silent
	ByNAT         bool         `json:"by_nat"`     // made by NAT traversal
	Registered    bool         `json:"registered"` // by a router behind a NAT, by this RTR: its packets are relayed
	Authoritative bool         `json:"authoritative"`
	CreatedAt     time.Time    `json:"created_at"`
	ExpiresAt     *time.Time   `json:"expires_at"`
	LastUsedAt    *time.Time   `json:"last_used_at"`
	Packets       uint64       `json:"packets"`
	Octets        uint64       `json:"octets"`
	// SecondLayers are for RLOCs that are EIDs themselves, where packets may get two layers (datapath.recursion-depth).
	SecondLayers []SecondLayer `json:"second_layers"`
}

// SecondLayer is what becomes of packets to an RLOC that is an EID itself, by one of the locators that its mapping has.
type SecondLayer struct {
	RLOC      lisp.RLOC   `json:"rloc"`
	EIDPrefix lisp.Prefix `json:"eid_prefix"` // the mapping that covers the RLOC
	Through   lisp.RLOC   `json:"through"`    // where that one sends
	Problem   string      `json:"problem"`    // mapping-loop or recursion-depth: packets are dropped, and counted so
	LeadsBack bool        `json:"leads_back"` // the mappings come back to one of them, or to this router
}

// MapCache asks for the map-cache.
func (c *Client) MapCache(ctx context.Context) ([]MapCacheEntry, error) {
	return collect(c.EachMapCache(ctx, ListQuery{}))
}

// EachMapCache yields what MapCache has as it comes.
func (c *Client) EachMapCache(ctx context.Context, q ListQuery) iter.Seq2[MapCacheEntry, error] {
	return each[MapCacheEntry](ctx, c, PathMapCache, q)
}

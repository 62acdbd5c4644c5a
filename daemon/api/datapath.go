// SPDX-License-Identifier: Apache-2.0

package api

// What `loci show datapath` tells.

import (
	"context"

	"loci/internal/jsondoc"
)

// PathDatapath is where Datapath is asked for.
const PathDatapath = "/v1/datapath"

// Datapath describes the data plane in the kernel.
type Datapath struct {
	Layout      uint32            `json:"layout"` // version of the tables' layout
	Programs    []DatapathProgram `json:"programs"`
	Table       ForwardingTable   `json:"forwarding_table"`
	LocatorSets LocatorSetUse     `json:"locator_sets"`
	AccessLists AccessListUse     `json:"access_lists"`
	Maps        []DatapathMap     `json:"maps"`
	Octets      uint64            `json:"octets"` // of all maps
	Missing     []MissingFeature  `json:"missing"`
}

// DatapathProgram is a program at an interface.
type DatapathProgram struct {
	Interface string          `json:"interface"`
	Hook      string          `json:"hook"` // "tcx ingress", "tcx egress", "clsact ingress", "clsact egress" or "xdp"
	Name      string          `json:"name"`
	ID        uint32          `json:"id"`
	LinkID    uint32          `json:"link_id"` // 0: a filter has none
	Runs      uint64          `json:"runs"`    // and run_seconds: while kernel.bpf_stats_enabled, at all interfaces together
	RunTime   jsondoc.Seconds `json:"run_seconds"`
}

// ForwardingTable is the one of mappings and Database entries.
type ForwardingTable struct {
	Entries        int    `json:"entries"`
	EntryLimit     int    `json:"entry_limit"`
	Roots          int    `json:"roots"`            // tables of an Instance-ID and a family
	SingleNextHops int    `json:"single_next_hops"` // own EID-Prefixes to all of whose addresses packets take one next hop
	Octets         uint64 `json:"octets"`
	UsedOctets     uint64 `json:"used_octets"`
	FreeOctets     uint64 `json:"free_octets"`
	LimitOctets    uint64 `json:"limit_octets"`
}

// AccessListUse is how many deny and allow lists packets are held against.
type AccessListUse struct {
	Lists    int `json:"lists"`
	Prefixes int `json:"prefixes"`
}

// LocatorSetUse is how many locator-sets and locators mappings share.
type LocatorSetUse struct {
	Sets         int `json:"sets"`
	SetLimit     int `json:"set_limit"`
	Locators     int `json:"locators"` // places taken: powers of two for each set
	LocatorLimit int `json:"locator_limit"`
}

// DatapathMap is a map of the kernel.
type DatapathMap struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	MaxEntries uint32 `json:"max_entries"`
	Octets     uint64 `json:"octets"` // that the kernel accounts to it
}

// MissingFeature is a feature that the kernel lacks, with the effect.
type MissingFeature struct {
	Name string `json:"name"`
	Lost string `json:"lost"`
}

// Datapath asks for the state of the data plane in the kernel.
func (c *Client) Datapath(ctx context.Context) (d Datapath, err error) {
	return d, c.get(ctx, PathDatapath, &d)
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/netip"
	"time"

	"loci/internal/jsondoc"
	"loci/lisp"
)

// What `loci show status` tells: the daemon as a whole, and how things stand with its Map-Servers and Map-Resolvers.

// Status is the state of the daemon as a whole.
type Status struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	Ready     bool      `json:"ready"`
	Roles     []string  `json:"roles"`
	Policies  []Policy  `json:"policies"` // of rtr, pitr and petr
	// RecursionDepth is how many layers of encapsulation packets get at most.
	RecursionDepth uint8  `json:"recursion_depth"`
	ConfigFile     string `json:"config_file"`
	Engine         string `json:"engine"` // data plane in use; none after a change that lost it
	// EngineReason says why the data plane is not in the kernel where datapath.engine is auto, or why there is none.
	EngineReason string      `json:"engine_reason"`
	Missing      []string    `json:"missing_kernel_features"`
	LocalRLOCs   []lisp.RLOC `json:"local_rlocs"`
	Interfaces   []Interface `json:"interfaces"`
	MapServers   []MapServer `json:"map_servers"`
	MapResolvers []string    `json:"map_resolvers"`
	// MapResolverStates are the same with how things stand with each.
	MapResolverStates []MapResolver `json:"map_resolver_states"`
	MapCacheSize      int           `json:"map_cache_entries"`
	Pending           int           `json:"pending_map_requests"`
	DuplicateEIDs     int           `json:"duplicate_eids"` // EID-Prefixes of this router that another one registers too
	LostMappings      int           `json:"lost_mappings"`  // EID-Prefixes in use that had locators within the last hour and are not registered now
	Registrations     int           `json:"registrations"`
	Warnings          []string      `json:"warnings"`
	// Waiting is what the host does not have yet, and this daemon waits for.
	Waiting []string `json:"waiting"`
	// HeapAllocations is how many objects the daemon has allocated since it started. Packets allocate none.
	HeapAllocations uint64 `json:"heap_allocations"`
}

// Policy is what an RTR, a PITR or a PETR does in an Instance-ID.
type Policy struct {
	Role        string          `json:"role"`
	InstanceID  lisp.InstanceID `json:"instance_id"`
	EIDPrefixes []netip.Prefix  `json:"eid_prefixes"`
	Sources     []netip.Prefix  `json:"sources"` // of a PITR; none: all
}

// MapServer is the state of this ETR's registration with one Map-Server.
type MapServer struct {
	Address        string     `json:"address"`
	Site           string     `json:"site"` // whose EID-Prefixes
	State          string     `json:"state"`
	EIDPrefixes    int        `json:"eid_prefixes"` // registered there
	LastRegisterAt *time.Time `json:"last_map_register_at"`
	LastNotifyAt   *time.Time `json:"last_map_notify_at"`
	NextRegisterAt *time.Time `json:"next_map_register_at"`
	Unacknowledged int        `json:"unacknowledged_map_registers"` // since the last Map-Notify
	// Lacking are the first of LackingCount EID-Prefixes that the Map-Server does not acknowledge.
	Lacking      []UnacknowledgedEID `json:"unacknowledged_eid_prefixes"`
	LackingCount int                 `json:"unacknowledged_eid_prefix_count"`
}

// UnacknowledgedEID is an EID-Prefix that a Map-Server does not acknowledge, and since when.
type UnacknowledgedEID struct {
	EIDPrefix lisp.Prefix `json:"eid_prefix"`
	Since     time.Time   `json:"since"`
}

// MapResolver is how things stand with a Map-Resolver of this ITR: unknown, answers, or silent.
type MapResolver struct {
	Address     string           `json:"address"`
	State       string           `json:"state"`
	ChangedAt   *time.Time       `json:"changed_at"`
	RoundTrip   *jsondoc.Seconds `json:"round_trip_seconds"` // exponential average of the time to a Map-Reply; nil before the first
	LastReplyAt *time.Time       `json:"last_map_reply_at"`
	Sent        uint64           `json:"map_requests_sent"`
	Answered    uint64           `json:"map_requests_answered"`
}

// Status asks for the daemon's state.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.get(ctx, PathStatus, &s)
}

// SPDX-License-Identifier: Apache-2.0

// Package api is what a running Loci daemon tells over its control socket: HTTP
// with JSON bodies over a Unix socket. It holds the documents, the paths and the
// client; the server is in package daemon. It never changes anything by itself.
package api

import (
	"net/netip"
	"time"

	"loci/internal/jsondoc"
	"loci/lisp"
)

// Paths of the control socket. All are GET but PathReload.
const (
	PathStatus        = "/v1/status"
	PathMapCache      = "/v1/map-cache"
	PathDatabase      = "/v1/database"
	PathMapRequests   = "/v1/map-requests" // under way
	PathRegistrations = "/v1/registrations"
	PathLocators      = "/v1/locators"
	PathInterfaces    = "/v1/interfaces"
	PathSiblings      = "/v1/siblings"
	PathCounters      = "/v1/counters"
	PathEvents        = "/v1/events" // a stream of Event, one JSON object a line; EventQuery
	PathReload        = "/v1/reload" // POST: read the configuration file again
)

// DefaultSocket is where the daemon listens when its configuration does not say.
const DefaultSocket = "/run/loci/control.sock"

// Problem is the body of every answer that is not 200.
type Problem struct {
	Message  string          `json:"message"`
	Problems []ConfigProblem `json:"problems"` // of a configuration that was not reloaded
}

// Error is the message.
func (p *Problem) Error() string { return p.Message }

// Details are the mistakes of a configuration, for a program that prints its failures as JSON.
func (p *Problem) Details() any { return p.Problems }

// ConfigProblem is a mistake in a configuration, or a warning. Line and column count from 1; both are 0 for the file as a whole.
type ConfigProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"` // of the key, as etr.local-eids[0].eid
	Message string `json:"message"`
	Hint    string `json:"hint"` // what to do about it
}

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

// Interface is an interface that the data plane watches.
type Interface struct {
	Name       string          `json:"name"`
	Side       string          `json:"side"`
	InstanceID lisp.InstanceID `json:"instance_id"`
	VLAN       uint16          `json:"vlan"` // its tag at the interface

	// Forwarding is "fast", or "stack" when the host's IP forwarding sees inner packets.
	Forwarding string `json:"forwarding"`

	// Hook is where packets are taken, "tc" or "xdp"; null while the interface is not there.
	Hook        string `json:"hook"`
	HookReason  string `json:"hook_reason"`
	HookWarning string `json:"hook_warning"`
}

// Interfaces tells what this host has of what the configuration names.
type Interfaces struct {
	Interfaces []InterfaceState `json:"interfaces"`
	RLOCs      []OwnRLOC        `json:"rlocs"`
	Waiting    []string         `json:"waiting"` // for interfaces and addresses that are not there yet
}

// InterfaceState is an interface of the configuration as the host has it.
type InterfaceState struct {
	Interface
	Present   bool         `json:"present"`
	Up        bool         `json:"up"` // set up, with a carrier
	Addresses []netip.Addr `json:"addresses"`
	Gateways  []netip.Addr `json:"gateways"` // of default routes by it
}

// OwnRLOC is an RLOC of this router, and whether others are told that it is reachable.
type OwnRLOC struct {
	RLOC      lisp.RLOC `json:"rloc"`
	Interface string    `json:"interface"` // none has it now
	State     string    `json:"state"`
	Reason    string    `json:"reason"`
	ChangedAt time.Time `json:"changed_at"`
}

// Siblings tells of the other xTRs of the site.
type Siblings struct {
	Siblings          []Sibling  `json:"siblings"`
	ForwardingSibling string     `json:"forwarding_sibling"` // that forwards this site's packets, because this router has no path
	Reason            string     `json:"reason"`
	Since             *time.Time `json:"since"`            // of the last change
	UnansweredSince   *time.Time `json:"unanswered_since"` // when the core last answered this router, null while it does
}

// Sibling is another xTR of the site, and what it says of its own locators.
type Sibling struct {
	Address     netip.Addr       `json:"address"`
	Answers     bool             `json:"answers"`
	HeardAt     *time.Time       `json:"heard_at"`
	Locators    []SiblingLocator `json:"locators"`
	CoreAskedAt *time.Time       `json:"core_asked_at"` // when it last said whether the core answers it; it is asked while the core does not answer this router
	CoreAnswers bool             `json:"core_answers"`  // what it said then
	DataAt      *time.Time       `json:"data_at"`       // when data packets last came to it, as it said then
}

// SiblingLocator is a sibling's own locator.
type SiblingLocator struct {
	RLOC      lisp.RLOC `json:"rloc"`
	Reachable bool      `json:"reachable"`
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

// MapCacheEntry is one mapping of the map-cache. Negative ones have an action
// and no locators.
type MapCacheEntry struct {
	EIDPrefix     lisp.Prefix  `json:"eid_prefix"`
	Locators      []Locator    `json:"locators"`
	Action        *lisp.Action `json:"action"`
	ProxyETR      bool         `json:"proxy_etr"` // the locators are proxy ETRs, the mapping has none
	Static        bool         `json:"static"`
	Gleaned       bool         `json:"gleaned"` // from the outer source of a packet, until the mapping system answers
	Stale         bool         `json:"stale"`   // used past its TTL, while the mapping system is silent
	Authoritative bool         `json:"authoritative"`
	CreatedAt     time.Time    `json:"created_at"`
	ExpiresAt     *time.Time   `json:"expires_at"`
	LastUsedAt    *time.Time   `json:"last_used_at"`
	Packets       uint64       `json:"packets"`
	Octets        uint64       `json:"octets"`
	// SecondLayers are for RLOCs that are EIDs themselves, where packets may get two layers (datapath.recursion-depth).
	SecondLayers []SecondLayer `json:"second_layers"`
}

// DatabaseEntry is one EID-Prefix of this site.
type DatabaseEntry struct {
	EIDPrefix  lisp.Prefix      `json:"eid_prefix"`
	Locators   []Locator        `json:"locators"`
	TTL        *jsondoc.Seconds `json:"ttl_seconds"` // nil: the receiver decides
	MapVersion uint16           `json:"map_version"`
	Site       string           `json:"site"`
}

// Registration is one EID-Prefix registered with this Map-Server.
type Registration struct {
	Site              string           `json:"site"`
	EIDPrefix         lisp.Prefix      `json:"eid_prefix"`
	Locators          []Locator        `json:"locators"`
	InForce           bool             `json:"in_force"` // Map-Requests are answered with it, alone or merged with others of the same EID-Prefix
	ETR               string           `json:"etr"`
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
	PathMTU     *int             `json:"path_mtu"`        // octets of the largest outer packet; nil where that is not known
	MTULearnt   bool             `json:"path_mtu_learnt"` // by ICMP, rather than from the route
	EchoNonce   *EchoNonce       `json:"echo_nonce"`      // nil where no echo was asked for
	DataPath    *DataPath        `json:"data_path"`       // nil of own locators
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

// Counters are totals by name; docs/counters.md describes each.
type Counters struct {
	Control   map[string]uint64 `json:"control"`
	DataPlane map[string]uint64 `json:"data_plane"`
	Drops     map[string]uint64 `json:"drops"`
	// Times are how long something took at most.
	Times map[string]jsondoc.Seconds `json:"times"`
}

// Reload tells what reading the configuration again changed.
type Reload struct {
	Changes []string `json:"changes"`
	// MapServers are those that had not acknowledged all of this router's EID-Prefixes when the answer was given.
	MapServers []MapServer `json:"map_servers"`
}

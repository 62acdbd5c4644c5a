// SPDX-License-Identifier: Apache-2.0

package api

// Why a destination is reached as it is: the question and its answer. Nothing is decided
// here.

import (
	"context"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"loci/internal/jsondoc"
	"loci/lisp"
)

// PathExplain answers ExplainQuery, given as a URL query, with Explanation.
const PathExplain = "/v1/explain"

// ExplainQuery asks about a destination; From and what follows name one flow to it.
type ExplainQuery struct {
	InstanceID      lisp.InstanceID
	EID             lisp.EID
	From            lisp.EID // zero: no flow
	Protocol        uint8    // 0: any without ports
	SourcePort      uint16
	DestinationPort uint16
}

// Values is the query in a URL.
func (q ExplainQuery) Values() url.Values {
	v := url.Values{"eid": {q.EID.String()}, "instance_id": {q.InstanceID.String()}}
	if !q.From.IsZero() {
		v.Set("from", q.From.String())
		v.Set("protocol", strconv.Itoa(int(q.Protocol)))
		v.Set("source_port", strconv.Itoa(int(q.SourcePort)))
		v.Set("destination_port", strconv.Itoa(int(q.DestinationPort)))
	}
	return v
}

// Outcome says what happens to packets to a destination.
type Outcome string

// The outcomes.
const (
	OutcomeOwn         Outcome = "own"           // an EID of this site: not encapsulated
	OutcomeEncapsulate Outcome = "encapsulate"   // to a locator of its mapping
	OutcomeProxyETR    Outcome = "proxy-etr"     // to a proxy ETR
	OutcomeNative      Outcome = "native"        // without encapsulation
	OutcomeDrop        Outcome = "drop"          // its mapping says so
	OutcomeNoLocator   Outcome = "no-locator"    // it has a mapping, no locator of which may be used
	OutcomeUnresolved  Outcome = "unresolved"    // no mapping covers it: a packet asks for one
	OutcomeNotInPolicy Outcome = "not-in-policy" // no policy of this relay names the packets: dropped from the core, else left alone
	OutcomeNotLISP     Outcome = "not-lisp"      // this system is not an ITR
	OutcomeOutOfStep   Outcome = "out-of-step"   // control plane and data plane differ: a fault, or a change under way
)

// Explanation says why a destination is reached as it is. Why tells it in words, from the
// Database to the data plane; the rest has what Why is made from.
type Explanation struct {
	EID          lisp.EID           `json:"eid"`
	InstanceID   lisp.InstanceID    `json:"instance_id"`
	Outcome      Outcome            `json:"outcome"`
	Why          []string           `json:"why"`
	Roles        []ExplainedRole    `json:"roles"` // what this router is beside ITR and ETR
	Database     *DatabaseEntry     `json:"database"`
	Mapping      *ExplainedMapping  `json:"mapping"`
	Locators     []ExplainedLocator `json:"locators"`
	Lost         *LostMapping       `json:"lost"`             // the mapping is negative and in use, and had locators within the last hour
	Skipped      []SkippedLocator   `json:"skipped_locators"` // of the Map-Reply: packets cannot be sent to them
	Pending      *PendingMapRequest `json:"pending"`
	MapResolvers []MapResolver      `json:"map_resolvers"`
	DataPlane    *MapCacheEntry     `json:"data_plane"` // the entry that packets meet
	Flow         *ExplainedFlow     `json:"flow"`
	RTRs         []netip.Addr       `json:"rtrs"`    // of this router behind a NAT, where packets go to them
	Binding      *ExplainedBinding  `json:"binding"` // at an RTR: of the destination's router behind a NAT
	// at an RTR: that the mapping names by simple-nat; without a port where it has heard of none
	NATHosts []NATHost `json:"nat_hosts"`
	// by which packets pass the NAT: ermagan or simple; empty where no NAT is known
	NATProtocol string `json:"nat_protocol"`
}

// ExplainedBinding is where an RTR forwards packets to the destination.
type ExplainedBinding struct {
	EIDPrefix lisp.Prefix `json:"eid_prefix"`
	RLOCs     []NATRLOC   `json:"rlocs"` // those of the router with the best priority; none may be usable
}

// LostMapping is an EID-Prefix in use that had locators within the last hour, and is not registered now.
type LostMapping struct {
	EIDPrefix     lisp.Prefix `json:"eid_prefix"`
	Since         time.Time   `json:"since"`           // of the first Map-Reply that said so
	HadUntil      time.Time   `json:"locators_until"`  // it had locators until then
	NextRequestAt time.Time   `json:"next_request_at"` // it is asked for again then
}

// ExplainedRole says whether an RTR, PITR or PETR takes packets to the destination: of the flow, or of a source that its policy allows.
type ExplainedRole struct {
	Role  string `json:"role"`
	Takes bool   `json:"takes"`
}

// SkippedLocator is a locator that an ITR cannot send packets to, or a hop of a path that it leaves out: its address in words, and why.
type SkippedLocator struct {
	Address string `json:"address"`
	Reason  string `json:"reason"`
}

// ExplainedMapping is the map-cache entry that decides.
type ExplainedMapping struct {
	EIDPrefix    lisp.Prefix      `json:"eid_prefix"`
	State        string           `json:"state"`  // static, complete, negative, refreshing, gleaned
	Source       string           `json:"source"` // configuration, or who sent the Map-Reply
	Action       *lisp.Action     `json:"action"`
	TTL          *jsondoc.Seconds `json:"ttl_seconds"` // nil of static ones, and where the receiver decides
	MapVersion   uint16           `json:"map_version"`
	CreatedAt    time.Time        `json:"created_at"`
	ExpiresAt    *time.Time       `json:"expires_at"`
	LastUsedAt   *time.Time       `json:"last_used_at"`
	Covering     []lisp.Prefix    `json:"covering"`      // less specific entries, the nearest first
	MoreSpecific int              `json:"more_specific"` // entries within it that do not cover the EID, 256 at most
}

// ExplainedLocator is a locator with what decides whether it is used.
type ExplainedLocator struct {
	Locator
	Said      *Locator         `json:"said_by_site"` // where a policy made it another
	Policy    *int             `json:"locator_policy"`
	State     string           `json:"state"`
	Reason    string           `json:"reason"`
	ChangedAt *time.Time       `json:"changed_at"`
	RoundTrip *jsondoc.Seconds `json:"round_trip_seconds"`
	Share     float64          `json:"share"` // of the flows, 0 to 1
	Used      bool             `json:"used"`
	WhyNot    string           `json:"why_not"`
	// SkippedHops are those of a path that packets are not sent to, though they come before the one that they are sent to.
	SkippedHops []SkippedLocator `json:"skipped_hops"`
	// SecondLayers are there where the RLOC, or the next hop of the path, is an EID itself, and packets may get two layers.
	SecondLayers []SecondLayer `json:"second_layers"`
}

// ExplainedFlow is the way of one flow.
type ExplainedFlow struct {
	Hash       uint32     `json:"hash"`
	Bucket     int        `json:"bucket"`
	SourcePort uint16     `json:"outer_source_port"`
	RLOC       *lisp.RLOC `json:"rloc"` // of a path: its next hop; nil when no locator is usable
	// Subflow is there where the flow is a subflow of Multipath TCP that is known.
	Subflow *Subflow `json:"subflow"`
	// Bound says that the flow goes by the path that it is bound to, and not by its hash.
	Bound bool `json:"bound"`
}

// Explain asks why a destination is reached as it is.
func (c *Client) Explain(ctx context.Context, q ExplainQuery) (e Explanation, err error) {
	return e, c.get(ctx, PathExplain+"?"+q.Values().Encode(), &e)
}

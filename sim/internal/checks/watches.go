// SPDX-License-Identifier: Apache-2.0

package checks

// What the checks remember: requests and rates on the wire, what
// was registered and said when.

import (
	"time"

	"loci/lisp"
)

// gleanWatch is what data packets told a tunnel router: the outer source of the last ones from
// an inner source.
type gleanWatch map[gleanKey]time.Duration

type gleanKey struct {
	source lisp.Prefix
	from   lisp.RLOC
}

// locatorFact is a locator that a site configured for an EID-Prefix.
type locatorFact struct {
	prefix           lisp.Prefix
	path             lisp.Path
	bits             lisp.PathBits
	priority, weight uint8
	reachable        bool
}

// content is what a tunnel router says about an EID-Prefix, its locators as a hash.
type content struct {
	router   int
	prefix   lisp.Prefix
	locators uint64
	version  uint16
}

// validity is when a content was last in force.
type validity struct {
	first         time.Duration // when it was so for the first time
	since, until  time.Duration
	authenticated bool // registered with the right key at any time
}

const inForce = time.Duration(1<<63 - 1)

// Acceptance is what a Map-Server was seen to have accepted from each tunnel router.
type Acceptance map[acceptanceKey]accepted

// accepted is a content with the time since which it was in force when it was accepted.
type accepted struct {
	content
	since time.Duration
}

type acceptanceKey struct {
	router int
	prefix lisp.Prefix
}

// The names of the invariants, as violations and docs/simulator.md have them.
const (
	InvariantNoPanic     = "no-panic"
	InvariantPlane       = "plane-in-step"      // the data plane takes what the Node gives it
	invariantRightSite   = "right-site"         // RFC 9300 s.4: never another site or Instance-ID
	invariantNoLoop      = "no-loop"            // nothing is encapsulated twice
	invariantLoopEnds    = "loop-ends"          // RFC 9300 s.5.3: no packet is relayed more often than its TTL allows
	invariantPolicy      = "relay-policy"       // RFC 6832: a relay forwards only what its policy names
	InvariantLocator     = "usable-locator"     // RFC 9301 s.5.4: not 255, not R=0, not down, lowest priority
	invariantTTL         = "within-ttl"         // RFC 9301 s.5.4: no mapping beyond its TTL
	invariantTrue        = "true-mapping"       // what is cached was said by its site
	invariantGleaned     = "gleaned"            // RFC 9300 s.9: brief, verified, contradicts no mapping
	InvariantLimits      = "within-limits"      // tables, queues, turns
	invariantAuthentic   = "authentic"          // registrations and Map-Notifies come from a holder of the key
	InvariantStored      = "stored"             // what a Map-Server's store took is there after a restart
	invariantVersion     = "map-version"        // RFC 9302 s.7: never by a newer version than there is, never back to an older one
	invariantLastPath    = "last-path"          // RFC 9300 s.10: no router, nor its site, says that it has no path while it has one
	invariantHandover    = "handover"           // a router gives its packets only to a sibling that gets through
	invariantStart       = "server-start"       // a Map-Server denies nothing before all had the time to register
	InvariantDeadControl = "dead-control-plane" // RFC 9300 s.10: its death alone loses no packet while the TTL runs
	InvariantReturn      = "return"             // packets pass soon after a site, or the Map-Servers, came back
	InvariantControlCut  = "control-cut"        // the loss of control messages alone loses no packet while the TTL runs
	InvariantConvergence = "convergence"        // in time, and for good
)

// SPDX-License-Identifier: Apache-2.0

package world

// What the checks remember: the map-cache as it was told, requests and rates on the wire, what
// was registered and said when.

import (
	"net/netip"
	"time"

	"loci/control"
	"loci/lisp"
)

// gleanWatch is what data packets told a tunnel router: the outer source of the last ones from
// an inner source.
type gleanWatch map[gleanKey]time.Duration

type gleanKey struct {
	source lisp.Prefix
	from   lisp.RLOC
}

// solicited tells one SMR from another.
type solicited struct {
	to    netip.AddrPort
	nonce uint64
}

type askedPrefix struct {
	prefix     lisp.Prefix
	lastAt     time.Time
	unanswered int
	open       bool // listed as such
}

type registerKey struct {
	to       netip.AddrPort
	prefix   lisp.Prefix
	locators uint64
	octets   int // tells messages apart that begin with the same record
}

// rateWatch is a table of token buckets, each the time at which it will be full again, in
// nanoseconds.
type rateWatch struct{ fullAt map[uint64]*int64 }

// locatorFact is a locator that a site configured for an EID-Prefix.
type locatorFact struct {
	prefix           lisp.Prefix
	rloc             lisp.RLOC
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
	invariantNoPanic     = "no-panic"
	invariantPlane       = "plane-in-step"        // the data plane takes what the Node gives it
	invariantRightSite   = "right-site"           // RFC 9300 s.4: never another site or Instance-ID
	invariantNoLoop      = "no-loop"              // nothing is encapsulated twice
	InvariantLocator     = "usable-locator"       // RFC 9301 s.5.4: not 255, not R=0, not down, lowest priority
	invariantTTL         = "within-ttl"           // RFC 9301 s.5.4: no mapping beyond its TTL
	invariantTrue        = "true-mapping"         // what is cached was said by its site
	invariantGleaned     = "gleaned"              // RFC 9300 s.9: brief, verified, contradicts no mapping
	invariantRequestRate = "map-request-rate"     // RFC 9301 s.5.3: one a second for an EID-Prefix
	invariantHoldDown    = "map-request-holddown" // RFC 9301 s.5.3: ten tries, then a pause
	invariantReplyRate   = "map-reply-rate"       // RFC 9301 s.5.4
	invariantSMR         = "smr"                  // RFC 9301 s.6.1: rate, D bit, answers through the mapping system alone
	invariantProbe       = "rloc-probe"           // RFC 9301 s.5.8, s.7.1: rates, never encapsulated
	invariantRegister    = "map-register-backoff" // RFC 9301 s.5.7: a second before the first repetition
	invariantLimits      = "within-limits"        // tables, queues, turns
	invariantAuthentic   = "authentic"            // registrations and Map-Notifies come from a holder of the key
	invariantStored      = "stored"               // what a Map-Server's store took is there after a restart
	invariantVersion     = "map-version"          // RFC 9302 s.7: never by a newer version than there is, never back to an older one
	invariantLastPath    = "last-path"            // RFC 9300 s.10: no router, nor its site, says that it has no path while it has one
	invariantStart       = "server-start"         // a Map-Server denies nothing before all had the time to register
	invariantDeadControl = "dead-control-plane"   // RFC 9300 s.10: its death alone loses no packet while the TTL runs
	invariantConvergence = "convergence"          // in time, and for good
)

func (m *mirror) clear() {
	m.Entries, m.heard, m.lengths = map[lisp.Prefix]control.MapCacheEntry{}, map[lisp.Prefix]time.Time{}, [2][129]int{}
}

func (m *mirror) put(e control.MapCacheEntry) {
	if _, known := m.Entries[e.Mapping.Prefix]; !known {
		m.lengths[family(e.Mapping.Prefix)][e.Mapping.Prefix.Bits()]++
	}
	m.Entries[e.Mapping.Prefix] = e
	m.changed = true
}

func (m *mirror) remove(p lisp.Prefix) {
	if _, known := m.Entries[p]; known {
		m.lengths[family(p)][p.Bits()]--
		delete(m.Entries, p)
		m.changed = true
	}
}

// longest is the entry that decides for an EID.
func (m *mirror) longest(instance lisp.InstanceID, eid lisp.EID) (control.MapCacheEntry, bool) {
	host := lisp.HostPrefix(instance, eid)
	lengths := &m.lengths[family(host)]
	for bits := host.Bits(); bits >= 0; bits-- {
		if lengths[bits] == 0 {
			continue
		}
		p, err := lisp.PrefixFrom(instance, eid, bits)
		if e, ok := m.Entries[p]; ok && err == nil {
			return e, true
		}
	}
	return control.MapCacheEntry{}, false
}

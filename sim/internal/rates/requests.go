// SPDX-License-Identifier: Apache-2.0

package rates

// Map-Requests (RFC 9301 s.5.3) and repeated Map-Registers (s.5.7).

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/mirror"
	"loci/wire"
)

const (
	requestInterval = time.Second
	requestTries    = 10
	requestPause    = 30 * time.Second
	repetitionFirst = time.Second
)

// The rules that Map-Requests may break, as docs/simulator.md names them.
const (
	RuleRequestRate = "map-request-rate"     // RFC 9301 s.5.3: one a second for an EID-Prefix
	RuleHoldDown    = "map-request-holddown" // RFC 9301 s.5.3: ten tries, then a pause
	RuleMalformed   = "no-panic"
)

// Requests follows the Map-Requests and Map-Registers of one run of a Node.
type Requests struct {
	Asked     map[lisp.Prefix]*Asked
	open      []*Asked // those that are not answered, and some that are
	nonces    map[uint64]lisp.Prefix
	registers map[registerKey]time.Time
	hasOwn    bool // the router has EID-Prefixes of its own
	unheard   unheard
}

// unheard is what was asked since the last Map-Reply, of any Map-Resolver.
type unheard struct {
	ownAt    time.Time // when an own EID was first asked for, zero for not at all
	repeated int       // how many Map-Requests were for what had been asked for before
	known    bool      // that all Map-Resolvers are silent was known: until a Map-Reply, whatever EIDs the router gets
}

const (
	// silentWait is how long the answer about an own EID may take: its ETR lives.
	silentWait = time.Second
	// silentRepeats is how many are unanswered where there is no own EID to ask for.
	silentRepeats = 2
)

// silent reports whether all Map-Resolvers are silent: an own EID was asked for in vain, or others again and again by a router that
// has none.
func (u *unheard) silent(now time.Time, hasOwn bool) bool {
	if hasOwn {
		u.known = u.known || !u.ownAt.IsZero() && now.Sub(u.ownAt) >= silentWait-Rounding
	} else {
		u.known = u.known || u.repeated >= silentRepeats
	}
	return u.known
}

// Asked is an EID-Prefix that was asked for.
type Asked struct {
	prefix     lisp.Prefix
	LastAt     time.Time
	unanswered int
	open       bool // listed as such
}

type registerKey struct {
	to       netip.AddrPort
	prefix   lisp.Prefix
	locators uint64
	octets   int // tells messages apart that begin with the same record
}

// Forget begins with another run.
func (q *Requests) Forget() {
	q.Asked, q.nonces, q.open, q.unheard = map[lisp.Prefix]*Asked{}, map[uint64]lisp.Prefix{}, nil, unheard{}
	q.registers = map[registerKey]time.Time{}
}

// Sent judges a Map-Request of a router with those EID-Prefixes: which rule it breaks, and how; none is empty. While all
// Map-Resolvers are silent tries do not count.
func (q *Requests) Sent(now time.Time, m *wire.MapRequest, own []control.DatabaseMapping) (rule, what string) {
	for i := range m.Records {
		p, err := m.Records[i].Prefix()
		if err != nil {
			return RuleMalformed, fmt.Sprintf("asks for %s: %v", m.Records[i].EID, err)
		}
		a := q.Asked[p]
		if a == nil {
			a = &Asked{prefix: p}
			q.Asked[p] = a
		}
		gap, silent := now.Sub(a.LastAt), q.note(now, p, a.unanswered > 0, own)
		switch {
		case gap < requestInterval-Rounding:
			rule, what = RuleRequestRate, fmt.Sprintf("asks for %s again after %s", p, gap)
		case !silent && a.unanswered >= requestTries && gap < requestPause-Rounding:
			rule, what = RuleHoldDown, fmt.Sprintf("asks for %s a %dth time, %s after the one before, with no answer", p, a.unanswered+1, gap)
		case gap >= requestPause-Rounding:
			a.unanswered = 0
		}
		if a.LastAt = now; !a.open {
			a.open, q.open = true, append(q.open, a)
		}
		if !silent {
			a.unanswered++
		}
		q.nonces[m.Nonce] = p
	}
	return rule, what
}

// Has reports whether a Map-Request has that nonce.
func (q *Requests) Has(nonce uint64) bool {
	_, ok := q.nonces[nonce]
	return ok
}

// note notes what is asked for, and reports whether all Map-Resolvers are silent.
func (q *Requests) note(now time.Time, p lisp.Prefix, again bool, own []control.DatabaseMapping) (silent bool) {
	q.hasOwn = len(own) > 0
	if slices.ContainsFunc(own, func(m control.DatabaseMapping) bool { return m.Prefix.Covers(p) }) && q.unheard.ownAt.IsZero() {
		q.unheard.ownAt = now
	}
	if again {
		q.unheard.repeated++
	}
	return q.unheard.silent(now, q.hasOwn)
}

// Answered notes a Map-Reply to one of the requests; false when it is none. One that ends silence lets all begin anew.
func (q *Requests) Answered(nonce uint64, now time.Time) bool {
	p, ok := q.nonces[nonce]
	if !ok {
		return false
	}
	if q.unheard.silent(now, q.hasOwn) {
		for _, a := range q.Asked {
			a.unanswered = 0
		}
	}
	q.unheard = unheard{}
	if a := q.Asked[p]; a != nil {
		a.unanswered = 0
	}
	return true
}

// Covered notes that a mapping came for what else was asked: that is answered too.
func (q *Requests) Covered(by lisp.Prefix) {
	q.open = slices.DeleteFunc(q.open, func(a *Asked) bool {
		if by.Covers(a.prefix) {
			a.unanswered = 0
		}
		a.open = a.unanswered > 0
		return !a.open
	})
}

// Prune forgets what is too old to matter.
func (q *Requests) Prune(now time.Time) {
	if len(q.nonces) < 200 {
		return
	}
	for nonce, p := range q.nonces {
		a := q.Asked[p]
		if a != nil && now.Sub(a.LastAt) <= 2*requestPause {
			continue
		}
		if a != nil {
			a.unanswered = 0 // no longer open
		}
		delete(q.nonces, nonce)
		delete(q.Asked, p)
	}
}

// Registered judges a Map-Register: the same one is not repeated within a second, unless the configuration changed meanwhile. It
// says how it is wrong, or nothing.
func (q *Requests) Registered(now time.Time, to netip.AddrPort, m *wire.MapRegister, configuredAt time.Time) (wrong string) {
	mapping, err := m.Records[0].Mapping()
	if err != nil {
		return fmt.Sprintf("registers a malformed mapping: %v", err)
	}
	key := registerKey{to, mapping.Prefix, mirror.Hash(mapping.Locators), len(m.Records)}
	last, known := q.registers[key]
	if gap := now.Sub(last); known && gap < repetitionFirst-Rounding && configuredAt.Before(last) {
		wrong = fmt.Sprintf("registers %s at %s again after %s", mapping.Prefix, to, gap)
	}
	q.registers[key] = now
	return wrong
}

// SPDX-License-Identifier: Apache-2.0

package rates

// Map-Requests (RFC 9301 s.5.3) and repeated Map-Registers (s.5.7).

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

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
	q.Asked, q.nonces, q.open = map[lisp.Prefix]*Asked{}, map[uint64]lisp.Prefix{}, nil
	q.registers = map[registerKey]time.Time{}
}

// Sent judges a Map-Request: which rule it breaks, and how; none is empty.
func (q *Requests) Sent(now time.Time, m *wire.MapRequest) (rule, what string) {
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
		gap := now.Sub(a.LastAt)
		switch {
		case gap < requestInterval-Rounding:
			rule, what = RuleRequestRate, fmt.Sprintf("asks for %s again after %s", p, gap)
		case a.unanswered >= requestTries && gap < requestPause-Rounding:
			rule, what = RuleHoldDown, fmt.Sprintf("asks for %s a %dth time, %s after the one before, with no answer", p, a.unanswered+1, gap)
		case gap >= requestPause-Rounding:
			a.unanswered = 0
		}
		if a.LastAt = now; !a.open {
			a.open, q.open = true, append(q.open, a)
		}
		a.unanswered++
		q.nonces[m.Nonce] = p
	}
	return rule, what
}

// Has reports whether a Map-Request has that nonce.
func (q *Requests) Has(nonce uint64) bool {
	_, ok := q.nonces[nonce]
	return ok
}

// Answered notes a Map-Reply to one of the requests; false when it is none.
func (q *Requests) Answered(nonce uint64) bool {
	p, ok := q.nonces[nonce]
	if !ok {
		return false
	}
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

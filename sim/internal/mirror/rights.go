// SPDX-License-Identifier: Apache-2.0

package mirror

// Until when a mapping may be kept: by the Map-Replies that came, from the mapping system or from a sibling that gives what it has.

import (
	"time"

	"loci/lisp"
)

// remembered is for how long an EID-Prefix that had locators gets a negative entry of its own, where a negative answer covers more.
const remembered = time.Hour

// said is when something was said last, and until when it holds by all that was said.
type said struct{ at, until time.Time }

// later is what is said now of the same.
func (s said) later(at, until time.Time) said {
	if s.until.After(until) {
		until = s.until
	}
	return said{at, until}
}

// Hear notes what a Map-Reply allows. given says that a sibling sent it, with what is left of its own TTL.
func (m *MapCache) Hear(mapping lisp.Mapping, now time.Time, given bool) {
	p := mapping.Prefix
	until := now.Add(lisp.Lifetime(mapping.TTLMinutes, lisp.MaxLifetime))
	if until.After(m.Heard[p]) {
		m.Heard[p] = until
	}
	m.given[p] = given
	if mapping.Negative() {
		m.denied[p] = m.denied[p].later(now, until)
	} else {
		m.had[p] = m.had[p].later(now, until)
	}
}

// IsGiven reports whether a sibling sent what is known of an EID-Prefix.
func (m *MapCache) IsGiven(p lisp.Prefix) bool { return m.given[p] }

// MayBeKept is until when a mapping may be kept. A negative one of an EID-Prefix that had locators in the last hour may be so as long as
// a negative answer that covers it, and came after those locators.
func (m *MapCache) MayBeKept(mapping lisp.Mapping, now time.Time) (until time.Time, ok bool) {
	p := mapping.Prefix
	until, ok = m.Heard[p]
	had, known := m.had[p]
	isNegative := mapping.Negative() || mapping.Action == lisp.ActionNativelyForward // that one may have proxy ETRs
	if !isNegative || !known || now.After(had.until.Add(remembered)) {
		return until, ok
	}
	for bits := range p.Bits() {
		covering, err := lisp.PrefixFrom(p.Instance(), p.EID(), bits)
		if d, denied := m.denied[covering]; denied && err == nil && !d.at.Before(had.at) && d.until.After(until) {
			until, ok = d.until, true
		}
	}
	return until, ok
}

// ForgetHeard forgets what does not hold any more.
func (m *MapCache) ForgetHeard(now time.Time) {
	for p, until := range m.Heard {
		if _, stale := m.StaleSince[p]; until.Before(now) && !stale {
			delete(m.Heard, p)
			delete(m.given, p)
		}
	}
	for p, d := range m.denied {
		if d.until.Before(now) {
			delete(m.denied, p)
		}
	}
	for p, h := range m.had {
		if h.until.Add(remembered).Before(now) {
			delete(m.had, p)
		}
	}
}

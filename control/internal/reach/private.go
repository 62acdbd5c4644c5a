// SPDX-License-Identifier: Apache-2.0

package reach

// Private RLOCs beside RTRs (draft-farinacci-lisp-lispers-net-nat s.10): the site is in our own network, or another one
// that has the same addresses. So the data plane gets such a locator for an EID-Prefix only while it answers
// RLOC-probes about that EID-Prefix; until then packets go to the RTRs. Answers about others that have the same RLOC
// do not count.

import (
	"math"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

// maxPrivateUses bounds the EID-Prefixes that one private RLOC is probed about. Others are reached by their RTRs.
const maxPrivateUses = 8

// privateUse is an EID-Prefix with a private RLOC beside an RTR, and what RLOC-probes about it say.
type privateUse struct {
	prefix     lisp.Prefix
	mappings   int // two while one replaces another
	asked      askedProbes
	unanswered int
	answeredAt timing.Instant
	answers    bool
}

// isDoubted reports whether an RLOC of a mapping may be another host's.
func isDoubted(m *lisp.Mapping, l *lisp.Locator) bool {
	return l.Behind == "" && l.RLOC.IsPrivate() && isWatched(l) && slices.ContainsFunc(m.Locators, func(o lisp.Locator) bool {
		return o.Priority == lisp.PriorityRTR && o.Usable() && o.RLOC != l.RLOC
	})
}

// speaksFor reports whether an answer has the mapping of an EID-Prefix, or of a part of it.
func speaksFor(mappings []lisp.Mapping, p lisp.Prefix) bool {
	return slices.ContainsFunc(mappings, func(m lisp.Mapping) bool {
		return !m.Negative() && (m.Prefix.Covers(p) || p.Covers(m.Prefix))
	})
}

// privateUse is that of an EID-Prefix, nil for none.
func (l *Locator) privateUse(p lisp.Prefix) *privateUse {
	if at := slices.IndexFunc(l.private, func(u privateUse) bool { return u.prefix == p }); at >= 0 {
		return &l.private[at]
	}
	return nil
}

// useAsked is the one that an RLOC-probe was about, nil where it was about none.
func (l *Locator) useAsked(nonce uint64) *privateUse {
	if at := slices.IndexFunc(l.private, func(u privateUse) bool { return u.asked.has(nonce) }); at >= 0 {
		return &l.private[at]
	}
	return nil
}

// awaitsRetry reports whether RLOC-probes about one of the EID-Prefixes are to be repeated soon.
func (l *Locator) awaitsRetry(retries int) bool {
	return slices.ContainsFunc(l.private, func(u privateUse) bool { return u.unanswered > 0 && u.unanswered <= retries })
}

// PrivateRLOCs are the private RLOCs of the table that mappings have beside RTRs.
type PrivateRLOCs struct {
	h      *system.System
	table  *Table
	config *settings.ProbingConfig
	limit  *timing.Bucket // of all RLOC-probes
	nonces map[uint64]uint32
	probes func(lisp.RLOC) bool // whether an RLOC is probed at all
	ask    func(id uint32, about lisp.Prefix, asked *askedProbes)

	Changed func(lisp.Prefix) // a private RLOC of a mapping answers about it now, or does not any more
}

// Used is a mapping's locator-set for the data plane, in which private RLOCs that do not answer about the
// EID-Prefix are not used.
func (p *PrivateRLOCs) Used(m *lisp.Mapping, set lisp.LocatorSet) lisp.LocatorSet {
	if !slices.ContainsFunc(m.Locators, func(l lisp.Locator) bool { return p.Withholds(m, &l) }) {
		return set
	}
	set = slices.Clone(set)
	for _, l := range m.Locators {
		at := slices.IndexFunc(set, func(o lisp.Locator) bool { return o.Path() == l.Path() })
		if at >= 0 && p.Withholds(m, &l) {
			set[at].Priority = lisp.PriorityUnused
		}
	}
	return set
}

// Withholds reports whether a locator of a mapping is a private RLOC that does not answer about its EID-Prefix.
func (p *PrivateRLOCs) Withholds(m *lisp.Mapping, l *lisp.Locator) bool {
	if !isDoubted(m, l) || p.table.IsOwn(l.RLOC) {
		return false
	}
	_, row, known := p.table.Get(l.RLOC)
	if !known {
		return true
	}
	u := row.privateUse(m.Prefix)
	return u == nil || !u.answers
}

// add notes the private RLOCs of a mapping, and has them probed soon.
func (p *PrivateRLOCs) add(m *lisp.Mapping) {
	for i := range m.Locators {
		id, row, known := p.table.Get(m.Locators[i].RLOC)
		if !known || !isDoubted(m, &m.Locators[i]) {
			continue
		}
		if u := row.privateUse(m.Prefix); u != nil {
			u.mappings++
			continue
		}
		if len(row.private) >= maxPrivateUses {
			p.h.Count(counter.RefusedLocatorTable)
			continue
		}
		row.private = append(row.private, privateUse{prefix: m.Prefix, mappings: 1})
		if p.probes(row.RLOC) {
			p.table.Timers.Set(id, min(p.table.Timers.Of(id), p.h.After(p.h.Below(p.config.RetriesInterval))))
		}
	}
}

// remove is for a mapping that is about to go.
func (p *PrivateRLOCs) remove(m *lisp.Mapping) {
	for i := range m.Locators {
		_, row, known := p.table.Get(m.Locators[i].RLOC)
		if !known || !isDoubted(m, &m.Locators[i]) {
			continue
		}
		at := slices.IndexFunc(row.private, func(u privateUse) bool { return u.prefix == m.Prefix })
		if at < 0 {
			continue
		}
		if row.private[at].mappings--; row.private[at].mappings == 0 {
			row.private[at].asked.forget(p.nonces)
			row.private = slices.Delete(row.private, at, at+1)
		}
	}
}

// probe probes a private RLOC about each of its EID-Prefixes but those about which it answered just now: ETRs
// limit their answers. The RLOC itself is silent only when it answers about none.
func (p *PrivateRLOCs) probe(id uint32) {
	l := p.table.Rows.At(id)
	fewest, first := math.MaxInt, true
	for i := range l.private {
		u := &l.private[i]
		if !u.answers || u.unanswered > 0 || p.h.Now-u.answeredAt >= timing.Instant(p.config.Interval/2) {
			p.judge(u)
			u.unanswered++
			if first || p.limit.Take(p.h.Now, p.h.Limits.RLOCProbes) { // the first one is counted already
				p.ask(id, u.prefix, &u.asked)
			} else {
				p.h.Count(counter.RefusedProbeLimit)
			}
			first = false
		}
		fewest = min(fewest, u.unanswered)
	}
	l.Probes.unanswered = fewest
}

// judge has packets of an EID-Prefix sent to its RTRs when the RLOC does not answer about it any more.
func (p *PrivateRLOCs) judge(u *privateUse) {
	if u.answers && u.unanswered > p.config.Retries {
		u.answers = false
		p.Changed(u.prefix)
	}
}

// answered has packets of an EID-Prefix sent to the private RLOC, which answered about it.
func (p *PrivateRLOCs) answered(u *privateUse) {
	u.unanswered, u.answeredAt = 0, p.h.Now
	u.asked.forget(p.nonces)
	if !u.answers {
		u.answers = true
		p.Changed(u.prefix)
	}
}

// reset is for an RLOC that is probed no more.
func (p *PrivateRLOCs) reset(l *Locator) {
	for i := range l.private {
		u := &l.private[i]
		u.unanswered = 0
		if u.answers {
			u.answers = false
			p.Changed(u.prefix)
		}
	}
}

// wait is how long after a probe of a private RLOC the next one follows: soon while one EID-Prefix awaits it.
func (p *PrivateRLOCs) wait(l *Locator, otherwise time.Duration) time.Duration {
	if l.awaitsRetry(p.config.Retries) {
		return min(p.config.RetriesInterval, otherwise)
	}
	return otherwise
}

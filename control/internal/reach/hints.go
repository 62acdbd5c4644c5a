// SPDX-License-Identifier: Apache-2.0

package reach

// What data packets and ICMP say about locators (RFC 9300 s.10, RFC 9301 s.7), and how far
// it is believed. Locator-Status-Bits and Echo-Nonce are for trusted networks alone and are
// believed there; an ICMP unreachable is believed where another locator is known to answer,
// so that a forged one moves traffic between paths that work and stops none. Whatever is
// believed, RLOC-probes are sent at once, and their answers take a hint back; where none comes, a hint
// is forgotten after HintHold, and the locator is as one that does not answer. Nobody is
// believed to be down for being silent (RFC 9300 s.10): it makes a probe go out, no more. Nothing here looks at packets.

import (
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/report"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// HintHold is how long a locator that a hint took out of use stays so where no answer
	// to an RLOC-probe takes the hint back.
	HintHold = 30 * time.Second
	// StatusBitHold is how old a status bit has to be for a Map-Reply to be newer: the site registers
	// what the bit says at once, and tells its peers.
	StatusBitHold = 10 * time.Second
	// maxLoweredBy bounds the EID-Prefixes that are remembered to hold one locator down.
	maxLoweredBy = 64
	// LongSilence is for how long packets are sent to a locator that was heard from, and nothing comes from
	// it, before it is probed.
	LongSilence = 2 * time.Second
)

// SetStatusBit notes what the site of an EID-Prefix says of a locator.
func (p *Prober) SetStatusBit(r lisp.RLOC, by lisp.Prefix, up bool) {
	id, l, known := p.Table.Get(r)
	at := slices.Index(p.Table.lowered(l, known), by)
	switch {
	case !known:
		p.h.Count(counter.RefusedHint)
	case up && at >= 0:
		l.loweredBy = slices.Delete(l.loweredBy, at, at+1)
		p.raise(id)
	case !up && at < 0 && len(l.loweredBy) < maxLoweredBy:
		l.loweredBy, l.loweredAt = append(l.loweredBy, by), p.h.Now
		p.Table.Fall(l, effect.LocatorDown, effect.LocatorStatusBit)
	}
}

// Heed lets go of old status bits of a mapping's locators that its site, by a Map-Reply, calls reachable: who sends us
// no packets any more cannot take them back.
func (p *Prober) Heed(m lisp.Mapping) {
	for _, o := range m.Locators {
		id, l, known := p.Table.Get(o.RLOC)
		if !known || len(l.loweredBy) == 0 || !o.Usable() || p.h.Now-l.loweredAt < timing.Instant(StatusBitHold) {
			continue
		}
		if at := slices.Index(l.loweredBy, m.Prefix); at >= 0 {
			l.loweredBy = slices.Delete(l.loweredBy, at, at+1)
			p.raise(id)
		}
	}
}

// lowered is the EID-Prefixes whose status bits hold a locator down.
func (t *Table) lowered(l *Locator, known bool) []lisp.Prefix {
	if !known {
		return nil
	}
	return l.loweredBy
}

// raise lets a locator be used again that no status bit holds down any more: before others
// unless it flapped or its probes stay unanswered.
func (p *Prober) raise(id uint32) {
	l := p.Table.Rows.At(id)
	switch {
	case len(l.loweredBy) > 0 || l.reason != effect.LocatorStatusBit:
	case p.probes(l.RLOC) && l.Probes.unanswered > p.Config.Retries:
		p.Table.Set(l, effect.LocatorUnconfirmed, effect.LocatorUnanswered)
	case p.h.Now < l.heldUntil:
		p.Table.Set(l, effect.LocatorUnconfirmed, effect.LocatorReturning)
		if !p.probes(l.RLOC) {
			p.Table.Timers.Set(id, l.heldUntil)
		}
	case !p.probes(l.RLOC):
		p.Table.Set(l, effect.LocatorUnknown, effect.LocatorNotProbed)
	default:
		p.Table.Set(l, effect.LocatorUnknown, effect.LocatorAwaitsReply)
		p.Table.Timers.Set(id, p.h.Now)
	}
}

// Distrust acts on a hint that a locator is gone: it is probed at once, and left where the
// hint is believed and the mapping has another locator that may be used. One that is
// unconfirmed has been left already.
func (p *Prober) Distrust(r lisp.RLOC, reason effect.LocatorReason, believed bool) {
	id, l, known := p.Table.Get(r)
	if !known {
		p.h.Count(counter.RefusedHint)
		return
	}
	if believed && !l.isFallen() && p.otherUsable(l) {
		p.Table.Fall(l, effect.LocatorDown, reason)
	}
	if p.probes(r) {
		p.suspect(r)
		return
	}
	if l.State == effect.LocatorDown && l.reason == reason {
		p.Table.Timers.Set(id, max(p.h.After(HintHold), l.heldUntil))
	}
}

// otherUsable reports whether no mapping relies on a locator alone, and the mapping that a locator was last seen in has another one
// that answers, or that nothing speaks against where nobody probes.
func (p *Prober) otherUsable(l *Locator) bool {
	if p.Find == nil || l.alone > 0 {
		return false // somebody would be cut off
	}
	set, _ := p.Find(l.Prefix)
	return slices.ContainsFunc(set, func(o lisp.Locator) bool {
		_, other, known := p.Table.Get(o.RLOC)
		return o.RLOC != l.RLOC && o.Usable() && known && (other.State == effect.LocatorUp || !p.probes(o.RLOC) && other.State == effect.LocatorUnknown)
	})
}

// hinted reports whether a hint, and not the lack of answers, holds the locator down.
func (l *Locator) hinted() bool {
	return l.State == effect.LocatorDown && (l.reason == effect.LocatorUnreachable || l.reason == effect.LocatorNonceMismatch)
}

// handleHold ends what status bits held down, and hints where no probe can take them back.
func (p *Prober) handleHold(id uint32) {
	l := p.Table.Rows.At(id)
	switch {
	case l.reason == effect.LocatorStatusBit:
		p.raise(id)
	case p.probes(l.RLOC) || !l.hinted() && l.reason != effect.LocatorReturning:
	case p.h.Now >= l.heldUntil:
		p.Table.Set(l, effect.LocatorUnknown, effect.LocatorNotProbed)
	default:
		p.Table.Timers.Set(id, l.heldUntil)
	}
}

// HandleHeard notes from whom packets came, and probes locators that have become silent: once for each
// silence, because traffic that goes one way from now on is no fault.
func (p *Prober) HandleHeard(heard []report.Heard) {
	for _, h := range heard {
		_, l, known := p.Table.Get(h.RLOC)
		if !known {
			continue
		}
		l.heardAt = max(l.heardAt, min(p.h.Instant(h.LastHeardAt), p.h.Now))
		if l.State == effect.LocatorUnconfirmed {
			p.Table.tell(l)
		}
		if p.probes(l.RLOC) && !p.h.CutOff && l.isSilent() {
			p.noteSilence(l)
		}
	}
}

// isSilent reports whether packets were sent to a locator for a while since it was last heard from, which was in
// the state that it has, and nobody looked after it for that.
func (l *Locator) isSilent() bool {
	return !l.isFallen() && l.heardAt > l.changedAt && l.silence != l.heardAt && l.SentAt-l.heardAt >= timing.Instant(LongSilence)
}

func (p *Prober) noteSilence(l *Locator) {
	l.silence = l.heardAt
	p.h.Count(counter.LocatorWentSilent)
	p.h.NoticeProbe(func() effect.Notice {
		return effect.Notice{Kind: effect.NoticeLocatorSilent, Prefix: l.Prefix, Detail: l.RLOC.String()}
	})
	p.suspect(l.RLOC)
}

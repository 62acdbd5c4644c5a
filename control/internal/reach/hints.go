// SPDX-License-Identifier: Apache-2.0

package reach

// What data packets and ICMP say about locators (RFC 9300 s.10, RFC 9301 s.7), and how far
// it is believed. Locator-Status-Bits and Echo-Nonce are for trusted networks alone and are
// believed there; an ICMP unreachable is believed where another locator is known to answer,
// so that a forged one moves traffic between paths that work and stops none. Whatever is
// believed, RLOC-probes are sent at once, and their answers take a hint back; where none comes, a hint
// is forgotten after HintHold, and the locator is as one that does not answer. No locator is
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
	// StatusBitHold is how old a status bit has to be for a Map-Reply to be newer: the site registers
	// what the bit says at once, and tells its peers.
	StatusBitHold = 10 * time.Second
	// maxLoweredBy bounds the EID-Prefixes that are remembered to hold one locator down.
	maxLoweredBy = 64
)

// SetStatusBit notes what the site of an EID-Prefix says of a locator.
func (p *Prober) SetStatusBit(path lisp.Path, by lisp.Prefix, up bool) {
	if !path.IsPlain() {
		p.Table.Paths.setStatusBit(path, by, up)
		return
	}
	id, l, known := p.Table.Get(path.RLOC)
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

// ReleaseStatusBits lets go of old status bits of a mapping's locators that its site, by a Map-Reply, calls reachable: who sends us
// no packets any more cannot take them back.
func (p *Prober) ReleaseStatusBits(m lisp.Mapping) {
	for _, o := range m.Locators {
		if o.Behind != "" {
			p.Table.Paths.releaseStatusBit(&o, m.Prefix)
			continue
		}
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
// that answers, or that nothing speaks against where RLOC-probing is off.
func (p *Prober) otherUsable(l *Locator) bool {
	if l.alone > 0 || p.Table.Paths.needsHop(l.RLOC) {
		return false // a site would be cut off
	}
	set := p.locatorsOf(l.Prefix)
	return slices.ContainsFunc(set, func(o lisp.Locator) bool {
		next := p.Table.Paths.nextWithout(&o, l.RLOC)
		_, other, known := p.Table.Get(next)
		return next != l.RLOC && o.Usable() && known && !p.Table.IsOwn(next) && (other.State == effect.LocatorUp || !p.probes(next) && other.State == effect.LocatorUnknown)
	})
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

func (p *Prober) noteSilence(l *Locator) {
	l.silence = l.heardAt
	p.h.Count(counter.LocatorWentSilent)
	p.h.NoticeProbe(func() effect.Notice {
		return effect.Notice{Kind: effect.NoticeLocatorSilent, Prefix: l.Prefix, RLOC: l.RLOC.String(), Detail: p.Table.hopText(l)}
	})
	p.suspect(l.RLOC)
}

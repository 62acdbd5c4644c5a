// SPDX-License-Identifier: Apache-2.0

package control

// What data packets and ICMP say about locators (RFC 9300 s.10, RFC 9301 s.7), and how far
// it is believed. Locator-Status-Bits and Echo-Nonce are for trusted networks alone and are
// believed there; an ICMP unreachable is believed where another locator is known to answer,
// so that a forged one moves traffic between paths that work and stops none. Whatever is
// believed, RLOC-probes are sent at once, and their answers take a hint back; where none comes, a hint
// is forgotten after hintHold, and the locator is as one that does not answer. Nobody is
// believed to be down for being silent (RFC 9300 s.10): it makes a probe go out, no more. Nothing here looks at packets.

import (
	"slices"
	"time"

	"loci/lisp"
)

const (
	// hintHold is how long a locator that a hint took out of use stays so where no answer
	// to an RLOC-probe takes the hint back.
	hintHold = 30 * time.Second
	// statusBitHold is how old a status bit has to be for a Map-Reply to be newer: the site registers
	// what the bit says at once, and tells its peers.
	statusBitHold = 10 * time.Second
	// maxLoweredBy bounds the EID-Prefixes that are remembered to hold one locator down.
	maxLoweredBy = 64
	// longSilence is for how long packets are sent to a locator that was heard from, and nothing comes from
	// it, before it is probed.
	longSilence = 2 * time.Second
)

// setStatusBit notes what the site of an EID-Prefix says of a locator.
func (p *prober) setStatusBit(r lisp.RLOC, by lisp.Prefix, up bool) {
	id, l, known := p.table.get(r)
	at := slices.Index(p.table.lowered(l, known), by)
	switch {
	case !known:
		p.h.count(RefusedHint)
	case up && at >= 0:
		l.loweredBy = slices.Delete(l.loweredBy, at, at+1)
		p.raise(id)
	case !up && at < 0 && len(l.loweredBy) < maxLoweredBy:
		l.loweredBy, l.loweredAt = append(l.loweredBy, by), p.h.now
		p.table.fall(l, LocatorDown, LocatorStatusBit)
	}
}

// heed lets go of old status bits of a mapping's locators that its site, by a Map-Reply, calls reachable: who sends us
// no packets any more cannot take them back.
func (p *prober) heed(m lisp.Mapping) {
	for _, o := range m.Locators {
		id, l, known := p.table.get(o.RLOC)
		if !known || len(l.loweredBy) == 0 || !o.Usable() || p.h.now-l.loweredAt < instant(statusBitHold) {
			continue
		}
		if at := slices.Index(l.loweredBy, m.Prefix); at >= 0 {
			l.loweredBy = slices.Delete(l.loweredBy, at, at+1)
			p.raise(id)
		}
	}
}

// lowered is the EID-Prefixes whose status bits hold a locator down.
func (t *locatorTable) lowered(l *locator, known bool) []lisp.Prefix {
	if !known {
		return nil
	}
	return l.loweredBy
}

// raise lets a locator be used again that no status bit holds down any more: before others
// unless it flapped or its probes stay unanswered.
func (p *prober) raise(id uint32) {
	l := p.table.rows.at(id)
	switch {
	case len(l.loweredBy) > 0 || l.reason != LocatorStatusBit:
	case p.probes(l.rloc) && l.probes.unanswered > p.config.Retries:
		p.table.set(l, LocatorUnconfirmed, LocatorUnanswered)
	case p.h.now < l.heldUntil:
		p.table.set(l, LocatorUnconfirmed, LocatorReturning)
		if !p.probes(l.rloc) {
			p.table.timers.set(id, l.heldUntil)
		}
	case !p.probes(l.rloc):
		p.table.set(l, LocatorUnknown, LocatorNotProbed)
	default:
		p.table.set(l, LocatorUnknown, LocatorAwaitsReply)
		p.table.timers.set(id, p.h.now)
	}
}

// distrust acts on a hint that a locator is gone: it is probed at once, and left where the
// hint is believed and the mapping has another locator that may be used. One that is
// unconfirmed has been left already.
func (p *prober) distrust(r lisp.RLOC, reason LocatorReason, believed bool) {
	id, l, known := p.table.get(r)
	if !known {
		p.h.count(RefusedHint)
		return
	}
	if believed && !l.isFallen() && p.otherUsable(l) {
		p.table.fall(l, LocatorDown, reason)
	}
	if p.probes(r) {
		p.suspect(r)
		return
	}
	if l.state == LocatorDown && l.reason == reason {
		p.table.timers.set(id, max(p.h.after(hintHold), l.heldUntil))
	}
}

// otherUsable reports whether no mapping relies on a locator alone, and the mapping that a locator was last seen in has another one
// that answers, or that nothing speaks against where nobody probes.
func (p *prober) otherUsable(l *locator) bool {
	if p.find == nil || l.alone > 0 {
		return false // somebody would be cut off
	}
	set, _ := p.find(l.prefix)
	return slices.ContainsFunc(set, func(o lisp.Locator) bool {
		_, other, known := p.table.get(o.RLOC)
		return o.RLOC != l.rloc && o.Usable() && known && (other.state == LocatorUp || !p.probes(o.RLOC) && other.state == LocatorUnknown)
	})
}

// hinted reports whether a hint, and not the lack of answers, holds the locator down.
func (l *locator) hinted() bool {
	return l.state == LocatorDown && (l.reason == LocatorUnreachable || l.reason == LocatorNonceMismatch)
}

// handleHold ends what status bits held down, and hints where no probe can take them back.
func (p *prober) handleHold(id uint32) {
	l := p.table.rows.at(id)
	switch {
	case l.reason == LocatorStatusBit:
		p.raise(id)
	case p.probes(l.rloc) || !l.hinted() && l.reason != LocatorReturning:
	case p.h.now >= l.heldUntil:
		p.table.set(l, LocatorUnknown, LocatorNotProbed)
	default:
		p.table.timers.set(id, l.heldUntil)
	}
}

// handleHeard notes from whom packets came, and probes locators that have become silent: once for each
// silence, because traffic that goes one way from now on is no fault.
func (p *prober) handleHeard(heard []Heard) {
	for _, h := range heard {
		_, l, known := p.table.get(h.RLOC)
		if !known {
			continue
		}
		l.heardAt = max(l.heardAt, min(p.h.instant(h.LastHeardAt), p.h.now))
		if l.state == LocatorUnconfirmed {
			p.table.tell(l)
		}
		if p.probes(l.rloc) && !p.h.cutOff && l.isSilent() {
			p.noteSilence(l)
		}
	}
}

// isSilent reports whether packets were sent to a locator for a while since it was last heard from, which was in
// the state that it has, and nobody looked after it for that.
func (l *locator) isSilent() bool {
	return !l.isFallen() && l.heardAt > l.changedAt && l.silence != l.heardAt && l.sentAt-l.heardAt >= instant(longSilence)
}

func (p *prober) noteSilence(l *locator) {
	l.silence = l.heardAt
	p.h.count(LocatorWentSilent)
	p.h.noticeProbe(func() Notice {
		return Notice{Kind: NoticeLocatorSilent, Prefix: l.prefix, Detail: l.rloc.String()}
	})
	p.suspect(l.rloc)
}

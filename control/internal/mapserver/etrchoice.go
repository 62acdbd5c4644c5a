// SPDX-License-Identifier: Apache-2.0

package mapserver

// Which ETR of an EID-Prefix gets a Map-Request (RFC 9301 s.8.3 leaves it open). It is one that registered what is answered
// now, with a locator of its own that is reachable by that, and of those the one that registered last: it was alive then. An
// ITR that asks again got no answer, and meets the next one. It never waits for an ETR, and never sends to two of them.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// AskedAgainWithin is how long after a Map-Request another one of the same ITR for the same EID counts as its repetition:
	// ITRs double their intervals, to eight seconds here.
	AskedAgainWithin = 10 * time.Second
	// rememberedRequests bounds the Map-Requests that are remembered. One that takes another's place makes that one's
	// repetition a first request, no more.
	rememberedRequests = 1024
)

// forwardedRequest is whom a Map-Request was forwarded to.
type forwardedRequest struct {
	itr   lisp.RLOC
	asked lisp.Prefix
	flow  lisp.Flow // whose path was asked for, zero for none
	at    timing.Instant
	place uint8 // of the ETR in the order of their registrations
}

// etrChoice remembers the Map-Requests that were forwarded lately, for EID-Prefixes with several ETRs.
type etrChoice struct {
	requests []forwardedRequest // by the hash of what was asked and who did
}

// place is how many ETRs the same Map-Request met before, as far as is known. What was met before an ETR registered counts for
// nothing: that one is asked.
func (c *etrChoice) place(q forwardedRequest, now, registeredAt timing.Instant) int {
	if c.requests == nil {
		c.requests = make([]forwardedRequest, rememberedRequests)
	}
	by := lisp.HostPrefix(0, lisp.EIDFromAddr(q.itr.Addr()))
	ports := uint32(q.flow.DestinationPort)<<16 | uint32(q.flow.SourcePort)
	r := &c.requests[(HashOf(&q.asked)^HashOf(&by)*31^ports*37)%rememberedRequests]
	if r.itr == q.itr && r.asked == q.asked && r.flow == q.flow && now-r.at < timing.Instant(AskedAgainWithin) &&
		registeredAt <= r.at {
		r.place++
	} else {
		*r = q
	}
	r.at = now
	return int(r.place)
}

// appendETRs appends where the ETRs are that may be asked for an EID-Prefix, who registered last first: of those that agree
// with what is answered the ones with a reachable locator, or all where none has one.
func (t *Registrations) appendETRs(all []netip.Addr, row *Registration) []netip.Addr {
	newest := t.Registrants.At(row.newest)
	for _, wanted := range []bool{true, false} {
		for r := range t.Each(row) {
			if t.agrees(newest, r) && t.isReachable(row, r) == wanted {
				all = append(all, t.Xtrs.At(r.XTR).From.Addr())
			}
		}
		if len(all) > 0 {
			break
		}
	}
	return all
}

// isReachable reports whether one of an ETR's own locators, those that it called local and where it registered from, is
// reachable by what is answered. So it is where none is known as its own.
func (t *Registrations) isReachable(row *Registration, r *Registrant) bool {
	from, own := lisp.RLOCFromAddr(t.Xtrs.At(r.XTR).From.Addr()), false
	answered := t.Sets.At(row.Merged.Locators)
	for _, l := range t.Sets.At(r.Content.Locators) {
		if !l.Local && l.Path().Last() != from {
			continue
		}
		own = true
		if slices.ContainsFunc(answered, func(a lisp.Locator) bool { return a.Reachable && a.IsSame(&l) }) {
			return true
		}
	}
	return !own
}

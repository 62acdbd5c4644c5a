// SPDX-License-Identifier: Apache-2.0

package transfer

// The taker: asks for what siblings offer, and takes what answers that.

import (
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// maxOffers is how many offers are remembered until they were answered.
const maxOffers = 16

// offer is what a sibling offered and was asked for.
type offer struct {
	nonce    uint64 // 0 for none
	from     Link
	prefixes []lisp.Prefix
	tries    int
}

// Taker has the offers under way.
type Taker struct {
	h      *system.System
	Cache  Mappings
	Timers timing.Deadlines // by index of offers
	offers [maxOffers]offer
}

// NewTaker has no offer.
func NewTaker(h *system.System) Taker { return Taker{h: h} }

// Offered asks a sibling for mappings that it offers.
func (t *Taker) Offered(from Link, prefixes []lisp.Prefix) {
	at := slices.IndexFunc(t.offers[:], func(o offer) bool { return o.from == from && slices.Equal(o.prefixes, prefixes) })
	if at < 0 {
		at = slices.IndexFunc(t.offers[:], func(o offer) bool { return o.nonce == 0 })
	}
	if at < 0 {
		t.h.Count(counter.RefusedSiblingMapping)
		return // it offers them again
	}
	if t.offers[at].nonce == 0 {
		t.offers[at] = offer{nonce: t.h.Nonce(), from: from, prefixes: slices.Clone(prefixes)}
	}
	t.HandleTimeout(uint32(at))
}

// HandleTimeout asks for what was offered and did not come yet.
func (t *Taker) HandleTimeout(at uint32) {
	o := &t.offers[at]
	if o.tries++; o.nonce == 0 || o.tries > tries {
		*o = offer{}
		return
	}
	sendAbout(t.h, o.from, wire.MapRequest{SMRInvoked: true, Nonce: o.nonce}, o.prefixes)
	t.Timers.Set(at, t.h.After(wait))
}

// Takes reports whether a Map-Reply of a sibling answers a question for mappings, and takes those that were asked for, but for
// own ones.
func (t *Taker) Takes(from Link, m *message.MapReply, isOwn func(lisp.Prefix) bool) bool {
	at := slices.IndexFunc(t.offers[:], func(o offer) bool { return o.nonce != 0 && o.nonce == m.Nonce && o.from == from })
	if at < 0 {
		return false
	}
	asked := t.offers[at].prefixes
	t.offers[at] = offer{}
	t.Timers.Remove(uint32(at))
	wanted := slices.DeleteFunc(slices.Clone(m.Mappings), func(mapping lisp.Mapping) bool {
		return !slices.Contains(asked, mapping.Prefix) || isOwn(mapping.Prefix)
	})
	taken := t.Cache.TakeGiven(wanted, m.From)
	t.h.Counters[counter.SiblingMappingTaken] += uint64(taken)
	t.h.Counters[counter.RefusedSiblingMapping] += uint64(len(m.Mappings) - taken)
	return true
}

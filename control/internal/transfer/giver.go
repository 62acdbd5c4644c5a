// SPDX-License-Identifier: Apache-2.0

package transfer

// The giver: finds the mappings in use, and offers them one message at a time.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// MaxGiven is how many mappings a sibling is given at a handover.
	MaxGiven = 4096
	// tries is how often an offer, or a question for what was offered, is sent; wait how long an answer may take.
	tries = 5
	wait  = 100 * time.Millisecond
	// scanRows is how many rows of the map-cache are looked at in one event-loop iteration; groupCost is how many of them one counts for
	// that is given.
	scanRows  = 4096
	groupCost = 4
)

// Mappings is the map-cache, as a handover needs it.
type Mappings interface {
	// InUse is the EID-Prefix of a row with those within it, nil where it was not used lately or is not to be given; more
	// is false behind the last row.
	InUse(row uint32) (group []lisp.Prefix, more bool)
	// Left is a mapping with the TTL that is left.
	Left(p lisp.Prefix) (lisp.Mapping, bool)
	// TakeGiven takes mappings that a sibling has, where there is none, and returns how many that were.
	TakeGiven(mappings []lisp.Mapping, from netip.AddrPort) (taken int)
}

// Link is the site's link to a sibling: its address there, and ours.
type Link struct{ Address, Local netip.Addr }

// remote is where a sibling's control messages go.
func (l Link) remote(h *system.System) netip.AddrPort {
	return netip.AddrPortFrom(l.Address, h.ControlPort)
}

// sendAbout sends a sibling a message about EID-Prefixes.
func sendAbout(h *system.System, to Link, m wire.MapRequest, prefixes []lisp.Prefix) {
	m.LocalXTR, m.SourceEID = true, wire.NoAddress{}
	m.ITRRLOCs = []wire.Address{wire.RLOCAddress(lisp.RLOCFromAddr(to.Local))}
	for _, p := range prefixes {
		m.Records = append(m.Records, wire.RequestRecord{EID: wire.AddressOf(p), MaskLen: uint8(p.Bits())})
	}
	payload, err := m.AppendTo(nil)
	if err != nil {
		h.Count(counter.RefusedEncoding)
		return
	}
	h.Send(netip.AddrPortFrom(to.Local, 0), to.remote(h), payload)
	h.Count(counter.SiblingTold)
}

// Giver gives one sibling at a time what is in use.
type Giver struct {
	h      *system.System
	Cache  Mappings
	Work   batch.Work       // the search for mappings in use
	Timers timing.Deadlines // 0: of the offer
	Ended  func()           // is called when all is given, or the sibling asks for nothing
	Failed bool             // the last sibling asked for nothing

	to      Link   // zero for no sibling
	row     uint32 // of the map-cache, to be looked at next
	scanned bool
	found   int
	groups  [][]lisp.Prefix // to be offered
	offered []lisp.Prefix   // and not asked for yet
	tries   int
	asked   map[netip.Addr]*timing.Bucket // questions of siblings
}

// NewGiver gives nothing as yet.
func NewGiver(h *system.System) Giver {
	return Giver{h: h, Ended: func() {}, asked: map[netip.Addr]*timing.Bucket{}}
}

// Begin offers the mappings in use to a sibling, and to no other any more.
func (g *Giver) Begin(to Link) {
	g.End()
	g.to = to
	g.Scan()
}

// End ends it, done or not.
func (g *Giver) End() {
	g.Work.End()
	g.Timers.Remove(0)
	g.to, g.row, g.scanned, g.found, g.Failed = Link{}, 0, false, 0, false
	g.groups, g.offered, g.tries = nil, nil, 0
}

// Busy reports whether there may be something left to give.
func (g *Giver) Busy() bool { return g.to != Link{} }

// Scan looks for mappings in use in a batch of rows.
func (g *Giver) Scan() {
	if !g.Busy() {
		return
	}
	g.scanned = !g.Work.Run(g.h.Now, scanRows, func() (cost int, more bool) {
		group, more := g.Cache.InUse(g.row)
		g.row++
		if len(group) > 0 && g.found+len(group) <= MaxGiven {
			g.groups, g.found = append(g.groups, group), g.found+len(group)
		}
		return 1 + groupCost*len(group), more
	})
	if len(g.offered) == 0 {
		g.offerNext()
	}
}

// offerNext offers what goes into one message, if the rows that were looked at have any.
func (g *Giver) offerNext() {
	g.offered, g.tries = nil, 0
	room := system.ControlOctets(g.to.Address)
	for len(g.groups) > 0 {
		group := g.groups[0]
		octets := g.octets(group)
		if len(g.offered) > 0 && (octets > room || len(g.offered)+len(group) > settings.MaxRequestRecords) {
			break
		}
		room -= octets
		g.offered, g.groups = append(g.offered, group...), g.groups[1:]
	}
	switch {
	case len(g.offered) > 0:
		g.HandleTimeout(0)
	case g.scanned:
		g.End()
		g.Ended()
	}
}

func (g *Giver) octets(group []lisp.Prefix) (octets int) {
	for _, p := range group {
		if m, ok := g.Cache.Left(p); ok {
			octets += system.RecordOctets(m)
		}
	}
	return octets
}

// HandleTimeout sends an offer, again where it was not answered.
func (g *Giver) HandleTimeout(uint32) {
	if len(g.offered) == 0 {
		return
	}
	if g.tries++; g.tries > tries {
		g.End()
		g.Failed = true
		g.Ended()
		return
	}
	g.Timers.Set(0, g.h.After(wait))
	sendAbout(g.h, g.to, wire.MapRequest{SMR: true, DontReply: true, Nonce: g.h.Nonce()}, g.offered)
}

// Give answers a sibling that asks for mappings of other sites, and reports whether the message is such a question.
func (g *Giver) Give(to Link, m *message.MapRequest) bool {
	if !m.SMRInvoked || g.Cache == nil {
		return false
	}
	bucket := g.asked[to.Address]
	if bucket == nil {
		if len(g.asked) >= settings.MaxSiblings {
			clear(g.asked)
		}
		bucket = &timing.Bucket{}
		g.asked[to.Address] = bucket
	}
	if !bucket.Take(g.h.Now, timing.Rate{PerSecond: MaxGiven, Burst: MaxGiven / settings.MaxRequestRecords}) {
		g.h.Count(counter.RefusedSiblingQuestion)
		return true
	}
	var given []lisp.Mapping
	for _, p := range m.Prefixes {
		if mapping, ok := g.Cache.Left(p); ok {
			given = append(given, mapping)
			g.h.Count(counter.SiblingMappingGiven)
		}
	}
	if payload, err := wire.AppendMapReply(nil, &wire.MapReply{Nonce: m.Nonce}, given); err == nil && len(given) > 0 {
		g.h.Send(netip.AddrPortFrom(to.Local, g.h.ControlPort), to.remote(g.h), payload)
	}
	if g.to == to && len(g.offered) > 0 && slices.Equal(g.offered, m.Prefixes) {
		g.Timers.Remove(0)
		g.offerNext()
	}
	return true
}

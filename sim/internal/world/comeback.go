// SPDX-License-Identifier: Apache-2.0

package world

// A router whose links are up again: it takes its packets back from the sibling that has them when the core has
// answered it, and not with the carrier, for packets may not pass yet; soon then, and at once where the sibling has
// no path any more.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/sim/internal/network"
	"loci/sim/internal/rates"
	"loci/wire"
)

const (
	// nothingToAsk is how long a router waits for an answer where it can ask nothing.
	nothingToAsk = 5 * time.Second
	// takenBackWithin is how long after the first answer the packets are taken back: the RLOCs of the other
	// family may need longer.
	takenBackWithin = 8 * time.Second
)

// noteComeback notes whether a link is up, by what the router is configured with.
func noteComeback(r *Router) {
	state := &r.Sibling
	isUp := slices.ContainsFunc(r.Station.Links, func(l network.Link) bool { return l.IsUp() })
	switch {
	case !isUp:
		state.upAt, state.provenAt = 0, 0
	case state.upAt == 0:
		state.upAt, state.provenAt = r.W.Now, 0
	}
}

// noteFromCore notes what comes from the core and is no RLOC-probe's answer.
func noteFromCore(r *Router, m *Mail) {
	if !r.isSibling() || r.Station.IsInside(m.To.Addr()) {
		return
	}
	switch kind := wire.MessageType(m.Payload[0] >> 4); {
	case kind == wire.TypeMapNotify, kind == wire.TypeMapReply && m.Payload[0]&rates.ProbeReplyBit == 0:
		r.Sibling.watch.Answered(r.W.Now)
	}
}

// isPoor reports whether a sibling may not be good to have another's packets.
func isPoor(r *Router) bool {
	isUp := slices.ContainsFunc(r.Station.Links, func(l network.Link) bool { return l.IsUp() })
	return r.Node == nil || !isUp || r.Sibling.path.IsValid() || r.Station.Inside.Cut > 0
}

// sweepComeback notes how it stands with a router as a sibling, and looks for one that does not take its packets
// back.
func sweepComeback(r *Router) {
	state := &r.Sibling
	if isPoor(r) {
		state.poorAt = r.W.Now
	}
	if r.Station.Inside.Cut > 0 {
		state.insideAt = r.W.Now
	}
	if state.upAt == 0 || r.Node == nil {
		return
	}
	if state.provenAt == 0 && state.watch.IsProven(state.upAt) {
		state.provenAt = r.W.Now
	}
	isWaiting := state.path.IsValid() && r.Node.SiblingPath().Why == control.SiblingPathUnproven
	if isWaiting && state.provenAt != 0 && r.W.Now-state.provenAt > takenBackWithin {
		r.W.Fail(r, invariantHandover, "its packets still go to %s, %s after the core answered it", state.path, r.W.Now-state.provenAt)
	}
}

// checkBack judges a router that takes back what it gave because its links were down; to is valid where it gives.
func checkBack(r *Router, to netip.Addr) {
	state := &r.Sibling
	if to.IsValid() {
		state.cause = r.Node.SiblingPath().Why
		return
	}
	by := r.W.Network.RouterAt(state.path)
	if state.cause != control.SiblingPathRLOCsDown || state.upAt == 0 || by == nil || len(r.config.ETR.Database) == 0 {
		return
	}
	silent := unasked*max(r.Site.siblingInterval, 2*time.Second) + nothingToAsk
	isLately := func(at time.Duration) bool { return at != 0 && r.W.Now-at < silent }
	isLinkGood := r.Station.Inside.Cut == 0 && !isLately(state.insideAt)
	if isPoor(by) || isLately(by.Sibling.poorAt) || !isLinkGood || r.W.Now-state.upAt >= nothingToAsk {
		return
	}
	if !state.watch.IsProven(state.upAt) {
		r.W.Fail(r, invariantHandover, "it takes its packets back from %s %s after its links came up, and the core has not answered it",
			by.Name, r.W.Now-state.upAt)
	}
}

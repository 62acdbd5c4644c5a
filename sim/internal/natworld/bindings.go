// SPDX-License-Identifier: Apache-2.0

package natworld

// What each RTR may forward to.

import (
	"bytes"
	"net/netip"
	"time"

	"loci/lisp"
	"loci/sim/internal/network"
	"loci/wire"
)

// claim is an EID-Prefix that an RTR has at an address and port.
type claim struct {
	rtr    *router
	prefix lisp.Prefix
	at     netip.AddrPort
}

// relay is a Map-Register that goes by an RTR.
type relay struct {
	rtr   *router
	nonce uint64
}

// registered is what a Map-Register claims that reached an RTR, sent by its node.
type registered struct {
	at      time.Duration
	claims  []claim
	payload []byte // the message
	unsure  bool   // the Map-Server crashed meanwhile: its disk may not have it
}

// acknowledged are the bindings that Map-Servers have acknowledged.
type acknowledged struct {
	relayed  map[relay]registered // not yet
	verified map[claim]time.Duration
}

// forget is for a router that stops: an RTR knows no Map-Register any more that is not acknowledged, and what a
// Map-Server acknowledged last may not be on its disk.
func (a *acknowledged) forget(r *router) {
	for by, said := range a.relayed {
		switch {
		case by.rtr == r:
			delete(a.relayed, by)
		case r.isMapServer():
			said.unsure = true
			a.relayed[by] = said
		}
	}
}

// expire forgets Map-Registers that nothing acknowledges any more.
func (a *acknowledged) expire(now time.Duration) {
	for by, said := range a.relayed {
		if now-said.at > adoptedLasts {
			delete(a.relayed, by)
		}
	}
}

// checkInstalled judges where an RTR forwards to.
func (r *router) checkInstalled(m lisp.Mapping) {
	to, ok := bindingOf(m)
	if !ok || !r.isRTR {
		return
	}
	switch at, known := r.w.acknowledged.verified[claim{r, m.Prefix, to}]; {
	case !known:
		r.w.fail(r, invariantVerified, "%s is forwarded to %s, which no Map-Server has acknowledged", m.Prefix,
			to)
	case r.w.now-at > bindingLasts+adoptedLasts:
		r.w.fail(r, invariantVerified, "%s is forwarded to %s, which a Map-Server acknowledged %s ago",
			m.Prefix, to, r.w.now-at)
	}
}

// bindingOf is the address and port that an RTR forwards to; false for a mapping that is no binding.
func bindingOf(m lisp.Mapping) (to netip.AddrPort, ok bool) {
	if len(m.Locators) != 1 || m.Locators[0].SourcePort != wire.ControlPort {
		return to, false
	}
	l := m.Locators[0].RLOC
	port := l.Port()
	if port == 0 {
		port = wire.DataPort
	}
	return netip.AddrPortFrom(l.Addr(), port), true
}

// sweep looks at all bindings of the RTRs each second, but for one that is frozen, and forgets what is old.
func (w *World) sweep() {
	for _, r := range w.rtrs {
		if r.plane == nil || r.frozen {
			continue
		}
		for e := range r.plane.InPlace() {
			r.checkInstalled(e.Mapping)
		}
	}
	w.acknowledged.expire(w.now)
}

// beforeMessage notes what a message allows an RTR to do. What an attacker sends allows nothing.
func (r *router) beforeMessage(m *network.Mail) {
	ecm, ok := m.Message().(*wire.EncapsulatedControlMessage)
	if !r.isRTR || m.Hostile || !ok || !ecm.ForRTR {
		return
	}
	inner, err := wire.Parse(ecm.Inner.Message)
	if err != nil {
		return
	}
	switch inner := inner.(type) {
	case *wire.MapRegister:
		r.w.acknowledged.noteRegister(relay{r, inner.Nonce},
			registered{at: r.w.now, payload: bytes.Clone(m.Payload)}, inner, m.From)
	case *wire.MapNotify:
		if said, sure := r.w.acknowledged.noteNotify(relay{r, inner.Nonce}, r.w.now); sure {
			r.w.attacker.overhear(r, said.payload)
		}
	}
}

// noteRegister notes what a Map-Register claims that reached an RTR from that address and port.
func (a *acknowledged) noteRegister(by relay, said registered, m *wire.MapRegister, from netip.AddrPort) {
	said.unsure = a.relayed[by].unsure
	for i := range m.Records {
		if p, err := m.Records[i].Prefix(); err == nil {
			said.claims = append(said.claims, claim{by.rtr, p, from})
		}
	}
	a.relayed[by] = said
}

// noteNotify notes its acknowledgement. It is sure where the Map-Server knows it for good.
func (a *acknowledged) noteNotify(by relay, now time.Duration) (said registered, sure bool) {
	said, known := a.relayed[by]
	for _, c := range said.claims {
		a.verified[c] = now
	}
	delete(a.relayed, by)
	return said, known && !said.unsure
}

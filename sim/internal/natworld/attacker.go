// SPDX-License-Identifier: Apache-2.0

package natworld

// An attacker without keys: Map-Registers that it overheard at an RTR, replayed from its own address by any RTR; forged
// ones; Map-Notifies with the nonces of others; packets for any EID.

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"loci/sim/internal/virtual"
	"loci/wire"
)

const (
	attackGap    = 3 * time.Second
	maxOverheard = 64
)

type attacker struct {
	w         *World
	random    virtual.Random
	address   netip.Addr
	overheard []overheard // Map-Registers for an RTR to relay, the last ones
}

type overheard struct {
	rtr     *router // by which it went
	at      time.Duration
	payload []byte
}

// duplicateLasts is for how long a Map-Server acknowledges a Map-Register again: an RTR that was restarted in that
// time can tell a replay from a duplicate no more.
const duplicateLasts = 10 * time.Second

// forget has the attacker forget what it overheard in a time: by that RTR, or nil for all.
func (a *attacker) forget(rtr *router, last time.Duration) {
	a.overheard = slices.DeleteFunc(a.overheard, func(o overheard) bool {
		return a.w.now-o.at <= last && (rtr == nil || o.rtr == rtr)
	})
}

func (a *attacker) start() {
	a.address = a.w.network.New(true)
	a.w.after(firstFault, a.again)
}

func (a *attacker) again() {
	a.w.after(a.random.Between(attackGap/2, attackGap*3/2), a.again)
	if len(a.overheard) == 0 {
		return
	}
	switch a.random.IntN(4) {
	case 0, 1:
		a.replay()
	case 2:
		a.forgeRegister()
	case 3:
		a.forgeNotify()
	}
}

// overhear keeps what a node registered with by an RTR, once that is acknowledged: who replays it before, while the
// Map-Server is away, is taken for the node.
func (a *attacker) overhear(rtr *router, payload []byte) {
	if len(a.overheard) == maxOverheard {
		a.overheard = a.overheard[1:]
	}
	a.overheard = append(a.overheard, overheard{rtr, a.w.now, payload})
}

// send brings a forged datagram on its way to an RTR.
func (a *attacker) send(rtr *router, from netip.AddrPort, payload []byte) {
	m := a.w.network.NewMail()
	m.From, m.To, m.Payload, m.Hostile = from, netip.AddrPortFrom(rtr.rloc(true).Addr(), wire.ControlPort), payload,
		true
	a.w.stats.MessagesHostile++
	a.w.network.Carry(nil, m)
}

// source is the attacker's address, with one of its ports.
func (a *attacker) source() netip.AddrPort {
	return netip.AddrPortFrom(a.address, uint16(4341+a.random.IntN(3)))
}

func (a *attacker) anyRTR() *router { return virtual.Pick(a.random, a.w.rtrs) }

// replay sends a Map-Register from the attacker's address.
func (a *attacker) replay() {
	a.send(a.anyRTR(), a.source(), virtual.Pick(a.random, a.overheard).payload)
}

// forgeRegister claims the EID-Prefixes of a node, under a key that is not its.
func (a *attacker) forgeRegister() {
	ecm, register := a.parse(virtual.Pick(a.random, a.overheard).payload)
	if register == nil {
		return
	}
	register.Nonce += uint64(1 + a.random.IntN(1<<30))
	inner, err := wire.AppendSigned(nil, register, []byte("not the site's key"))
	if err != nil {
		return
	}
	ecm.Inner.Message = inner
	if payload, err := ecm.AppendTo(nil); err == nil {
		a.send(a.anyRTR(), a.source(), payload)
	}
}

// forgeNotify acknowledges a Map-Register of its own: from its own address or, where the RTR has a key, from the
// Map-Server's.
func (a *attacker) forgeNotify() {
	ecm, register := a.parse(virtual.Pick(a.random, a.overheard).payload)
	if register == nil {
		return
	}
	register.Nonce += uint64(1 + a.random.IntN(1<<30))
	inner, err := wire.AppendSigned(nil, register, []byte("not the site's key"))
	if err != nil {
		return
	}
	ecm.Inner.Message = inner
	rtr := a.anyRTR()
	if payload, err := ecm.AppendTo(nil); err == nil {
		a.send(rtr, a.source(), payload)
	}
	notify := &wire.MapNotify{
		Nonce: register.Nonce, KeyID: register.KeyID, AlgorithmID: register.AlgorithmID, Authentication: make([]byte, len(register.Authentication)),
		Records: register.Records, XTRIDPresent: register.XTRIDPresent, XTRID: register.XTRID, SiteID: register.SiteID,
	}
	forged, err := notify.AppendTo(nil)
	if err != nil {
		return
	}
	answer := wire.EncapsulatedControlMessage{ForRTR: true, Inner: wire.InnerPacket{
		Source: ecm.Inner.Destination, Destination: ecm.Inner.Source, Message: forged,
	}}
	payload, err := answer.AppendTo(nil)
	if err != nil {
		return
	}
	from := a.source()
	if len(a.w.flavour.keys) > 0 {
		from = netip.AddrPortFrom(ecm.Inner.Destination.Addr(), wire.ControlPort)
	}
	a.w.after(a.random.Between(time.Millisecond, time.Second), func() { a.send(rtr, from, payload) })
}

// parse reads a Map-Register in an ECM.
func (a *attacker) parse(b []byte) (*wire.EncapsulatedControlMessage, *wire.MapRegister) {
	m, err := wire.Parse(bytes.Clone(b))
	ecm, ok := m.(*wire.EncapsulatedControlMessage)
	if err != nil || !ok {
		return nil, nil
	}
	inner, err := wire.Parse(ecm.Inner.Message)
	register, ok := inner.(*wire.MapRegister)
	if err != nil || !ok {
		return nil, nil
	}
	return ecm, register
}

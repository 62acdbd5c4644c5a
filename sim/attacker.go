// SPDX-License-Identifier: Apache-2.0

package sim

// The attacker: sends what it likes from whatever address it likes, and overhears
// registrations and requests, but no nonce of a Map-Request in time to answer it: who
// can do that is what LISP-SEC (RFC 9303) is for. It has no key. What it wants is in
// every message that could do it: its own address as a locator.

import (
	"net/netip"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
	"loci/wire"
)

// overheard bounds what the attacker remembers.
const overheard = 128

type attacker struct {
	w      *world.World
	random virtual.Random
	heard  []world.Mail
	next   int
	old    []world.Mail // Map-Registers, of any age
}

func (s *attacker) start() {
	s.random = virtual.NewRandom(s.w.Options.Seed, 2)
	s.w.After(firstFault, s.act)
}

// overhear keeps a message for later.
func (s *attacker) overhear(from, to netip.AddrPort, payload []byte) {
	if s.random.Rand == nil { // it has not started
		return
	}
	m := world.Mail{From: from, To: to, Payload: payload}
	if wire.MessageType(payload[0]>>4) == wire.TypeMapRegister {
		s.keepRegister(m)
	}
	if len(s.heard) < overheard {
		s.heard = append(s.heard, m)
		return
	}
	s.heard[s.next] = m
	s.next = (s.next + 1) % overheard
}

// keepRegister keeps some of all Map-Registers ever heard: the older, the more harm a
// replay could do.
func (s *attacker) keepRegister(m world.Mail) {
	if len(s.old) < overheard {
		s.old = append(s.old, m)
		return
	}
	if s.random.Chance(0.2) {
		s.old[s.random.IntN(overheard)] = m
	}
}

// replayRegister brings back what a site once said.
func (s *attacker) replayRegister() *world.Mail {
	if len(s.old) == 0 {
		return nil
	}
	m := virtual.Pick(s.random, s.old)
	return &m
}

func (s *attacker) act() {
	w := s.w
	if w.Now >= w.Options.FaultsEnd() {
		return
	}
	w.After(s.random.Between(w.Flavour.AttackGap/4, w.Flavour.AttackGap*7/4), s.act)
	attacks := []func() *world.Mail{
		s.noise, s.replay, s.replayRegister, s.replayRegister, s.garble, s.forgeRegister, s.overclaim, s.forgeReply, s.forgeNotify, s.forgeSMR, s.flood,
	}
	if m := virtual.Pick(s.random, attacks)(); m != nil {
		m.Hostile = true
		w.Stats.MessagesHostile++
		w.Network.Carry(nil, m)
	}
}

// address is the attacker's, which must not appear in any table.
func (s *attacker) address(v4 bool) netip.Addr {
	if v4 {
		return netip.AddrFrom4([4]byte{198, 51, 100, 66})
	}
	return netip.AddrFrom16([16]byte{0: 0xfd, 3: 0xba, 4: 0xd0, 15: 0x66})
}

// between is mail to a router from an address that somebody else may have.
func (s *attacker) between(to *sites.Router, payload []byte) *world.Mail {
	l := virtual.Pick(s.random, to.Station.Links)
	from := s.address(l.Addr.Is4())
	if other := virtual.Pick(s.random, virtual.Pick(s.random, s.w.Routers).Station.Links).Addr; other.Is4() == l.Addr.Is4() && s.random.Chance(0.7) {
		from = other
	}
	return &world.Mail{From: netip.AddrPortFrom(from, wire.ControlPort), To: netip.AddrPortFrom(l.Addr, wire.ControlPort), Payload: payload}
}

func (s *attacker) noise() *world.Mail {
	payload := make([]byte, s.random.IntN(200))
	s.random.Fill(payload)
	if len(payload) > 0 && s.random.Chance(0.7) {
		payload[0] = byte(virtual.Pick(s.random, []int{1, 2, 3, 4, 5, 7, 8}))<<4 | payload[0]&0xf
	}
	return s.between(virtual.Pick(s.random, s.w.Routers), payload)
}

func (s *attacker) replay() *world.Mail {
	if len(s.heard) == 0 {
		return nil
	}
	m := virtual.Pick(s.random, s.heard)
	return &m
}

// garble changes a message on the way, nonces of Map-Replies included.
func (s *attacker) garble() *world.Mail {
	m := s.replay()
	if m == nil || len(m.Payload) < 16 {
		return nil
	}
	m.Payload = append([]byte(nil), m.Payload...)
	for range 1 + s.random.IntN(4) {
		m.Payload[s.random.IntN(len(m.Payload))] ^= 1 << s.random.IntN(8)
	}
	if t := wire.MessageType(m.Payload[0] >> 4); t == wire.TypeMapReply || t == wire.TypeMapRequest {
		s.random.Fill(m.Payload[4:12])
	}
	m.Forged = wire.MessageType(m.Payload[0]>>4) == wire.TypeMapNotify
	return m
}

// mapping is a mapping of somebody's EIDs to the attacker.
func (s *attacker) mapping(p *sites.SitePrefix) lisp.Mapping {
	var list []lisp.Locator
	for _, v4 := range []bool{true, false} {
		list = append(list, lisp.Locator{RLOC: lisp.RLOCFromAddr(s.address(v4)), Priority: 1, Weight: 1, Reachable: true})
	}
	return lisp.Mapping{Prefix: p.Prefix, Locators: list, TTLMinutes: 1440, Authoritative: true}
}

func (s *attacker) victim() *sites.SitePrefix {
	return virtual.Pick(s.random, virtual.Pick(s.random, s.w.Sites).Prefixes)
}

// forgeRegister registers somebody's EIDs with a key that is wrong.
func (s *attacker) forgeRegister() *world.Mail {
	v := s.victim()
	key := v.Site.Keys[0]
	key.Secret = []byte("guessed")
	if s.random.Chance(0.2) {
		key.Algorithm = wire.AlgorithmHMACSHA1
	}
	return s.register(v.Site, key, s.random.Uint64()>>s.random.IntN(16), s.mapping(v))
}

// overclaim has a site's true key register another site's EIDs, beside what the site may say: that an EID of its own,
// which the site did not register, is withdrawn. A holder of the key could say worse of the site.
func (s *attacker) overclaim() *world.Mail {
	own, v := s.victim(), s.victim()
	x := s.w.Router(own.Site.XTRs[0])
	if own.Site == v.Site || x.Node == nil || x.Site.Withdrawn > 0 || x.WrongKey > 0 || own.Site.Barred > 0 || own.Site.Siblings || own.Site.Fewer > 0 {
		return nil
	}
	honest := lisp.Mapping{Prefix: lisp.HostPrefix(own.Prefix.Instance(), own.Prefix.EID()), Authoritative: true}
	return s.register(own.Site, own.Site.Keys[0], x.Node.LastRegisterNonce()+1, honest, s.mapping(v))
}

func (s *attacker) register(as *sites.Site, key control.Key, nonce uint64, mappings ...lisp.Mapping) *world.Mail {
	m := &wire.MapRegister{WantMapNotify: true, ProxyReply: true, Nonce: nonce, KeyID: key.ID, AlgorithmID: key.Algorithm,
		Authentication: make([]byte, wire.FullMACOctets(key.Algorithm))}
	if !as.WithoutXTRID {
		m.XTRIDPresent, m.XTRID, m.SiteID = true, as.XTRs[0].XTRID(), uint64(as.Index)
	}
	for _, mapping := range mappings {
		m.Records = append(m.Records, wire.RecordOf(mapping))
	}
	payload, err := wire.AppendSigned(nil, m, key.Secret)
	if err != nil {
		return nil
	}
	return s.between(virtual.Pick(s.random, s.w.Servers), payload)
}

// forgeReply answers what no router asked, or asked with another nonce.
func (s *attacker) forgeReply() *world.Mail {
	m := &wire.MapReply{Nonce: s.random.Uint64(), Records: []wire.Record{wire.RecordOf(s.mapping(s.victim()))}}
	if s.random.Chance(0.1) {
		m.Nonce = 0
	}
	return s.toAnyone(m)
}

// forgeNotify acknowledges what no router registered.
func (s *attacker) forgeNotify() *world.Mail {
	for range 10 {
		heard := s.replay()
		if heard == nil {
			return nil
		}
		m, err := wire.Parse(heard.Payload)
		register, ok := m.(*wire.MapRegister)
		if err != nil || !ok {
			continue
		}
		notify := &wire.MapNotify{Nonce: register.Nonce, KeyID: register.KeyID, AlgorithmID: register.AlgorithmID,
			Authentication: make([]byte, len(register.Authentication)), Records: register.Records}
		payload, err := wire.AppendSigned(nil, notify, []byte("guessed"))
		if err != nil {
			return nil
		}
		return &world.Mail{From: heard.To, To: heard.From, Payload: payload, Forged: true}
	}
	return nil
}

// forgeSMR says that a mapping changed, which costs a Map-Request and no more (s.6.1).
func (s *attacker) forgeSMR() *world.Mail {
	v := s.victim()
	return s.toAnyone(s.request(v, func(m *wire.MapRequest) { m.SMR = true }))
}

// flood asks in somebody else's name: who is answered did not ask (s.5.4).
func (s *attacker) flood() *world.Mail {
	v := s.victim()
	victim := virtual.Pick(s.random, s.w.XTRs)
	m := s.request(v, func(m *wire.MapRequest) {
		m.ITRRLOCs = []wire.Address{wire.RLOCAddress(lisp.RLOCFromAddr(virtual.Pick(s.random, victim.Station.Links).Addr))}
	})
	to := virtual.Pick(s.random, s.w.Routers)
	payload, err := m.AppendTo(nil)
	if err != nil {
		return nil
	}
	mail := s.between(to, payload)
	if s.random.Chance(0.5) {
		if mail.Payload, err = wire.AppendECM(nil, mail.From, mail.To, payload); err != nil {
			return nil
		}
	}
	for range s.random.IntN(8) {
		again := *mail
		again.Hostile = true
		s.w.After(s.random.Between(0, time.Second), func() { s.w.Network.Carry(nil, &again) })
	}
	return mail
}

func (s *attacker) request(v *sites.SitePrefix, change func(*wire.MapRequest)) *wire.MapRequest {
	m := &wire.MapRequest{
		Nonce: s.random.Uint64(), SourceEID: wire.EIDAddress(v.Prefix.Instance(), v.Prefix.EID()),
		ITRRLOCs: []wire.Address{wire.RLOCAddress(lisp.RLOCFromAddr(s.address(s.w.Flavour.Families.V4)))},
		Records:  []wire.RequestRecord{{EID: wire.AddressOf(v.Prefix), MaskLen: uint8(v.Prefix.Bits())}},
	}
	change(m)
	return m
}

func (s *attacker) toAnyone(m wire.Message) *world.Mail {
	payload, err := m.AppendTo(nil)
	if err != nil {
		return nil
	}
	return s.between(virtual.Pick(s.random, s.w.Routers), payload)
}

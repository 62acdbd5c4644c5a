// SPDX-License-Identifier: Apache-2.0

package sim

// The stranger: sends what it likes from whatever address it likes, and overhears
// registrations and requests, but no nonce of a Map-Request in time to answer it: who
// can do that is what LISP-SEC (RFC 9303) is for. It has no key. What it wants is in
// every message that could do it: its own address as a locator.

import (
	"net/netip"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/wire"
)

// overheard bounds what the stranger remembers.
const overheard = 128

type stranger struct {
	w      *world
	random random
	heard  []mail
	next   int
	old    []mail // Map-Registers, of any age
}

func (s *stranger) start(w *world) {
	s.w, s.random = w, newRandom(w.options.Seed, 2)
	w.after(firstFault, s.act)
}

// overhear keeps a message for later.
func (s *stranger) overhear(from, to netip.AddrPort, payload []byte) {
	if s.w == nil {
		return
	}
	m := mail{from: from, to: to, payload: payload}
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
func (s *stranger) keepRegister(m mail) {
	if len(s.old) < overheard {
		s.old = append(s.old, m)
		return
	}
	if s.random.chance(0.2) {
		s.old[s.random.IntN(overheard)] = m
	}
}

// replayRegister brings back what a site once said.
func (s *stranger) replayRegister() *mail {
	if len(s.old) == 0 {
		return nil
	}
	m := pick(s.random, s.old)
	return &m
}

func (s *stranger) act() {
	w := s.w
	if w.now >= w.options.faultsEnd() {
		return
	}
	w.after(s.random.between(w.flavour.attackGap/4, w.flavour.attackGap*7/4), s.act)
	attacks := []func() *mail{
		s.noise, s.replay, s.replayRegister, s.replayRegister, s.garble, s.forgeRegister, s.overclaim, s.forgeReply, s.forgeNotify, s.forgeSMR, s.flood,
	}
	if m := pick(s.random, attacks)(); m != nil {
		m.hostile = true
		w.stats.MessagesHostile++
		w.network.carry(nil, m)
	}
}

// address is the stranger's, which must not appear in any table.
func (s *stranger) address(v4 bool) netip.Addr {
	if v4 {
		return netip.AddrFrom4([4]byte{198, 51, 100, 66})
	}
	return netip.AddrFrom16([16]byte{0: 0xfd, 3: 0xba, 4: 0xd0, 15: 0x66})
}

// between is mail to a router from an address that somebody else may have.
func (s *stranger) between(to *router, payload []byte) *mail {
	l := pick(s.random, to.links)
	from := s.address(l.addr.Is4())
	if other := pick(s.random, pick(s.random, s.w.routers).links).addr; other.Is4() == l.addr.Is4() && s.random.chance(0.7) {
		from = other
	}
	return &mail{from: netip.AddrPortFrom(from, wire.ControlPort), to: netip.AddrPortFrom(l.addr, wire.ControlPort), payload: payload}
}

func (s *stranger) noise() *mail {
	payload := make([]byte, s.random.IntN(200))
	s.random.fill(payload)
	if len(payload) > 0 && s.random.chance(0.7) {
		payload[0] = byte(pick(s.random, []int{1, 2, 3, 4, 5, 7, 8}))<<4 | payload[0]&0xf
	}
	return s.between(pick(s.random, s.w.routers), payload)
}

func (s *stranger) replay() *mail {
	if len(s.heard) == 0 {
		return nil
	}
	m := pick(s.random, s.heard)
	return &m
}

// garble changes a message on the way, nonces of Map-Replies included.
func (s *stranger) garble() *mail {
	m := s.replay()
	if m == nil || len(m.payload) < 16 {
		return nil
	}
	m.payload = append([]byte(nil), m.payload...)
	for range 1 + s.random.IntN(4) {
		m.payload[s.random.IntN(len(m.payload))] ^= 1 << s.random.IntN(8)
	}
	if t := wire.MessageType(m.payload[0] >> 4); t == wire.TypeMapReply || t == wire.TypeMapRequest {
		s.random.fill(m.payload[4:12])
	}
	m.forged = wire.MessageType(m.payload[0]>>4) == wire.TypeMapNotify
	return m
}

// mapping is a mapping of somebody's EIDs to the stranger.
func (s *stranger) mapping(p *sitePrefix) lisp.Mapping {
	var list []lisp.Locator
	for _, v4 := range []bool{true, false} {
		list = append(list, lisp.Locator{RLOC: lisp.RLOCFromAddr(s.address(v4)), Priority: 1, Weight: 1, Reachable: true})
	}
	return lisp.Mapping{Prefix: p.prefix, Locators: list, TTLMinutes: 1440, Authoritative: true}
}

func (s *stranger) victim() *sitePrefix { return pick(s.random, pick(s.random, s.w.sites).prefixes) }

// forgeRegister registers somebody's EIDs with a key that is wrong.
func (s *stranger) forgeRegister() *mail {
	v := s.victim()
	key := v.site.keys[0]
	key.Secret = []byte("guessed")
	if s.random.chance(0.2) {
		key.Algorithm = wire.AlgorithmHMACSHA1
	}
	return s.register(v.site, key, s.random.Uint64()>>s.random.IntN(16), s.mapping(v))
}

// overclaim has a site's true key register another site's EIDs, beside what the site may say: that an EID of its own,
// which nobody registered, is withdrawn. Whoever has the key could say worse of the site.
func (s *stranger) overclaim() *mail {
	own, v := s.victim(), s.victim()
	x := own.site.xtrs[0]
	if own.site == v.site || x.node == nil || x.site.withdrawn > 0 || x.wrongKey > 0 || own.site.barred > 0 || own.site.siblings || own.site.fewer > 0 {
		return nil
	}
	honest := lisp.Mapping{Prefix: lisp.HostPrefix(own.prefix.Instance(), own.prefix.EID()), Authoritative: true}
	return s.register(own.site, own.site.keys[0], x.node.LastRegisterNonce()+1, honest, s.mapping(v))
}

func (s *stranger) register(as *site, key control.Key, nonce uint64, mappings ...lisp.Mapping) *mail {
	m := &wire.MapRegister{WantMapNotify: true, ProxyReply: true, Nonce: nonce, KeyID: key.ID, AlgorithmID: key.Algorithm,
		Authentication: make([]byte, wire.FullMACOctets(key.Algorithm))}
	if !as.withoutXTRID {
		m.XTRIDPresent, m.XTRID, m.SiteID = true, as.xtrs[0].xtrID(), uint64(as.index)
	}
	for _, mapping := range mappings {
		m.Records = append(m.Records, wire.RecordOf(mapping))
	}
	payload, err := wire.AppendSigned(nil, m, key.Secret)
	if err != nil {
		return nil
	}
	return s.between(pick(s.random, s.w.servers), payload)
}

// forgeReply answers what nobody asked, or asked with another nonce.
func (s *stranger) forgeReply() *mail {
	m := &wire.MapReply{Nonce: s.random.Uint64(), Records: []wire.Record{wire.RecordOf(s.mapping(s.victim()))}}
	if s.random.chance(0.1) {
		m.Nonce = 0
	}
	return s.toAnyone(m)
}

// forgeNotify acknowledges what nobody registered.
func (s *stranger) forgeNotify() *mail {
	for range 10 {
		heard := s.replay()
		if heard == nil {
			return nil
		}
		m, err := wire.Parse(heard.payload)
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
		return &mail{from: heard.to, to: heard.from, payload: payload, forged: true}
	}
	return nil
}

// forgeSMR says that a mapping changed, which costs a Map-Request and no more (s.6.1).
func (s *stranger) forgeSMR() *mail {
	v := s.victim()
	return s.toAnyone(s.request(v, func(m *wire.MapRequest) { m.SMR = true }))
}

// flood asks in somebody else's name: who is answered did not ask (s.5.4).
func (s *stranger) flood() *mail {
	v := s.victim()
	victim := pick(s.random, s.w.xtrs)
	m := s.request(v, func(m *wire.MapRequest) {
		m.ITRRLOCs = []wire.Address{wire.RLOCAddress(lisp.RLOCFromAddr(pick(s.random, victim.links).addr))}
	})
	to := pick(s.random, s.w.routers)
	payload, err := m.AppendTo(nil)
	if err != nil {
		return nil
	}
	mail := s.between(to, payload)
	if s.random.chance(0.5) {
		if mail.payload, err = wire.AppendECM(nil, mail.from, mail.to, payload); err != nil {
			return nil
		}
	}
	for range s.random.IntN(8) {
		again := *mail
		again.hostile = true
		s.w.after(s.random.between(0, time.Second), func() { s.w.network.carry(nil, &again) })
	}
	return mail
}

func (s *stranger) request(v *sitePrefix, change func(*wire.MapRequest)) *wire.MapRequest {
	m := &wire.MapRequest{
		Nonce: s.random.Uint64(), SourceEID: wire.EIDAddress(v.prefix.Instance(), v.prefix.EID()),
		ITRRLOCs: []wire.Address{wire.RLOCAddress(lisp.RLOCFromAddr(s.address(s.w.flavour.families.v4)))},
		Records:  []wire.RequestRecord{{EID: wire.AddressOf(v.prefix), MaskLen: uint8(v.prefix.Bits())}},
	}
	change(m)
	return m
}

func (s *stranger) toAnyone(m wire.Message) *mail {
	payload, err := m.AppendTo(nil)
	if err != nil {
		return nil
	}
	return s.between(pick(s.random, s.w.routers), payload)
}

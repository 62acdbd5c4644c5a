// SPDX-License-Identifier: Apache-2.0

package mapserver

// NAT traversal at the Map-Server (draft-ermagan-lisp-nat-traversal s.5.2): it says how an ETR's address looks from
// here and which RTRs there are, and acknowledges by the RTR what came by one.

import (
	"fmt"
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/lisp"
	"loci/wire"
)

// maxInfoTTLMinutes bounds the TTL of an Info-Reply: the RTRs may be others then.
const maxInfoTTLMinutes = 60

// infos answers Info-Requests, and knows the RTRs.
type infos struct {
	h    *system.System
	rtrs []settings.RTRPeer
}

// HandleInfoRequest answers an Info-Request, which is authenticated by its site's key, with a message of that key.
func (s *infos) HandleInfoRequest(m *message.InfoRequest) {
	if !s.h.MayReplyToInfo(m.From.Addr()) {
		return
	}
	reply := &wire.InfoReply{InfoRequest: *m.InfoRequest, NAT: s.natOf(m)}
	reply.TTLMinutes = max(min(m.TTLMinutes, maxInfoTTLMinutes), 1)
	reply.Authentication = make([]byte, len(m.Authentication))
	payload, err := wire.AppendSigned(s.h.Buffer(system.UsualSignedOctets+system.UsualRecordOctets), reply, m.Key.Secret)
	if err != nil {
		s.h.Count(counter.RefusedEncoding)
		return
	}
	s.h.Send(s.h.AnswerFrom(m.Local), m.From, s.h.Used(payload))
	s.h.Count(counter.InfoReplySent)
	if s.h.MayNotice() {
		s.h.Say(effect.Notice{Kind: effect.NoticeInfoReplySent, Remote: m.From, Detail: fmt.Sprintf("%d RTRs are offered", len(s.rtrs))})
	}
}

// natOf is how the sender of an Info-Request looks from here.
func (s *infos) natOf(m *message.InfoRequest) *wire.NATTraversalLCAF {
	nat := &wire.NATTraversalLCAF{
		MapServerPort: s.h.ControlPort, ETRPort: m.From.Port(),
		GlobalETR: wire.RLOCAddress(lisp.RLOCFromAddr(m.From.Addr())),
		MapServer: wire.NoAddress{}, PrivateETR: wire.NoAddress{},
	}
	if m.Local.Addr().IsValid() && !m.Local.Addr().IsUnspecified() {
		nat.MapServer = wire.RLOCAddress(lisp.RLOCFromAddr(m.Local.Addr()))
	}
	for _, r := range s.rtrs {
		nat.RTRs = append(nat.RTRs, wire.RLOCAddress(lisp.RLOCFromAddr(r.Address)))
	}
	return nat
}

// isRelayed reports whether a Map-Register came by an RTR.
func (s *infos) isRelayed(m *message.MapRegister) bool { return m.Relayed != nil || s.isOldDraft(m) }

// isOldDraft reports whether an RTR relayed a Map-Register without an ECM, as before
// draft-ermagan-lisp-nat-traversal-04.
func (s *infos) isOldDraft(m *message.MapRegister) bool {
	return m.Relayed == nil && m.ByRTR && m.XTRIDPresent && s.offers(m.From.Addr())
}

// offers reports whether an address is that of an RTR that is offered here.
func (s *infos) offers(a netip.Addr) bool {
	return slices.ContainsFunc(s.rtrs, func(r settings.RTRPeer) bool { return r.Address == a })
}

// appendNotify signs the Map-Notify that answers a Map-Register. Where an RTR relayed that without an ECM, the
// authentication of their common key stands in the Map-Notify.
func (s *infos) appendNotify(b []byte, m *message.MapRegister, notify *wire.MapNotify) ([]byte, error) {
	if !s.isOldDraft(m) {
		return wire.AppendSigned(b, notify, m.Key.Secret)
	}
	octets := 0
	k, has := s.keyOf(m.From.Addr())
	if has {
		octets = k.MACOctets()
	}
	return wire.AppendSignedForRTR(b, notify, m.Key.Secret,
		wire.RTRKey{ID: k.ID, Algorithm: k.Algorithm, Secret: k.Secret}, octets)
}

// acknowledgeByRTR sends a Map-Notify back by the RTR that relayed its Map-Register, to the address that the ETR has
// behind its NAT.
func (s *infos) acknowledgeByRTR(m *message.MapRegister, notify []byte) {
	inner := m.Relayed.Inner
	if s.sendByRTR(s.h.AnswerFrom(m.Local), m.From.Addr(), inner.Destination.Addr(), inner.Source.Addr(), notify) {
		s.h.Count(counter.MapNotifySent)
	}
}

// sendByRTR sends an RTR a Map-Notify that goes on to an ETR, with the authentication of their common key where there
// is one. It reports whether it could be encoded.
func (s *infos) sendByRTR(local netip.AddrPort, rtr, source, etr netip.Addr, notify []byte) bool {
	ecm := wire.EncapsulatedControlMessage{ForRTR: true, Inner: wire.InnerPacket{
		Source: netip.AddrPortFrom(source, s.h.ControlPort), Destination: netip.AddrPortFrom(etr, s.h.ControlPort), Message: notify,
	}}
	err := error(nil)
	if k, has := s.keyOf(rtr); has {
		ecm.Security = true
		ecm.AuthData, err = wire.AppendRTRAuthentication(nil, wire.RTRKey{ID: k.ID, Algorithm: k.Algorithm, Secret: k.Secret}, k.MACOctets(), notify)
	}
	var payload []byte
	if err == nil {
		payload, err = ecm.AppendTo(s.h.Buffer(system.UsualECMOctets + len(notify)))
	}
	if err != nil {
		s.h.Count(counter.RefusedEncoding)
		return false
	}
	s.h.Send(local, netip.AddrPortFrom(rtr, s.h.ControlPort), s.h.Used(payload))
	return true
}

// keyOf is the key that authenticates Map-Notifies for an RTR.
func (s *infos) keyOf(rtr netip.Addr) (k settings.Key, has bool) {
	at := slices.IndexFunc(s.rtrs, func(r settings.RTRPeer) bool { return r.Address == rtr })
	if at < 0 || len(s.rtrs[at].Keys) == 0 {
		return k, false
	}
	return s.rtrs[at].Keys[0], true
}

// isByRTR reports whether a Map-Register came by an RTR that is offered here: what is sent unasked does not reach its
// ETR.
func (s *infos) isByRTR(x *XTR) bool { return s.offers(x.From.Addr()) }

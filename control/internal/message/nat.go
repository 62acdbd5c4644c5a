// SPDX-License-Identifier: Apache-2.0

package message

// The messages of NAT traversal (draft-ermagan-lisp-nat-traversal s.4): Info-Requests and Info-Replies, Map-Registers
// that an RTR relays, and the Map-Notifies that answer those. An RTR cannot authenticate a Map-Register: it has no
// key of the site.

import (
	"bytes"
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// InfoRequest is an Info-Request that a key of its site authenticated.
type InfoRequest struct {
	Arrival
	*wire.InfoRequest
	Key settings.Key
}

// InfoReply is an Info-Reply that a key of a Map-Server authenticated.
type InfoReply struct {
	Arrival
	Nonce      uint64
	TTLMinutes uint32
	Peer       settings.PeerID
	Seen       netip.AddrPort // where the Info-Request came from, as the Map-Server saw it
	RTRs       []netip.Addr
	MapServer  netip.Addr // by its own account; the zero one where it gives none
}

// NATRegister is a Map-Register that a node behind a NAT sent in an ECM for an RTR to relay. Nothing about it is
// authenticated.
type NATRegister struct {
	Arrival
	*wire.MapRegister
	Inner     wire.InnerPacket
	MapServer netip.AddrPort // that it is for, as this RTR reaches it
	Mappings  []lisp.Mapping // of EID-Prefixes that the RTR is for; at least one
	Others    int            // EID-Prefixes that are registered, and not forwarded here
}

// NATNotify is a Map-Notify for an RTR, in an ECM or as before draft-ermagan-lisp-nat-traversal-04 without, from one of
// its Map-Servers. It is authenticated where the RTR has a key.
type NATNotify struct {
	Arrival
	*wire.MapNotify
	Inner    wire.InnerPacket // without addresses where there was no ECM; its message is for the node
	Key      settings.Key     // the zero one where the RTR has none
	Mappings []lisp.Mapping   // of its records, nil where they are none
}

func (k *Keyring) inspectInfoRequest(at Arrival, m *wire.InfoRequest, b []byte) (any, *Refusal) {
	if !k.mapServer {
		return nil, Refuse(counter.RefusedRole, "the Map-Server is off")
	}
	p, err := wire.PrefixOf(m.EID, m.MaskLen)
	if err != nil || p.Kind() == lisp.EIDNone {
		return nil, Refuse(counter.RefusedEID, "Info-Request of %s: %w", m.EID, orNoEID(err))
	}
	site, refused := k.siteOf([]lisp.Mapping{{Prefix: p}})
	if refused != nil {
		return nil, refused
	}
	key, _, refused := AuthenticateSite(&k.sites[site], b, m.KeyID, m.AlgorithmID)
	if refused != nil {
		return nil, refused
	}
	return &InfoRequest{Arrival: at, InfoRequest: m, Key: key}, nil
}

func (k *Keyring) inspectInfoReply(at Arrival, m *wire.InfoReply, b []byte) (any, *Refusal) {
	if !k.etr {
		return nil, Refuse(counter.RefusedRole, "the ETR is off")
	}
	lcaf, ok := m.NAT.(*wire.NATTraversalLCAF)
	if !ok {
		return nil, Refuse(counter.RefusedInfoReply, "Info-Reply without a NAT-Traversal LCAF")
	}
	peer, refused := k.authenticatePeer(at.From.Addr(), b, m.KeyID, m.AlgorithmID)
	if refused != nil {
		return nil, refused
	}
	reply := &InfoReply{Arrival: at, Nonce: m.Nonce, TTLMinutes: m.TTLMinutes, Peer: peer}
	seen, ok := wire.RLOCOf(lcaf.GlobalETR)
	if !ok || seen.Valid() != nil || isNowhere(seen.Addr()) || lcaf.ETRPort == 0 {
		return nil, Refuse(counter.RefusedInfoReply, "the Info-Request is said to have come from %s port %d", lcaf.GlobalETR, lcaf.ETRPort)
	}
	reply.Seen = netip.AddrPortFrom(seen.Addr(), lcaf.ETRPort)
	if a, ok := wire.RLOCOf(lcaf.MapServer); ok {
		reply.MapServer = a.Addr()
	}
	if len(lcaf.RTRs) > settings.MaxRTRs {
		return nil, Refuse(counter.RefusedInfoReply, "%d RTRs: want at most %d", len(lcaf.RTRs), settings.MaxRTRs)
	}
	for _, a := range lcaf.RTRs {
		r, ok := wire.RLOCOf(a)
		if !ok || r.Valid() != nil || isNowhere(r.Addr()) {
			return nil, Refuse(counter.RefusedInfoReply, "an RTR at %s", a)
		}
		reply.RTRs = append(reply.RTRs, r.Addr())
	}
	return reply, nil
}

// isNowhere reports whether an address is no other host's.
func isNowhere(a netip.Addr) bool {
	return !a.IsValid() || a.IsLoopback() || a.IsMulticast() || a.IsUnspecified() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// inspectNAT is for an ECM that an RTR takes, or that it relayed to a Map-Server.
func (k *Keyring) inspectNAT(at Arrival, ecm *wire.EncapsulatedControlMessage) (any, *Refusal) {
	t := ecm.Inner.MessageType()
	switch {
	case ecm.RelayedByRTR && !k.mapServer:
		return nil, Refuse(counter.RefusedRole, "the Map-Server is off")
	case ecm.ForRTR && k.natRelay == nil:
		return nil, Refuse(counter.RefusedRole, "this router is no RTR of nodes behind NATs")
	case t != wire.TypeMapRegister && t != wire.TypeMapNotify || ecm.ForRTR && ecm.RelayedByRTR:
		return nil, Refuse(counter.RefusedECMInner, "%s in an Encapsulated Control Message for an RTR", t)
	case ecm.Security && t == wire.TypeMapRegister:
		return nil, Refuse(counter.RefusedSecurity, "authentication data in an Encapsulated Control Message with a Map-Register")
	}
	inner := ecm.Inner
	inner.Message = bytes.Clone(inner.Message) // the ECM may be in a scratch buffer
	m, err := k.parser.Parse(inner.Message)
	if err != nil {
		return nil, parseRefused(err)
	}
	switch m := m.(type) {
	case *wire.MapRegister:
		if ecm.ForRTR {
			return k.inspectNATRegister(at, m, inner)
		}
		return k.inspectRelayed(at, m, ecm, inner)
	case *wire.MapNotify:
		return k.inspectNATNotify(at, m, ecm, inner)
	}
	return nil, Refuse(counter.RefusedECMInner, "%s in an Encapsulated Control Message for an RTR", t)
}

func (k *Keyring) inspectNATRegister(at Arrival, m *wire.MapRegister, inner wire.InnerPacket) (any, *Refusal) {
	server, known := k.natRelay.MapServerFor(inner.Destination.Addr())
	if !known || inner.Destination.Port() != k.controlPort {
		return nil, Refuse(counter.RefusedNATMapServer, "a Map-Register for %s, which is none of the Map-Servers that are relayed to", inner.Destination)
	}
	if len(m.Records) > settings.NATRecords {
		return nil, Refuse(counter.RefusedLocators, "%d records: want at most %d", len(m.Records), settings.NATRecords)
	}
	mappings, refused := mappingsOf(nil, m.Records, (*wire.Record).RegistrationOf)
	if refused != nil {
		return nil, refused
	}
	all := len(mappings)
	mappings = slices.DeleteFunc(mappings, func(m lisp.Mapping) bool { return !k.natRelay.Takes(m.Prefix) })
	if len(mappings) == 0 {
		return nil, Refuse(counter.RefusedNATPrefix, "none of %d EID-Prefixes is of the nodes that this RTR is for", all)
	}
	return &NATRegister{
		Arrival: at, MapRegister: m, Inner: inner, MapServer: netip.AddrPortFrom(server.Address, k.controlPort),
		Mappings: mappings, Others: all - len(mappings),
	}, nil
}

// inspectRelayed is for a Map-Register that came by an RTR: authenticated by the site's key like any other.
func (k *Keyring) inspectRelayed(
	at Arrival, m *wire.MapRegister, ecm *wire.EncapsulatedControlMessage, inner wire.InnerPacket,
) (any, *Refusal) {
	message, refused := k.inspectMapRegister(nil, at, m, inner.Message)
	if refused != nil {
		return nil, refused
	}
	register := message.(*MapRegister)
	relayed := *ecm
	relayed.Inner, relayed.Inner.Message = inner, nil
	register.Relayed = &relayed
	return register, nil
}

func (k *Keyring) inspectNATNotify(
	at Arrival, m *wire.MapNotify, ecm *wire.EncapsulatedControlMessage, inner wire.InnerPacket,
) (any, *Refusal) {
	server, known := k.natRelay.MapServer(at.From.Addr())
	if !known {
		return nil, Refuse(counter.RefusedNATMapServer, "a Map-Notify from %s, which is none of the Map-Servers that are relayed to", at.From)
	}
	key, refused := authenticateForRTR(server, ecm.AuthData, inner.Message)
	if refused != nil {
		return nil, refused
	}
	mappings, _ := mappingsOf(nil, m.Records, (*wire.Record).RegistrationOf) // a Map-Notify may be without records
	return &NATNotify{Arrival: at, MapNotify: m, Inner: inner, Key: key, Mappings: mappings}, nil
}

// isOldDraftForRTR reports whether a Map-Notify without an ECM is for an RTR, which knows that the Map-Server sends it
// so.
func (k *Keyring) isOldDraftForRTR(at Arrival, m *wire.MapNotify) (server *settings.NATMapServer, is bool) {
	if k.natRelay == nil || !m.ByRTR || !m.XTRIDPresent {
		return nil, false
	}
	server, is = k.natRelay.MapServer(at.From.Addr())
	return server, is && server.OldDraft
}

// inspectOldDraftNATNotify is for such a Map-Notify, which goes on to the node without its MS-RTR authentication.
func inspectOldDraftNATNotify(at Arrival, m *wire.MapNotify, b []byte, server *settings.NATMapServer) (any, *Refusal) {
	keyID, algorithm, present := wire.RTRKeyOfNotify(m)
	key, refused := keyForRTR(server, keyID, algorithm, present,
		func(secret []byte) error { return wire.VerifyForRTR(b, m, secret) })
	if refused != nil {
		return nil, refused
	}
	mappings, _ := mappingsOf(nil, m.Records, (*wire.Record).RegistrationOf)
	inner := wire.InnerPacket{Message: wire.PassedOnByRTR(b, m)}
	return &NATNotify{Arrival: at, MapNotify: m, Inner: inner, Key: key, Mappings: mappings}, nil
}

// authenticateForRTR insists on MS-RTR authentication where there is a key.
func authenticateForRTR(server *settings.NATMapServer, data, notify []byte) (settings.Key, *Refusal) {
	keyID, algorithm, present := wire.RTRKeyOf(data)
	return keyForRTR(server, keyID, algorithm, present, func(secret []byte) error {
		return wire.VerifyRTRAuthentication(data, secret, notify)
	})
}

// keyForRTR is the key that authenticates a Map-Notify for an RTR, the zero one where the RTR has none.
func keyForRTR(server *settings.NATMapServer, keyID, algorithm uint8, present bool,
	verify func(secret []byte) error) (settings.Key, *Refusal) {
	if len(server.Keys) == 0 {
		return settings.Key{}, nil
	}
	if !present {
		return settings.Key{}, Refuse(counter.RefusedRTRAuthentication, "no MS-RTR authentication, and there is a key for %s", server.Address)
	}
	for _, key := range server.Keys {
		if key.ID != keyID {
			continue
		}
		if key.Algorithm != algorithm {
			return settings.Key{}, Refuse(counter.RefusedRTRAuthentication, "algorithm %d, key %d is for algorithm %d", algorithm, keyID, key.Algorithm)
		}
		if err := verify(key.Secret); err != nil {
			return settings.Key{}, Refuse(counter.RefusedRTRAuthentication, "key %d: %w", keyID, err)
		}
		return key, nil
	}
	return settings.Key{}, Refuse(counter.RefusedRTRAuthentication, "there is no key %d for %s", keyID, server.Address)
}

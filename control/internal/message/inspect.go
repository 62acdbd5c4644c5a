// SPDX-License-Identifier: Apache-2.0

package message

// Inspect: from bytes to an authenticated message (RFC 9301 s.5). Pure: it reads
// the bytes and an immutable Keyring, nothing else, and may run in any goroutine.
// What needs a table (nonces, limits, who is registered) is not decided here.

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// Received is a control message that was parsed and, where its type carries
// authentication data, authenticated.
type Received struct {
	Keyring *Keyring
	// Message is a *MapRequest, *MapReply, *FlowReply, *MapRegister, *MapNotify, *MapNotifyAck, *InfoRequest, *InfoReply,
	// *NamedInfoRequest, *NamedInfoReply, *NATRegister or *NATNotify.
	Message any
}

// Inspect parses and authenticates one packet of the control port. It may run
// anywhere, at any time. local is the address that the packet came to, which may
// be unknown.
func Inspect(keys *Keyring, local, from netip.AddrPort, b []byte) (Received, *Refusal) {
	return InspectWith(keys, local, from, b, Reading{})
}

// InspectIn is Inspect that makes a message in a scratch buffer. Be done with what came of the buffer before
// using it again.
func InspectIn(scratch *Scratch, keys *Keyring, local, from netip.AddrPort, b []byte) (Received, *Refusal) {
	return InspectWith(keys, local, from, b, Reading{Scratch: scratch})
}

// Reading is how octets become a message.
type Reading struct {
	Parsed  wire.Message // the message that they are, nil where they are not parsed yet
	Scratch *Scratch     // for the message, nil for new memory
}

// InspectWith is Inspect for octets that may have been parsed already.
func InspectWith(keys *Keyring, local, from netip.AddrPort, b []byte, how Reading) (Received, *Refusal) {
	at := Arrival{
		Local: netip.AddrPortFrom(local.Addr().Unmap(), local.Port()),
		From:  netip.AddrPortFrom(from.Addr().Unmap(), from.Port()),
	}
	message, refused := keys.inspect(at, b, how)
	if refused != nil {
		refused.From = at.From
		if len(b) > 0 {
			refused.Type = wire.MessageType(b[0] >> 4)
		}
		return Received{}, refused
	}
	return Received{Keyring: keys, Message: message}, nil
}

func (k *Keyring) inspect(at Arrival, b []byte, how Reading) (any, *Refusal) {
	if len(b) > settings.MaxMessageOctets {
		return nil, Refuse(counter.RefusedOversized, "%d octets: want at most %d", len(b), settings.MaxMessageOctets)
	}
	// RFC 9301 s.5: either port may be the well-known one, behind a NAT.
	if at.Local.Port() != 0 && at.Local.Port() != k.controlPort && at.From.Port() != k.controlPort {
		return nil, Refuse(counter.RefusedPort, "ports %d and %d: one must be %d", at.From.Port(), at.Local.Port(), k.controlPort)
	}
	m, scratch := how.Parsed, how.Scratch
	if m == nil {
		var err error
		if m, err = k.parser.ParseIn(scratch.forMessage(), b); err != nil {
			return nil, parseRefused(err)
		}
	}
	switch m := m.(type) {
	case *wire.EncapsulatedControlMessage:
		return k.inspectECM(scratch, at, m)
	case *wire.MapRequest:
		if !k.itr && !k.etr && !k.relay {
			return nil, Refuse(counter.RefusedRole, "this system takes Encapsulated Map-Requests only")
		}
		return k.inspectMapRequest(scratch.forMapRequest(at, m, at.From.Port()))
	case *wire.MapReply:
		return k.inspectMapReply(scratch, at, m)
	case *wire.MapRegister:
		return k.inspectMapRegister(scratch, at, m, b)
	case *wire.MapNotify:
		if server, is := k.isOldDraftForRTR(at, m); is {
			return inspectOldDraftNATNotify(at, m, b, server)
		}
		return k.inspectMapNotify(at, m, b)
	case *wire.MapNotifyAck:
		return k.inspectMapNotifyAck(scratch, at, m, b)
	case *wire.InfoRequest:
		if named(m) {
			return k.inspectNamedRequest(at, m)
		}
		return k.inspectInfoRequest(at, m, b)
	case *wire.InfoReply:
		if named(&m.InfoRequest) {
			return k.inspectNamedReply(at, m)
		}
		return k.inspectInfoReply(at, m, b)
	}
	return nil, Refuse(counter.RefusedType, "no role takes a %s", m.Type())
}

// zeroChecksumAdvice names the setting of loci run.
const zeroChecksumAdvice = "control.accept-zero-inner-checksum: true accepts it"

func parseRefused(err error) *Refusal {
	var parse *wire.ParseError
	if errors.As(err, &parse) {
		if parse.Reason == wire.ReasonZeroChecksum {
			err = fmt.Errorf("%w (%s)", err, zeroChecksumAdvice)
		}
		return &Refusal{Reason: counter.OfParse(parse.Reason), Err: err}
	}
	return &Refusal{Reason: counter.RefusedType, Err: err}
}

func (k *Keyring) inspectECM(scratch *Scratch, at Arrival, ecm *wire.EncapsulatedControlMessage) (any, *Refusal) {
	switch t := ecm.Inner.MessageType(); {
	case ecm.ForRTR || ecm.RelayedByRTR && t == wire.TypeMapRegister:
		return k.inspectNAT(at, ecm)
	case !k.etr && !k.mapServer && !k.mapResolver:
		return nil, Refuse(counter.RefusedRole, "neither ETR nor Map-Server nor Map-Resolver is on")
	case ecm.Security:
		return nil, Refuse(counter.RefusedSecurity, "LISP-SEC data in an Encapsulated Control Message")
	case ecm.Inner.MessageType() != wire.TypeMapRequest:
		return nil, Refuse(counter.RefusedECMInner, "%s in an Encapsulated Control Message", ecm.Inner.MessageType())
	}
	m, err := k.parser.ParseIn(scratch.forMessage(), ecm.Inner.Message)
	if err != nil {
		return nil, parseRefused(err)
	}
	inner, ok := m.(*wire.MapRequest)
	switch {
	case !ok || inner.SMR:
		return nil, Refuse(counter.RefusedECMInner, "a Solicit-Map-Request goes to its RLOC directly (RFC 9301 s.6.1)")
	case inner.Probe:
		return nil, Refuse(counter.RefusedProbeInECM, "an RLOC-probe goes to its RLOC directly (RFC 9301 s.5.8)")
	}
	request := scratch.forMapRequest(at, inner, ecm.Inner.Source.Port())
	request.ECM = ecm
	return k.inspectMapRequest(request)
}

func (k *Keyring) inspectMapRequest(m *MapRequest) (any, *Refusal) {
	if len(m.Records) == 0 {
		return nil, Refuse(counter.RefusedNoRecord, "Map-Request without a record")
	}
	if m.ReplyPort == 0 && !m.SMR {
		return nil, Refuse(counter.RefusedPort, "a Map-Reply would go to port 0")
	}
	m.Prefixes, m.ReplyRLOCs = m.usualPrefixes[:0], m.usualRLOCs[:0]
	if refused := m.readRecords(); refused != nil {
		return nil, refused
	}
	for _, a := range m.ITRRLOCs {
		if r, ok := wire.RLOCOf(a); ok && r.Valid() == nil && !r.Addr().IsMulticast() {
			m.ReplyRLOCs = append(m.ReplyRLOCs, r)
		}
	}
	if len(m.ReplyRLOCs) == 0 && !m.SMR {
		return nil, Refuse(counter.RefusedNoITRRLOC, "no ITR-RLOC that a Map-Reply can be sent to")
	}
	if m.MapReplyRecord != nil && k.etr {
		if mapping, err := m.MapReplyRecord.Mapping(); err == nil && mapping.Prefix.Kind() != lisp.EIDNone {
			m.Piggybacked = mapping.Prefix
		}
	}
	if instance, e, err := wire.EIDOf(m.SourceEID); err == nil {
		m.SourceInstance, m.Source = instance, e
	}
	return m, nil
}

// readRecords takes what a Map-Request asks for.
func (m *MapRequest) readRecords() *Refusal {
	if m.asksForFlow() {
		return m.readFlow()
	}
	for i := range m.Records[:min(len(m.Records), settings.MaxRequestRecords)] {
		p, err := m.Records[i].Prefix()
		if err != nil || p.Kind() == lisp.EIDNone && (!m.Probe || m.SMR) { // a probe may be of an RLOC alone
			return Refuse(counter.RefusedEID, "record %d asks for %s: %w", i+1, m.Records[i].EID, orNoEID(err))
		}
		m.Prefixes = append(m.Prefixes, p)
	}
	return nil
}

var errNoEID = errors.New("no EID")

func orNoEID(err error) error {
	if err == nil {
		return errNoEID
	}
	return err
}

func (k *Keyring) inspectMapReply(scratch *Scratch, at Arrival, m *wire.MapReply) (any, *Refusal) {
	if !k.itr {
		return nil, Refuse(counter.RefusedRole, "the ITR is off")
	}
	if len(m.Records) > 0 && wire.IsFlow(m.Records[0].EID) {
		return inspectFlowReply(at, m)
	}
	mappings, refused := mappingsOf(scratch, m.Records, (*wire.Record).MappingOf)
	if refused != nil && !m.Probe {
		return nil, refused
	}
	if refused != nil {
		mappings = nil
	}
	for i := range mappings {
		mappings[i].EchoNonce = m.EchoNonce
	}
	reply := scratch.forMapReply()
	*reply = MapReply{Arrival: at, Nonce: m.Nonce, Probe: m.Probe, Mappings: mappings, Skipped: skippedOf(m.Records, mappings), Refused: refused}
	if k.natRelay != nil {
		reply.Named = namedOf(m.Records, mappings)
	}
	return reply, nil
}

// skippedOf lists the locators of records that their mappings do not have; for most replies there is none.
func skippedOf(records []wire.Record, mappings []lisp.Mapping) (all []SkippedLocators) {
	for i := range mappings {
		if len(records[i].Locators) > len(mappings[i].Locators) {
			all = append(all, SkippedLocators{Prefix: mappings[i].Prefix, Locators: records[i].Skipped()})
		}
	}
	return all
}

func (k *Keyring) inspectMapRegister(scratch *Scratch, at Arrival, m *wire.MapRegister, b []byte) (any, *Refusal) {
	if !k.mapServer {
		return nil, Refuse(counter.RefusedRole, "the Map-Server is off")
	}
	mappings, refused := mappingsOf(scratch, m.Records, (*wire.Record).RegistrationOf)
	if refused != nil {
		return nil, refused
	}
	site, key, covered, refused := k.signerOf(b, m, mappings)
	if refused != nil {
		return nil, refused
	}
	// Where only the records are authenticated, xTR-ID and Site-ID can be
	// forged, and could make a replayed message look like another xTR's first.
	if covered == wire.CoverRecords {
		m = withoutXTRID(m)
	}
	register := &MapRegister{Arrival: at, MapRegister: m, Mappings: mappings, Site: k.sites[site].Name, Key: key}
	register.Sift(func(m lisp.Mapping) *Refusal { return k.mayRegister(site, m.Prefix) })
	return register, nil
}

// withoutXTRID is a copy: the message is not ours to change.
func withoutXTRID(m *wire.MapRegister) *wire.MapRegister {
	without := *m
	without.XTRIDPresent = false
	return &without
}

// siteOfRecords is the site whose key a message has to be authenticated by: that of the first
// record that is of any.
func (k *Keyring) siteOfRecords(scratch *Scratch, records []wire.Record) (mappings []lisp.Mapping, site int, refused *Refusal) {
	mappings, refused = mappingsOf(scratch, records, (*wire.Record).RegistrationOf)
	if refused != nil {
		return nil, 0, refused
	}
	site, refused = k.siteOf(mappings)
	return mappings, site, refused
}

func (k *Keyring) inspectMapNotify(at Arrival, m *wire.MapNotify, b []byte) (any, *Refusal) {
	if !k.etr {
		return nil, Refuse(counter.RefusedRole, "the ETR is off")
	}
	peer, refused := k.authenticatePeer(at.From.Addr(), b, m.KeyID, m.AlgorithmID)
	if refused != nil {
		return nil, refused
	}
	return &MapNotify{Arrival: at, MapNotify: m, Peer: peer}, nil
}

func (k *Keyring) inspectMapNotifyAck(scratch *Scratch, at Arrival, m *wire.MapNotifyAck, b []byte) (any, *Refusal) {
	if !k.mapServer {
		return nil, Refuse(counter.RefusedRole, "the Map-Server is off")
	}
	if len(m.Records) == 0 {
		return &MapNotifyAck{Arrival: at, Nonce: m.Nonce, KeyID: m.KeyID, Algorithm: m.AlgorithmID, Unverified: bytes.Clone(b)}, nil
	}
	_, site, refused := k.siteOfRecords(scratch, m.Records)
	if refused != nil {
		return nil, refused
	}
	if _, _, refused = AuthenticateSite(&k.sites[site], b, m.KeyID, m.AlgorithmID); refused != nil {
		return nil, refused
	}
	return &MapNotifyAck{Arrival: at, Nonce: m.Nonce, Site: k.sites[site].Name}, nil
}

// mappingsOf turns records into mappings, all or none.
func mappingsOf(scratch *Scratch, records []wire.Record, convert func(*wire.Record, lisp.Prefix) (lisp.Mapping, error)) ([]lisp.Mapping, *Refusal) {
	if len(records) == 0 {
		return nil, Refuse(counter.RefusedNoRecord, "no record")
	}
	mappings := scratch.forMappings(len(records))
	for i := range records {
		p, err := records[i].Prefix()
		if err != nil || p.Kind() == lisp.EIDNone {
			return nil, Refuse(counter.RefusedEID, "record %d is about %s: %w", i+1, records[i].EID, orNoEID(err))
		}
		if mappings[i], err = convert(&records[i], p); err != nil {
			return nil, Refuse(counter.RefusedLocators, "record %d: %w", i+1, err)
		}
	}
	return mappings, nil
}

// SPDX-License-Identifier: Apache-2.0

package mapsock

// The engine's events as messages, and back. An event's meaning is in package
// dataplane, its fields in docs/mapsock.md. Nothing here decides who hears it.

import (
	"bytes"

	"loci/dataplane"
	"loci/lisp"
)

// SetEvent makes m tell of an event; false when there is no message for it.
func (m *Message) SetEvent(event dataplane.Event) bool {
	switch e := event.(type) {
	case dataplane.Miss:
		m.SetMiss(e)
	case dataplane.Expired:
		m.Reset(TypeDelete)
		m.Flags = FlagExpired | FlagDone
		m.SetPrefix(e.Prefix)
	case dataplane.StatusBitsChanged:
		m.Reset(TypeStatusBits)
		m.SetPrefix(e.Prefix)
		m.setRLOC(e.From)
		m.StatusBits, m.StatusBitCount = e.Bits, uint32(e.Count)
		m.Mark(AttributeStatusBits, AttributeStatusBitCount)
	case dataplane.LocalVersionStale:
		m.Reset(TypeLocalStale)
		setVersions(m, e.PacketVersions, e.SourceVersion, e.DestinationVersion)
	case dataplane.RemoteVersionStale:
		m.Reset(TypeRemoteStale)
		setVersions(m, e.PacketVersions, e.DestinationVersion, e.SourceVersion)
	case dataplane.NonceMismatch:
		m.Reset(TypeNonceMismatch)
		l := m.setRLOC(e.RLOC)
		l.TxNonce, l.HasTxNonce = e.Sent, true
		l.RxNonce, l.HasRxNonce = e.Received, true
		m.Nonce = e.Received
		m.Mark(AttributeNonce)
	case dataplane.Gleaned:
		m.Reset(TypeGleaned)
		m.HasEID, m.Prefix, m.Instance = true, lisp.HostPrefix(e.Instance, e.Source), e.Instance
		m.Source = e.Destination
		m.setRLOC(e.From)
		m.Mark(AttributeSource)
	case dataplane.LocatorUnreachable:
		m.Reset(TypeUnreachable)
		m.setRLOC(e.RLOC)
		m.ICMPType, m.ICMPCode = e.Type, e.Code
		m.Mark(AttributeICMP)
	case dataplane.MTUChanged:
		m.Reset(TypeMTU)
		m.MTU = uint32(max(e.MTU, 0))
		m.setRLOC(e.RLOC).MTU = m.MTU
		m.Mark(AttributeMTU)
	case dataplane.ControlPacket:
		m.setControlPacket(e)
	case dataplane.Subflow:
		setSubflow(m, e)
	default:
		return false
	}
	return true
}

// Event reads the event that a message of the engine tells; false for other messages.
func (m *Message) Event() (dataplane.Event, bool) {
	if miss, ok := m.Miss(); ok {
		return miss, true
	}
	if e, ok := m.controlPacket(); ok {
		return e, true
	}
	if e, ok := subflowOf(m); ok {
		return e, true
	}
	if m.Type == TypeDelete && m.Flags&(FlagExpired|FlagDone|FlagDatabase) == FlagExpired|FlagDone && m.HasEID {
		return dataplane.Expired{Prefix: m.Prefix}, true
	}
	if len(m.Locators) != 1 {
		return nil, false
	}
	l := &m.Locators[0]
	switch m.Type {
	case TypeStatusBits:
		return dataplane.StatusBitsChanged{Prefix: m.Prefix, From: l.RLOC, Bits: m.StatusBits, Count: int(m.StatusBitCount)}, m.HasEID
	case TypeLocalStale:
		return dataplane.LocalVersionStale{PacketVersions: versions(m, m.ReceivedVersion, m.OtherVersion)}, m.HasEID
	case TypeRemoteStale:
		return dataplane.RemoteVersionStale{PacketVersions: versions(m, m.OtherVersion, m.ReceivedVersion)}, m.HasEID
	case TypeGleaned:
		return dataplane.Gleaned{Instance: m.Instance, Source: m.Prefix.EID(), Destination: m.Source, From: l.RLOC}, m.HasEID
	case TypeNonceMismatch:
		return dataplane.NonceMismatch{RLOC: l.RLOC, Sent: l.TxNonce, Received: l.RxNonce}, true
	case TypeUnreachable:
		return dataplane.LocatorUnreachable{RLOC: l.RLOC, Type: m.ICMPType, Code: m.ICMPCode}, true
	case TypeMTU:
		return dataplane.MTUChanged{RLOC: l.RLOC, MTU: int(m.MTU)}, true
	}
	return nil, false
}

// setRLOC makes m speak of one RLOC without metrics.
func (m *Message) setRLOC(r lisp.RLOC) *Locator {
	m.Locators = append(m.Locators[:0], Locator{Locator: lisp.Locator{RLOC: r}})
	return &m.Locators[0]
}

func setVersions(m *Message, v dataplane.PacketVersions, received, other uint16) {
	m.HasEID, m.Prefix, m.Instance = true, lisp.HostPrefix(v.Instance, v.Destination), v.Instance
	m.Source = v.Source
	m.setRLOC(v.From)
	m.ReceivedVersion, m.OtherVersion = received, other
	m.Mark(AttributeSource, AttributeReceivedVersion, AttributeOtherVersion)
}

func versions(m *Message, source, destination uint16) dataplane.PacketVersions {
	return dataplane.PacketVersions{
		Instance: m.Instance, Source: m.Source, Destination: m.Prefix.EID(), From: m.Locators[0].RLOC,
		SourceVersion: source, DestinationVersion: destination,
	}
}

// maxToldPacket is the longest packet that a message has room for beside what else
// tells of a miss.
const maxToldPacket = MaxMessage - HeaderSize - sockaddrIPv6Size - 4*attributeHeaderSize - 4 - 20 - 2*lisp.MaxNameLength - MaxNameOctets

// SetMiss makes m tell of a miss, as much as the event does.
func (m *Message) SetMiss(miss dataplane.Miss) {
	m.Reset(TypeMissEID)
	m.HasEID, m.Prefix, m.Instance = true, lisp.HostPrefix(miss.Instance, miss.Destination), miss.Instance
	m.Source, m.Interface = miss.Source, miss.Interface
	m.Mark(AttributeSource, AttributeInterface)
	if miss.Packet == nil || len(miss.Packet) > maxToldPacket {
		return
	}
	m.Type, m.Packet = TypeMissPacket, miss.Packet
	if miss.Form == dataplane.MissFormHeader {
		m.Type = TypeMissHeader
	}
	setFlag(m, FlagHanded, miss.Handed)
	m.Mark(AttributePacket)
}

// Miss reads what a message of TypeMissEID, TypeMissHeader or TypeMissPacket tells.
// The packet is a copy.
func (m *Message) Miss() (miss dataplane.Miss, ok bool) {
	if m.Type < TypeMissEID || m.Type > TypeMissPacket || !m.HasEID {
		return miss, false
	}
	miss = dataplane.Miss{Instance: m.Instance, Source: m.Source, Destination: m.Prefix.EID(), Interface: m.Interface}
	if m.Type != TypeMissEID && m.Has(AttributePacket) {
		miss.Packet, miss.Form = bytes.Clone(m.Packet), dataplane.MissForm(m.Type-TypeMissEID)
		miss.Handed = m.Flags&FlagHanded != 0
	}
	return miss, true
}

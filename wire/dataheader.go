// SPDX-License-Identifier: Apache-2.0

package wire

// The LISP data header, after UDP port 4341 (RFC 9300 s.5.1; P is RFC 9305 s.3):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|N|L|E|V|I|P|K|K|   Nonce  /  Source Map-Version, Dest Map-Version  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              Instance ID (if I)               |  LSBs, or 32  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Fields whose flag is clear are sent as 0 and ignored. With P the second to
// fourth octets are a reserved half and the Next Protocol.

import (
	"encoding/binary"
	"fmt"

	"loci/lisp"
)

// DataHeaderOctets is the length of the data header.
const DataHeaderOctets = 8

// DataHeader is the header between UDP and the inner packet.
type DataHeader struct {
	NoncePresent      bool // N
	LocatorStatusBits bool // L: StatusBits hold
	EchoNonce         bool // E: echo requested; ignored on receipt without N
	MapVersion        bool // V: the two versions hold; ignored on receipt with N
	Instance          bool // I: InstanceID holds
	NextProtocol      bool // P: Protocol holds (RFC 9305)
	KeyID             uint8
	// Nonce has 24 bits.
	Nonce uint32
	// SourceVersion and DestinationVersion have 12 bits each (RFC 9302 s.4).
	SourceVersion, DestinationVersion uint16
	InstanceID                        lisp.InstanceID // 24 bits
	StatusBits                        uint32          // bit i is locator i; 8 bits with Instance, else 32
	Protocol                          uint8           // RFC 9305 s.3.1
}

const (
	dataNonce        = 0x80
	dataStatusBits   = 0x40
	dataEchoNonce    = 0x20
	dataMapVersion   = 0x10
	dataInstance     = 0x08
	dataNextProtocol = 0x04
	dataKeyIDMask    = 0x03
)

// ParseDataHeader reads the header at the start of b and returns what follows it,
// a part of b. The error is a *ParseError.
func ParseDataHeader(b []byte) (DataHeader, []byte, error) {
	if len(b) < DataHeaderOctets {
		return DataHeader{}, nil, &ParseError{Message: "LISP data header", Field: "header", Offset: len(b), Reason: ReasonTruncated}
	}
	flags, low := b[0], binary.BigEndian.Uint32(b[4:])
	h := DataHeader{
		NoncePresent:      flags&dataNonce != 0,
		LocatorStatusBits: flags&dataStatusBits != 0,
		Instance:          flags&dataInstance != 0,
		NextProtocol:      flags&dataNextProtocol != 0,
		KeyID:             flags & dataKeyIDMask,
	}
	h.readMiddle(flags, binary.BigEndian.Uint32(b)&0xffffff)
	h.readLow(low)
	return h, b[DataHeaderOctets:], nil
}

// readMiddle reads what N, E, V and P say about the 24 bits after the flags.
// N wins over V (RFC 9300 s.5.1); P makes N, E and V void (RFC 9305 s.3).
func (h *DataHeader) readMiddle(flags uint8, middle uint32) {
	switch {
	case h.NextProtocol:
		h.NoncePresent = false
		h.Protocol = uint8(middle)
	case h.NoncePresent:
		h.EchoNonce = flags&dataEchoNonce != 0
		h.Nonce = middle
	case flags&dataMapVersion != 0:
		h.MapVersion = true
		h.SourceVersion, h.DestinationVersion = uint16(middle>>12), uint16(middle&0xfff)
	}
}

func (h *DataHeader) readLow(low uint32) {
	if h.Instance {
		h.InstanceID = lisp.InstanceID(low >> 8)
		low &= 0xff
	}
	if h.LocatorStatusBits {
		h.StatusBits = low
	}
}

// AppendTo appends the 8 octets. It errs on flags that exclude each other and on
// values beyond their width; fields whose flag is clear do not matter.
func (h DataHeader) AppendTo(b []byte) ([]byte, error) {
	if err := h.check(); err != nil {
		return b, fmt.Errorf("LISP data header: %w", err)
	}
	word := bit32(h.NoncePresent, dataNonce) | bit32(h.LocatorStatusBits, dataStatusBits) | bit32(h.EchoNonce, dataEchoNonce) |
		bit32(h.MapVersion, dataMapVersion) | bit32(h.Instance, dataInstance) | bit32(h.NextProtocol, dataNextProtocol) | uint32(h.KeyID)
	word <<= 24
	switch {
	case h.NextProtocol:
		word |= uint32(h.Protocol)
	case h.NoncePresent:
		word |= h.Nonce
	case h.MapVersion:
		word |= uint32(h.SourceVersion)<<12 | uint32(h.DestinationVersion)
	}
	b = binary.BigEndian.AppendUint32(b, word)
	return binary.BigEndian.AppendUint32(b, h.low()), nil
}

func (h DataHeader) low() uint32 {
	low := uint32(0)
	if h.LocatorStatusBits {
		low = h.StatusBits
	}
	if h.Instance {
		low |= uint32(h.InstanceID) << 8
	}
	return low
}

func (h DataHeader) check() error {
	switch {
	case h.NoncePresent && h.MapVersion:
		return fmt.Errorf("nonce and map-versions exclude each other")
	case h.EchoNonce && !h.NoncePresent:
		return fmt.Errorf("an echo request needs a nonce")
	case h.NextProtocol && (h.NoncePresent || h.MapVersion):
		return fmt.Errorf("a next protocol excludes nonce and map-versions")
	case h.KeyID > dataKeyIDMask:
		return fmt.Errorf("key ID %d: want 2 bits", h.KeyID)
	case h.NoncePresent && h.Nonce > 0xffffff:
		return fmt.Errorf("nonce 0x%x: want 24 bits", h.Nonce)
	case h.MapVersion && (h.SourceVersion > 0xfff || h.DestinationVersion > 0xfff):
		return fmt.Errorf("map-versions %d and %d: want 12 bits", h.SourceVersion, h.DestinationVersion)
	case h.Instance && h.InstanceID > 0xffffff:
		return fmt.Errorf("Instance-ID %d: want 24 bits", h.InstanceID)
	case h.Instance && h.LocatorStatusBits && h.StatusBits > 0xff:
		return fmt.Errorf("locator-status-bits 0x%x: want 8 bits beside an Instance-ID", h.StatusBits)
	}
	return nil
}

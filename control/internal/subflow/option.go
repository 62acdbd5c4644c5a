// SPDX-License-Identifier: Apache-2.0

package subflow

// The option of Multipath TCP in a TCP header (RFC 8684 s.3.1, s.3.2, s.3.5; RFC 9293 s.3.1 has the header). The octets
// come from any host: nothing is read beyond what they and their lengths have.

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// Kind says which option of Multipath TCP a segment has.
type Kind uint8

// The kinds that matter here.
const (
	KindNone      Kind = iota // none, or one that begins and ends no subflow
	KindCapable               // MP_CAPABLE: opens a session
	KindJoin                  // MP_JOIN: adds a subflow to one
	KindFastClose             // MP_FASTCLOSE: ends one
)

// Segment is what a TCP header says of a subflow.
type Segment struct {
	SYN, ACK, FIN, RST     bool
	Sequence, Acknowledged uint32
	Kind                   Kind
	Key                    [8]byte // of the sender with MP_CAPABLE of a SYN/ACK, of the receiver with MP_FASTCLOSE
	Token                  uint32  // of the session, with MP_JOIN of a SYN without ACK
}

// The errors of Parse.
var (
	ErrOption  = errors.New("the TCP header or its option of Multipath TCP is truncated, or has a wrong length")
	ErrVersion = errors.New("MP_CAPABLE of another version than 1, or without HMAC-SHA256")
)

const (
	headerOctets = 20

	flagFIN = 0x01
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10

	optionEnd      = 0
	optionNoop     = 1
	optionMPTCP    = 30
	subtypeCapable = 0
	subtypeJoin    = 1
	subtypeClose   = 7

	version     = 1    // RFC 8684
	flagsB      = 0x40 // of MP_CAPABLE: an extension that does not exist yet
	hmacSHA256  = 0x01 // H of MP_CAPABLE
	fastOctets  = 12
	capableSYN  = 4
	capableBoth = 12 // of a SYN/ACK
	joinSYN     = 12
	joinBoth    = 16
)

// Parse reads a TCP header with its options. Of several options of Multipath TCP it takes the first.
func Parse(b []byte) (Segment, error) {
	if len(b) < headerOctets {
		return Segment{}, ErrOption
	}
	length := int(b[12]>>4) * 4
	if length < headerOctets || length > len(b) {
		return Segment{}, ErrOption
	}
	s := Segment{
		SYN: b[13]&flagSYN != 0, ACK: b[13]&flagACK != 0, FIN: b[13]&flagFIN != 0, RST: b[13]&flagRST != 0,
		Sequence: binary.BigEndian.Uint32(b[4:]), Acknowledged: binary.BigEndian.Uint32(b[8:]),
	}
	option, err := findOption(b[headerOctets:length])
	if err != nil || option == nil {
		return s, err
	}
	return s, s.read(option)
}

// findOption is the option of Multipath TCP among those of a header, nil for none.
func findOption(options []byte) ([]byte, error) {
	for len(options) > 0 {
		switch options[0] {
		case optionEnd:
			return nil, nil
		case optionNoop:
			options = options[1:]
			continue
		}
		if len(options) < 2 || options[1] < 2 || int(options[1]) > len(options) {
			return nil, ErrOption
		}
		if options[0] == optionMPTCP {
			return options[:options[1]], nil
		}
		options = options[options[1]:]
	}
	return nil, nil
}

// read takes what an option of Multipath TCP says.
func (s *Segment) read(option []byte) error {
	if len(option) < 3 {
		return ErrOption
	}
	switch subtype := option[2] >> 4; {
	case subtype == subtypeCapable && s.SYN:
		return s.readCapable(option)
	case subtype == subtypeJoin && s.SYN:
		return s.readJoin(option)
	case subtype == subtypeClose:
		return s.readFastClose(option)
	}
	return nil
}

// readCapable takes MP_CAPABLE of a SYN, which has no key, or of a SYN/ACK, which has the responder's. Another version
// is looked for first: in version 0 the lengths are others.
func (s *Segment) readCapable(option []byte) error {
	switch {
	case option[2]&0xf != version:
		return ErrVersion
	case len(option) < capableSYN:
		return ErrOption
	case option[3]&flagsB != 0 || option[3]&hmacSHA256 == 0:
		return ErrVersion
	case s.ACK && len(option) != capableBoth, !s.ACK && len(option) != capableSYN:
		return ErrOption
	}
	s.Kind = KindCapable
	if s.ACK {
		copy(s.Key[:], option[4:])
	}
	return nil
}

// readJoin takes MP_JOIN of a SYN, which has the token of the responder, or of a SYN/ACK, which has none.
func (s *Segment) readJoin(option []byte) error {
	if s.ACK && len(option) != joinBoth || !s.ACK && len(option) != joinSYN {
		return ErrOption
	}
	s.Kind = KindJoin
	if !s.ACK {
		s.Token = binary.BigEndian.Uint32(option[4:])
	}
	return nil
}

func (s *Segment) readFastClose(option []byte) error {
	if len(option) != fastOctets {
		return ErrOption
	}
	s.Kind = KindFastClose
	copy(s.Key[:], option[4:])
	return nil
}

// TokenOf is the token of the session in which a host has that key: the most significant 32 bits of its SHA-256 (RFC
// 8684 s.3.2).
func TokenOf(key [8]byte) uint32 {
	sum := sha256.Sum256(key[:])
	return binary.BigEndian.Uint32(sum[:])
}

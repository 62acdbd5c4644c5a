// SPDX-License-Identifier: Apache-2.0

package wire

// The cursor all parsers share. The first failure sticks and every later read
// gives zeros, so that parsers are straight lines without an error branch per
// field. Reads never leave the window, and never allocate beyond it.

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

type reader struct {
	message string
	data    []byte
	at      int // next octet
	end     int // end of the window: of the message, or of the LCAF being read
	depth   int // how many LCAFs enclose the cursor
	err     error

	knownOUIs          []OUI
	acceptZeroChecksum bool
	room               *Room // for what is parsed, nil for new memory
	keepAddresses      bool
}

func newReader(message string, b []byte) *reader {
	return &reader{message: message, data: b, end: len(b)}
}

// fail records the first failure at the cursor.
func (r *reader) fail(field string, reason Reason, detail string) {
	r.failAt(r.at, field, reason, detail)
}

func (r *reader) failAt(offset int, field string, reason Reason, detail string) {
	if r.err == nil {
		r.err = &ParseError{Message: r.message, Field: field, Offset: offset, Reason: reason, Detail: detail}
	}
}

func (r *reader) failed() bool   { return r.err != nil }
func (r *reader) remaining() int { return r.end - r.at }

// take returns the next n octets of the window, or nil after a failure. The
// slice is the caller's input: copy what is kept.
func (r *reader) take(n int, field string) []byte {
	if r.err != nil {
		return nil
	}
	if n > r.remaining() {
		r.fail(field, ReasonTruncated, fmt.Sprintf("needs %d octets, %d left", n, r.remaining()))
		return nil
	}
	b := r.data[r.at : r.at+n]
	r.at += n
	return b
}

// part is take for a part of a field: the whole name is made only for an error.
func (r *reader) part(n int, field, part string) []byte {
	if r.err == nil && n <= r.remaining() {
		return r.take(n, field)
	}
	return r.take(n, field+" "+part)
}

func (r *reader) u8(field string) uint8 {
	if b := r.take(1, field); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16(field string) uint16 {
	if b := r.take(2, field); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u24(field string) uint32 {
	if b := r.take(3, field); b != nil {
		return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	}
	return 0
}

func (r *reader) u32(field string) uint32 {
	if b := r.take(4, field); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64(field string) uint64 {
	if b := r.take(8, field); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// copied returns a copy of the next n octets, nil for none.
func (r *reader) copied(n int, field string) []byte {
	if b := r.take(n, field); len(b) > 0 {
		return bytes.Clone(b)
	}
	return nil
}

// count checks that n items of at least minOctets each can still follow, before
// anything is allocated for them.
func (r *reader) count(n, minOctets int, field string) int {
	if r.err == nil && n*minOctets > r.remaining() {
		r.fail(field, ReasonTruncated, fmt.Sprintf("%d announced, %d octets left", n, r.remaining()))
	}
	if r.err != nil {
		return 0
	}
	return n
}

// expectEnd refuses octets after the last field: nothing defines them, and the
// message would not survive re-encoding.
func (r *reader) expectEnd() {
	if r.err == nil && r.at != r.end {
		r.fail("end of message", ReasonTrailing, fmt.Sprintf("%d octets", r.remaining()))
	}
}

// SPDX-License-Identifier: Apache-2.0

package lisp

// EID-Prefix with its Instance-ID: the key of every mapping (RFC 9300 s.3).

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
)

// Prefix is an EID-Prefix in an Instance-ID. It is comparable, holds no pointer,
// and is always canonical: the octets beyond its length are zero.
type Prefix struct {
	instance InstanceID
	bits     uint8
	eid      EID
}

// PrefixFrom makes the prefix of the first bits of e in an Instance-ID, host
// bits cleared. A name's bits include its NUL when the name is meant exactly,
// and must be whole octets (RFC 9735 s.3). The zero EID gives the zero Prefix
// of that Instance-ID with bits 0.
func PrefixFrom(instance InstanceID, e EID, bits int) (Prefix, error) {
	if bits < 0 || bits > e.BitLen() {
		return Prefix{}, fmt.Errorf("mask length %d of EID %s: want 0 to %d", bits, e, e.BitLen())
	}
	if e.kind == EIDName && bits%8 != 0 {
		return Prefix{}, fmt.Errorf("mask length %d of name %s: want whole octets", bits, e)
	}
	return Prefix{instance: instance, bits: uint8(bits), eid: e.masked(bits)}, nil
}

// HostPrefix is the prefix that holds e alone.
func HostPrefix(instance InstanceID, e EID) Prefix {
	return Prefix{instance: instance, bits: uint8(e.BitLen()), eid: e}
}

// PrefixFromNetip makes a prefix of an IP prefix; host bits are cleared.
func PrefixFromNetip(instance InstanceID, p netip.Prefix) (Prefix, error) {
	if !p.IsValid() {
		return Prefix{}, fmt.Errorf("EID-Prefix %s is not valid", p)
	}
	return PrefixFrom(instance, EIDFromAddr(p.Addr()), p.Bits())
}

func (e EID) masked(bits int) EID {
	if e.kind == EIDName {
		return e.maskedName(bits)
	}
	octets := bits / 8
	if octets >= int(e.size) {
		return e
	}
	e.raw[octets] &= ^(uint8(0xff) >> (bits % 8))
	clear(e.raw[octets+1 : e.size])
	return e
}

// maskedName shortens a name; bits of the whole name with NUL keep it exact.
func (e EID) maskedName(bits int) EID {
	if octets := bits / 8; octets <= int(e.size) {
		return eidFromOctets(EIDName, e.raw[:octets])
	}
	return e
}

// ParsePrefix reads "[instance]eid/bits"; "[instance]" may be left out for 0,
// "/bits" for a host. Host bits that are set are an error: a typing mistake in
// a prefix must not silently widen what it covers.
func ParsePrefix(s string) (Prefix, error) {
	instance, rest, err := cutInstance(s)
	if err != nil {
		return Prefix{}, err
	}
	text, length, hasLength := cutMask(rest)
	e, err := ParseEID(text)
	if err != nil {
		return Prefix{}, fmt.Errorf("EID-Prefix %q: %w", s, err)
	}
	if !hasLength {
		return HostPrefix(instance, e), nil
	}
	bits, err := strconv.Atoi(length)
	if err != nil {
		return Prefix{}, fmt.Errorf("EID-Prefix %q: mask length %q is not a number", s, length)
	}
	p, err := PrefixFrom(instance, e, bits)
	if err != nil {
		return Prefix{}, fmt.Errorf("EID-Prefix %q: %w", s, err)
	}
	if p.eid != e {
		return Prefix{}, fmt.Errorf("EID-Prefix %q has host bits set: did you mean %s?", s, p)
	}
	return p, nil
}

func cutInstance(s string) (InstanceID, string, error) {
	if !strings.HasPrefix(s, "[") {
		return 0, s, nil
	}
	number, rest, ok := strings.Cut(s[1:], "]")
	if !ok {
		return 0, "", fmt.Errorf("EID-Prefix %q: no ] after the Instance-ID", s)
	}
	instance, err := ParseInstanceID(number)
	if err != nil {
		return 0, "", fmt.Errorf("EID-Prefix %q: %w", s, err)
	}
	return instance, rest, nil
}

// cutMask splits at the last slash that is outside the quotes of a name.
func cutMask(s string) (eid, length string, ok bool) {
	at := strings.LastIndexByte(s, '/')
	if at < 0 || at < strings.LastIndexByte(s, '"') {
		return s, "", false
	}
	return s[:at], s[at+1:], true
}

// MustParsePrefix is ParsePrefix for constants in tests; it panics on an error.
func MustParsePrefix(s string) Prefix {
	p, err := ParsePrefix(s)
	if err != nil {
		panic(err)
	}
	return p
}

// Hash is a number that equal prefixes share and others hardly ever, all of whose bits depend on all of the prefix. It is no
// secret: who may choose prefixes can make some that share it.
func (p Prefix) Hash() uint64 {
	const a, b, c = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93, 0xa0761d6478bd642f // odd, about half of their bits set
	octets := &p.eid.raw
	head := uint64(p.instance)<<24 | uint64(p.bits)<<16 | uint64(p.eid.kind)<<8 | uint64(p.eid.size)
	h := fold(binary.LittleEndian.Uint64(octets[:])^a, head^b)
	h = fold(h^c, binary.LittleEndian.Uint64(octets[8:])^b)
	if p.eid.kind == EIDName { // the others are no longer
		h = fold(h^a, binary.LittleEndian.Uint64(octets[16:])^c)
		h = fold(h^b, binary.LittleEndian.Uint64(octets[MaxNameLength-8:])^a)
	}
	return h
}

// fold multiplies and adds both halves of the product up.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// Instance is the prefix's Instance-ID.
func (p Prefix) Instance() InstanceID { return p.instance }

// EID is the prefix's first address, or its name.
func (p Prefix) EID() EID { return p.eid }

// Bits is the mask length.
func (p Prefix) Bits() int { return int(p.bits) }

// Kind says what kind of EIDs the prefix covers.
func (p Prefix) Kind() EIDKind { return p.eid.kind }

// IsZero reports whether p is the zero Prefix.
func (p Prefix) IsZero() bool { return p == Prefix{} }

// IsHost reports whether p covers exactly one EID.
func (p Prefix) IsHost() bool { return int(p.bits) == p.eid.BitLen() }

// Netip returns the IP prefix, or the invalid one when p is not IP.
func (p Prefix) Netip() netip.Prefix {
	if !p.eid.IsIP() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(p.eid.Addr(), int(p.bits))
}

// Contains reports whether p covers e in the same Instance-ID.
func (p Prefix) Contains(instance InstanceID, e EID) bool {
	if p.instance != instance || p.eid.kind != e.kind {
		return false
	}
	return p.Covers(HostPrefix(instance, e))
}

// Covers reports whether every EID of o is one of p: o is p or more specific.
func (p Prefix) Covers(o Prefix) bool {
	if p.instance != o.instance || p.eid.kind != o.eid.kind || p.bits > o.bits {
		return false
	}
	return o.eid.masked(int(p.bits)) == p.eid
}

// Overlaps reports whether one of the two covers the other.
func (p Prefix) Overlaps(o Prefix) bool { return p.Covers(o) || o.Covers(p) }

// Compare orders prefixes by Instance-ID, EID, then the shorter mask first.
func (p Prefix) Compare(o Prefix) int {
	if c := cmp.Compare(p.instance, o.instance); c != 0 {
		return c
	}
	if c := p.eid.Compare(o.eid); c != 0 {
		return c
	}
	return cmp.Compare(p.bits, o.bits)
}

// String is the form that ParsePrefix reads; Instance-ID 0 is left out.
func (p Prefix) String() string {
	if p.eid.IsZero() {
		return "none"
	}
	text := p.eid.String() + "/" + strconv.Itoa(int(p.bits))
	if p.instance == 0 {
		return text
	}
	return "[" + p.instance.String() + "]" + text
}

// MarshalText is String, for JSON and YAML.
func (p Prefix) MarshalText() ([]byte, error) {
	if p.eid.IsZero() {
		return nil, nil
	}
	return []byte(p.String()), nil
}

// AppendText appends what MarshalText gives.
func (p Prefix) AppendText(b []byte) ([]byte, error) {
	if !p.eid.IsIP() {
		text, err := p.MarshalText()
		return append(b, text...), err
	}
	if p.instance != 0 {
		b = append(strconv.AppendUint(append(b, '['), uint64(p.instance), 10), ']')
	}
	b = append(p.eid.Addr().AppendTo(b), '/')
	return strconv.AppendInt(b, int64(p.bits), 10), nil
}

// UnmarshalText is ParsePrefix; empty text is the zero Prefix.
func (p *Prefix) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*p = Prefix{}
		return nil
	}
	*p, err = ParsePrefix(string(text))
	return err
}

// SPDX-License-Identifier: Apache-2.0

package wire

// AFI-encoded addresses: a 16-bit Address Family Identifier, then the address
// (RFC 9301 s.5.1, RFC 8060 s.3, IANA address family numbers). LCAFs are in
// lcaf.go and the lcaf_*.go files. What an address means as EID or RLOC is
// convert.go's.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// AFI is an Address Family Identifier.
type AFI uint16

// The address families LISP messages carry. Deployed systems use both 6 and
// 16389 for MAC addresses.
const (
	AFINone              AFI = 0
	AFIIPv4              AFI = 1
	AFIIPv6              AFI = 2
	AFIMAC               AFI = 6 // "802", as RFC 8060 s.4.10.2 uses it
	AFIDistinguishedName AFI = 17
	AFIASNumber          AFI = 18
	AFILCAF              AFI = 16387
	AFIEUI48             AFI = 16389
)

const afiOctets = 2

// MaxNameOctets bounds a distinguished name on the wire, its NUL included. EIDs
// are shorter still: lisp.MaxNameLength.
const MaxNameOctets = 256

// Address is an AFI-encoded address: NoAddress, IPv4, IPv6, MAC,
// DistinguishedName, ASNumber or one of the LCAF types. Every dynamic type may
// be compared with == without panic; types with lists are pointers, which
// compare by identity: EqualAddress compares what they say.
type Address interface {
	// AFI is the family the address is encoded with.
	AFI() AFI
	// String is the address for people.
	String() string

	appendTo(b []byte) ([]byte, error) // with its AFI
}

// NoAddress is AFI 0: no address at all. A nil Address encodes the same.
type NoAddress struct{}

// IPv4 is AFI 1.
type IPv4 [4]byte

// IPv6 is AFI 2.
type IPv6 [16]byte

// MAC is a 48-bit MAC address.
type MAC struct {
	Octets [6]byte
	EUI48  bool // encoded with AFI 16389 in place of 6
}

// DistinguishedName is AFI 17: US-ASCII, its final NUL left out (RFC 9735 s.3).
type DistinguishedName string

// ASNumber is AFI 18, four octets.
type ASNumber uint32

// AFI is AFINone.
func (NoAddress) AFI() AFI { return AFINone }

// AFI is AFIIPv4.
func (IPv4) AFI() AFI { return AFIIPv4 }

// AFI is AFIIPv6.
func (IPv6) AFI() AFI { return AFIIPv6 }

// AFI is AFIMAC or AFIEUI48.
func (m MAC) AFI() AFI {
	if m.EUI48 {
		return AFIEUI48
	}
	return AFIMAC
}

// AFI is AFIDistinguishedName.
func (DistinguishedName) AFI() AFI { return AFIDistinguishedName }

// AFI is AFIASNumber.
func (ASNumber) AFI() AFI { return AFIASNumber }

// String is "none".
func (NoAddress) String() string { return "none" }

// String is the dotted address.
func (a IPv4) String() string { return netip.AddrFrom4(a).String() }

// String is the address as RFC 5952 writes it.
func (a IPv6) String() string { return netip.AddrFrom16(a).String() }

// String is the address with colons.
func (m MAC) String() string { return net.HardwareAddr(m.Octets[:]).String() }

// String is the name in double quotes.
func (n DistinguishedName) String() string { return strconv.Quote(string(n)) }

// String is "AS" and the number.
func (n ASNumber) String() string { return "AS" + strconv.FormatUint(uint64(n), 10) }

// ParseAddress reads one AFI-encoded address that fills b. The error is a
// *ParseError.
func ParseAddress(b []byte) (Address, error) { return Parser{}.ParseAddress(b) }

// ParseAddress reads one AFI-encoded address that fills b. The error is a
// *ParseError.
func (p Parser) ParseAddress(b []byte) (Address, error) {
	r := newReader("address", b)
	r.knownOUIs = p.KnownOUIs
	a := r.address("address")
	r.expectEnd()
	if r.err != nil {
		return nil, r.err
	}
	return a, nil
}

// AppendAddress appends the encoded address, its AFI first. Nil is AFI 0.
func AppendAddress(b []byte, a Address) ([]byte, error) {
	out, err := appendAddress(b, a)
	if err != nil {
		return b, err
	}
	return out, nil
}

// EqualAddress reports whether both addresses encode to the same octets.
func EqualAddress(a, b Address) bool {
	var bufferA, bufferB [64]byte
	octetsA, errA := appendAddress(bufferA[:0], a)
	octetsB, errB := appendAddress(bufferB[:0], b)
	return errA == nil && errB == nil && bytes.Equal(octetsA, octetsB)
}

// address reads one AFI-encoded address. It is never nil when it succeeds.
func (r *reader) address(field string) Address {
	start := r.at
	head := r.part(afiOctets, field, "AFI")
	if head == nil {
		return nil
	}
	afi := AFI(binary.BigEndian.Uint16(head))
	switch afi {
	case AFINone:
		return NoAddress{}
	case AFIIPv4:
		var a IPv4
		copy(a[:], r.take(len(a), field))
		return a
	case AFIIPv6:
		var a IPv6
		copy(a[:], r.take(len(a), field))
		return a
	case AFIMAC, AFIEUI48:
		m := MAC{EUI48: afi == AFIEUI48}
		copy(m.Octets[:], r.take(len(m.Octets), field))
		return m
	case AFIDistinguishedName:
		return r.name(field)
	case AFIASNumber:
		return ASNumber(r.u32(field))
	case AFILCAF:
		return r.lcaf(field)
	}
	r.failAt(start, field+" AFI", ReasonUnknownAFI, strconv.Itoa(int(afi)))
	return nil
}

// addressFills reports whether an address at an offset would end exactly with the
// window. It looks at lengths alone.
func (r *reader) addressFills(at int) bool {
	if at+afiOctets > r.end {
		return false
	}
	rest := r.data[at+afiOctets : r.end]
	switch AFI(binary.BigEndian.Uint16(r.data[at:])) {
	case AFINone:
		return len(rest) == 0
	case AFIIPv4, AFIASNumber:
		return len(rest) == 4
	case AFIIPv6:
		return len(rest) == 16
	case AFIMAC, AFIEUI48:
		return len(rest) == 6
	case AFIDistinguishedName:
		return len(rest) > 0 && bytes.IndexByte(rest, 0) == len(rest)-1
	case AFILCAF:
		return len(rest) >= lcafHeadOctets && len(rest)-lcafHeadOctets == int(binary.BigEndian.Uint16(rest[4:]))
	}
	return false
}

// eid reads an address that names an EID: an LCAF of a type this package does not know
// makes the whole message useless (RFC 9306 s.3).
func (r *reader) eid(field string) Address {
	start := r.at
	a := r.address(field)
	if a != nil && onlyUnknownLCAF(a) {
		r.failAt(start, field, ReasonUnknownLCAFEID, a.String())
	}
	return a
}

// name reads to the NUL, which is what ends a name whatever encloses it
// (RFC 9735 s.3).
func (r *reader) name(field string) Address {
	window := r.data[r.at:min(r.end, r.at+MaxNameOctets)]
	length := bytes.IndexByte(window, 0)
	if length < 0 {
		r.fail(field, ReasonTruncated, "a name without its NUL")
		return nil
	}
	for i, c := range window[:length] {
		if c > 0x7f {
			r.failAt(r.at+i, field, ReasonBadValue, fmt.Sprintf("octet 0x%02x in a name, want US-ASCII", c))
			return nil
		}
	}
	r.at += length + 1
	return DistinguishedName(window[:length])
}

func appendAddress(b []byte, a Address) ([]byte, error) {
	if a == nil {
		return appendAFI(b, AFINone), nil
	}
	return a.appendTo(b)
}

func appendAFI(b []byte, afi AFI) []byte { return binary.BigEndian.AppendUint16(b, uint16(afi)) }

func (NoAddress) appendTo(b []byte) ([]byte, error) { return appendAFI(b, AFINone), nil }

func (a IPv4) appendTo(b []byte) ([]byte, error) { return append(appendAFI(b, AFIIPv4), a[:]...), nil }

func (a IPv6) appendTo(b []byte) ([]byte, error) { return append(appendAFI(b, AFIIPv6), a[:]...), nil }

func (m MAC) appendTo(b []byte) ([]byte, error) {
	return append(appendAFI(b, m.AFI()), m.Octets[:]...), nil
}

func (n DistinguishedName) appendTo(b []byte) ([]byte, error) {
	if len(n) >= MaxNameOctets {
		return b, fmt.Errorf("name of %d octets: want less than %d", len(n), MaxNameOctets)
	}
	for i := 0; i < len(n); i++ {
		if n[i] == 0 || n[i] > 0x7f {
			return b, fmt.Errorf("name %q: octet %d is 0x%02x, want US-ASCII without NUL", string(n), i, n[i])
		}
	}
	return append(append(appendAFI(b, AFIDistinguishedName), n...), 0), nil
}

func (n ASNumber) appendTo(b []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint32(appendAFI(b, AFIASNumber), uint32(n)), nil
}

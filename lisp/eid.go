// SPDX-License-Identifier: Apache-2.0

package lisp

// EID: what an end system is called, wherever it is (RFC 9300 s.3). IPv4, IPv6,
// MAC addresses (RFC 8060 s.5.5) and distinguished names (RFC 9735).

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// EIDKind says which kind of identifier an EID is.
type EIDKind uint8

// The kinds of EID. EIDNone is the zero EID: no identifier at all (AFI 0).
const (
	EIDNone EIDKind = iota
	EIDIPv4
	EIDIPv6
	EIDMAC
	EIDName
)

var eidKindNames = [...]string{"none", "ipv4", "ipv6", "mac", "name"}

// String names the kind as configuration and JSON do.
func (k EIDKind) String() string {
	if int(k) < len(eidKindNames) {
		return eidKindNames[k]
	}
	return "kind-" + strconv.Itoa(int(k))
}

// MaxNameLength is the longest distinguished name in octets, its NUL left out:
// with the NUL, 31 octets are what an 8-bit mask length in bits can express
// (RFC 9735 s.3).
const MaxNameLength = 30

// EID is an Endpoint Identifier without its Instance-ID. It is comparable,
// holds no pointer, and its zero value is "no EID".
type EID struct {
	kind EIDKind
	size uint8 // octets of raw in use; a name's NUL is not counted
	raw  [MaxNameLength]byte
}

// EIDFromAddr makes an EID of an IP address. IPv4-mapped IPv6 addresses become
// IPv4, zones are dropped, the invalid address gives the zero EID.
func EIDFromAddr(a netip.Addr) EID {
	switch a = a.Unmap(); {
	case a.Is4():
		octets := a.As4()
		return eidFromOctets(EIDIPv4, octets[:])
	case a.Is6():
		octets := a.As16()
		return eidFromOctets(EIDIPv6, octets[:])
	}
	return EID{}
}

// EIDFromMAC makes an EID of a 48-bit MAC address.
func EIDFromMAC(mac [6]byte) EID { return eidFromOctets(EIDMAC, mac[:]) }

// EIDFromName makes an EID of a distinguished name: US-ASCII without NUL, at
// most MaxNameLength octets; the empty name is valid (RFC 9735 s.3).
func EIDFromName(name string) (EID, error) {
	if len(name) > MaxNameLength {
		return EID{}, fmt.Errorf("distinguished name %q has %d octets: at most %d fit a mask length", name, len(name), MaxNameLength)
	}
	for i := 0; i < len(name); i++ {
		if name[i] == 0 || name[i] > 0x7f {
			return EID{}, fmt.Errorf("distinguished name %q: octet %d is 0x%02x, want US-ASCII without NUL", name, i, name[i])
		}
	}
	return eidFromOctets(EIDName, []byte(name)), nil
}

func eidFromOctets(kind EIDKind, octets []byte) EID {
	e := EID{kind: kind, size: uint8(len(octets))}
	copy(e.raw[:], octets)
	return e
}

// ParseEID reads an EID's text form: an IP address, a MAC address with colons,
// or a distinguished name in double quotes.
func ParseEID(s string) (EID, error) {
	if strings.HasPrefix(s, `"`) {
		name, err := strconv.Unquote(s)
		if err != nil {
			return EID{}, fmt.Errorf("distinguished name %s: quotes do not match", s)
		}
		return EIDFromName(name)
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return EIDFromAddr(a), nil
	}
	if hw, err := net.ParseMAC(s); err == nil && len(hw) == 6 {
		return EIDFromMAC([6]byte(hw)), nil
	}
	return EID{}, fmt.Errorf("EID %q: want an IPv4, IPv6 or MAC address, or a name in double quotes", s)
}

// Kind says which kind of identifier e is.
func (e EID) Kind() EIDKind { return e.kind }

// IsZero reports whether e is no EID at all.
func (e EID) IsZero() bool { return e.kind == EIDNone }

// IsIP reports whether e is an IPv4 or IPv6 address.
func (e EID) IsIP() bool { return e.kind == EIDIPv4 || e.kind == EIDIPv6 }

// Addr returns the IP address, or the invalid address when e is not IP.
func (e EID) Addr() netip.Addr {
	if !e.IsIP() {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(e.raw[:e.size])
	return a
}

// MAC returns the MAC address; ok is false when e is none.
func (e EID) MAC() (mac [6]byte, ok bool) {
	if e.kind != EIDMAC {
		return mac, false
	}
	return [6]byte(e.raw[:6]), true
}

// Name returns the distinguished name without its NUL; ok is false when e is none.
func (e EID) Name() (name string, ok bool) {
	if e.kind != EIDName {
		return "", false
	}
	return string(e.raw[:e.size]), true
}

// AppendOctets appends the identifier's octets: 4, 16, 6, or a name without NUL.
func (e EID) AppendOctets(b []byte) []byte { return append(b, e.raw[:e.size]...) }

// BitLen is the length of a host prefix of e in bits: 32, 128, 48, or for names
// eight times the octets with the NUL (RFC 9735 s.3).
func (e EID) BitLen() int {
	switch e.kind {
	case EIDNone:
		return 0
	case EIDName:
		return 8 * (int(e.size) + 1)
	}
	return 8 * int(e.size)
}

// Compare orders EIDs by kind, then by their octets.
func (e EID) Compare(o EID) int {
	if c := cmp.Compare(e.kind, o.kind); c != 0 {
		return c
	}
	return strings.Compare(string(e.raw[:e.size]), string(o.raw[:o.size]))
}

// String is the form that ParseEID reads; the zero EID is "none".
func (e EID) String() string {
	switch e.kind {
	case EIDIPv4, EIDIPv6:
		return e.Addr().String()
	case EIDMAC:
		return net.HardwareAddr(e.raw[:6]).String()
	case EIDName:
		return strconv.Quote(string(e.raw[:e.size]))
	}
	return "none"
}

// MarshalText is String, for JSON and YAML.
func (e EID) MarshalText() ([]byte, error) {
	if e.IsZero() {
		return nil, nil
	}
	return []byte(e.String()), nil
}

// UnmarshalText is ParseEID; empty text is the zero EID.
func (e *EID) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*e = EID{}
		return nil
	}
	*e, err = ParseEID(string(text))
	return err
}

// SPDX-License-Identifier: Apache-2.0

package config

// Values that are one word of the file, with their text forms. They hold no
// state; a Secret never shows itself in text.

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"loci/config/codec"
)

// XTRID is the 128-bit xTR-ID of RFC 9301 s.5.6.
type XTRID [16]byte

// UnmarshalText reads 32 hexadecimal digits; dashes as in a UUID are left out.
func (x *XTRID) UnmarshalText(text []byte) error {
	octets, err := hex.DecodeString(strings.ReplaceAll(string(text), "-", ""))
	if err != nil || len(octets) != len(x) {
		return fmt.Errorf("%q is not an xTR-ID: want 32 hexadecimal digits, a UUID for example", text)
	}
	if *x = XTRID(octets); *x == (XTRID{}) {
		return errors.New("the xTR-ID is zero: want 32 hexadecimal digits, a UUID for example")
	}
	return nil
}

// String is the 32 hexadecimal digits.
func (x XTRID) String() string { return hex.EncodeToString(x[:]) }

// MarshalText is String.
func (x XTRID) MarshalText() ([]byte, error) { return []byte(x.String()), nil }

// Algorithm is an Algorithm ID of the registry that RFC 9301 s.12.5 made; the
// value is the number on the wire.
type Algorithm uint8

// The algorithms that authenticate. 0, None, is refused.
const (
	AlgorithmHMACSHA1       Algorithm = 1 // HMAC-SHA-1-96-None
	AlgorithmHMACSHA256     Algorithm = 2 // HMAC-SHA-256-128-None
	AlgorithmHMACSHA256HKDF Algorithm = 3 // HMAC-SHA256-128+HKDF-SHA256
)

var algorithmNames = [...]string{1: "hmac-sha-1-96", 2: "hmac-sha-256-128", 3: "hmac-sha-256-128+hkdf-sha256"}

// algorithmOther are other names: the identities of ietf-lisp and those of IANA.
var algorithmOther = map[string]Algorithm{
	"hmac-sha-1-96-none": 1, "hmac-sha-256-128-none": 2,
	"hmac-sha-256-128-hkdf-sha2562": 3, "hmac-sha256-128+hkdf-sha256": 3, "hmac-sha-256-128-hkdf-sha256": 3,
}

// String names the algorithm.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) && algorithmNames[a] != "" {
		return algorithmNames[a]
	}
	return "algorithm-" + strconv.Itoa(int(a))
}

// MarshalText is String.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads a name, in either case, or the number.
func (a *Algorithm) UnmarshalText(text []byte) error {
	word := strings.ToLower(string(text))
	switch word {
	case "0", "none", "no-auth-algorithm":
		return fmt.Errorf("%q authenticates nothing: want %s", text, strings.Join(algorithmNames[1:], ", "))
	}
	for number, name := range algorithmNames {
		if name != "" && (word == name || word == strconv.Itoa(number)) {
			*a = Algorithm(number)
			return nil
		}
	}
	if other, ok := algorithmOther[word]; ok {
		*a = other
		return nil
	}
	return fmt.Errorf("%q is not an algorithm: want %s", text, strings.Join(algorithmNames[1:], ", "))
}

// Secret is a key. Every text form of it is SecretMask, so that it cannot reach a
// log, an answer or a difference; Reveal alone gives it.
type Secret struct{ value string }

// SecretMask stands for a secret wherever one is printed. It is refused as a
// secret itself: a printed configuration must not become a known key.
const SecretMask = "(secret)"

// Reveal gives the octets of the key.
func (s Secret) Reveal() []byte { return []byte(s.value) }

// IsZero reports whether there is none.
func (s Secret) IsZero() bool { return s.value == "" }

// String is SecretMask, also in place of %#v and the like.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return SecretMask
}

// GoString is String.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText is String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes the text as it is.
func (s *Secret) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("the key is empty: want at least 8 characters, 32 or more at best")
	}
	if string(text) == SecretMask {
		return errors.New("this is what Loci prints instead of a key: put the key itself here")
	}
	if len(text) > maxSecretOctets {
		return fmt.Errorf("the key has %d octets: want at most %d", len(text), maxSecretOctets)
	}
	s.value = string(text)
	return nil
}

// Frequency is a number of events in a period of time: "20000/s", "1/3s".
type Frequency struct {
	Count  int
	Period time.Duration
}

// PerSecond is the frequency in events a second.
func (f Frequency) PerSecond() float64 { return float64(f.Count) / f.Period.Seconds() }

// String is "count/period".
func (f Frequency) String() string {
	return strconv.Itoa(f.Count) + "/" + strings.TrimPrefix(codec.DurationText(f.Period), "1")
}

// MarshalText is String.
func (f Frequency) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// maxFrequencyCount and maxFrequencyPeriod bound how a rate is written. What it comes
// to is between minPerSecond and maxPerSecond, which a token bucket of nanoseconds can
// count: the bounds of the control plane.
const (
	maxFrequencyCount  = 10_000_000
	maxFrequencyPeriod = time.Hour
	minPerSecond       = 1e-3
	maxPerSecond       = 1e9
)

// UnmarshalText reads "20000/s", "1/3s", "100/m".
func (f *Frequency) UnmarshalText(text []byte) error {
	count, period, _ := strings.Cut(string(text), "/")
	n, err := strconv.Atoi(count)
	if period != "" && strings.Trim(period[:1], "0123456789") != "" {
		period = "1" + period
	}
	d, ok := codec.ParseDuration(period)
	if err != nil || !ok || n < 1 || n > maxFrequencyCount || d < time.Millisecond || d > maxFrequencyPeriod {
		return fmt.Errorf("%q is not a rate: want a number and a period, as in 20000/s or 1/3s", text)
	}
	read := Frequency{Count: n, Period: d}
	if rate := read.PerSecond(); rate < minPerSecond || rate > maxPerSecond {
		return fmt.Errorf("%s is out of range: want 1/1000s to 1000000/ms", text)
	}
	*f = read
	return nil
}

// UnmarshalText reads an interface's name or one of its addresses.
func (r *InterfaceRef) UnmarshalText(text []byte) error {
	if address, err := netip.ParseAddr(string(text)); err == nil {
		r.Address = address.Unmap()
		return codec.CheckHostAddress(r.Address)
	}
	r.Name = string(text)
	return validInterfaceName(r.Name)
}

// String is the name or the address.
func (r InterfaceRef) String() string {
	if r.Address.IsValid() {
		return r.Address.String()
	}
	return r.Name
}

// MarshalText is String.
func (r InterfaceRef) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// maxInterfaceName is IFNAMSIZ of Linux without the final NUL.
const maxInterfaceName = 15

// validInterfaceName says why Linux has no interface of that name.
func validInterfaceName(name string) error {
	switch {
	case name == "":
		return errors.New("the interface has no name: want a name as `ip link` shows it, or an address of the interface")
	case len(name) > maxInterfaceName:
		return fmt.Errorf("%q is not an interface name: it has %d characters, Linux allows %d", name, len(name), maxInterfaceName)
	case name == ".", name == "..", strings.ContainsAny(name, "/: \t"), !codec.IsPrintable(name):
		return fmt.Errorf("%q is not an interface name: want a name as `ip link` shows it, or an address of the interface", name)
	}
	return nil
}

// maxSecretOctets bounds a key; more than the hash's block (64) adds nothing.
const maxSecretOctets = 1024

// ListenAddress is an address of this host, or all of a family, and a TCP port.
type ListenAddress struct{ netip.AddrPort }

// Excludes reports that the kernel lets no two sockets listen at both: one is for all addresses of the family.
func (a ListenAddress) Excludes(b ListenAddress) bool {
	all := a.Addr().IsUnspecified() || b.Addr().IsUnspecified()
	return all && a != b && a.Port() == b.Port() && a.Addr().Is4() == b.Addr().Is4()
}

// UnmarshalText reads one. Port 0 would be another one at each start.
func (a *ListenAddress) UnmarshalText(text []byte) error {
	parsed, err := netip.ParseAddrPort(string(text))
	if err != nil || parsed.Port() == 0 {
		return fmt.Errorf("%q is not an address with a port: want ADDRESS:PORT, such as 127.0.0.1:9343 or [::1]:9343", text)
	}
	ip := parsed.Addr().Unmap()
	if ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.Zone() != "" || ip == broadcast {
		return fmt.Errorf("%s is not an address to listen at: want an address of this host; 0.0.0.0 and [::] are all", ip)
	}
	a.AddrPort = netip.AddrPortFrom(ip, parsed.Port())
	return nil
}

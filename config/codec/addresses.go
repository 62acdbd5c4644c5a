// SPDX-License-Identifier: Apache-2.0

package codec

// Addresses and prefixes as words of the file. A word that is nearly right is told what
// is wrong with it: its port, its mask length, its brackets.

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"loci/lisp"
)

const addressHint = "want an IPv4 or IPv6 address (names are not looked up)"

func setAddr(text string, a *netip.Addr) (message, hint string) {
	parsed, err := netip.ParseAddr(text)
	if err != nil {
		return notAddress(text, false)
	}
	*a = parsed.Unmap()
	return "", ""
}

// setAddrPort reads the address of another system, with a port where it does not
// use the usual one.
func setAddrPort(text string, a *netip.AddrPort) (message, hint string) {
	if parsed, err := netip.ParseAddr(text); err == nil {
		*a = netip.AddrPortFrom(parsed.Unmap(), 0)
		return SplitError(CheckHostAddress(a.Addr()))
	}
	parsed, err := netip.ParseAddrPort(text)
	if err != nil || parsed.Port() == 0 {
		return notAddress(text, true)
	}
	*a = netip.AddrPortFrom(parsed.Addr().Unmap(), parsed.Port())
	return SplitError(CheckHostAddress(a.Addr()))
}

// notAddress says what a word that is not an address lacks, or has too much.
func notAddress(text string, withPort bool) (message, hint string) {
	message, hint = fmt.Sprintf("%q is not an address", text), addressHint
	if withPort {
		hint += ", with a port like [2001:db8::1]:4342"
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return message, fmt.Sprintf("write %s, without a mask length", prefix.Addr())
	}
	if inside, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inside, "]") {
		if a, err := netip.ParseAddr(strings.TrimSuffix(inside, "]")); err == nil {
			return message, fmt.Sprintf("write %s, without brackets", a)
		}
	}
	a, port, bare, ok := cutPort(text)
	switch {
	case !ok:
		return message, hint
	case !withPort:
		return message, fmt.Sprintf("write %s, without a port", a)
	case !isPort(port):
		return message, "port must be 1 to 65535"
	case bare:
		return message, fmt.Sprintf("write [%s]:%s: the port of an IPv6 address stands behind brackets", a, port)
	}
	return message, hint
}

// cutPort splits an address and what stands behind its last colon, in range or not. bare
// says that it is an IPv6 address without brackets.
func cutPort(text string) (a netip.Addr, port string, bare, ok bool) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return a, "", false, false
	}
	host, port := text[:at], text[at+1:]
	inside, bracketed := strings.CutPrefix(host, "[")
	inside = strings.TrimSuffix(inside, "]")
	a, err := netip.ParseAddr(inside)
	bare = !bracketed && err == nil && a.Is6()
	if err != nil || bare && strings.Trim(port, "0123456789") != "" {
		return a, "", false, false
	}
	return a, port, bare, true
}

func isPort(text string) bool {
	number, err := strconv.ParseUint(text, 10, 16)
	return err == nil && number > 0
}

func setPrefix(text string, p *lisp.Prefix) (message, hint string) {
	if strings.HasPrefix(text, "[") {
		return fmt.Sprintf("%q begins with an Instance-ID", text), "give it by the key instance-id"
	}
	parsed, err := lisp.ParsePrefix(text)
	if err == nil {
		*p = parsed
		return "", ""
	}
	if at := strings.Index(err.Error(), " has host bits set: "); at >= 0 {
		return err.Error()[:at] + " has host bits set", err.Error()[at+len(" has host bits set: "):]
	}
	hint = "want an address and a mask length, as in 10.1.0.0/16 or 2001:db8:1::/48"
	if at := strings.LastIndexByte(text, '/'); at >= 0 {
		if e, err := lisp.ParseEID(text[:at]); err == nil {
			hint = maskHint(lisp.HostPrefix(0, e).Bits())
		}
	}
	return fmt.Sprintf("%q is not an EID-prefix", text), hint
}

// maskHint says which mask lengths an address has.
func maskHint(bits int) string { return fmt.Sprintf("mask length must be 0 to %d", bits) }

// setNetwork reads a prefix of RLOCs; an address alone is a prefix of one.
func setNetwork(text string, p *netip.Prefix) (message, hint string) {
	parsed, err := netip.ParsePrefix(text)
	if a, single := netip.ParseAddr(text); single == nil && a.Zone() == "" {
		a = a.Unmap()
		parsed, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	switch {
	case err != nil || parsed.Addr().Is4In6():
		return fmt.Sprintf("%q is not a prefix", text), networkHint(text)
	case parsed != parsed.Masked():
		return fmt.Sprintf("%s has host bits set", text), fmt.Sprintf("did you mean %s?", parsed.Masked())
	}
	*p = parsed
	return "", ""
}

func networkHint(text string) string {
	if host, _, ok := strings.Cut(text, "/"); ok {
		if a, err := netip.ParseAddr(host); err == nil && !a.Is4In6() && a.Zone() == "" {
			return maskHint(a.BitLen())
		}
	}
	return "want an address and a mask length, as in 192.0.2.0/24 or 2001:db8::/32"
}

// PlacedAddress is an address with the path it stands at.
type PlacedAddress struct {
	netip.Addr
	Path string
}

// CheckHostAddress says why no other host can be reached at an address.
func CheckHostAddress(a netip.Addr) error {
	switch {
	case a.Zone() != "":
		return fmt.Errorf("%s has a zone: want a global IPv4 or IPv6 address", a)
	case a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast(), a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 240):
		return fmt.Errorf("%s names no single host: want a global IPv4 or IPv6 address", a)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package config

// The words of the file read by type: addresses, prefixes, durations, numbers.
// Each gives "" when the word is right, else what is wrong and a hint.

import (
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"loci/lisp"
)

const addressHint = "want an IPv4 or IPv6 address (names are not looked up)"

func setAddr(text string, a *netip.Addr) (message, hint string) {
	parsed, err := netip.ParseAddr(text)
	if err != nil {
		return fmt.Sprintf("%q is no address", text), addressHint
	}
	*a = parsed.Unmap()
	return "", ""
}

// setAddrPort reads the address of another system, with a port where it does not
// use the usual one.
func setAddrPort(text string, a *netip.AddrPort) (message, hint string) {
	if parsed, err := netip.ParseAddr(text); err == nil {
		*a = netip.AddrPortFrom(parsed.Unmap(), 0)
		return splitError(validHostAddress(a.Addr()))
	}
	parsed, err := netip.ParseAddrPort(text)
	if err != nil || parsed.Port() == 0 {
		return fmt.Sprintf("%q is no address", text), addressHint + ", with a port like [2001:db8::1]:4342"
	}
	*a = netip.AddrPortFrom(parsed.Addr().Unmap(), parsed.Port())
	return splitError(validHostAddress(a.Addr()))
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
	return fmt.Sprintf("%q is no EID-Prefix", text), "want an address and a mask length, as in 10.1.0.0/16 or 2001:db8:1::/48"
}

// setNetwork reads a prefix of RLOCs; an address alone is a prefix of one.
func setNetwork(text string, p *netip.Prefix) (message, hint string) {
	parsed, err := netip.ParsePrefix(text)
	if a, single := netip.ParseAddr(text); single == nil && a.Zone() == "" {
		a = a.Unmap()
		parsed, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	switch {
	case err != nil || parsed.Addr().Is4In6():
		return fmt.Sprintf("%q is no prefix of RLOCs", text), "want an address and a mask length, as in 192.0.2.0/24 or 2001:db8::/32"
	case parsed != parsed.Masked():
		return fmt.Sprintf("%s has host bits set", text), fmt.Sprintf("did you mean %s?", parsed.Masked())
	}
	*p = parsed
	return "", ""
}

func setBool(n *node, v reflect.Value) (message, hint string) {
	if n.quoted || n.text != "true" && n.text != "false" {
		return fmt.Sprintf("%s is neither true nor false", shown(n)), "write true or false, without quotes"
	}
	v.SetBool(n.text == "true")
	return "", ""
}

// shown is a word as it stands in the file.
func shown(n *node) string {
	if n.quoted {
		return strconv.Quote(n.text) + " in quotes"
	}
	return strconv.Quote(n.text)
}

func setString(text string, v reflect.Value, rules reflect.StructTag) (message, hint string) {
	if words := rules.Get("oneof"); words != "" {
		list := strings.Split(words, ",")
		for _, word := range list {
			if text == word {
				v.SetString(text)
				return "", ""
			}
		}
		return notOneOf(text, list)
	}
	if text == "" {
		return "the value is empty", "remove the key for the default"
	}
	if len(text) > maxStringOctets || !isPrintable(text) {
		return "the value is too long or not printable", fmt.Sprintf("want at most %d printable characters", maxStringOctets)
	}
	v.SetString(text)
	return "", ""
}

func notOneOf(text string, list []string) (message, hint string) {
	if near := nearest(text, list); near != "" {
		return fmt.Sprintf("%q is not known", text), fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("%q is not known", text), "want one of " + strings.Join(list, ", ")
}

// maxStringOctets bounds names and paths (PATH_MAX of Linux is 4096).
const maxStringOctets = 1024

func setNumber(n *node, v reflect.Value, rules reflect.StructTag) (message, hint string) {
	low, high := numberRange(v, rules)
	hint = fmt.Sprintf("want %d to %d", low, high)
	if unit := rules.Get("unit"); unit != "" {
		hint += " " + unit
	}
	_, signed := strings.CutPrefix(n.text, "-")
	number, err := strconv.ParseUint(n.text, 10, 64)
	switch {
	case n.quoted:
		return shown(n) + " is no whole number", hint + ", without quotes"
	case signed:
		return n.text + " is out of range", hint
	case err != nil || strconv.FormatUint(number, 10) != n.text:
		return shown(n) + " is no whole number", hint
	case number < low || number > high:
		return n.text + " is out of range", hint
	case v.CanUint():
		v.SetUint(number)
	default:
		v.SetInt(int64(number))
	}
	return "", ""
}

// numberRange is what the tag says, or what the type holds.
func numberRange(v reflect.Value, rules reflect.StructTag) (low, high uint64) {
	from, to, ok := strings.Cut(rules.Get("range"), "..")
	low, _ = strconv.ParseUint(from, 10, 64)
	if high, _ = strconv.ParseUint(to, 10, 64); ok {
		return low, high
	}
	if v.CanUint() {
		return 0, math.MaxUint64 >> (64 - v.Type().Bits())
	}
	return 0, math.MaxInt64
}

// setDuration reads a number with a unit, or a bare one in the key's own unit:
// that is how the YANG modules have it.
func setDuration(n *node, v reflect.Value, rules reflect.StructTag) (message, hint string) {
	from, to, _ := strings.Cut(rules.Get("range"), "..")
	low, _ := parseDuration(from)
	high, _ := parseDuration(to)
	hint = fmt.Sprintf("want %s to %s, as a number of %s or with a unit (ms, s, m, h)", from, to, rules.Get("unit"))
	text := n.text
	if strings.Trim(text, "0123456789") == "" {
		text += "s"
	}
	d, ok := parseDuration(text)
	switch {
	case !ok:
		return fmt.Sprintf("%q is no duration", n.text), hint
	case d < low || d > high:
		return n.text + " is out of range", hint
	}
	v.Set(reflect.ValueOf(time.Duration(d)))
	return "", ""
}

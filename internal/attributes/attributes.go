// SPDX-License-Identifier: Apache-2.0

// Package attributes tests what encodes locators: every attribute of a locator is carried, or the codec's test says
// why not. The attributes are the fields of lisp.Locator, their values the ranges in the fields' tags. It is only for
// tests and knows no codec.
package attributes

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"loci/lisp"
)

// Port is the UDP port of an RLOC, for which most formats have no room.
const Port = "Port"

// Attribute is one thing that a locator has.
type Attribute struct {
	Name        string         // of the field of lisp.Locator, or Port
	Type        reflect.Type   // of the field
	Least, Most int            // of a number; of the octets, hops or bits of others
	Locators    []lisp.Locator // that have it at both ends of its range, and nothing else of note
}

// Word is the attribute's name in C, Python and JSON, with underscores.
func (a *Attribute) Word() string {
	var b strings.Builder
	for i, r := range a.Name {
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower(rune(a.Name[i-1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Octets is the size of an attribute that is a number, 0 of others.
func (a *Attribute) Octets() int {
	switch a.Type.Kind() {
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return int(a.Type.Size())
	}
	return 0
}

// List returns all attributes, in the order of lisp.Locator.
func List(t *testing.T) []Attribute {
	t.Helper()
	var list []Attribute
	for field := range fields() {
		a := Attribute{Name: field.Name, Type: field.Type, Most: 1}
		if kind := field.Type.Kind(); kind != reflect.Bool && kind != reflect.Struct {
			tag := field.Tag.Get("range")
			if _, err := fmt.Sscanf(tag, "%d..%d", &a.Least, &a.Most); err != nil || a.Least >= a.Most {
				t.Fatalf("lisp.Locator.%s has the range %q: want LEAST..MOST", field.Name, tag)
			}
		}
		a.Locators = locatorsWith(t, &a)
		list = append(list, a)
	}
	plain, path := plainLocator(), pathOf(t, 2)
	plain.RLOC = plain.RLOC.WithPort(65535)
	path.Behind = hopsOf(t, path.RLOC, path.Path().Hop(1).WithPort(40001))
	return append(list, Attribute{
		Name: Port, Type: reflect.TypeFor[uint16](), Most: 65535,
		Locators: []lisp.Locator{plain, path},
	})
}

func fields() func(yield func(reflect.StructField) bool) {
	return slices.Values(reflect.VisibleFields(reflect.TypeFor[lisp.Locator]()))
}

// plainLocator is reachable, because some formats leave out what is not.
func plainLocator() lisp.Locator {
	return lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")), Reachable: true}
}

// pathOf is a locator of so many hops, of both families.
func pathOf(t *testing.T, hops int) lisp.Locator {
	t.Helper()
	l := plainLocator()
	rlocs := []lisp.RLOC{l.RLOC}
	l.Bits[0] = lisp.HopExplicit
	for i := 1; i < hops; i++ {
		a := netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)})
		if i%2 == 1 {
			a = netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0xd, 3: 0xb8, 15: byte(i)})
		}
		rlocs = append(rlocs, lisp.RLOCFromAddr(a))
		l.Bits[i] = lisp.HopExplicit
	}
	l.Behind = hopsOf(t, rlocs...)
	return l
}

func hopsOf(t *testing.T, hops ...lisp.RLOC) lisp.Hops {
	t.Helper()
	path, err := lisp.NewPath(hops...)
	if err != nil {
		t.Fatal(err)
	}
	return path.Behind
}

// locatorsWith are locators with an attribute by itself, at both ends of its range.
func locatorsWith(t *testing.T, a *Attribute) []lisp.Locator {
	t.Helper()
	switch a.Name {
	case "RLOC":
		l := plainLocator()
		l.RLOC = lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8::1"))
		return []lisp.Locator{plainLocator(), l}
	case "Behind":
		return []lisp.Locator{plainLocator(), pathOf(t, 2), pathOf(t, 1+a.Most)}
	case "Bits":
		return locatorsWithBits(t, lisp.HopBits(a.Most))
	case "Next": // it counts the hops of a path
		l := pathOf(t, 1+a.Most)
		l.Next = uint8(a.Most)
		return []lisp.Locator{pathOf(t, 1+a.Most), l}
	case "Address": // in place of the RLOC
		short := lisp.Locator{Reachable: true, Address: lcaf(6)}
		long := lisp.Locator{Reachable: true, Address: lcaf(a.Most)}
		return []lisp.Locator{plainLocator(), short, long}
	}
	l := plainLocator()
	least, most := l, l
	setNumberOrBit(t, &least, a, a.Least)
	setNumberOrBit(t, &most, a, a.Most)
	return []lisp.Locator{least, most}
}

func setNumberOrBit(t *testing.T, l *lisp.Locator, a *Attribute, value int) {
	t.Helper()
	field := reflect.ValueOf(l).Elem().FieldByName(a.Name)
	switch {
	case a.Type.Kind() == reflect.Bool:
		field.SetBool(value > 0)
	case a.Octets() > 0:
		field.SetUint(uint64(value))
	default:
		t.Fatalf("lisp.Locator.%s is of a type that package attributes has no values for", a.Name)
	}
}

// locatorsWithBits are locators with each bit of a hop by itself, beside that of all hops of a path, and all bits of
// all hops.
func locatorsWithBits(t *testing.T, all lisp.HopBits) []lisp.Locator {
	t.Helper()
	list := []lisp.Locator{plainLocator()}
	for bit := lisp.HopBits(1); bit <= all; bit <<= 1 {
		l := pathOf(t, 2)
		l.Bits[1] |= bit
		list = append(list, l)
	}
	explicit, full := plainLocator(), pathOf(t, lisp.MaxHops)
	explicit.Bits[0] = lisp.HopExplicit
	for i := range full.Bits {
		full.Bits[i] = all
	}
	full.Bits[0] &^= lisp.HopLookup // a path of EIDs leads nowhere
	return append(list, explicit, full)
}

// lcaf is an address of so many octets, of a type that no document assigns (RFC 8060 s.3).
func lcaf(octets int) string {
	const head = 8
	b := make([]byte, max(octets, head))
	copy(b, []byte{0x40, 0x03, 0, 0, 200, 0, byte((len(b) - head) >> 8), byte(len(b) - head)})
	return string(b)
}

// value is what a locator has of an attribute.
func value(l lisp.Locator, name string) any {
	switch name {
	case "RLOC":
		return l.RLOC.WithPort(0)
	case Port:
		return l.RLOC.Port()
	}
	return reflect.ValueOf(l).FieldByName(name).Interface()
}

// Carry encodes a locator and returns what is decoded of it, false when there is nothing.
type Carry = func(lisp.Locator) (lisp.Locator, bool)

// Check demands of a codec that it carries every attribute, or that without says why not. An attribute that without
// lists must be one that does not come back.
func Check(t *testing.T, without map[string]string, carry Carry) {
	t.Helper()
	for _, problem := range problems(List(t), without, carry) {
		t.Error(problem)
	}
}

func problems(list []Attribute, without map[string]string, carry Carry) (found []string) {
	problem := func(format string, arguments ...any) { found = append(found, fmt.Sprintf(format, arguments...)) }
	for name, reason := range without {
		if !slices.ContainsFunc(list, func(a Attribute) bool { return a.Name == name }) || reason == "" {
			problem("%q is listed as not carried (%q): want an attribute and a reason", name, reason)
		}
	}
	for i := range list {
		a := &list[i]
		_, left := without[a.Name]
		lost := false
		for _, l := range a.Locators {
			got, ok := carry(l)
			lost = lost || !ok || value(got, a.Name) != value(l, a.Name)
			if other := difference(got, l, list, without); !left && (!ok || other != "") {
				problem("%s of %+v: comes back as %+v (%v), with other%s", a.Name, l, got, ok, other)
			}
		}
		if left && !lost {
			problem("%s is listed as not carried, but comes back", a.Name)
		}
	}
	return found
}

// difference names the attributes that a codec carries and that are not the same.
func difference(got, want lisp.Locator, list []Attribute, without map[string]string) (names string) {
	for i := range list {
		name := list[i].Name
		if _, left := without[name]; !left && value(got, name) != value(want, name) {
			names += " " + name
		}
	}
	return names
}

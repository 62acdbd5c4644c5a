// SPDX-License-Identifier: Apache-2.0

package mapsock

// Octets → message: the attributes, by one table. An attribute that is not in the
// table is passed over, or refuses its message when it is mandatory.

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
)

// attributeForm says how an attribute is read.
type attributeForm struct {
	name     string
	min, max int // octets of the value
	repeated bool
	parse    func(*Message, []byte) error // the length is right
}

// exactly is the form of an attribute that stands once, with one length.
func exactly(name string, octets int, parse func(*Message, []byte) error) attributeForm {
	return attributeForm{name: name, min: octets, max: octets, parse: parse}
}

// number is the form of a u32.
func number(name string, parse func(*Message, uint32) error) attributeForm {
	return exactly(name, 4, func(m *Message, v []byte) error { return parse(m, order.Uint32(v)) })
}

func count(name string, of func(*Message) *uint64) attributeForm {
	return exactly(name, 8, func(m *Message, v []byte) error { *of(m) = order.Uint64(v); return nil })
}

func moment(name string, of func(*Message) *time.Time) attributeForm {
	return exactly(name, timeSize, func(m *Message, v []byte) (err error) { *of(m), err = parseTime(v); return err })
}

func counter(name string, a Attribute) attributeForm {
	return attributeForm{name, 8, 8 + MaxNameOctets, true, func(m *Message, v []byte) error {
		m.Counts = append(m.Counts, Count{Attribute: a, Value: order.Uint64(v), Name: string(v[8:])})
		return nil
	}}
}

var attributeForms = [AttributeSibling + 1]attributeForm{
	AttributeInstance: number("Instance-ID", func(m *Message, v uint32) error { m.Instance = lisp.InstanceID(v); return nil }),
	AttributeEID:      {"EID", 2, 2 + lisp.MaxNameLength, false, parseEIDPrefix},
	AttributeSource:   {"source", 2, 2 + lisp.MaxNameLength, false, parseSource},
	AttributeAction: number("action", func(m *Message, v uint32) error {
		m.Action = lisp.Action(v)
		return atMost(v, 7)
	}),
	AttributeTTL:      number("TTL", func(m *Message, v uint32) error { m.TTLMinutes = v; return nil }),
	AttributeCreated:  moment("created", func(m *Message) *time.Time { return &m.Created }),
	AttributeExpires:  moment("expires", func(m *Message) *time.Time { return &m.Expires }),
	AttributeLastUsed: moment("last used", func(m *Message) *time.Time { return &m.Usage.LastUsedAt }),
	AttributePackets:  count("packets", func(m *Message) *uint64 { return &m.Usage.Packets }),
	AttributeOctets:   count("octets", func(m *Message) *uint64 { return &m.Usage.Octets }),
	AttributeInterface: {"interface", 0, MaxNameOctets, false, func(m *Message, v []byte) error {
		m.Interface = string(v)
		return nil
	}},
	AttributeLocatorState: number("locator state", func(m *Message, v uint32) error {
		m.LocatorState = dataplane.LocatorState(v)
		return atMost(v, 255)
	}),
	AttributeStatusBits: number("status bits", func(m *Message, v uint32) error { m.StatusBits = v; return nil }),
	AttributeReceivedVersion: number("received version", func(m *Message, v uint32) error {
		m.ReceivedVersion = uint16(v)
		return atMost(v, 0xFFF)
	}),
	AttributeMTU: number("MTU", func(m *Message, v uint32) error { m.MTU = v; return nil }),
	AttributeError: {"error", 4, errorSize, false, func(m *Message, v []byte) error {
		m.ErrorOffset, m.ErrorText = order.Uint32(v), string(v[4:])
		return nil
	}},
	AttributeLost:  count("lost", func(m *Message) *uint64 { return &m.Lost }),
	AttributeCount: count("count", func(m *Message) *uint64 { return &m.Count }),
	AttributeListen: number("listen", func(m *Message, v uint32) error {
		m.Hearing = Hearing(v)
		return atMost(v&^uint32(knownHearing), 0)
	}),
	AttributeMissForm: number("miss form", func(m *Message, v uint32) error {
		m.MissForm = Type(v)
		if v < uint32(TypeMissEID) || v > uint32(TypeMissPacket) {
			return fmt.Errorf("%d, want %d, %d or %d", v, TypeMissEID, TypeMissHeader, TypeMissPacket)
		}
		return nil
	}),
	AttributePacket:     {"packet", 0, MaxMessage, false, func(m *Message, v []byte) error { m.Packet = v; return nil }},
	AttributeWatched:    {"interface", 9, 8 + MaxNameOctets, true, parseWatched},
	AttributeLocalRLOC:  {"local RLOC", 4, 16, true, parseLocalRLOC},
	AttributeMissPolicy: number("miss policy", parseMissPolicy),
	AttributeWaitBounds: exactly("wait bounds", 32, parseWaitBounds),
	AttributeCounter:    counter("counter", AttributeCounter),
	AttributeDrop:       counter("drop", AttributeDrop),
	AttributeOther:      counter("other", AttributeOther),
	AttributeNonce:      number("nonce", func(m *Message, v uint32) error { m.Nonce = v; return nil }),
	AttributeOtherVersion: number("other version", func(m *Message, v uint32) error {
		m.OtherVersion = uint16(v)
		return atMost(v, 0xFFF)
	}),
	AttributeStatusBitCount: number("status bit count", func(m *Message, v uint32) error {
		m.StatusBitCount = v
		return atMost(v, 32)
	}),
	AttributeICMP: number("ICMP", func(m *Message, v uint32) error {
		m.ICMPType, m.ICMPCode = uint8(v>>8), uint8(v)
		return atMost(v, 0xFFFF)
	}),
	AttributeMissPolicyOf:  {"miss policy of an Instance-ID", 8, 8, true, parseMissPolicyOf},
	AttributeHeader:        exactly("header settings", headerSettingsSize, parseHeaderSettings),
	AttributeEncapsulation: {"encapsulation", encapsulationSize, encapsulationSize + 16, true, parseEncapsulation},
	AttributeList:          {"list", listSize, MaxMessage, true, parseList},
	AttributePath:          {"path", pathSize + 4, pathSize + 16, true, parsePathState},
	AttributeHops:          {"hops", hopsSize + hopSize + 4, MaxMessage, true, parseHops},
	AttributeRole:          {"role", listSize, MaxMessage, true, parseRole},
	AttributeRecursionDepth: number("recursion depth", func(m *Message, v uint32) error {
		m.RecursionDepth = uint8(v)
		return atMost(v, 255)
	}),
	AttributeSibling: {"sibling", 4, 16, false, parseSibling},
}

// formOf returns the form of an attribute, nil when it is not known.
func formOf(a Attribute) *attributeForm {
	if int(a) >= len(attributeForms) || attributeForms[a].parse == nil {
		return nil
	}
	return &attributeForms[a]
}

func parseAttributes(m *Message, b []byte, at int) *FormatError {
	for at < len(b) {
		if len(b) < at+attributeHeaderSize {
			return malformed("attribute", at, "%d octets of a header", len(b)-at)
		}
		a, octets := Attribute(order.Uint16(b[at:])), int(order.Uint16(b[at+2:]))
		begin := at + attributeHeaderSize
		end := begin + padded(octets)
		if end > len(b) {
			return malformed("attribute", at+2, "%d octets of attribute %d, but %d are left", octets, a&^mandatory, len(b)-begin)
		}
		if problem := parseAttribute(m, a, b[begin:begin+octets]); problem != nil {
			problem.Offset = at
			return problem
		}
		at = end
	}
	if m.HasEID {
		m.Prefix, _ = lisp.PrefixFrom(m.Instance, m.Prefix.EID(), m.Prefix.Bits()) // they come from a prefix
	}
	return nil
}

func parseAttribute(m *Message, a Attribute, value []byte) *FormatError {
	form := formOf(a &^ mandatory)
	if form == nil && a&mandatory == 0 {
		return nil
	}
	if form == nil {
		problem := malformed("attribute", 0, "%d is not known and mandatory", a&^mandatory)
		problem.Errno = unix.ENOPROTOOPT
		return problem
	}
	if len(value) < form.min || len(value) > form.max {
		return malformed(form.name, 0, "%d octets, want %d to %d", len(value), form.min, form.max)
	}
	if m.Has(a&^mandatory) && !form.repeated {
		return malformed(form.name, 0, "stands twice")
	}
	if err := form.parse(m, value); err != nil {
		return malformed(form.name, 0, "%s", err)
	}
	m.Mark(a &^ mandatory)
	return nil
}

func parseTime(v []byte) (time.Time, error) {
	seconds, nanoseconds := order.Uint64(v), order.Uint32(v[8:])
	if seconds > maxTimeSeconds || nanoseconds >= 1e9 {
		return time.Time{}, fmt.Errorf("%d s and %d ns are not a time", seconds, nanoseconds)
	}
	if seconds == 0 && nanoseconds == 0 {
		return time.Time{}, nil
	}
	return time.Unix(int64(seconds), int64(nanoseconds)), nil
}

// parseIdentifier reads kind, bits and octets of an EID.
func parseIdentifier(v []byte) (e lisp.EID, bits int, err error) {
	kind, bits, octets := lisp.EIDKind(v[0]), int(v[1]), v[2:]
	switch {
	case kind == lisp.EIDNone && len(octets) == 0:
	case kind == lisp.EIDIPv4 && len(octets) == 4, kind == lisp.EIDIPv6 && len(octets) == 16:
		a, _ := netip.AddrFromSlice(octets)
		if a.Is4In6() {
			return e, 0, fmt.Errorf("%s: IPv4 has a kind of its own", a)
		}
		e = lisp.EIDFromAddr(a)
	case kind == lisp.EIDMAC && len(octets) == 6:
		e = lisp.EIDFromMAC([6]byte(octets))
	case kind == lisp.EIDName:
		e, err = lisp.EIDFromName(string(octets))
	default:
		err = fmt.Errorf("%d octets for an EID of kind %d", len(octets), v[0])
	}
	return e, bits, err
}

func parseEIDPrefix(m *Message, v []byte) error {
	e, bits, err := parseIdentifier(v)
	if err != nil {
		return err
	}
	if m.HasEID || e.IsIP() {
		return fmt.Errorf("%s: IP addresses stand behind the header", e)
	}
	p, err := lisp.PrefixFrom(0, e, bits)
	if err != nil {
		return err
	}
	if p.EID() != e {
		return fmt.Errorf("%s has more than %d bits", e, bits)
	}
	m.HasEID, m.HasMask, m.Prefix = true, true, p
	return nil
}

func parseSource(m *Message, v []byte) error {
	e, bits, err := parseIdentifier(v)
	if err == nil && bits != e.BitLen() {
		err = fmt.Errorf("%d bits of %s are not a host", bits, e)
	}
	m.Source = e
	return err
}

func parseWatched(m *Message, v []byte) error {
	first := order.Uint32(v)
	forwarding, hook, side := first>>watchedForwardingShift&watchedForwardingMask, uint32(uint8(first>>watchedHookShift)), uint32(uint8(first))
	m.Watched = append(m.Watched, dataplane.Interface{
		Side: dataplane.Side(side), Hook: dataplane.Hook(hook), Forwarding: dataplane.Forwarding(forwarding), VLAN: uint16(first >> watchedVLANShift),
		Instance: lisp.InstanceID(order.Uint32(v[4:])), Name: string(v[8:]),
	})
	return errors.Join(atMost(side, uint32(dataplane.SideCore)), atMost(hook, uint32(dataplane.HookXDP)),
		atMost(forwarding, uint32(dataplane.ForwardingStack)))
}

func parseLocalRLOC(m *Message, v []byte) error {
	r := rlocFrom(v)
	if r.IsZero() {
		return fmt.Errorf("%d octets %x are not an address", len(v), v)
	}
	m.LocalRLOCs = append(m.LocalRLOCs, r)
	return nil
}

func parseSibling(m *Message, v []byte) error {
	r := rlocFrom(v)
	if r.IsZero() {
		return fmt.Errorf("%d octets %x are not an address", len(v), v)
	}
	m.Sibling = r.Addr()
	return nil
}

// appendSibling is not mandatory: an older data plane takes the first sibling of its configuration.
func appendSibling(b []byte, a netip.Addr) []byte {
	octets := a.AsSlice()
	return append(appendAttribute(b, AttributeSibling, len(octets)), octets...)
}

// rlocFrom is zero for what is no address.
func rlocFrom(octets []byte) lisp.RLOC {
	a, ok := netip.AddrFromSlice(octets)
	if !ok || a.Is4In6() {
		return lisp.RLOC{}
	}
	return lisp.RLOCFromAddr(a)
}

func parseMissPolicy(m *Message, v uint32) error {
	m.MissPolicy = dataplane.MissPolicy(v)
	return atMost(v, 255)
}

func parseMissPolicyOf(m *Message, v []byte) error {
	instance, policy := lisp.InstanceID(order.Uint32(v)), order.Uint32(v[4:])
	if _, twice := m.MissPolicies[instance]; twice {
		return fmt.Errorf("Instance-ID %d stands twice", instance)
	}
	if m.MissPolicies == nil {
		m.MissPolicies = map[lisp.InstanceID]dataplane.MissPolicy{}
	}
	m.MissPolicies[instance] = dataplane.MissPolicy(policy)
	return atMost(policy, 255)
}

func parseWaitBounds(m *Message, v []byte) error {
	for at := 0; at < len(v); at += 8 {
		if bound := order.Uint64(v[at:]); bound > 1<<62 {
			return fmt.Errorf("bound %d is too large", bound)
		}
	}
	m.Wait = dataplane.WaitBounds{
		PacketsPerDestination: int(order.Uint64(v)),
		PacketsTotal:          int(order.Uint64(v[8:])),
		OctetsTotal:           int(order.Uint64(v[16:])),
		Time:                  time.Duration(order.Uint64(v[24:])),
	}
	return nil
}

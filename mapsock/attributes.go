// SPDX-License-Identifier: Apache-2.0

package mapsock

// The attributes, message → octets → message, by one table. An attribute that is not in
// the table is passed over, or refuses its message when it is mandatory.

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
)

// attributeForm says how an attribute is written and read.
type attributeForm struct {
	name      string
	min, max  int // octets of the value
	append    writer
	parse     reader
	repeated  bool      // it stands as often as there are values
	mandatory Attribute // the bit, where who does not know the number must refuse the message
}

type (
	writer func([]byte, Attribute, *Message) []byte
	reader func(*Message, []byte) error // the length of the octets is right
)

// value is the form of an attribute that stands once.
func value(name string, least, most int, write writer, read reader) attributeForm {
	return attributeForm{name: name, min: least, max: most, append: write, parse: read}
}

// must makes a form mandatory, several repeated.
func must(form attributeForm) attributeForm    { form.mandatory = mandatory; return form }
func several(form attributeForm) attributeForm { form.repeated = true; return form }

// number is the form of a u32 that is at most so large.
func number[T ~uint8 | ~uint16 | ~uint32](name string, most uint32, of func(*Message) *T) attributeForm {
	write := func(b []byte, a Attribute, m *Message) []byte { return append32(b, a, uint32(*of(m))) }
	return value(name, 4, 4, write, func(m *Message, v []byte) error {
		n := order.Uint32(v)
		*of(m) = T(n)
		return atMost(n, most)
	})
}

func count(name string, of func(*Message) *uint64) attributeForm {
	write := func(b []byte, a Attribute, m *Message) []byte { return append64(b, a, *of(m)) }
	return value(name, 8, 8, write, func(m *Message, v []byte) error { *of(m) = order.Uint64(v); return nil })
}

func moment(name string, of func(*Message) *time.Time) attributeForm {
	write := func(b []byte, a Attribute, m *Message) []byte {
		return appendMoment(appendAttribute(b, a, timeSize), *of(m))
	}
	return value(name, timeSize, timeSize, write, func(m *Message, v []byte) (err error) {
		*of(m), err = parseTime(v)
		return err
	})
}

func counter(name string, kind Attribute) attributeForm {
	return several(value(name, 8, 8+MaxNameOctets, appendCounts, func(m *Message, v []byte) error {
		m.Counts = append(m.Counts, Count{Attribute: kind, Value: order.Uint64(v), Name: string(v[8:])})
		return nil
	}))
}

const any32 = math.MaxUint32

var attributeForms = [AttributePathIdentification + 1]attributeForm{
	AttributeInstance: must(number("Instance-ID", any32,
		func(m *Message) *lisp.InstanceID { return &m.Instance })),
	AttributeEID:       must(value("EID", 2, 2+lisp.MaxNameLength, appendEIDPrefix, parseEIDPrefix)),
	AttributeSource:    value("source", 2, 2+lisp.MaxNameLength, appendSource, parseSource),
	AttributeAction:    must(number("action", 7, func(m *Message) *lisp.Action { return &m.Action })),
	AttributeTTL:       number("TTL", any32, func(m *Message) *uint32 { return &m.TTLMinutes }),
	AttributeCreated:   moment("created", func(m *Message) *time.Time { return &m.Created }),
	AttributeExpires:   moment("expires", func(m *Message) *time.Time { return &m.Expires }),
	AttributeLastUsed:  moment("last used", func(m *Message) *time.Time { return &m.Usage.LastUsedAt }),
	AttributePackets:   count("packets", func(m *Message) *uint64 { return &m.Usage.Packets }),
	AttributeOctets:    count("octets", func(m *Message) *uint64 { return &m.Usage.Octets }),
	AttributeInterface: value("interface", 0, MaxNameOctets, appendInterface, parseInterface),
	AttributeLocatorState: must(number("locator state", 255,
		func(m *Message) *dataplane.LocatorState { return &m.LocatorState })),
	AttributeStatusBits: number("status bits", any32, func(m *Message) *uint32 { return &m.StatusBits }),
	AttributeReceivedVersion: number("received version", 0xFFF,
		func(m *Message) *uint16 { return &m.ReceivedVersion }),
	AttributeMTU:       number("MTU", any32, func(m *Message) *uint32 { return &m.MTU }),
	AttributeError:     value("error", 4, errorSize, appendError, parseError),
	AttributeLost:      count("lost", func(m *Message) *uint64 { return &m.Lost }),
	AttributeCount:     count("count", func(m *Message) *uint64 { return &m.Count }),
	AttributeListen:    must(value("listen", 4, 4, appendListen, parseListen)),
	AttributeMissForm:  must(value("miss form", 4, 4, appendMissForm, parseMissForm)),
	AttributePacket:    value("packet", 0, MaxMessage, appendPacket, parsePacket),
	AttributeWatched:   must(several(value("interface", 9, 8+MaxNameOctets, appendWatched, parseWatched))),
	AttributeLocalRLOC: must(several(value("local RLOC", 4, 16, appendLocalRLOCs, parseLocalRLOC))),
	AttributeMissPolicy: must(number("miss policy", 255,
		func(m *Message) *dataplane.MissPolicy { return &m.MissPolicy })),
	AttributeWaitBounds: must(value("wait bounds", waitBoundsSize, waitBoundsSize,
		appendWaitBounds, parseWaitBounds)),
	AttributeCounter:      counter("counter", AttributeCounter),
	AttributeDrop:         counter("drop", AttributeDrop),
	AttributeOther:        counter("other", AttributeOther),
	AttributeNonce:        number("nonce", any32, func(m *Message) *uint32 { return &m.Nonce }),
	AttributeOtherVersion: number("other version", 0xFFF, func(m *Message) *uint16 { return &m.OtherVersion }),
	AttributeStatusBitCount: number("status bit count", 32,
		func(m *Message) *uint32 { return &m.StatusBitCount }),
	AttributeICMP: value("ICMP", 4, 4, appendICMP, parseICMP),
	AttributeMissPolicyOf: must(several(value("miss policy of an Instance-ID", 8, 8,
		appendMissPolicies, parseMissPolicyOf))),
	AttributeHeader: must(value("header settings", headerSettingsSize, headerSettingsSize,
		appendHeaderSettings, parseHeaderSettings)),
	AttributeEncapsulation: must(several(value("encapsulation", encapsulationSize, encapsulationSize+16,
		appendEncapsulations, parseEncapsulation))),
	AttributeList: must(several(value("list", listSize, MaxMessage, appendLists, parseList))),
	AttributePath: several(value("path", pathSize+4, pathSize+16, appendPathStates, parsePathState)),
	AttributeHops: several(value("hops", hopsSize+hopSize+4, MaxMessage,
		appendHops, parseHops)), // mandatory by the message's type
	AttributeRole: must(several(value("role", listSize, MaxMessage, appendRoles, parseRole))),
	AttributeRecursionDepth: must(number("recursion depth", 255,
		func(m *Message) *uint8 { return &m.RecursionDepth })),
	AttributeSibling: value("sibling", 4, 16, appendSibling, parseSibling),
	AttributeRTR:     must(several(value("RTR", 4, 16, appendRTRs, parseRTR))),
	AttributeOuter:   value("outer header", outerSize+2*4, outerSize+2*16, appendOuter, parseOuter),
	AttributeMarkNative: must(number("mark of native packets", 1,
		func(m *Message) *uint8 { return &m.MarkNative })),
	AttributeFlow: must(value("flow", flowSize+2*4, flowSize+2*16, appendFlow, parseFlow)),
	AttributeTables: must(number("tables", knownTables,
		func(m *Message) *uint32 { return &m.Tables })),
	AttributeSubflows: must(number("subflows", 1, func(m *Message) *uint8 { return &m.Subflows })),
	AttributePathIdentification: must(number("path identification", 255,
		func(m *Message) *dataplane.PathIdentification { return &m.PathIdentification })),
}

// inOrder is the order in which attributes stand in a message.
var inOrder = [...]Attribute{
	AttributeInstance, AttributeEID, AttributeHops, AttributeFlow,
	// of an entry
	AttributeAction, AttributeTTL, AttributeCreated, AttributeExpires, AttributeLastUsed,
	AttributePackets, AttributeOctets,
	// of an event or an answer
	AttributeSource, AttributeInterface, AttributeStatusBits, AttributeReceivedVersion, AttributeOtherVersion,
	AttributeStatusBitCount, AttributeICMP, AttributeMTU, AttributeNonce, AttributeOuter, AttributePacket, AttributeError,
	AttributeLost, AttributeCount,
	// of a state, settings or counters
	AttributeLocatorState, AttributeListen, AttributeMissForm, AttributeWatched, AttributeLocalRLOC,
	AttributeMissPolicy, AttributeMissPolicyOf, AttributeWaitBounds, AttributeHeader, AttributeEncapsulation,
	AttributeList, AttributeRole, AttributeRecursionDepth, AttributeSibling, AttributeRTR, AttributeMarkNative,
	AttributeSubflows, AttributePathIdentification, AttributeTables, AttributePath,
	AttributeCounter, AttributeDrop, AttributeOther,
}

// appendAttributes writes what is marked, and what a message says of its EID and locators beside their addresses.
func appendAttributes(m *Message, b []byte) []byte {
	left := m.has &^ (1<<AttributeEID | 1<<AttributeHops)
	if (m.HasEID || m.Has(AttributeFlow)) && m.Instance != 0 {
		left |= 1 << AttributeInstance
	}
	if m.HasEID && !m.Prefix.EID().IsIP() {
		left |= 1 << AttributeEID
	}
	for i := range m.Locators {
		if saysHops(&m.Locators[i].Locator) {
			left |= 1 << AttributeHops
		}
	}
	for _, a := range inOrder {
		if left == 0 {
			break
		}
		if left&(1<<a) != 0 {
			form := &attributeForms[a]
			b = form.append(b, a|form.mandatory, m)
			left &^= 1 << a
		}
	}
	return b
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
	if err := joinFlow(m); err != nil {
		return malformed("flow", len(b), "%s", err)
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

// The times that the format holds; the zero time is 0, so 1970 begins a moment late.
const (
	timeSize       = 12               // i64 seconds since 1970, u32 nanoseconds
	maxTimeSeconds = 253402300800 - 1 // the end of the year 9999
)

func appendMoment(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	seconds := min(max(t.Unix(), 0), maxTimeSeconds)
	b = order.AppendUint64(b, uint64(seconds))
	return order.AppendUint32(b, uint32(t.Nanosecond()))
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

func appendEID(b []byte, a Attribute, e lisp.EID, bits int) []byte {
	at := len(b)
	b = append(appendAttribute(b, a, 0), byte(e.Kind()), byte(bits))
	b = e.AppendOctets(b)
	octets := len(b) - at - attributeHeaderSize
	order.PutUint16(b[at+2:], uint16(octets))
	return appendPadding(b, octets)
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

func appendEIDPrefix(b []byte, a Attribute, m *Message) []byte {
	return appendEID(b, a, m.Prefix.EID(), m.Prefix.Bits())
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

func appendSource(b []byte, a Attribute, m *Message) []byte {
	return appendEID(b, a, m.Source, m.Source.BitLen())
}

func parseSource(m *Message, v []byte) error {
	e, bits, err := parseIdentifier(v)
	if err == nil && bits != e.BitLen() {
		err = fmt.Errorf("%d bits of %s are not a host", bits, e)
	}
	m.Source = e
	return err
}

func appendInterface(b []byte, a Attribute, m *Message) []byte {
	return appendOctets(b, a, m.Interface)
}

func parseInterface(m *Message, v []byte) error { m.Interface = string(v); return nil }

func appendPacket(b []byte, a Attribute, m *Message) []byte { return appendOctets(b, a, m.Packet) }

func parsePacket(m *Message, v []byte) error { m.Packet = v; return nil }

const (
	maxErrorOctets = 256 - 4            // of text
	errorSize      = 4 + maxErrorOctets // at most
)

// appendError writes as much of the text as an error may have.
func appendError(b []byte, a Attribute, m *Message) []byte {
	text := m.ErrorText[:min(len(m.ErrorText), maxErrorOctets)]
	b = appendAttribute(b, a, 4+len(text))
	b = order.AppendUint32(b, m.ErrorOffset)
	return appendPadding(append(b, text...), len(text))
}

func parseError(m *Message, v []byte) error {
	m.ErrorOffset, m.ErrorText = order.Uint32(v), string(v[4:])
	return nil
}

func appendListen(b []byte, a Attribute, m *Message) []byte { return append32(b, a, uint32(m.Hearing)) }

func parseListen(m *Message, v []byte) error {
	m.Hearing = Hearing(order.Uint32(v))
	return atMost(uint32(m.Hearing&^knownHearing), 0)
}

func appendMissForm(b []byte, a Attribute, m *Message) []byte {
	return append32(b, a, uint32(m.MissForm))
}

func parseMissForm(m *Message, v []byte) error {
	n := order.Uint32(v)
	m.MissForm = Type(n)
	if n < uint32(TypeMissEID) || n > uint32(TypeMissPacket) {
		return fmt.Errorf("%d, want %d, %d or %d", n, TypeMissEID, TypeMissHeader, TypeMissPacket)
	}
	return nil
}

func appendICMP(b []byte, a Attribute, m *Message) []byte {
	return append32(b, a, uint32(m.ICMPType)<<8|uint32(m.ICMPCode))
}

func parseICMP(m *Message, v []byte) error {
	n := order.Uint32(v)
	m.ICMPType, m.ICMPCode = uint8(n>>8), uint8(n)
	return atMost(n, 0xFFFF)
}

func appendWatched(b []byte, a Attribute, m *Message) []byte {
	for _, w := range m.Watched {
		b = appendAttribute(b, a, 8+len(w.Name))
		b = order.AppendUint32(b, uint32(w.VLAN)<<watchedVLANShift|uint32(w.Forwarding)<<watchedForwardingShift|
			uint32(w.Hook)<<watchedHookShift|uint32(w.Side))
		b = order.AppendUint32(b, uint32(w.Instance))
		b = appendPadding(append(b, w.Name...), len(w.Name))
	}
	return b
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

func appendLocalRLOCs(b []byte, a Attribute, m *Message) []byte {
	for _, r := range m.LocalRLOCs {
		b = appendAddress(appendAttribute(b, a, r.Addr().BitLen()/8), r.Addr())
	}
	return b
}

func parseLocalRLOC(m *Message, v []byte) error {
	r := rlocFrom(v)
	if r.IsZero() {
		return fmt.Errorf("%d octets %x are not an address", len(v), v)
	}
	m.LocalRLOCs = append(m.LocalRLOCs, r)
	return nil
}

// appendSibling: it is not mandatory, because an older data plane takes the first sibling of its configuration.
func appendSibling(b []byte, a Attribute, m *Message) []byte {
	return appendAddress(appendAttribute(b, a, m.Sibling.BitLen()/8), m.Sibling)
}

func parseSibling(m *Message, v []byte) error {
	r := rlocFrom(v)
	if r.IsZero() {
		return fmt.Errorf("%d octets %x are not an address", len(v), v)
	}
	m.Sibling = r.Addr()
	return nil
}

// appendAddress writes 4 or 16 octets, none of the zero address.
func appendAddress(b []byte, a netip.Addr) []byte {
	switch octets := a.As16(); {
	case a.Is4():
		return append(b, octets[12:]...)
	case a.Is6():
		return append(b, octets[:]...)
	}
	return b
}

// rlocFrom is zero for what is no address.
func rlocFrom(octets []byte) lisp.RLOC {
	a, ok := netip.AddrFromSlice(octets)
	if !ok || a.Is4In6() {
		return lisp.RLOC{}
	}
	return lisp.RLOCFromAddr(a)
}

func appendMissPolicies(b []byte, a Attribute, m *Message) []byte {
	if len(m.MissPolicies) == 0 {
		return b // without memory for their order
	}
	for _, instance := range slices.Sorted(maps.Keys(m.MissPolicies)) {
		b = appendAttribute(b, a, 8)
		b = order.AppendUint32(b, uint32(instance))
		b = order.AppendUint32(b, uint32(m.MissPolicies[instance]))
	}
	return b
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

const waitBoundsSize = 32 // 4 × u64

func appendWaitBounds(b []byte, a Attribute, m *Message) []byte {
	b = appendAttribute(b, a, waitBoundsSize)
	b = order.AppendUint64(b, uint64(m.Wait.PacketsPerDestination))
	b = order.AppendUint64(b, uint64(m.Wait.PacketsTotal))
	b = order.AppendUint64(b, uint64(m.Wait.OctetsTotal))
	return order.AppendUint64(b, uint64(m.Wait.Time))
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

// appendCounts writes the counters of a kind.
func appendCounts(b []byte, kind Attribute, m *Message) []byte {
	for _, c := range m.Counts {
		if c.Attribute == kind {
			name := c.Name[:min(len(c.Name), MaxNameOctets)]
			b = appendAttribute(b, kind, 8+len(name))
			b = order.AppendUint64(b, c.Value)
			b = appendPadding(append(b, name...), len(name))
		}
	}
	return b
}

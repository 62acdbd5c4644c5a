// SPDX-License-Identifier: Apache-2.0

package wire

// Addresses and records as package lisp's values, and back (RFC 9301 s.5.4,
// s.5.5; RFC 8060 s.4.1; RFC 9306 s.3). What lisp cannot express is refused for
// EIDs and skipped for locators; nothing is guessed.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"loci/lisp"
)

// AddressOf is the address part of a prefix: the plain family, inside an
// Instance-ID LCAF when the Instance-ID is not 0. The mask length is
// p.Bits(), carried beside it.
func AddressOf(p lisp.Prefix) Address { return EIDAddress(p.Instance(), p.EID()) }

// EIDAddress is an EID in an Instance-ID as an address; no LCAF for 0.
func EIDAddress(instance lisp.InstanceID, e lisp.EID) Address {
	plain := plainEIDAddress(e)
	if instance == 0 {
		return plain
	}
	return InstanceIDLCAF{InstanceID: uint32(instance), Address: plain}
}

func plainEIDAddress(e lisp.EID) Address {
	switch e.Kind() {
	case lisp.EIDIPv4:
		return IPv4(e.Addr().As4())
	case lisp.EIDIPv6:
		return IPv6(e.Addr().As16())
	case lisp.EIDMAC:
		mac, _ := e.MAC()
		return MAC{Octets: mac}
	case lisp.EIDName:
		name, _ := e.Name()
		return DistinguishedName(name)
	}
	return NoAddress{}
}

// EIDOf is the EID that an address names, with its Instance-ID. AFI 0 is the
// zero EID. Lookup keys of several parts (AFI-List, Source/Dest, Multicast Info
// and their like) are no EID and an error.
func EIDOf(a Address) (lisp.InstanceID, lisp.EID, error) {
	switch a := a.(type) {
	case nil, NoAddress:
		return 0, lisp.EID{}, nil
	case IPv4:
		return 0, lisp.EIDFromAddr(netip.AddrFrom4(a)), nil
	case IPv6:
		return eidOfIPv6(a)
	case MAC:
		return 0, lisp.EIDFromMAC(a.Octets), nil
	case DistinguishedName:
		e, err := lisp.EIDFromName(string(a))
		return 0, e, err
	case InstanceIDLCAF:
		return eidInInstance(a)
	}
	return 0, lisp.EID{}, fmt.Errorf("address %s cannot be an EID", a)
}

// eidOfIPv6 refuses IPv4-mapped addresses: package lisp would take them for
// IPv4, and a mask length of 128 bits would name something else.
func eidOfIPv6(a IPv6) (lisp.InstanceID, lisp.EID, error) {
	addr := netip.AddrFrom16(a)
	if addr.Is4In6() {
		return 0, lisp.EID{}, fmt.Errorf("IPv4-mapped address %s cannot be an EID", addr)
	}
	return 0, lisp.EIDFromAddr(addr), nil
}

func eidInInstance(a InstanceIDLCAF) (lisp.InstanceID, lisp.EID, error) {
	if _, nested := a.Address.(InstanceIDLCAF); nested {
		return 0, lisp.EID{}, fmt.Errorf("address %s: an Instance-ID inside an Instance-ID", a)
	}
	_, e, err := EIDOf(a.Address)
	return lisp.InstanceID(a.InstanceID), e, err
}

// PrefixOf is the EID-Prefix that an address and the mask length beside it name.
// Host bits are cleared. With an Instance-ID LCAF the mask length counts bits of
// the address inside.
func PrefixOf(a Address, maskLen uint8) (lisp.Prefix, error) {
	instance, e, err := EIDOf(a)
	if err != nil {
		return lisp.Prefix{}, err
	}
	return lisp.PrefixFrom(instance, e, int(maskLen))
}

// RLOCAddress is an RLOC as an address; the zero RLOC is AFI 0. One behind a port cannot be sent.
func RLOCAddress(r lisp.RLOC) Address {
	switch {
	case r.Port() != 0:
		return portedRLOC(r)
	case r.Is4():
		return IPv4(r.Addr().As4())
	case r.Is6():
		return IPv6(r.Addr().As16())
	}
	return NoAddress{}
}

// LocatorAddress is the address of a locator: as it was registered where that says more than a path, an Explicit Locator Path, or the
// RLOC.
func LocatorAddress(l *lisp.Locator) Address {
	switch {
	case l.Address != "":
		return registeredAddress(l.Address)
	case isExplicit(l):
		return pathAddress(l)
	}
	return RLOCAddress(l.RLOC)
}

// registeredAddress is the octets of an address that parsed once.
type registeredAddress string

// AFI is that of the address.
func (a registeredAddress) AFI() AFI { return AFI(binary.BigEndian.Uint16([]byte(a[:afiOctets]))) }

// String is the address's.
func (a registeredAddress) String() string {
	address, err := ParseAddress([]byte(a))
	if err != nil {
		return fmt.Sprintf("address %x", string(a))
	}
	return address.String()
}

func (a registeredAddress) appendTo(b []byte) ([]byte, error) { return append(b, a...), nil }

// RLOCOf is the IP address that packets for a locator can be sent to: the
// address itself, or the one that an LCAF decorates (AFI-List: its first IP
// address; PathOf has the path that may stand beside it). ok is false when
// there is none, or when ignoring the LCAF would break its meaning: Explicit
// Locator Paths, replication lists, application data, NAT addresses, and RLOCs
// of another Instance-ID.
func RLOCOf(a Address) (r lisp.RLOC, ok bool) {
	switch a := a.(type) {
	case IPv4:
		return lisp.RLOCFromAddr(netip.AddrFrom4(a)), true
	case IPv6:
		addr := netip.AddrFrom16(a)
		return lisp.RLOCFromAddr(addr), !addr.Is4In6() // package lisp would take it for IPv4
	case *AFIListLCAF:
		for _, entry := range a.Addresses {
			if r, ok = RLOCOf(entry); ok {
				return r, true
			}
		}
		return lisp.RLOC{}, false
	case decorator:
		if !changesMeaning(a) {
			return RLOCOf(a.decorated())
		}
	}
	return lisp.RLOC{}, false
}

// changesMeaning reports whether packets cannot be sent to what an LCAF decorates: an RLOC of another Instance-ID, or one that takes
// other encapsulations alone.
func changesMeaning(d decorator) bool {
	switch a := d.(type) {
	case InstanceIDLCAF:
		return a.InstanceID != 0
	case EncapsulationFormatLCAF:
		return a.Encapsulations&EncapsulationLISP == 0
	}
	return false
}

// decorator is an LCAF that says something about one locator without changing
// where its packets go.
type decorator interface{ decorated() Address }

func (a InstanceIDLCAF) decorated() Address          { return a.Address }
func (a ASNumberLCAF) decorated() Address            { return a.Address }
func (a GeoLCAF) decorated() Address                 { return a.Address }
func (a GeoPointLCAF) decorated() Address            { return a.Address }
func (a NonceLocatorLCAF) decorated() Address        { return a.Address }
func (a *SecurityKeyLCAF) decorated() Address        { return a.Address }
func (a JSONLCAF) decorated() Address                { return a.Address }
func (a KeyValueLCAF) decorated() Address            { return a.Key }
func (a EncapsulationFormatLCAF) decorated() Address { return a.Address }

// RecordOf is a mapping as a record; locators keep their order.
func RecordOf(m lisp.Mapping) Record {
	rec := recordOf(&m, AddressOf(m.Prefix))
	if m.Negative() {
		return rec
	}
	rec.Locators = make([]LocatorRecord, len(m.Locators))
	for i := range m.Locators {
		rec.Locators[i] = locatorOf(&m.Locators[i], LocatorAddress(&m.Locators[i]))
	}
	return rec
}

// recordOf is a mapping as a record without locators.
func recordOf(m *lisp.Mapping, eid Address) Record {
	rec := Record{TTLMinutes: m.TTLMinutes, EID: eid, MaskLen: uint8(m.Prefix.Bits()), Authoritative: m.Authoritative, Version: m.Version}
	if m.Negative() {
		rec.Action = m.Action // sent as 0 with locators (RFC 9301 s.5.4)
	}
	return rec
}

func locatorOf(l *lisp.Locator, rloc Address) LocatorRecord {
	return LocatorRecord{
		Priority: l.Priority, Weight: l.Weight, MulticastPriority: l.MulticastPriority, MulticastWeight: l.MulticastWeight,
		Local: l.Local, Probed: l.Probed, Reachable: l.Reachable, Address: rloc,
	}
}

// appendMapping appends RecordOf the mapping. The addresses of this record point into the mapping, so that no memory is
// allocated for them where the Instance-ID is 0: Map-Replies are sent by the hundred thousand a second.
func appendMapping(b []byte, m *lisp.Mapping) ([]byte, error) {
	rec := recordOf(m, (*prefixAddress)(&m.Prefix))
	b, err := rec.appendHead(b, len(m.Locators))
	for i := 0; i < len(m.Locators) && err == nil; i++ {
		l := locatorOf(&m.Locators[i], (*locatorAddress)(&m.Locators[i]))
		b, err = l.appendTo(b)
	}
	return b, err
}

// prefixAddress is AddressOf what it points to, locatorAddress LocatorAddress.
type (
	prefixAddress  lisp.Prefix
	locatorAddress lisp.Locator
)

// AFI is that of the address.
func (p *prefixAddress) AFI() AFI { return AddressOf(lisp.Prefix(*p)).AFI() }

// AFI is that of the address.
func (l *locatorAddress) AFI() AFI { return LocatorAddress((*lisp.Locator)(l)).AFI() }

// String is the address's.
func (p *prefixAddress) String() string { return AddressOf(lisp.Prefix(*p)).String() }

// String is the address's.
func (l *locatorAddress) String() string { return LocatorAddress((*lisp.Locator)(l)).String() }

func (p *prefixAddress) appendTo(b []byte) ([]byte, error) {
	prefix := (*lisp.Prefix)(p)
	switch e := prefix.EID(); {
	case prefix.Instance() == 0 && e.Kind() == lisp.EIDIPv4:
		return IPv4(e.Addr().As4()).appendTo(b)
	case prefix.Instance() == 0 && e.Kind() == lisp.EIDIPv6:
		return IPv6(e.Addr().As16()).appendTo(b)
	}
	return AddressOf(*prefix).appendTo(b)
}

func (l *locatorAddress) appendTo(b []byte) ([]byte, error) {
	switch locator := (*lisp.Locator)(l); {
	case l.Address != "":
		return append(b, l.Address...), nil
	case isExplicit(locator):
		return appendPath(b, locator)
	}
	return appendRLOC(b, l.RLOC)
}

// Ask makes m ask for an EID-Prefix, for a source EID in the same Instance-ID, zero for none, by these ITR-RLOCs.
func (m *MapRequest) Ask(source lisp.EID, itrRLOCs []lisp.RLOC, asked lisp.Prefix) {
	m.SourceEID = NoAddress{}
	if !source.IsZero() {
		m.SourceEID = EIDAddress(asked.Instance(), source)
	}
	m.ITRRLOCs = make([]Address, len(itrRLOCs))
	for i, r := range itrRLOCs {
		m.ITRRLOCs[i] = RLOCAddress(r)
	}
	m.Records = []RequestRecord{{EID: AddressOf(asked), MaskLen: uint8(asked.Bits())}}
}

// Prefix is the EID-Prefix of the record.
func (rec *Record) Prefix() (lisp.Prefix, error) { return PrefixOf(rec.EID, rec.MaskLen) }

// Prefix is the EID-Prefix that the record asks for.
func (rec *RequestRecord) Prefix() (lisp.Prefix, error) { return PrefixOf(rec.EID, rec.MaskLen) }

// Mapping is what the record says. Locators come out in the order of RFC 9301
// s.5.5; those without an IP address or a path (PathOf), with an address no locator may
// have, or named a second time are skipped: Skipped says which. When none is left the mapping is negative with
// No-Action (RFC 9306 s.3); so are unassigned actions. It errs when the EID is
// none that package lisp can hold, or when locators exceed lisp.MaxLocators.
func (rec *Record) Mapping() (lisp.Mapping, error) {
	prefix, err := rec.Prefix()
	if err != nil {
		return lisp.Mapping{}, err
	}
	return rec.MappingOf(prefix)
}

// MappingOf is Mapping for who knows the record's Prefix already.
func (rec *Record) MappingOf(prefix lisp.Prefix) (lisp.Mapping, error) {
	return rec.mapping(prefix, rec.usableLocators())
}

// mapping is the record with locators that are the caller's no more.
func (rec *Record) mapping(prefix lisp.Prefix, list []lisp.Locator) (lisp.Mapping, error) {
	locators, err := lisp.LocatorSetOf(list)
	if err != nil {
		return lisp.Mapping{}, fmt.Errorf("mapping of %s: %w", prefix, err)
	}
	m := lisp.Mapping{
		Prefix: prefix, Locators: locators, TTLMinutes: rec.TTLMinutes,
		Authoritative: rec.Authoritative, Version: rec.Version,
	}
	if len(rec.Locators) == 0 && rec.Action <= lisp.ActionDropAuthFailure {
		m.Action = rec.Action
	}
	return m, nil
}

func (rec *Record) usableLocators() []lisp.Locator {
	if len(rec.Locators) == 0 {
		return nil
	}
	locators := make([]lisp.Locator, 0, len(rec.Locators))
	for i := range rec.Locators {
		l, err := rec.Locators[i].locator()
		if err == nil && !containsPath(locators, &l) {
			locators = append(locators, l)
		}
	}
	return locators
}

// MaxAddressOctets is how many octets the addresses of one registration may have that say more than RLOCs.
const MaxAddressOctets = 4096

// RegistrationOf is MappingOf for a Map-Server, which keeps locators that it cannot send a packet to, and all that an address says
// beside an RLOC or a path, as they came. Only plain addresses that no locator may have and repeated locators are skipped. The message
// must have been parsed with Parser.KeepAddresses. It errs also when the addresses have more than MaxAddressOctets.
func (rec *Record) RegistrationOf(prefix lisp.Prefix) (lisp.Mapping, error) {
	locators, octets := make([]lisp.Locator, 0, len(rec.Locators)), 0
	for i := range rec.Locators {
		l, ok := rec.Locators[i].registered(locators)
		if !ok || slices.ContainsFunc(locators, func(k lisp.Locator) bool { return k.IsSame(&l) }) {
			continue
		}
		locators = append(locators, l)
		if octets += len(l.Address); octets > MaxAddressOctets {
			return lisp.Mapping{}, fmt.Errorf("mapping of %s: its locators' addresses have more than %d octets", prefix, MaxAddressOctets)
		}
	}
	return rec.mapping(prefix, locators)
}

// registered is the locator as a Map-Server keeps it beside those before it: one that says what the octets say where there is one, else
// the octets too.
func (l *LocatorRecord) registered(before []lisp.Locator) (lisp.Locator, bool) {
	kept, err := l.locator()
	said := false
	switch l.Address.(type) {
	case IPv4, IPv6, NoAddress, nil:
		if err != nil {
			return kept, false
		}
		said = true
	case *ExplicitLocatorPathLCAF:
		said = err == nil && isSaidBy(&kept, l.Octets)
	}
	if said && !saysOtherwise(before, &kept) {
		return kept, true
	}
	if err != nil {
		kept = l.with(lisp.Path{}, lisp.PathBits{})
	}
	kept.Address = string(l.Octets)
	return kept, true
}

// isSaidBy reports whether a locator is sent as those octets.
func isSaidBy(l *lisp.Locator, octets []byte) bool {
	var room [MaxPathOctets]byte
	b, err := appendPath(room[:0], l)
	return err == nil && bytes.Equal(b, octets)
}

// MaxPathOctets is the length of the longest Explicit Locator Path that is a locator's.
const MaxPathOctets = afiOctets + lcafHeadOctets + lisp.MaxHops*(2+afiOctets+16)

// saysOtherwise reports whether a locator stands among others by its path, with other octets: of one hop and as a plain address, or
// with other bits.
func saysOtherwise(others []lisp.Locator, l *lisp.Locator) bool {
	return slices.ContainsFunc(others, func(o lisp.Locator) bool { return o.Path() == l.Path() && o.Bits != l.Bits })
}

func containsPath(locators []lisp.Locator, l *lisp.Locator) bool {
	return slices.ContainsFunc(locators, func(o lisp.Locator) bool { return o.RLOC == l.RLOC && o.Behind == l.Behind })
}

func (l *LocatorRecord) locator() (lisp.Locator, error) {
	path, bits, err := PathOf(l.Address)
	if err != nil {
		return lisp.Locator{}, err
	}
	return l.with(path, bits), nil
}

func (l *LocatorRecord) with(p lisp.Path, bits lisp.PathBits) lisp.Locator {
	return lisp.Locator{
		RLOC: p.RLOC, Behind: p.Behind, Bits: bits, Priority: l.Priority, Weight: l.Weight,
		MulticastPriority: l.MulticastPriority, MulticastWeight: l.MulticastWeight,
		Local: l.Local, Probed: l.Probed, Reachable: l.Reachable,
	}
}

// SPDX-License-Identifier: Apache-2.0

package mapsock

// What a message means for an engine: entries, operations, settings and
// counters of package dataplane as messages, and back. Events are in events.go.

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
)

// setLocators gives m the locators of an entry, which for the Database says which
// of them are this system's.
func (m *Message) setLocators(locators lisp.LocatorSet, local []lisp.RLOC) {
	m.Locators = m.Locators[:0]
	for _, l := range locators {
		m.Locators = append(m.Locators, Locator{Locator: l, Interface: dataplane.IsLocal(&l, local)})
		if l.Usable() {
			m.Flags |= FlagUp
		}
	}
}

func setVersion(m *Message, version uint16) {
	if version != 0 {
		m.Flags |= FlagVersioning
		m.MapVersion = version & 0xFFF
	}
}

func setFlag(m *Message, flag Flags, on bool) {
	if on {
		m.Flags |= flag
	}
}

// SetMapping makes m speak of a map-cache entry, its use left out.
func (m *Message) SetMapping(e *dataplane.MapCacheEntry) {
	m.SetPrefix(e.Mapping.Prefix)
	m.setLocators(e.Mapping.Locators, nil)
	setVersion(m, e.Mapping.Version)
	setFlag(m, FlagNegative, e.Mapping.Negative())
	setFlag(m, FlagStatic, e.Static)
	setFlag(m, FlagAuthoritative, e.Mapping.Authoritative)
	setFlag(m, FlagEchoNonce, e.Mapping.EchoNonce)
	setFlag(m, FlagGleaned, e.Gleaned)
	setFlag(m, FlagStale, e.Stale)
	setFlag(m, FlagByNAT, e.ByNAT)
	setFlag(m, FlagRegistered, e.Registered)
	m.Action, m.TTLMinutes = e.Mapping.Action, e.Mapping.TTLMinutes
	m.Created, m.Expires = e.CreatedAt, e.ExpiresAt
	m.Mark(AttributeAction, AttributeTTL, AttributeCreated, AttributeExpires)
}

// SetUsage adds how a map-cache entry was used.
func (m *Message) SetUsage(u dataplane.Usage) {
	m.Usage = u
	m.Mark(AttributePackets, AttributeOctets)
	if !u.LastUsedAt.IsZero() {
		m.Mark(AttributeLastUsed)
	}
}

// SetDatabase makes m speak of a Database entry; local are the RLOCs of this system.
func (m *Message) SetDatabase(e *dataplane.DatabaseEntry, local []lisp.RLOC) {
	m.Flags |= FlagDatabase
	m.SetPrefix(e.Prefix)
	m.setLocators(e.Locators, local)
	setVersion(m, e.Version)
}

// locatorSet is the locators as an engine wants them.
func locatorSet(m *Message) (lisp.LocatorSet, error) {
	if len(m.Locators) == 0 {
		return nil, nil
	}
	locators := make([]lisp.Locator, len(m.Locators))
	for i := range m.Locators {
		locators[i] = m.Locators[i].Locator
	}
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		return nil, Refusef(unix.EINVAL, "%s: %s", m.Prefix, err)
	}
	return set, nil
}

// MapCacheEntry reads the map-cache entry that a message speaks of, in an add, or in
// the answer to a get or dump. What the message leaves out has the value that suits
// an entry that came into being at that moment.
func (m *Message) MapCacheEntry(now time.Time) (dataplane.MapCacheEntry, error) {
	e := dataplane.MapCacheEntry{CreatedAt: now, Mapping: lisp.Mapping{TTLMinutes: lisp.DefaultTTLMinutes}}
	return e, m.ChangeMapping(&e)
}

// ChangeMapping puts what the message says into a map-cache entry.
func (m *Message) ChangeMapping(e *dataplane.MapCacheEntry) error {
	set, err := locatorSet(m)
	if err != nil {
		return err
	}
	negative := m.Flags&FlagNegative != 0
	if negative && len(set) > 0 {
		return Refusef(unix.EINVAL, "%s: NEGATIVE, and %d locators", m.Prefix, len(set))
	}
	e.Mapping.Prefix = m.Prefix
	if negative || len(set) > 0 {
		e.Mapping.Locators = set
		e.Mapping.Authoritative = m.Flags&FlagAuthoritative != 0
		e.Mapping.EchoNonce = m.Flags&FlagEchoNonce != 0
		e.Gleaned = m.Flags&FlagGleaned != 0
		e.Stale = m.Flags&FlagStale != 0
		e.ByNAT = m.Flags&FlagByNAT != 0
		e.Registered = m.Flags&FlagRegistered != 0
	}
	if m.Flags&FlagVersioning != 0 {
		e.Mapping.Version = m.MapVersion
	}
	if m.Has(AttributeAction) {
		e.Mapping.Action = m.Action
	}
	if m.Has(AttributeCreated) {
		e.CreatedAt = m.Created
	}
	e.Usage = m.Usage
	changeLifetime(m, e)
	return nil
}

// changeLifetime finds the end of an entry: as said, or by the TTL since its
// creation. A mapping whose TTL leaves that to us (RFC 9301 s.5.4) lives as long as a
// configured one.
func changeLifetime(m *Message, e *dataplane.MapCacheEntry) {
	if m.Has(AttributeTTL) {
		e.Mapping.TTLMinutes = m.TTLMinutes
	}
	switch {
	case m.Flags&FlagStatic != 0:
		e.Static, e.ExpiresAt = true, m.Expires
	case m.Has(AttributeExpires):
		e.Static, e.ExpiresAt = false, m.Expires
	case m.Has(AttributeTTL), !e.Static && e.ExpiresAt.IsZero():
		e.Static, e.ExpiresAt = false, e.CreatedAt.Add(lifetime(e.Mapping.TTLMinutes))
	}
}

func lifetime(ttlMinutes uint32) time.Duration {
	return lisp.Lifetime(ttlMinutes, lisp.DefaultTTLMinutes*time.Minute)
}

// DatabaseEntry reads the Database entry that a message speaks of.
func (m *Message) DatabaseEntry() (dataplane.DatabaseEntry, error) {
	var e dataplane.DatabaseEntry
	return e, m.ChangeDatabase(&e)
}

// ChangeDatabase puts what the message says into a Database entry.
func (m *Message) ChangeDatabase(e *dataplane.DatabaseEntry) error {
	set, err := locatorSet(m)
	if err != nil {
		return err
	}
	e.Prefix = m.Prefix
	if len(set) > 0 {
		e.Locators = set
	}
	if m.Flags&FlagVersioning != 0 {
		e.Version = m.MapVersion
	}
	return nil
}

// SetSettings makes m speak of all settings.
func (m *Message) SetSettings(s dataplane.Settings) {
	m.Watched, m.LocalRLOCs, m.MissPolicy, m.Wait = s.Interfaces, s.LocalRLOCs, s.MissPolicy, s.Wait
	m.MissForm, m.MissPolicies = MissType(s.MissForm), s.MissPolicies
	m.Header, m.Encapsulations, m.Lists = s.Header, s.Encapsulations, s.Lists
	m.Roles, m.RecursionDepth, m.Sibling, m.RTRs = s.Roles, s.RecursionDepth, s.Sibling, s.RTRs
	m.Mark(AttributeMissPolicy, AttributeWaitBounds, AttributeMissForm)
	m.Mark(AttributeWatched, AttributeLocalRLOC, AttributeMissPolicyOf)
	m.Mark(AttributeEncapsulation, AttributeList, AttributeRole, AttributeRTR)
	if s.Header != (dataplane.HeaderSettings{}) {
		m.Mark(AttributeHeader)
	}
	if s.RecursionDepth != 0 {
		m.Mark(AttributeRecursionDepth)
	}
	if s.Sibling.IsValid() {
		m.Mark(AttributeSibling)
	}
	if s.MarkNative {
		m.MarkNative = 1
		m.Mark(AttributeMarkNative)
	}
	if s.Subflows {
		m.Subflows = 1
		m.Mark(AttributeSubflows)
	}
	if s.PathIdentification != 0 {
		m.PathIdentification = s.PathIdentification
		m.Mark(AttributePathIdentification)
	}
}

// MissType is the type of messages that report a miss in a form.
func MissType(form dataplane.MissForm) Type { return TypeMissEID + Type(form) }

// missForm is the form that a message asks for or has; that of TypeMissEID when it
// does not.
func missForm(m *Message) dataplane.MissForm {
	if !m.Has(AttributeMissForm) {
		return dataplane.MissFormEID
	}
	return dataplane.MissForm(m.MissForm - TypeMissEID)
}

// Settings reads the settings that a message speaks of.
func (m *Message) Settings() dataplane.Settings {
	return dataplane.Settings{
		Interfaces: m.Watched, LocalRLOCs: m.LocalRLOCs, Wait: m.Wait,
		MissPolicy: m.MissPolicy, MissPolicies: m.MissPolicies, MissForm: missForm(m),
		Header: m.Header, Encapsulations: m.Encapsulations, Lists: m.Lists,
		Roles: m.Roles, RecursionDepth: m.RecursionDepth, Sibling: m.Sibling, RTRs: m.RTRs, MarkNative: m.MarkNative != 0,
		Subflows: m.Subflows != 0, PathIdentification: m.PathIdentification,
	}
}

// SetOperation makes m ask for an operation of the engine.
func (m *Message) SetOperation(operation dataplane.Operation) error {
	switch o := operation.(type) {
	case dataplane.PutMapping:
		m.Reset(TypeAdd)
		m.Flags = FlagReplace
		m.SetMapping(&o.Entry)
	case dataplane.DeleteMapping:
		m.Reset(TypeDelete)
		m.SetPrefix(o.Prefix)
	case dataplane.PutDatabase:
		m.Reset(TypeAdd)
		m.Flags = FlagReplace
		m.SetDatabase(&o.Entry, nil)
	case dataplane.DeleteDatabase:
		m.Reset(TypeDelete)
		m.Flags = FlagDatabase
		m.SetPrefix(o.Prefix)
	case dataplane.PutLocatorState:
		m.Reset(TypeSetLocatorState)
		m.SetLocatorState(o.Path(), o.State)
	case dataplane.SetSettings:
		m.Reset(TypeSetSettings)
		m.SetSettings(o.Settings)
	case dataplane.Flush:
		setFlush(m, o)
		if o == (dataplane.Flush{}) {
			return errNothing
		}
	case dataplane.PutFlow:
		m.Reset(TypePutFlow)
		setBoundFlow(m, o.Flow, o.Path)
	case dataplane.DeleteFlow:
		m.Reset(TypeDeleteFlow)
		setFlow(m, o.Flow)
	default:
		return fmt.Errorf("operation %T: %w", operation, dataplane.ErrUnsupported)
	}
	return nil
}

// errNothing says that an operation changes nothing, so that no message is needed.
var errNothing = fmt.Errorf("nothing to do")

// SetLocatorState makes m speak of the state of a locator.
func (m *Message) SetLocatorState(p lisp.Path, s dataplane.LocatorState) {
	m.Locators = append(m.Locators, Locator{Locator: lisp.Locator{RLOC: p.RLOC, Behind: p.Behind, Reachable: s != dataplane.LocatorDown}})
	m.LocatorState = s
	m.Mark(AttributeLocatorState)
}

// counterNames are the counters of an engine that have a field of their own.
var counterNames = [...]struct {
	name string
	of   func(*dataplane.Counters) *uint64
}{
	{"encapsulated_packets", func(c *dataplane.Counters) *uint64 { return &c.EncapsulatedPackets }},
	{"encapsulated_octets", func(c *dataplane.Counters) *uint64 { return &c.EncapsulatedOctets }},
	{"decapsulated_packets", func(c *dataplane.Counters) *uint64 { return &c.DecapsulatedPackets }},
	{"decapsulated_octets", func(c *dataplane.Counters) *uint64 { return &c.DecapsulatedOctets }},
	{"relayed_packets", func(c *dataplane.Counters) *uint64 { return &c.RelayedPackets }},
	{"relayed_octets", func(c *dataplane.Counters) *uint64 { return &c.RelayedOctets }},
	{"proxied_packets", func(c *dataplane.Counters) *uint64 { return &c.ProxiedPackets }},
	{"native_packets", func(c *dataplane.Counters) *uint64 { return &c.NativePackets }},
	{"miss_packets", func(c *dataplane.Counters) *uint64 { return &c.MissPackets }},
	{"waiting_packets", func(c *dataplane.Counters) *uint64 { return &c.WaitingPackets }},
	{"waiting_octets", func(c *dataplane.Counters) *uint64 { return &c.WaitingOctets }},
	{"released_packets", func(c *dataplane.Counters) *uint64 { return &c.ReleasedPackets }},
	{"events_lost", func(c *dataplane.Counters) *uint64 { return &c.EventsLost }},
}

// SetCounters makes m report counters.
func (m *Message) SetCounters(c dataplane.Counters) {
	m.Mark(AttributeCounter, AttributeDrop, AttributeOther)
	for _, known := range counterNames {
		m.Counts = append(m.Counts, Count{AttributeCounter, known.name, *known.of(&c)})
	}
	for name, value := range c.Drops {
		m.Counts = append(m.Counts, Count{AttributeDrop, name, value})
	}
	for name, value := range c.Other {
		m.Counts = append(m.Counts, Count{AttributeOther, name, value})
	}
}

// Counters reads the counters that a message reports. Unknown names are left out.
func (m *Message) Counters() dataplane.Counters {
	c := dataplane.Counters{Drops: map[string]uint64{}, Other: map[string]uint64{}}
	for _, told := range m.Counts {
		switch told.Attribute {
		case AttributeDrop:
			c.Drops[told.Name] = told.Value
		case AttributeOther:
			c.Other[told.Name] = told.Value
		}
		for _, known := range counterNames {
			if told.Attribute == AttributeCounter && told.Name == known.name {
				*known.of(&c) = told.Value
			}
		}
	}
	return c
}

// SPDX-License-Identifier: Apache-2.0

package wire

// EID-Record and RLOC-Record, shared by Map-Request, Map-Reply, Map-Register,
// Map-Notify and Map-Notify-Ack (RFC 9301 s.5.4):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          Record TTL                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Locator Count | EID mask-len  | ACT |A|      Reserved         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Rsvd  |  Map-Version Number   |       EID-Prefix-AFI          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          EID-Prefix                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|    Priority   |    Weight     |  M Priority   |   M Weight    |   per locator
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|        Unused Flags     |L|p|R|           Loc-AFI             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                             Locator                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Reserved bits are sent as 0 and ignored. Meaning (is the prefix sane, may the
// locator be used) is convert.go's, not this file's.

import (
	"encoding/binary"
	"fmt"

	"loci/lisp"
)

// Record is an EID-Record: a mapping as messages carry it.
type Record struct {
	TTLMinutes    uint32
	EID           Address
	MaskLen       uint8 // bits of the EID; of the inner address when the EID is an Instance-ID LCAF
	Action        lisp.Action
	Authoritative bool   // A
	Version       uint16 // Map-Version, 12 bits (RFC 9302)
	Locators      []LocatorRecord
}

// LocatorRecord is an RLOC-Record.
type LocatorRecord struct {
	Priority          uint8
	Weight            uint8
	MulticastPriority uint8
	MulticastWeight   uint8
	Local             bool // L
	Probed            bool // p
	Reachable         bool // R
	Address           Address
	Octets            []byte // the address as it came, with Parser.KeepAddresses; part of the message's memory
}

// MaxRecords is how many records a message can announce in 8 bits; the same
// holds for the locators of a record.
const MaxRecords = 255

const (
	recordMinOctets  = 12 // an EID of AFI 0, no locators
	locatorMinOctets = 8  // a locator of AFI 0

	recordActionShift   = 13
	recordAuthoritative = 0x1000
	recordVersionMask   = 0x0fff

	locatorLocal     = 0x0004
	locatorProbed    = 0x0002
	locatorReachable = 0x0001
)

func parseRecords(r *reader, n int) []Record {
	if n = r.count(n, recordMinOctets, "record count"); n == 0 {
		return nil
	}
	records := r.room.forRecords(n)
	for i := range records {
		parseRecord(r, &records[i])
	}
	return records
}

// forRecords are so many records, to be overwritten.
func (room *Room) forRecords(n int) []Record {
	if room == nil {
		return make([]Record, n)
	}
	if n > cap(room.records) {
		room.records = make([]Record, n)
	}
	return room.records[:n:n]
}

// forLocators are so many locators of the next record, to be overwritten. Those of the records before stay where they are.
func (room *Room) forLocators(n int) []LocatorRecord {
	if room == nil {
		return make([]LocatorRecord, n)
	}
	used := len(room.locators)
	if n > cap(room.locators)-used {
		room.locators, used = make([]LocatorRecord, 0, 2*used+n), 0
	}
	room.locators = room.locators[:used+n]
	return room.locators[used : used+n : used+n]
}

func parseRecord(r *reader, rec *Record) {
	rec.TTLMinutes = r.u32("record TTL")
	locators := int(r.u8("locator count"))
	rec.MaskLen = r.u8("EID mask-len")
	flags := r.u16("ACT")
	rec.Action = lisp.Action(flags >> recordActionShift)
	rec.Authoritative = flags&recordAuthoritative != 0
	rec.Version = r.u16("map-version") & recordVersionMask
	rec.EID = r.eid("EID-Prefix")
	rec.Locators = parseLocators(r, locators)
}

func parseLocators(r *reader, n int) []LocatorRecord {
	if n = r.count(n, locatorMinOctets, "locator count"); n == 0 {
		return nil
	}
	locators := r.room.forLocators(n)
	for i := range locators {
		l := &locators[i]
		l.Priority = r.u8("priority")
		l.Weight = r.u8("weight")
		l.MulticastPriority = r.u8("multicast priority")
		l.MulticastWeight = r.u8("multicast weight")
		flags := r.u16("locator flags")
		l.Local = flags&locatorLocal != 0
		l.Probed = flags&locatorProbed != 0
		l.Reachable = flags&locatorReachable != 0
		start := r.at
		l.Address, l.Octets = r.address("locator"), nil
		if r.keepAddresses {
			l.Octets = r.data[start:r.at]
		}
	}
	return locators
}

func appendRecords(b []byte, records []Record) ([]byte, error) {
	var err error
	for i := range records {
		if b, err = records[i].appendTo(b); err != nil {
			return b, fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	return b, nil
}

func (rec *Record) appendTo(b []byte) ([]byte, error) {
	b, err := rec.appendHead(b, len(rec.Locators))
	if err != nil {
		return b, err
	}
	return appendLocators(b, rec.Locators)
}

func appendLocators(b []byte, locators []LocatorRecord) ([]byte, error) {
	var err error
	for i := range locators {
		if b, err = locators[i].appendTo(b); err != nil {
			return b, fmt.Errorf("locator %d: %w", i+1, err)
		}
	}
	return b, nil
}

// appendHead appends the EID-Record up to its locators.
func (rec *Record) appendHead(b []byte, locators int) ([]byte, error) {
	switch {
	case locators > MaxRecords:
		return b, fmt.Errorf("%d locators: want at most %d", locators, MaxRecords)
	case rec.Action > 7:
		return b, fmt.Errorf("action %d: want 3 bits", rec.Action)
	case rec.Version > recordVersionMask:
		return b, fmt.Errorf("map-version %d: want 12 bits", rec.Version)
	}
	flags := uint16(rec.Action)<<recordActionShift | bit16(rec.Authoritative, recordAuthoritative)
	b = binary.BigEndian.AppendUint32(b, rec.TTLMinutes)
	b = append(b, uint8(locators), rec.MaskLen)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint16(b, rec.Version)
	b, err := appendAddress(b, rec.EID)
	if err != nil {
		return b, fmt.Errorf("EID-Prefix: %w", err)
	}
	return b, nil
}

func (l *LocatorRecord) appendTo(b []byte) ([]byte, error) {
	flags := bit16(l.Local, locatorLocal) | bit16(l.Probed, locatorProbed) | bit16(l.Reachable, locatorReachable)
	b = append(b, l.Priority, l.Weight, l.MulticastPriority, l.MulticastWeight)
	return appendAddress(binary.BigEndian.AppendUint16(b, flags), l.Address)
}

func bit16(set bool, mask uint16) uint16 {
	if set {
		return mask
	}
	return 0
}

func bit32(set bool, mask uint32) uint32 {
	if set {
		return mask
	}
	return 0
}

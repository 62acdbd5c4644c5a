// SPDX-License-Identifier: Apache-2.0

package mapcmd

// Messages and mappings as JSON. Keys are added, not changed; they are those of
// loci show where they mean the same.

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loci/lisp"
	"loci/mapsock"
)

// document is a message. What it does not say is left out.
type document struct {
	At    time.Time `json:"at,omitzero"` // when map monitor heard it
	Type  string    `json:"type"`
	Flags flagList  `json:"flags"`
	PID   int32     `json:"pid"`
	Seq   uint32    `json:"seq"`
	mapping

	Source          lisp.EID `json:"source,omitzero"`
	Interface       string   `json:"interface,omitempty"`
	LocatorState    string   `json:"locator_state,omitempty"`
	StatusBits      *uint32  `json:"locator_status_bits,omitempty"`
	ReceivedVersion *uint16  `json:"received_map_version,omitempty"`
	OtherVersion    *uint16  `json:"other_map_version,omitempty"`
	StatusBitCount  *uint32  `json:"locator_status_bit_count,omitempty"`
	ICMPType        *uint8   `json:"icmp_type,omitempty"`
	ICMPCode        *uint8   `json:"icmp_code,omitempty"`
	MTU             *uint32  `json:"mtu,omitempty"`
	Nonce           *uint32  `json:"nonce,omitempty"`
	Lost            *uint64  `json:"lost_messages,omitempty"`
	Error           *problem `json:"error,omitempty"`
}

// mapping is an entry of a table.
type mapping struct {
	EIDPrefix  lisp.Prefix     `json:"eid_prefix,omitzero"`
	InstanceID lisp.InstanceID `json:"instance_id,omitempty"`
	MapVersion uint16          `json:"map_version,omitempty"`
	Locators   []locator       `json:"locators,omitempty"`
	Action     *lisp.Action    `json:"action,omitempty"` // of a negative mapping
	TTLMinutes *uint32         `json:"ttl_minutes,omitempty"`
	CreatedAt  time.Time       `json:"created_at,omitzero"`
	ExpiresAt  time.Time       `json:"expires_at,omitzero"`
	LastUsedAt time.Time       `json:"last_used_at,omitzero"`
	Packets    *uint64         `json:"packets,omitempty"`
	Octets     *uint64         `json:"octets,omitempty"`
}

type locator struct {
	RLOC      lisp.RLOC `json:"rloc"`
	Path      []hop     `json:"explicit_locator_path,omitempty"`
	NextHop   lisp.RLOC `json:"next_hop,omitzero"` // of a path: where packets go
	Priority  uint8     `json:"priority"`
	Weight    uint8     `json:"weight"`
	Reachable bool      `json:"reachable"`
	Interface bool      `json:"local_interface,omitempty"`
	MTU       uint32    `json:"mtu,omitempty"`
	TxNonce   *uint32   `json:"tx_nonce,omitempty"`
	RxNonce   *uint32   `json:"rx_nonce,omitempty"`
}

// problem is what went wrong with a message.
type problem struct {
	Errno string `json:"errno"`
	Text  string `json:"text,omitempty"`
}

// flagList is flags as a list of words.
type flagList mapsock.Flags

// MarshalJSON gives the words of mapsock.Flags in lower case.
func (f flagList) MarshalJSON() ([]byte, error) {
	words := []string{}
	if text := strings.Trim(mapsock.Flags(f).String(), "<>"); text != "" {
		words = strings.Split(strings.ToLower(text), ",")
	}
	return json.Marshal(words)
}

// encodeLine prints a document on one line.
func encodeLine(out io.Writer, v any) error { return json.NewEncoder(out).Encode(v) }

func documentOf(m *mapsock.Message) document {
	d := document{
		Type: m.Type.String(), Flags: flagList(m.Flags), PID: m.PID, Seq: m.Seq, mapping: mappingOf(m),
		StatusBits:      told(m, mapsock.AttributeStatusBits, m.StatusBits),
		ReceivedVersion: told(m, mapsock.AttributeReceivedVersion, m.ReceivedVersion),
		OtherVersion:    told(m, mapsock.AttributeOtherVersion, m.OtherVersion),
		StatusBitCount:  told(m, mapsock.AttributeStatusBitCount, m.StatusBitCount),
		ICMPType:        told(m, mapsock.AttributeICMP, m.ICMPType),
		ICMPCode:        told(m, mapsock.AttributeICMP, m.ICMPCode),
		MTU:             told(m, mapsock.AttributeMTU, m.MTU),
		Nonce:           told(m, mapsock.AttributeNonce, m.Nonce),
		Lost:            told(m, mapsock.AttributeLost, m.Lost),
	}
	if m.Has(mapsock.AttributeSource) {
		d.Source = m.Source
	}
	if m.Has(mapsock.AttributeInterface) {
		d.Interface = m.Interface
	}
	if m.Has(mapsock.AttributeLocatorState) {
		d.LocatorState = m.LocatorState.String()
	}
	if m.Errno != 0 {
		d.Error = &problem{Errno: unix.ErrnoName(m.Errno), Text: m.ErrorText}
	}
	return d
}

func mappingOf(m *mapsock.Message) mapping {
	e := mapping{
		TTLMinutes: told(m, mapsock.AttributeTTL, m.TTLMinutes),
		Packets:    told(m, mapsock.AttributePackets, m.Usage.Packets),
		Octets:     told(m, mapsock.AttributeOctets, m.Usage.Octets),
	}
	if m.HasEID {
		e.EIDPrefix, e.InstanceID = m.Prefix, m.Prefix.Instance()
	}
	if m.Flags&mapsock.FlagVersioning != 0 {
		e.MapVersion = m.MapVersion
	}
	if m.Flags&mapsock.FlagNegative != 0 {
		e.Action = told(m, mapsock.AttributeAction, m.Action)
	}
	if m.Has(mapsock.AttributeCreated) {
		e.CreatedAt = m.Created.UTC()
	}
	if m.Has(mapsock.AttributeExpires) {
		e.ExpiresAt = m.Expires.UTC()
	}
	if m.Has(mapsock.AttributeLastUsed) {
		e.LastUsedAt = m.Usage.LastUsedAt.UTC()
	}
	for i := range m.Locators {
		e.Locators = append(e.Locators, locatorOf(&m.Locators[i]))
	}
	return e
}

// told is a value that stands in a message, nil when it does not.
func told[T any](m *mapsock.Message, a mapsock.Attribute, value T) *T {
	if !m.Has(a) {
		return nil
	}
	return &value
}

func locatorOf(l *mapsock.Locator) locator {
	d := locator{
		RLOC: l.RLOC, Priority: l.Priority, Weight: l.Weight, Reachable: l.Reachable, Interface: l.Interface, MTU: l.MTU,
	}
	if d.Path = hopsOf(&l.Locator); d.Path != nil {
		d.NextHop = l.NextHop()
	}
	if l.HasTxNonce {
		nonce := l.TxNonce
		d.TxNonce = &nonce
	}
	if l.HasRxNonce {
		nonce := l.RxNonce
		d.RxNonce = &nonce
	}
	return d
}

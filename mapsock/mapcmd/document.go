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

	"loci/internal/jsondoc"
	"loci/lisp"
	"loci/mapsock"
)

// messageDocument is a message. What it does not say is null.
type messageDocument struct {
	At    *time.Time `json:"at"` // when map monitor heard it
	Type  string     `json:"type"`
	Flags flagList   `json:"flags"`
	PID   int32      `json:"pid"`
	Seq   uint32     `json:"seq"`
	mapping

	Source          *lisp.EID `json:"source"`
	Interface       *string   `json:"interface"`
	LocatorState    *string   `json:"locator_state"`
	StatusBits      *uint32   `json:"locator_status_bits"`
	ReceivedVersion *uint16   `json:"received_map_version"`
	OtherVersion    *uint16   `json:"other_map_version"`
	StatusBitCount  *uint32   `json:"locator_status_bit_count"`
	ICMPType        *uint8    `json:"icmp_type"`
	ICMPCode        *uint8    `json:"icmp_code"`
	MTU             *uint32   `json:"mtu"`
	Nonce           *uint32   `json:"nonce"`
	Lost            *uint64   `json:"lost_messages"`
	Flow            *flow     `json:"flow"`
	Error           *problem  `json:"error"`
}

// mapping is an entry of a table.
type mapping struct {
	EIDPrefix  *lisp.Prefix     `json:"eid_prefix"`
	InstanceID lisp.InstanceID  `json:"instance_id"`
	MapVersion uint16           `json:"map_version"` // 0: none
	Locators   []locator        `json:"locators"`
	Action     *lisp.Action     `json:"action"` // of a negative mapping
	TTL        *jsondoc.Seconds `json:"ttl_seconds"`
	CreatedAt  *time.Time       `json:"created_at"`
	ExpiresAt  *time.Time       `json:"expires_at"`
	LastUsedAt *time.Time       `json:"last_used_at"`
	Packets    *uint64          `json:"packets"`
	Octets     *uint64          `json:"octets"`
}

type locator struct {
	RLOC    lisp.RLOC  `json:"rloc"`
	Path    []hop      `json:"explicit_locator_path"`
	NextHop *lisp.RLOC `json:"next_hop"` // of a path: where packets go
	// SourcePort is that which packets leave from; 0: that of each flow.
	SourcePort uint16 `json:"source_port"`

	Priority  uint8   `json:"priority"`
	Weight    uint8   `json:"weight"`
	Reachable bool    `json:"reachable"`
	Interface bool    `json:"local_interface"`
	MTU       *uint32 `json:"mtu"`
	TxNonce   *uint32 `json:"tx_nonce"`
	RxNonce   *uint32 `json:"rx_nonce"`
}

// flow is one direction of a connection between EIDs, in the Instance-ID of the message.
type flow struct {
	Source          lisp.EID `json:"source"`
	Destination     lisp.EID `json:"destination"`
	Protocol        uint8    `json:"protocol"`
	SourcePort      uint16   `json:"source_port"`
	DestinationPort uint16   `json:"destination_port"`
}

// problem is what went wrong with a message.
type problem struct {
	Errno string `json:"errno"`
	Text  string `json:"text"`
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
func encodeLine(out io.Writer, v any) error { return jsondoc.Write(out, v) }

func documentOf(m *mapsock.Message) messageDocument {
	d := messageDocument{
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
		Source:          told(m, mapsock.AttributeSource, m.Source),
		Interface:       told(m, mapsock.AttributeInterface, m.Interface),
		LocatorState:    told(m, mapsock.AttributeLocatorState, m.LocatorState.String()),
		Flow: told(m, mapsock.AttributeFlow, flow{
			m.Flow.Source, m.Flow.Destination, m.Flow.Protocol, m.Flow.SourcePort, m.Flow.DestinationPort,
		}),
	}
	if d.Flow != nil {
		d.InstanceID = m.Instance
	}
	if m.Errno != 0 {
		d.Error = &problem{Errno: unix.ErrnoName(m.Errno), Text: m.ErrorText}
	}
	return d
}

func mappingOf(m *mapsock.Message) mapping {
	e := mapping{
		Packets: told(m, mapsock.AttributePackets, m.Usage.Packets),
		Octets:  told(m, mapsock.AttributeOctets, m.Usage.Octets),
	}
	if m.HasEID {
		prefix := m.Prefix // the message is read into again
		e.EIDPrefix, e.InstanceID = &prefix, prefix.Instance()
	}
	if m.Flags&mapsock.FlagVersioning != 0 {
		e.MapVersion = m.MapVersion
	}
	if m.Flags&mapsock.FlagNegative != 0 {
		e.Action = told(m, mapsock.AttributeAction, m.Action)
	}
	if m.Has(mapsock.AttributeTTL) && m.TTLMinutes != lisp.TTLUnlimited {
		ttl := jsondoc.SecondsOf(time.Duration(m.TTLMinutes) * time.Minute)
		e.TTL = &ttl
	}
	e.CreatedAt = toldTime(m, mapsock.AttributeCreated, m.Created)
	e.ExpiresAt = toldTime(m, mapsock.AttributeExpires, m.Expires)
	e.LastUsedAt = toldTime(m, mapsock.AttributeLastUsed, m.Usage.LastUsedAt)
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

// toldTime is a time that stands in a message, nil for none.
func toldTime(m *mapsock.Message, a mapsock.Attribute, at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return told(m, a, at.UTC())
}

func locatorOf(l *mapsock.Locator) locator {
	d := locator{
		RLOC: l.RLOC, SourcePort: l.SourcePort, Priority: l.Priority, Weight: l.Weight, Reachable: l.Reachable, Interface: l.Interface,
	}
	if d.Path = hopsOf(&l.Locator); d.Path != nil {
		next := l.NextHop()
		d.NextHop = &next
	}
	if l.MTU != 0 {
		mtu := l.MTU
		d.MTU = &mtu
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

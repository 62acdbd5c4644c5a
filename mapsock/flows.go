// SPDX-License-Identifier: Apache-2.0

package mapsock

// Flows that are bound to a path, and the event that a connection begins or ends that may be. A flow is an attribute;
// its Instance-ID is that of the message. Its path stands as a locator does.

import (
	"bytes"
	"fmt"
	"iter"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
)

// flowSize is the length of AttributeFlow without the EIDs.
const flowSize = 8

// The bits of AttributeTables.
const (
	tableMapCache = 1 << iota
	tableDatabase
	tableFlows

	knownTables = tableMapCache | tableDatabase | tableFlows
)

func setFlow(m *Message, f lisp.Flow) {
	m.Flow, m.Instance = f, f.Instance
	m.Mark(AttributeFlow)
}

// setBoundFlow makes m speak of a flow and the path that it is bound to.
func setBoundFlow(m *Message, f lisp.Flow, p lisp.Path) {
	setFlow(m, f)
	m.Locators = append(m.Locators, Locator{Locator: lisp.Locator{RLOC: p.RLOC, Behind: p.Behind}})
}

// SetFlowEntry makes m speak of a flow that is bound.
func (m *Message) SetFlowEntry(e *dataplane.FlowEntry) {
	setBoundFlow(m, e.Flow, e.Path)
	m.Created, m.Usage.LastUsedAt = e.CreatedAt, e.LastUsedAt
	m.Mark(AttributeCreated)
	if !e.LastUsedAt.IsZero() {
		m.Mark(AttributeLastUsed)
	}
}

// FlowEntry reads a flow that is bound, or is to be.
func (m *Message) FlowEntry() (dataplane.FlowEntry, error) {
	if !m.Has(AttributeFlow) || len(m.Locators) != 1 {
		return dataplane.FlowEntry{}, Refusef(unix.EINVAL, "want a flow and one locator, its path")
	}
	return dataplane.FlowEntry{
		Flow: m.Flow, Path: m.Locators[0].Path(), CreatedAt: m.Created, LastUsedAt: m.Usage.LastUsedAt,
	}, nil
}

func setSubflow(m *Message, e dataplane.Subflow) {
	m.Reset(TypeSubflow)
	setFlow(m, e.Flow)
	setFlag(m, FlagFromCore, e.FromCore)
	m.Packet = e.TCP
	m.Mark(AttributePacket)
}

// subflowOf reads what a message of TypeSubflow reports. The TCP header is a copy.
func subflowOf(m *Message) (e dataplane.Subflow, ok bool) {
	isOne := m.Type == TypeSubflow && m.Has(AttributeFlow) && m.Has(AttributePacket)
	if !isOne || len(m.Packet) > dataplane.MaxTCPHeader {
		return e, false
	}
	return dataplane.Subflow{Flow: m.Flow, FromCore: m.Flags&FlagFromCore != 0, TCP: bytes.Clone(m.Packet)}, true
}

// setFlush says which tables are to be emptied: by flags as long as no flow is meant, which older servers do not know.
func setFlush(m *Message, o dataplane.Flush) {
	m.Reset(TypeFlush)
	if !o.Flows {
		setFlag(m, FlagAll, o.MapCache && o.Database)
		setFlag(m, FlagDatabase, o.Database && !o.MapCache)
		return
	}
	m.Tables = tableFlows
	if o.MapCache {
		m.Tables |= tableMapCache
	}
	if o.Database {
		m.Tables |= tableDatabase
	}
	m.Mark(AttributeTables)
}

// FlushOf reads which tables a message of TypeFlush is to empty.
func FlushOf(m *Message) dataplane.Flush {
	if !m.Has(AttributeTables) {
		return dataplane.Flush{MapCache: m.Flags.MapCache(), Database: m.Flags.Database()}
	}
	return dataplane.Flush{
		MapCache: m.Tables&tableMapCache != 0, Database: m.Tables&tableDatabase != 0,
		Flows: m.Tables&tableFlows != 0,
	}
}

func appendFlow(b []byte, a Attribute, m *Message) []byte {
	source, destination := m.Flow.Source.Addr(), m.Flow.Destination.Addr()
	b = appendAttribute(b, a, flowSize+(source.BitLen()+destination.BitLen())/8)
	b = append(b, m.Flow.Protocol, 0)
	b = order.AppendUint16(order.AppendUint16(b, m.Flow.SourcePort), m.Flow.DestinationPort)
	return appendAddress(appendAddress(append(b, 0, 0), source), destination)
}

func parseFlow(m *Message, v []byte) error {
	half := (len(v) - flowSize) / 2
	source, destination := rlocFrom(v[flowSize:flowSize+half]), rlocFrom(v[flowSize+half:])
	if source.IsZero() || destination.IsZero() {
		return fmt.Errorf("%d octets %x are not two addresses", len(v)-flowSize, v[flowSize:])
	}
	if v[1] != 0 || v[6] != 0 || v[7] != 0 {
		return fmt.Errorf("reserved octets %x, %x are not 0", v[1:2], v[6:8])
	}
	m.Flow = lisp.Flow{
		Source: lisp.EIDFromAddr(source.Addr()), Destination: lisp.EIDFromAddr(destination.Addr()),
		Protocol:   v[0],
		SourcePort: order.Uint16(v[2:]), DestinationPort: order.Uint16(v[4:]),
	}
	return nil
}

// joinFlow gives a flow the Instance-ID of its message, which may stand behind it.
func joinFlow(m *Message) error {
	if !m.Has(AttributeFlow) {
		return nil
	}
	m.Flow.Instance = m.Instance
	return m.Flow.Valid()
}

// Flows yields the flows that are bound. It ends early when the connection does; who must know uses DumpFlows.
func (c *Client) Flows() iter.Seq[dataplane.FlowEntry] { return untilError(c.DumpFlows()) }

// DumpFlows yields the flows that are bound, and at last an error when they are not all.
func (c *Client) DumpFlows() iter.Seq2[dataplane.FlowEntry, error] {
	return entries(c, Message{Type: TypeDumpFlows}, (*Message).FlowEntry)
}

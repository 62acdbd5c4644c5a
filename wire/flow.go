// SPDX-License-Identifier: Apache-2.0

package wire

// The path of one TCP flow, asked for and answered: the EID of the record is Application Data (RFC 8060 s.5.1), the
// destination EID with both ports. Local ports are the destination's, remote ones the source's, whose EID is in the
// Source EID of the Map-Request. An Instance-ID is inside the Application Data. Ranges of ports and other protocols
// are refused: they are no flow.

import (
	"errors"
	"fmt"

	"loci/lisp"
)

const protocolTCP = 6

var errNoFlow = errors.New("not Application Data")

// FlowAddress is the destination of a TCP flow with both ports, as the EID of a record.
func FlowAddress(f lisp.Flow) Address {
	return ApplicationDataLCAF{
		Protocol:     f.Protocol,
		LocalPortLow: f.DestinationPort, LocalPortHigh: f.DestinationPort,
		RemotePortLow: f.SourcePort, RemotePortHigh: f.SourcePort,
		Address: EIDAddress(f.Instance, f.Destination),
	}
}

// AskFlow makes m ask for the path of a flow, by these ITR-RLOCs.
func (m *MapRequest) AskFlow(f lisp.Flow, itrRLOCs []lisp.RLOC) {
	destination := lisp.HostPrefix(f.Instance, f.Destination)
	m.Ask(f.Source, itrRLOCs, destination)
	m.Records[0].EID = FlowAddress(f)
}

// Flow is the flow whose path a Map-Request asks for by its first record.
func (m *MapRequest) Flow() (lisp.Flow, error) {
	if len(m.Records) != 1 {
		return lisp.Flow{}, fmt.Errorf("%d records: want 1", len(m.Records))
	}
	f, err := flowTo(m.Records[0].EID, m.Records[0].MaskLen)
	if err != nil {
		return f, err
	}
	instance, source, err := EIDOf(m.SourceEID)
	if err != nil {
		return f, fmt.Errorf("Source EID: %w", err)
	}
	if f.Source = source; instance != f.Instance {
		return f, fmt.Errorf("Source EID in Instance-ID %d: want %d, as of its destination", instance,
			f.Instance)
	}
	return f, f.Valid()
}

// IsFlow reports whether the EID of a record is Application Data.
func IsFlow(eid Address) bool {
	_, is := eid.(ApplicationDataLCAF)
	return is
}

// FlowPorts are both ports of such an EID, 0 for another one.
func FlowPorts(eid Address) uint32 {
	a, _ := eid.(ApplicationDataLCAF)
	return uint32(a.LocalPortLow)<<16 | uint32(a.RemotePortLow)
}

// flowTo is what the EID of a record says of a flow: all but its source.
func flowTo(eid Address, maskLen uint8) (f lisp.Flow, err error) {
	a, is := eid.(ApplicationDataLCAF)
	switch {
	case !is:
		return f, errNoFlow
	case a.Protocol != protocolTCP:
		return f, fmt.Errorf("protocol %d: want %d, TCP", a.Protocol, protocolTCP)
	case a.LocalPortLow != a.LocalPortHigh || a.RemotePortLow != a.RemotePortHigh:
		return f, fmt.Errorf("ports %d-%d and %d-%d: want one each", a.LocalPortLow, a.LocalPortHigh,
			a.RemotePortLow, a.RemotePortHigh)
	case a.LocalPortLow == 0 || a.RemotePortLow == 0:
		return f, errors.New("port 0")
	}
	p, err := PrefixOf(a.Address, maskLen)
	if err != nil {
		return f, err
	}
	if !p.IsHost() {
		return f, fmt.Errorf("EID-Prefix %s: want the mask length of an EID", p)
	}
	return lisp.Flow{
		Instance: p.Instance(), Destination: p.EID(), Protocol: a.Protocol,
		SourcePort: a.RemotePortLow, DestinationPort: a.LocalPortLow,
	}, nil
}

// FlowRecord is the answer to a Map-Request for the path of a flow: the same EID, and the path as an Explicit Locator
// Path, also where it has one hop.
func FlowRecord(asked RequestRecord, ttlMinutes uint32, l lisp.Locator) Record {
	l.Address = ""
	l.Bits[0] |= lisp.HopExplicit
	return Record{
		TTLMinutes: ttlMinutes, EID: asked.EID, MaskLen: asked.MaskLen, Authoritative: true,
		Locators: []LocatorRecord{locatorOf(&l, pathAddress(&l))},
	}
}

// FlowPath is the path that a Map-Reply has for a flow, whose source it does not say.
func (m *MapReply) FlowPath() (f lisp.Flow, path lisp.Path, err error) {
	if len(m.Records) != 1 {
		return f, path, fmt.Errorf("%d records: want 1", len(m.Records))
	}
	rec := &m.Records[0]
	if f, err = flowTo(rec.EID, rec.MaskLen); err != nil {
		return f, path, err
	}
	if len(rec.Locators) != 1 {
		return f, path, fmt.Errorf("%d locators: want 1", len(rec.Locators))
	}
	l := &rec.Locators[0]
	if l.Priority == lisp.PriorityUnused {
		return f, path, fmt.Errorf("locator %s has priority %d", l.Address, l.Priority)
	}
	path, _, err = PathOf(l.Address)
	return f, path, err
}

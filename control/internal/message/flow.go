// SPDX-License-Identifier: Apache-2.0

package message

// The path of one flow, asked for and answered by the EID of a record that is Application Data (RFC 8060 s.5.1).

import (
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// FlowReply answers a Map-Request for the path of a flow.
type FlowReply struct {
	Arrival
	Nonce    uint64
	Flow     lisp.Flow // without its source
	Path     lisp.Path
	Lifetime time.Duration // of the answer
}

// readFlow takes the flow that a Map-Request asks for, and its destination as the EID-Prefix asked for.
func (m *MapRequest) readFlow() *Refusal {
	f, err := m.MapRequest.Flow()
	switch {
	case err != nil:
		return Refuse(counter.RefusedSubflowRequest, "Map-Request for the path of a flow: %w", err)
	case m.Probe || m.SMR:
		return Refuse(counter.RefusedSubflowRequest, "RLOC-probe or Solicit-Map-Request about a flow: want an EID-Prefix")
	}
	m.Flow = &f
	m.Prefixes = append(m.Prefixes, lisp.HostPrefix(f.Instance, f.Destination))
	return nil
}

// asksForFlow reports whether a Map-Request asks for the path of a flow, with whatever errors.
func (m *MapRequest) asksForFlow() bool { return wire.IsFlow(m.Records[0].EID) }

// inspectFlowReply takes the answer about a flow.
func inspectFlowReply(at Arrival, m *wire.MapReply) (any, *Refusal) {
	f, path, err := m.FlowPath()
	switch {
	case err != nil:
		return nil, Refuse(counter.RefusedSubflowReply, "Map-Reply about a flow: %w", err)
	case m.Probe:
		return nil, Refuse(counter.RefusedSubflowReply, "answer to an RLOC-probe about a flow: want an EID-Prefix")
	}
	return &FlowReply{
		Arrival: at, Nonce: m.Nonce, Flow: f, Path: path, Lifetime: lisp.Lifetime(m.Records[0].TTLMinutes, 0),
	}, nil
}

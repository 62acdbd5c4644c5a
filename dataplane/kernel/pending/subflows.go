// SPDX-License-Identifier: Apache-2.0

// This file turns what the programs tell of TCP packets that begin or end a flow which may be bound (bpf/subflow.h)
// into events for the control plane. The programs limit their rate. Nothing here is acted upon.

package pending

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unsafe"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

const (
	protocolTCP = 6
	shortestTCP = 20 // octets of a TCP header without options
)

// takeSubflow raises what one record says, after all misses: while many events wait it is lost.
func (m *Misses) takeSubflow(sample []byte) error {
	event, err := subflowFrom(sample)
	if err == nil {
		m.Tell(event)
	}
	return err
}

func subflowFrom(sample []byte) (event dataplane.Subflow, err error) {
	var s abi.Subflow
	if len(sample) < int(unsafe.Sizeof(s)) {
		return event, fmt.Errorf("a subflow of %d octets", len(sample))
	}
	s = *(*abi.Subflow)(unsafe.Pointer(&sample[0]))
	if s.Family != 4 && s.Family != 6 || s.Octets < shortestTCP || s.Octets > dataplane.MaxTCPHeader {
		return event, fmt.Errorf("a subflow of family %d, with a TCP header of %d octets", s.Family, s.Octets)
	}
	return dataplane.Subflow{
		Flow: lisp.Flow{
			Instance: lisp.InstanceID(s.Iid), Protocol: protocolTCP,
			Source:          lisp.EIDFromAddr(abi.Addr(s.Family, s.Source)),
			Destination:     lisp.EIDFromAddr(abi.Addr(s.Family, s.Destination)),
			SourcePort:      binary.BigEndian.Uint16(s.Tcp[:]),
			DestinationPort: binary.BigEndian.Uint16(s.Tcp[2:]),
		},
		FromCore: s.FromCore != 0, TCP: bytes.Clone(s.Tcp[:s.Octets]),
	}, nil
}

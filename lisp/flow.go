// SPDX-License-Identifier: Apache-2.0

package lisp

// Flow: what the packets of one direction of a connection have in common (RFC 8684 calls both directions a subflow). It
// knows no packet.

import (
	"fmt"
	"net/netip"
)

// Flow is one direction of a connection between two EIDs: what its packets have in common. It is comparable.
type Flow struct {
	Instance                    InstanceID
	Source, Destination         EID // IPv4 or IPv6, both of one family
	Protocol                    uint8
	SourcePort, DestinationPort uint16
}

// Reverse is the other direction of the connection.
func (f Flow) Reverse() Flow {
	f.Source, f.Destination = f.Destination, f.Source
	f.SourcePort, f.DestinationPort = f.DestinationPort, f.SourcePort
	return f
}

// Valid refuses a flow whose EIDs are not addresses of one family, or whose Instance-ID is out of range.
func (f Flow) Valid() error {
	switch kind := f.Source.Kind(); {
	case kind != EIDIPv4 && kind != EIDIPv6:
		return fmt.Errorf("source EID %s of a flow: want an IPv4 or IPv6 address", f.Source)
	case f.Destination.Kind() != kind:
		return fmt.Errorf("destination EID %s of a flow: want an address of the family of %s", f.Destination,
			f.Source)
	case f.Instance > MaxInstanceID:
		return fmt.Errorf("Instance-ID %d of a flow: at most %d", f.Instance, MaxInstanceID)
	}
	return nil
}

// String shows protocol, source and destination: "tcp 10.1.0.1:40000 > 10.2.0.1:443", with the Instance-ID in front
// where it is not 0.
func (f Flow) String() string {
	protocol := fmt.Sprintf("protocol %d", f.Protocol)
	switch f.Protocol {
	case 6:
		protocol = "tcp"
	case 17:
		protocol = "udp"
	}
	s := fmt.Sprintf("%s %s > %s", protocol, withPort(f.Source, f.SourcePort),
		withPort(f.Destination, f.DestinationPort))
	if f.Instance != 0 {
		return fmt.Sprintf("[%d] %s", f.Instance, s)
	}
	return s
}

func withPort(e EID, port uint16) string {
	return netip.AddrPortFrom(e.Addr(), port).String()
}

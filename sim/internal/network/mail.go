// SPDX-License-Identifier: Apache-2.0

package network

// What is under way. Each message is parsed once, for everybody.

import (
	"net/netip"

	"loci/wire"
)

// Mail is a control message or an encapsulated packet under way.
type Mail struct {
	From, To netip.AddrPort
	Payload  []byte
	Data     bool         // an IP packet for the data plane
	Hostile  bool         // made by the attacker
	Forged   bool         // and with authentication data that no holder of the key made
	Hops     int          // relays that it came by
	message  wire.Message // the payload as it was parsed, which everybody shares; nil before and where it is none
	room     *wire.Room   // where it is
	copies   int          // under way
}

func newMail() *Mail { return &Mail{room: new(wire.Room)} }

// Message is the payload as a message, nil where it is none.
func (m *Mail) Message() wire.Message {
	if m.message == nil {
		m.message, _ = wire.Parser{}.ParseIn(m.room, m.Payload)
	}
	return m.message
}

// SPDX-License-Identifier: Apache-2.0

// What a frame that enters the core means to the demo of a move: a control message or a LISP data packet, and whom it is
// for (RFC 9300 s.5, RFC 9301 s.5). It judges nothing.

package demo

import (
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/internal/testnet"
	"loci/wire"
)

// sightMove decodes a frame; false for what is not LISP.
func sightMove(p testnet.Captured) (moveSighting, bool) {
	packet := gopacket.NewPacket(p.Data, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true})
	network := packet.NetworkLayer()
	udp, ok := packet.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if network == nil || !ok {
		return moveSighting{}, false
	}
	s := moveSighting{at: p.Time, from: p.Link}
	_, s.to = endpoints(network)
	if udp.DstPort == wire.DataPort {
		meaning, isData := understandData(udp.Payload)
		s.data = meaning.destination
		return s, isData
	}
	if udp.DstPort != wire.ControlPort && udp.SrcPort != wire.ControlPort {
		return moveSighting{}, false
	}
	message, err := wire.Parse(udp.Payload)
	if outer, encapsulated := message.(*wire.EncapsulatedControlMessage); encapsulated && err == nil {
		s.inner = true
		message, err = wire.Parse(outer.Inner.Message)
	}
	s.message = message
	return s, err == nil
}

// SPDX-License-Identifier: Apache-2.0

package model

// The engine within another one that has a host around it: the host's routes lead packets here by one interface, and take
// back what is not LISP's and what was decapsulated. Both times the host counts the hop. What the engine around this one
// sends by itself, by what this one found out before, it tells by Account. Nothing here sends.

import (
	"loci/dataplane/model/packets"
	"loci/forward"
	"loci/lisp"
)

// Hosted is an engine with a host around it, made with Options.Routed.
type Hosted struct{ *Engine }

// SendRouted passes a packet to the engine that the host's routes led here. Its Instance-ID is that of the interfaces to the
// site, and so is its interface where there is one alone.
func (e Hosted) SendRouted(packet []byte) forward.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.packets.SendRouted(packet)
}

// SendAgain passes a packet to the engine that was to be sent encapsulated, and was refused because it does not fit the path any
// more. One that was relayed is treated as that again, in its Instance-ID.
func (e Hosted) SendAgain(instance lisp.InstanceID, relayed bool, packet []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.packets.SendAgain(instance, relayed, packet)
}

// Receive passes an outer packet to the engine that came to this host.
func (e Hosted) Receive(outer []byte) forward.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.packets.Receive(outer)
}

// Account counts uses.
func (e Hosted) Account(uses []packets.Use) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.packets.Account(uses)
}

// Count counts something of the engine around this one, by name.
func (e Hosted) Count(name string, n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.packets.Count(name, n)
}

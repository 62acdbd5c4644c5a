// SPDX-License-Identifier: Apache-2.0

// Package lispers speaks the JSON interface between the control plane of lispers.net
// and an external data plane, the one that P4-LISP uses, at both ends: Engine is a
// dataplane.Plane that drives a foreign data plane, Server lets a foreign control
// plane drive any dataplane.Plane. docs/lispers-interface.md describes each message,
// field and decision.
//
// The messages are JSON objects in Unix datagrams. The data plane binds the socket
// DataPlaneSocket, the control plane ControlPlaneSocket, both in one directory. No
// message is acknowledged and there is no keepalive: a peer that went away is known
// by its socket alone, and one that comes is told everything anew.
//
// The package forwards nothing itself (RFC 9300 is the engines' business), resolves
// nothing, and never has a packet sent in clear whose mapping carries keys (RFC 8061).
//
// # What the interface cannot say
//
// An Engine keeps the tables itself and reads back what it was told. These parts of
// the contract of package dataplane are out of its reach; Lacks lists them.
//
// Engine has a lock for its tables, counters and what the peer was not told yet;
// Server for parameters, interfaces, keys and a restart that is awaited; endpoint for
// the peer that is connected; limiter for when discoveries passed.
package lispers

// Names and sizes of the interface.
const (
	// DataPlaneSocket is what the data plane binds, in the directory of both.
	DataPlaneSocket = "lisp-ipc-data-plane"
	// ControlPlaneSocket is what the control plane binds.
	ControlPlaneSocket = "lispers.net-itr"
	// MaxDatagram is the longest message, in octets.
	MaxDatagram = 64 << 10
	// MaxToControlPlane is what the control plane of lispers.net reads of a message,
	// in octets; a longer one would be cut off.
	MaxToControlPlane = 4000
	// DataPort is the UDP port of LISP data packets (RFC 9300 s.5.3), which every
	// locator has unless a NAT stands before it.
	DataPort = 4341
)

// Lack is a part of dataplane's contract that the JSON interface has no words for.
type Lack string

// What an Engine lacks. Each says what happens instead.
const (
	// LacksCompletion: Apply returns when the change is queued; the data plane
	// acknowledges nothing, so packets may be treated by the old tables for a while.
	LacksCompletion Lack = "completion: changes are not acknowledged"
	// LacksActions: all negative mappings are "no usable locator"; which action that
	// means is the data plane's choice.
	LacksActions Lack = "actions of negative mappings"
	// LacksSettings: the miss policy, the bounds of waiting and the own RLOCs are
	// the data plane's own configuration; site interfaces are told.
	LacksSettings Lack = "miss policy, bounds of waiting, own RLOCs, core interfaces"
	// LacksLocatorStates: locators that are down, and those that are unconfirmed beside
	// others that are not, are left out of each mapping, as the interface wants it, so
	// which flows move is the data plane's choice.
	LacksLocatorStates Lack = "locator states apart from mappings"
	// LacksCounters: there are counters of encapsulation, of decapsulation and of six
	// reasons for drops; none of misses, waiting packets or natively sent ones.
	LacksCounters Lack = "counters of misses, waiting, native packets and most drops"
	// LacksReading: nothing can be read back, so a control plane that starts replaces
	// the tables instead of adopting them.
	LacksReading Lack = "reading the tables back"
	// LacksFlows: a flow cannot be bound to a path, and no subflow of Multipath TCP is told of.
	LacksFlows Lack = "flows that are bound to a path"
)

// Lacks lists what an Engine lacks, for those who choose an engine and for the tests
// that leave it out.
func Lacks() []Lack {
	return []Lack{LacksCompletion, LacksActions, LacksSettings, LacksLocatorStates, LacksCounters, LacksReading,
		LacksFlows}
}

// SPDX-License-Identifier: Apache-2.0

// Package user is the engine in user space: a dataplane.Plane for hosts whose kernel takes no programs. It needs a
// TUN interface, UDP sockets, and routes that lead packets of the site's EIDs into the TUN (RFC 9300 s.4).
//
//	host's routes → TUN → outbound → UDP sockets → core
//	core → UDP sockets → inbound → TUN → host's routes → site
//
// What becomes of a packet is said by package forward, with the tables, queue and counters of package model around
// it. In front of that stands a cache of flows: it keeps the outer headers that the first packet of a flow got, until
// an operation changes the tables, or for a second. It serves plain packets: TCP and UDP behind an IP header without
// options. A GSO packet of the host is cut into segments that leave as one train of datagrams; a train that came is
// joined to one GSO packet (package offload).
//
// The tables live in the process: nothing is left of them when it ends. The TUN stays, so that packets of EIDs do not
// leave without encapsulation; Detach removes it.
//
// Engine has one lock, changing: it guards the receivers, the interfaces that packets for the TUN come in by, and
// what became of the TUN. pathErrors has one, telling, for when locators were last reported to be unreachable; paths
// has one for all that is known of paths.
package user

// SPDX-License-Identifier: Apache-2.0

// Package mapsock is mapping sockets: dataplane.Plane as messages on a Unix
// SOCK_SEQPACKET socket, so that any control plane can drive Loci's engines, ours
// can run in a process of its own, and anyone in the group can watch.
//
// The idea, the header, the message types, flags and metrics are OpenLISP's (Saucez,
// Iannone, Bonaventure: "OpenLISP: an open source implementation of LISP", s.5).
// What was too narrow there is wider here, and attributes say what it could not;
// docs/mapsock.md has every octet. The words are those of RFC 9300 and RFC 9301.
//
// Message is the format. Server offers an engine on a socket, Client is an engine
// behind one, Monitor hears everything. The package forwards no packet, keeps no
// mapping, and never waits for a listener: who does not read loses messages, and is
// told how many.
package mapsock

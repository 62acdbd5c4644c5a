// SPDX-License-Identifier: Apache-2.0

// Package mapsock is the library for mapping sockets: dataplane.Plane as messages on a
// Unix SOCK_SEQPACKET socket. Any control plane can drive Loci's engines through one, Loci's
// own can run in a separate process, and members of the socket's group can watch.
//
// Message is the format: Append writes one, Parse reads one, and methods such as Event,
// MapCacheEntry and SetOperation relate it to the values of package dataplane. Client is
// an engine behind a socket. Monitor is a connection that hears what the socket tells.
// Package mapsock/server offers an engine on a socket; a program that only connects to a
// socket does not need it.
//
// The idea, the header, the message types, flags and metrics are OpenLISP's (Saucez,
// Iannone, Bonaventure: "OpenLISP: an open source implementation of LISP", s.5).
// Fields that were too narrow there are wider here, and attributes were added;
// docs/mapsock.md has every octet. The words are those of RFC 9300 and RFC 9301.
//
// Client has two locks: sending guards the buffer of the message that is sent, mu the calls
// that wait and whether the connection has ended.
package mapsock

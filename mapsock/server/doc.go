// SPDX-License-Identifier: Apache-2.0

// Package server offers an engine on mapping sockets (docs/mapsock.md). Listen makes the
// socket's file, Server.Serve takes its clients, and Server.Plane gives the engine to the
// process itself, whose operations the listeners hear as well.
//
// Each client has a session. Its requests are answered in order; its writes become
// operations of the engine and are echoed to every listener. The engine's events go to the
// listeners in the form that each asked for.
//
// A session never waits for another. Messages that a client does not read in time are
// dropped from its queue, counted, and reported to it with LOST. Limits bounds clients,
// queues and dumps. The package forwards no packet and keeps no mapping.
//
// Server has three locks: apply, for operations and their echoes in one order, guards what
// others changed; attention is of the one connection that is waited for in a system call;
// mu guards listeners, sessions and the end. session has sending, for the datagram that is
// sent, and mu, for its deadlines; queue and paths have one each for all they hold;
// connection has one that keeps its descriptor open.
package server

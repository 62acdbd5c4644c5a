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
package server

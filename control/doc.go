// SPDX-License-Identifier: Apache-2.0

// Package control is the sans-IO core of Loci: the ITR, ETR, Map-Server and
// Map-Resolver of RFC 9301 as one state machine, Node. It is given packets,
// misses, the configuration and the time, and gives back effects: packets to
// send, changes of the forwarding tables, notices, and when it wants to be
// called next.
//
// The contract is: mutate, then drain. Call one Handle… method (or New,
// Configure, AdoptMapCache, Shutdown), then Poll until it has nothing more, then
// wait until NextDeadline or the next input. A Node belongs to one goroutine;
// Inspect alone may run anywhere, against the immutable snapshot Node.Keyring.
//
// The same inputs give the same effects in the same order: no clock, socket,
// file, lock, goroutine or random source is touched here, and no order of a Go
// map leaks out.
//
// Inside: tables (mapcache.go, locators.go, database.go, registrations.go, pending.go) know
// nobody, roles (itr.go, etr.go, mapserver.go, mapresolver.go) know tables and
// host, node.go knows the roles. A role receives parsed messages, never bytes,
// and never calls another role. Parts of roles that have tables of their own are
// probing.go (of the ITR), registrar.go and solicit.go (ETR), notifier.go (Map-Server).
package control

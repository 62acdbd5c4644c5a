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
// The public names of configuration, effects, reports and states are in api.go. What they stand for is in the
// packages below internal, bottom-up:
//
//   - table, timing, batch, locatorset: containers, deadlines and rates, long work, bits of locators;
//   - settings, counter, effect, status, report: the values that go in and out;
//   - message: Inspect and the messages as roles get them; system: what all roles share;
//   - database, mapcache, reach, registrar, solicit: tables and parts of roles;
//   - itr, etr, siblings, mapserver, mapresolver: the roles.
//
// A role receives parsed messages, never octets, and never calls another role: the Node does.
package control

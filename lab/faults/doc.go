// SPDX-License-Identifier: Apache-2.0

// Package faults breaks a LISP network of namespaces in a seeded order while every host sends to every other one, and
// judges what arrived: daemons are killed and frozen, links and MTUs change, the Map-Server goes away and comes back,
// its store fills, control messages are dropped. It is the simulator's idea on the real kernel.
//
// What always has to hold: no packet reaches a host that it was not sent to, arrives twice or with another length; no
// packet of a known mapping is lost, but for those that a cut link or a smaller MTU excuses; and every pair of hosts
// is back recovery after the last fault ended.
//
// traffic has a lock for what was wrong; each stream has one for when its datagrams were sent and arrived.
package faults

// SPDX-License-Identifier: Apache-2.0

// Package world is a simulated network of LISP routers: real Nodes of package control with the
// model engine as data plane, sites with hosts and flows, and a core that delays, loses,
// doubles and reorders what it carries.
//
// It checks what the protocol promises: invariants.go after each event that touches it and once
// a virtual second, rates.go on the wire, truth.go against what was registered. The first
// promise that is not kept ends the run.
//
// What goes wrong beyond the network, such as faults and attacks, is package sim's: it changes the world
// through the scenario that Run is given.
package world

// SPDX-License-Identifier: Apache-2.0

// Package controlplane has the benches of control messages: `loci bench control` (a Map-Server with a million registrations),
// scale (starts and lists with many entries), and mapsock (adds, events and dumps over a mapping socket).
//
// The daemon has one core, with what the kernel does to receive for it; the load and the checks of its answers have another.
package controlplane

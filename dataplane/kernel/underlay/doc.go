// SPDX-License-Identifier: Apache-2.0

// Package underlay exchanges with the core what programs do not: ICMP errors about packets
// between RLOCs (Paths), outer packets that came in fragments (Reassembly), and those that
// have to leave in fragments (Fragmenter). All of it goes through ordinary sockets.
//
// Paths has a lock, which guards when locators were last reported to be unreachable.
package underlay

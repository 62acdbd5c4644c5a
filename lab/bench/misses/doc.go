// SPDX-License-Identifier: Apache-2.0

// Package misses has the benches of packets to EIDs without a mapping: `loci bench miss` (how long the first packet takes, and how
// many misses a second are resolved), and flood (what a flood of them does to established traffic).
//
// The ITR and the Map-Server are daemons with the limits that ship. The ETR belongs to the bench (etr.go): it answers for exactly
// the EID it is asked for, so that every packet can go to an EID that no packet went to before.
package misses

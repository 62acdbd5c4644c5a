// SPDX-License-Identifier: Apache-2.0

// Package testbed runs benches. A Bench says what is measured, in which cases, of which arms; Measure builds a network for each
// arm, measures all arms in each round, fills the report, and removes everything.
//
// The network of an arm is a Line: Src – Enc – Dec – Dst, four namespaces joined by veth. Traffic is its generator and its sinks,
// BPF programs that number the packets and verify each one where it arrives. An Arm completes a line: with routes, with VXLAN
// devices, with a program that redirects, or with Loci's daemons, which run as processes with configurations of their own.
package testbed

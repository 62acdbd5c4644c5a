// SPDX-License-Identifier: Apache-2.0

// Package kernel is the engine that forwards in the kernel, by the eBPF programs of
// bpf/ at the tc hooks (RFC 9300 s.4, s.5, s.7). It compiles the tables into the
// arrays that programs read, attaches the programs, keeps packets that wait, and
// implements dataplane.Plane. Maps, programs and the TAP outlive the process:
// forwarding goes on when it is killed, and the next Open adopts what it finds
// without a packet lost.
//
// A packet's way: a program at the site's interface finds the mapping and sends the
// packet out encapsulated, or sends it to the TAP (bpf/); package pending reads it
// there and tells the control plane, which answers by Apply; package tables writes
// the mapping and package lpm links it; package pending writes the packet back.
//
// The package never speaks LISP's control protocol and never expires an entry.
package kernel

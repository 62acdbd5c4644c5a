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
// there and tells the control plane, which answers by Apply; package entries has
// package tables write the mapping and package lpm link it; package pending writes
// the packet back.
//
// Each subject has a package below this one. Engine puts them together: it opens and adopts, applies
// settings, follows interfaces and the TAP. It has a lock for what changes anything in force,
// changing, which guards whether it is closed and why interfaces could not be followed; attach and tap
// have no other for their hooks and their TAP. It is taken before all others. The tables have a lock
// of their own, in entries.
//
// The package never speaks LISP's control protocol and never expires an entry.
package kernel

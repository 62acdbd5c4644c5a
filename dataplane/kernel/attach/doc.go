// SPDX-License-Identifier: Apache-2.0

// Package attach has the programs at interfaces: it chooses tc or XDP for each, attaches and
// replaces them without a packet in between, has programs know of interfaces and VLANs that come, go
// or change, and follows those (RFC 9300 s.5.5). It never creates an interface, nor removes what
// others attached.
//
// Interfaces has the lock, which guards what is known and wanted of interfaces, and the TAP's index
// and address, for those who read them beside a change. The engine makes one call at a time that
// changes anything: what only such calls use has no lock, which is the hooks, their links and
// programs, which interfaces are missing, and why the kernel refuses the XDP program.
package attach

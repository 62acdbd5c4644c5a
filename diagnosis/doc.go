// SPDX-License-Identifier: Apache-2.0

// Package diagnosis is `loci ping`, `loci netcheck`, and the sockets and the clock of `loci lig`. It sends what RFC 9301 and ICMP
// already have: Map-Requests, RLOC-probes, echo requests. So every peer can be asked, of whatever implementation. It asks the daemon
// for what it knows, and changes nothing.
package diagnosis

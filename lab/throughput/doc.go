// SPDX-License-Identifier: Apache-2.0

// Package throughput has the laboratory's experiments about what routers in user space carry: `loci lab run oor-throughput` and
// `oor-openvpn`, after Figures 3 and 4 of the OpenOverlayRouter paper. Packets of 1388 octets are offered at rising rates to the
// engines of `loci bench user`, and what arrives is drawn against what was offered.
//
// No figure is typed in: the paper's panel has what its text says, and no more.
package throughput

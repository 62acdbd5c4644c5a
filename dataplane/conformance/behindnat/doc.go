// SPDX-License-Identifier: Apache-2.0

// Package behindnat holds engines of a real host behind NAT boxes: masquerade by the kernel's nftables, and a NAT64
// (tayga). Packets of a locator with a source port have one binding, have a checksum and come through, in both
// directions, as do ICMP errors about them. For tests alone; it needs root.
package behindnat

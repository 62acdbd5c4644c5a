// SPDX-License-Identifier: Apache-2.0

// Package offload does in user space what an interface does with checksums and segments: it finishes checksums that a
// sender left open (CHECKSUM_PARTIAL), cuts GSO packets into their segments, and joins consecutive TCP segments of a
// flow to one GSO packet (RFC 9293, RFC 768, RFC 1071). It works on octets alone: no sockets, no tables, no clock.
package offload

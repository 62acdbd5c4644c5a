/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * CHECKSUM_PARTIAL at XDP: a sender on the same machine has left the checksum to its interface, and
 * nothing but the field says so: it holds the sum of the pseudo header (RFC 9293 s.3.1, RFC 768).
 * One complete checksum in 65,536 looks the same, and its packet goes by tc. In a tunnel of the
 * sender the inner checksum may be the partial one, so tunnels count as partial.
 */
#ifndef LISP_CHECKSUM_PARTIAL_H
#define LISP_CHECKSUM_PARTIAL_H

#include "parse.h"

#define TCP_CHECKSUM_OFFSET 16
#define UDP_CHECKSUM_OFFSET 6
#define SCTP_CHECKSUM_OFFSET 8

static __always_inline __u32 sum_address(const union lisp_address *a, __u8 family)
{
	__u64 sum = a->words[0];

	if (family == 6)
		sum += (__u64)a->words[1] + a->words[2] + a->words[3];
	sum = (sum & 0xFFFFFFFF) + (sum >> 32);
	return (sum & 0xFFFF) + (sum >> 16);
}

/* The sum of both addresses. */
static __always_inline __u32 sum_addresses(const union lisp_address *source,
					   const union lisp_address *destination, __u8 family)
{
	return sum_address(source, family) + sum_address(destination, family);
}

/* `sum` is that of the addresses, `length` of what follows the IP header. */
static __always_inline __u16 sum_pseudo_header(__u32 sum, __u32 length, __u8 protocol)
{
	sum += bpf_htons(length) + bpf_htons(protocol);
	sum = (sum & 0xFFFF) + (sum >> 16);
	return (sum & 0xFFFF) + (sum >> 16);
}

static __always_inline bool is_tunnel_port(__be16 port)
{
	return port == bpf_htons(4789) || port == bpf_htons(8472) || port == bpf_htons(6081) ||
	       port == bpf_htons(LISP_DATA_PORT);
}

/* Packets are fragmented with complete checksums; what is not known may be partial. */
static __always_inline bool is_checksum_partial(hook_frame *frame, const struct lisp_packet *p)
{
	__u32 sum = sum_addresses(&p->source, &p->destination, p->family);
	__u16 partial = sum_pseudo_header(sum, p->offset + p->length - p->l4_offset, p->protocol);
	struct udphdr udp = {};
	__be32 sctp = 1;
	__be16 tcp = 0;

	if (p->fragment)
		return false;
	switch (p->protocol) {
	case IPPROTO_UDP:
		return read_octets(frame, p->l4_offset, &udp, sizeof(udp)) == 0 &&
		       (is_tunnel_port(udp.dest) || udp.check == partial);
	case IPPROTO_TCP:
		return read_octets(frame, p->l4_offset + TCP_CHECKSUM_OFFSET, &tcp, 2) == 0 &&
		       tcp == partial;
	case IPPROTO_SCTP:
		return read_octets(frame, p->l4_offset + SCTP_CHECKSUM_OFFSET, &sctp, 4) == 0 &&
		       !sctp;
	case IPPROTO_ICMP:
	case NEXTHDR_ICMPV6:
		return false;
	}
	return true;
}

#endif

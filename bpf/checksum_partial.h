/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Checksums that a sender on the same machine has left to its network interface: at a virtual link
 * XDP sees such packets as they are, with no word about it, and a frame sent on keeps what is in
 * the field. The field holds the sum of the pseudo header then (RFC 9293 s.3.1, RFC 768), by which
 * the packet is recognised; one finished checksum in 65,536 looks the same and only takes the
 * slower way. Of packets in tunnels of the sender's own the inner checksum may be the unfinished
 * one, so all that may be a tunnel counts as unfinished. Nothing here ever changes a frame.
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

static __always_inline __u16 sum_pseudo_header(const struct lisp_packet *p)
{
	__u32 sum = sum_address(&p->source, p->family) + sum_address(&p->destination, p->family);

	sum += bpf_htons(p->offset + p->length - p->l4_offset) + bpf_htons(p->protocol);
	sum = (sum & 0xFFFF) + (sum >> 16);
	return (sum & 0xFFFF) + (sum >> 16);
}

static __always_inline bool is_tunnel_port(__be16 port)
{
	return port == bpf_htons(4789) || port == bpf_htons(8472) || port == bpf_htons(6081) ||
	       port == bpf_htons(LISP_DATA_PORT);
}

static __always_inline bool is_udp_checksum_partial(hook_frame *frame, const struct lisp_packet *p)
{
	struct udphdr h;

	if (read_octets(frame, p->l4_offset, &h, sizeof(h)) < 0)
		return false;
	return is_tunnel_port(h.dest) || h.check == sum_pseudo_header(p);
}

/* A fragment was finished before it was cut. */
static __always_inline bool is_checksum_partial(hook_frame *frame, const struct lisp_packet *p)
{
	__be32 sctp = 1;
	__be16 tcp = 0;

	if (p->fragment)
		return false;
	switch (p->protocol) {
	case IPPROTO_UDP:
		return is_udp_checksum_partial(frame, p);
	case IPPROTO_TCP:
		return read_octets(frame, p->l4_offset + TCP_CHECKSUM_OFFSET, &tcp, sizeof(tcp)) ==
			       0 &&
		       tcp == sum_pseudo_header(p);
	case IPPROTO_SCTP:
		return read_octets(frame, p->l4_offset + SCTP_CHECKSUM_OFFSET, &sctp,
				   sizeof(sctp)) == 0 &&
		       sctp == 0;
	case IPPROTO_ICMP:
	case NEXTHDR_ICMPV6:
		return false;
	}
	return true;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The outer UDP checksum of a packet that leaves from a locator's source port (stage 6). It follows
 * from the inner checksum, so no octet of the payload is read.
 */
#ifndef LISP_OUTER_CHECKSUM_H
#define LISP_OUTER_CHECKSUM_H

#include "apply.h"
#include "backlog.h"

/* The sum that bpf_csum_update takes. */
static __always_inline __u32 fold(__u64 sum)
{
	sum = (sum & 0xFFFFFFFF) + (sum >> 32);
	return (sum & 0xFFFFFFFF) + (sum >> 32);
}

static __always_inline __u16 fold_short(__u64 sum)
{
	__u32 half = fold(sum);

	half = (half & 0xFFFF) + (half >> 16);
	return (half & 0xFFFF) + (half >> 16);
}

/* What the inner packet adds to a checksum over all of it. What the checksum of TCP, UDP or ICMPv6
 * covers sums up to the complement of the pseudo header, also where the sender has yet to finish
 * it; ICMPv4 and an IPv4 header sum up to nothing. Of IPv6 the addresses are in both. */
static __always_inline __u64 sum_inner(const void *inner, const struct lisp_varying *v)
{
	__u32 length = v->length - sizeof(struct iphdr);
	__u64 pseudo;

	if (v->family == 6)
		return (__u64)OCTETS4(inner) + OCTETS2(inner + 6) + (__u16)~bpf_htons(v->protocol);
	if (v->protocol == IPPROTO_ICMP)
		return 0;
	pseudo = sum_words(inner + 12, 8) + bpf_htons(length) + bpf_htons(v->protocol);
	return (__u16)~fold_short(pseudo);
}

static __always_inline int put_checksum(hook_frame *frame, const struct lisp_varying *v,
					__u8 outer_family)
{
	void *to = frame_data(frame) + ETH_HLEN, *udp = to + header_octets(outer_family);
	__u64 sum = bpf_htons(IPPROTO_UDP) + bpf_htons(v->length + sizeof(struct udp_lisp));
	__u16 check;

	if (to + outer_length(outer_family) + sizeof(struct iphdr) > frame_end(frame))
		return -1;
	sum += outer_family == 4 ? sum_words(to + 12, 8) : sum_words(to + 8, 32);
	sum += sum_words(udp, sizeof(struct udp_lisp));
	check = ~fold_short(sum + sum_inner(udp + sizeof(struct udp_lisp), v));
	OCTETS2(udp + 6) = check ? check : 0xFFFF;
	return 0;
}

/* Writes the UDP checksum of a packet whose headers are written, with 0 in its place. A global
 * function: verified once. */
__noinline int lisp_put_checksum(hook_frame *frame, const struct lisp_varying *v,
				 __u32 outer_family)
{
	if (!v)
		return -1;
	return outer_family == 4 ? put_checksum(frame, v, 4) : put_checksum(frame, v, 6);
}

/* Whether that checksum can be computed of the inner one: the packet has one, which covers all
 * behind the IP header. */
static __noinline bool has_checksum(hook_frame *frame, const struct lisp_packet *p)
{
	struct udphdr udp;

	if (p->fragment || p->l4_offset - p->offset != header_octets(p->family))
		return false;
	if (p->protocol == IPPROTO_TCP)
		return true;
	if (p->protocol != IPPROTO_UDP)
		return p->protocol == (p->family == 4 ? IPPROTO_ICMP : NEXTHDR_ICMPV6);
	return load_from(frame, p, p->l4_offset, &udp, sizeof(udp)) == 0 && udp.check &&
	       bpf_ntohs(udp.len) == p->length - header_octets(p->family);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 6, what both hooks share: writing the headers of an action record before a packet, with the
 * fields that are its own (RFC 9300 s.5.1-5.3). Only this file, apply_tc.h and apply_xdp.h write to
 * packets that are forwarded. The hook has made room for what is written here.
 */
#ifndef LISP_APPLY_H
#define LISP_APPLY_H

#include "actions.h"

/* What the caches answer for a packet that has to go through all stages, and is as it was. */
#define NOT_CACHED -2

/* What a packet has of its own, beside its action record. */
struct lisp_varying {
	__u32 hash;  /* of its flow */
	__u32 first; /* what its LISP header has beside the template's, in host order */
	__u32 second;
	__u32 length;  /* of the inner packet, without what follows it in the frame */
	__u32 removed; /* DELIVER: octets of outer headers */
	__u8 tos;      /* that the inner packet gets */
	__u8 ttl;
	__u8 family; /* of the inner packet */
	__u8 protocol;
	__u8 l2_length; /* before the packet, with a VLAN tag that it still has */
	bool tagged;
	bool at_ingress; /* of an interface, rather than at a way out */
};

/* `length` is that of the UDP datagram. */
static __always_inline void write_udp(void *to, const __u8 *header, const struct lisp_varying *v,
				      __u32 length)
{
	OCTETS4(to) = OCTETS4(header) | bpf_htons(source_port_of(v->hash));
	OCTETS4(to + 4) = bpf_htons(length);
	OCTETS4(to + 8) = OCTETS4(header + 8) | bpf_htonl(v->first);
	OCTETS4(to + 12) = OCTETS4(header + 12) | bpf_htonl(v->second);
}

/* Only a GSO packet can be longer than length fields can tell; its segments get theirs when it is
 * cut. */
static __always_inline __u32 total_length(const struct lisp_varying *v, __u8 outer_family)
{
	__u32 total = v->length + outer_length(outer_family);

	return total < MAX_IP_LENGTH ? total : MAX_IP_LENGTH;
}

/* Writes Ethernet, IPv4, UDP and LISP headers, each octet once. -1 where there is no room. */
static __always_inline long write_headers_ipv4(hook_frame *frame,
					       const struct lisp_action_record *a,
					       const struct lisp_varying *v)
{
	__u32 total = total_length(v, 4), sum = a->outer_sum + bpf_htons(total) + v->ttl;
	const __u8 *header = a->header;
	void *to = frame_data(frame);

	if (to + ETH_HLEN + outer_length(4) > frame_end(frame))
		return -1;
	OCTETS8(to) = OCTETS8(header);
	OCTETS8(to + 8) = OCTETS8(header + 8);
	OCTETS2(to + 16) = bpf_htons(total);
	OCTETS4(to + 18) = OCTETS4(header + 18);
	sum = (sum & 0xFFFF) + (sum >> 16);
	OCTETS4(to + 22) = OCTETS4(header + 22) | v->ttl | ~(sum + (sum >> 16)) << 16;
	OCTETS8(to + 26) = OCTETS8(header + 26);
	write_udp(to + 34, header + 34, v, total - sizeof(struct iphdr));
	return 0;
}

static __always_inline long write_headers_ipv6(hook_frame *frame,
					       const struct lisp_action_record *a,
					       const struct lisp_varying *v)
{
	__u32 payload = total_length(v, 6) - sizeof(struct ipv6hdr);
	const __u8 *header = a->header;
	void *to = frame_data(frame);

	if (to + ETH_HLEN + outer_length(6) > frame_end(frame))
		return -1;
	OCTETS8(to) = OCTETS8(header);
	OCTETS4(to + 8) = OCTETS4(header + 8);
	OCTETS2(to + 12) = OCTETS2(header + 12);
	OCTETS4(to + 14) = OCTETS4(header + 14) | bpf_htonl(flow_label_of(v->hash));
	OCTETS4(to + 18) = OCTETS4(header + 18) | bpf_htons(payload) | (__u32)v->ttl << 24;
#pragma unroll
	for (int i = 22; i < 54; i += 8)
		OCTETS8(to + i) = OCTETS8(header + i);
	write_udp(to + 54, header + 54, v, payload);
	return 0;
}

static __always_inline void write_ethernet(void *to, const void *header)
{
	OCTETS8(to) = OCTETS8(header);
	OCTETS4(to + 8) = OCTETS4(header + 8);
	OCTETS2(to + 12) = OCTETS2(header + 12);
}

static __always_inline void count_encapsulated(__u8 outer_family, __u32 octets)
{
	step(LISP_STEP_ENCAPSULATED, outer_family, 0, 0);
	count(outer_family == 4 ? LISP_COUNTER_ENCAPSULATED_IPV4 : LISP_COUNTER_ENCAPSULATED_IPV6,
	      octets);
}

static __always_inline void count_decapsulated(__u8 outer_family, __u32 octets)
{
	step(LISP_STEP_DECAPSULATED, 0, 0, 0);
	count(outer_family == 4 ? LISP_COUNTER_DECAPSULATED_IPV4 : LISP_COUNTER_DECAPSULATED_IPV6,
	      octets);
}

#endif

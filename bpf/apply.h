/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 6, what both hooks share: writing the headers of an action record before a packet, with the
 * fields that are its own (RFC 9300 s.5.1-5.3). Only this file, apply_tc.h and apply_xdp.h write to
 * packets that are forwarded.
 */
#ifndef LISP_APPLY_H
#define LISP_APPLY_H

#include "action.h"

/* What the caches answer for a packet that has to go through all stages, and is as it was. */
#define NOT_CACHED -2

/* What a packet has of its own, beside its action record. */
struct lisp_varying {
	__u32 hash;  /* of its flow */
	__u32 first; /* what its LISP header has beside the template's, in host order */
	__u32 second;
	__u32 length;  /* of the inner packet, without what follows it in the frame */
	__u32 removed; /* octets of outer headers that it came with */
	__u8 tos;      /* that the inner packet gets */
	__u8 ttl;
	__u8 family; /* of the inner packet */
	__u8 protocol;
	__u8 l2_length;  /* before the packet, with a VLAN tag that it still has */
	bool at_ingress; /* rather than on its way out */
};

/* The same of a packet that has been through the stages; `hops` are taken off its TTL. */
static __always_inline void vary_from_context(struct lisp_varying *v, const hook_frame *frame,
					      const struct lisp_context *c, __u8 hops)
{
	*v = (struct lisp_varying){.hash = c->hash,
				   .first = c->header_first,
				   .second = c->header_second,
				   .length = octets_of(frame, &c->packet),
				   .removed = c->removed,
				   .tos = c->packet.tos,
				   .ttl = c->packet.ttl - hops,
				   .family = c->packet.family,
				   .protocol = c->packet.protocol,
				   .l2_length = c->l2_length,
				   .at_ingress = is_at_ingress(c)};
}

/* What the second layer of a packet has of its own, after the first one, `a`, is before it. */
static __always_inline void vary_second(struct lisp_varying *v, const struct lisp_context *second,
					const struct lisp_action_record *a)
{
	v->hash = second->hash;
	v->first = second->header_first;
	v->second = second->header_second;
	v->length += outer_length(a->outer_family);
	v->removed = 0;
	v->tos = second->packet.tos;
	v->family = a->outer_family;
	v->protocol = IPPROTO_UDP;
	v->l2_length = ETH_HLEN;
}

/* ---- each hook's, in apply_tc.h and apply_xdp.h ---- */

/* Puts the headers of an action before a packet, in place of those that it came with; not 0 where
 * that fails. */
static __always_inline long put_headers(hook_frame *frame, const struct lisp_action_record *a,
					const struct lisp_varying *v);

/* Puts the headers of an action before a packet, in place of those that it came with, and sends
 * it. */
static __always_inline int apply_encapsulation(hook_frame *frame, struct lisp_action_record *a,
					       const struct lisp_varying *v);

/* Takes the outer headers off a packet and sends it to its receiver; `outer_family` is theirs. */
static __always_inline int apply_delivery(hook_frame *frame, struct lisp_action_record *a,
					  const struct lisp_varying *v, __u32 outer_family);

/* The same as global functions: verified once. */
__noinline int lisp_put_headers(hook_frame *frame, struct lisp_action_record *a,
				const struct lisp_varying *v)
{
	return a && v ? put_headers(frame, a, v) : -1;
}

__noinline int lisp_encapsulate(hook_frame *frame, struct lisp_action_record *a,
				const struct lisp_varying *v)
{
	return a && v ? apply_encapsulation(frame, a, v) : HOOK_PASS;
}

__noinline int lisp_deliver(hook_frame *frame, struct lisp_action_record *a,
			    const struct lisp_varying *v, __u32 outer_family)
{
	return a && v ? apply_delivery(frame, a, v, outer_family) : HOOK_PASS;
}

/* ---- headers ---- */

static __always_inline void write_ethernet(void *to, const void *header)
{
	OCTETS8(to) = OCTETS8(header);
	OCTETS4(to + 8) = OCTETS4(header + 8);
	OCTETS2(to + 12) = OCTETS2(header + 12);
}

/* The headers stand at `header` in the record; `length` is that of the UDP datagram. */
static __always_inline void write_udp(void *to, const struct lisp_action_record *a,
				      const __u8 *header, const struct lisp_varying *v,
				      __u32 length)
{
	OCTETS4(to) = OCTETS4(header) | bpf_htons(v->hash & a->port_mask);
	OCTETS4(to + 4) = bpf_htons(length);
	OCTETS4(to + 8) = OCTETS4(header + 8) | bpf_htonl(v->first);
	OCTETS4(to + 12) = OCTETS4(header + 12) | bpf_htonl(v->second);
}

/* Only a GSO packet can be longer than the length field; its segments get theirs when it is cut. */
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
	write_udp(to + 34, a, header + 34, v, total - sizeof(struct iphdr));
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
	write_ethernet(to, header);
	OCTETS4(to + 14) = OCTETS4(header + 14) | bpf_htonl(flow_label_of(v->hash));
	OCTETS4(to + 18) = OCTETS4(header + 18) | bpf_htons(payload) | (__u32)v->ttl << 24;
#pragma unroll
	for (int i = 22; i < 54; i += 8)
		OCTETS8(to + i) = OCTETS8(header + i);
	write_udp(to + 54, a, header + 54, v, payload);
	return 0;
}

/* The first octets of an IP header: TOS and TTL of either family, and the checksum of IPv4. */
union lisp_head {
	__u8 octets[12];
	__be16 halves[6];
	__be32 words[3];
};

/* Gives a packet another TOS and TTL. The IPv4 checksum follows by increments, so that a wrong one
 * stays wrong. Returns the difference that makes to a checksum over the packet. */
static __always_inline __u64 change_head(union lisp_head *h, __u8 tos, __u8 ttl)
{
	__u8 *o = h->octets;
	__u64 before = (__u64)h->words[0] + h->words[1];
	__be16 first = h->halves[0], fifth = h->halves[4];
	__u32 sum;

	if (o[0] >> 4 == 6) {
		o[0] = 0x60 | tos >> 4;
		o[1] = tos << 4 | (o[1] & 0x0F);
		o[7] = ttl;
		return ((__u64)h->words[0] + h->words[1]) + 0x200000000ULL - 2 - before;
	}
	h->halves[0] = (first & bpf_htons(0xFF00)) | bpf_htons(tos);
	h->halves[4] = (fifth & bpf_htons(0x00FF)) | bpf_htons((__u16)ttl << 8);
	/* RFC 1624 s.3, for both words at once. */
	sum = (__u32)(__u16)~h->halves[5] + (__u16)~first + h->halves[0] + (__u16)~fifth +
	      h->halves[4];
	sum = (sum & 0xFFFF) + (sum >> 16);
	h->halves[5] = ~(sum + (sum >> 16));
	return 0;
}

/* ---- counters ---- */

/* By what was done and the family of the RLOC sent to. */
static __always_inline void count_encapsulated(__u8 what, __u8 outer_family, __u32 octets)
{
	__u32 first = what == LISP_DO_RELAY ? LISP_COUNTER_RELAYED_IPV4
					    : LISP_COUNTER_ENCAPSULATED_IPV4;

	step(LISP_STEP_ENCAPSULATED, outer_family, what, 0);
	count(first + (outer_family == 6), octets);
	if (what == LISP_DO_PROXY)
		count(LISP_COUNTER_PROXIED, octets);
}

/* Of a packet of so many octets that leaves with two layers, the second one by `outer`. */
static __always_inline void count_two_layers(const struct lisp_context *c,
					     const struct lisp_context *second,
					     const struct lisp_action_record *outer, __u32 octets)
{
	count_encapsulated(c->what, outer->outer_family, octets);
	count(LISP_COUNTER_ENCAPSULATED_TWICE, octets);
	count_mapping(c->mapping_index, octets, now_ns());
	count_mapping(second->mapping_index, octets, now_ns());
}

/* Of a packet about which a negative entry decided. */
static __always_inline void count_negative(const struct lisp_context *c, __u32 octets)
{
	if (c->negative)
		count_mapping(c->negative - 1, octets, now_ns());
}

/* The same of one that is refused, for whichever reason. */
static __always_inline void count_refused(const struct lisp_context *c, __u32 reason, __u32 octets)
{
	if (reason <= LISP_DROP_AUTHENTICATION_FAILURE)
		count_negative(c, octets);
}

static __always_inline void count_decapsulated(__u8 outer_family, __u32 octets)
{
	step(LISP_STEP_DECAPSULATED, 0, 0, 0);
	count(outer_family == 4 ? LISP_COUNTER_DECAPSULATED_IPV4 : LISP_COUNTER_DECAPSULATED_IPV6,
	      octets);
}

#endif

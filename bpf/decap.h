/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 2: what is inside a LISP packet (RFC 9300 s.5.1-5.3, RFC 6040 s.4.2, RFC 9305 s.3). Headers
 * are read and judged here; apply_tc.h and apply_xdp.h take them off. Nothing here ever changes a
 * frame. The UDP checksum is not verified (RFC 9300 s.5.3 allows that), zero or not.
 */
#ifndef LISP_DECAP_H
#define LISP_DECAP_H

#include "classify.h"
#include "headers.h"

#define ECN_NOT_ECT 0
#define ECN_ECT1 1
#define ECN_ECT0 2
#define ECN_CE 3
#define ECN_MASK 3

static __always_inline void note(struct lisp_context *c, __u32 counter)
{
	c->notes |= 1U << counter;
}

static __always_inline void count_noted(const struct lisp_context *c, __u32 counter, __u32 octets)
{
	if (c->notes & 1U << counter)
		count(counter, octets);
}

static __always_inline void count_notes(const struct lisp_context *c, __u32 octets)
{
	if (!c->notes)
		return;
	count_noted(c, LISP_COUNTER_NONCE_AND_VERSION, octets);
	count_noted(c, LISP_COUNTER_ECN_ALARM, octets);
	count_noted(c, LISP_COUNTER_ECN_CURIOUS, octets);
	count_noted(c, LISP_COUNTER_VERSION_STALE_DESTINATION, octets);
	count_noted(c, LISP_COUNTER_VERSION_STALE_SOURCE, octets);
}

/* Lengths of the outer headers against each other and the packet. A super-packet may be longer than
 * any of them can tell. */
static __always_inline int check_outer(hook_frame *frame, const struct lisp_context *c,
				       const struct udphdr *udp)
{
	__u32 ip_payload = c->outer.offset + c->outer.length - c->outer.l4_offset;
	__u32 length = bpf_ntohs(udp->len);

	if (c->outer.malformed)
		return LISP_DROP_OUTER_MALFORMED;
	if (length < sizeof(struct udp_lisp))
		return LISP_DROP_LISP_HEADER_TRUNCATED;
	if (segment_length(frame))
		return LISP_DROP_NONE;
	if (c->outer.offset + c->outer.length < c->outer.l4_offset || length > ip_payload)
		return LISP_DROP_OUTER_MALFORMED;
	if (length > octets_from(frame, c->outer.l4_offset))
		return LISP_DROP_OUTER_MALFORMED;
	return LISP_DROP_NONE;
}

/* The flags of VXLAN-GPE as LISP-GPE has them, which differ by the version, B and O bits; KK stands
 * for what is not understood. */
static __always_inline __u8 vxlan_gpe_flags(__u8 flags)
{
	if (flags & (VXLAN_GPE_VERSION | VXLAN_GPE_OAM) || !(flags & LISP_FLAG_P) ||
	    !(flags & LISP_FLAG_I))
		return LISP_FLAG_P | LISP_FLAGS_KK;
	return LISP_FLAG_P | LISP_FLAG_I;
}

/* RFC 9305 s.3: N, E, V and most of what stands in their place are void. False when what follows is
 * no IP. */
static __always_inline bool read_next_protocol(struct lisp_context *c, __u8 *flags)
{
	__u8 next = c->header_first;

	*flags &= ~(LISP_FLAG_N | LISP_FLAG_E | LISP_FLAG_V);
	c->header_first = (__u32)*flags << 24;
	c->next_protocol = next;
	return next == NEXT_PROTOCOL_IPV4 || next == NEXT_PROTOCOL_IPV6;
}

/* RFC 9300 s.5.1. */
static __always_inline int read_lisp_header(hook_frame *frame, struct lisp_context *c)
{
	struct udp_lisp u;
	__u32 iid;
	__u8 flags;
	int reason;

	if (read_octets(frame, c->outer.l4_offset, &u, sizeof(u)) < 0)
		return LISP_DROP_LISP_HEADER_TRUNCATED;
	reason = check_outer(frame, c, &u.udp);
	if (reason)
		return reason;
	c->header_first = bpf_ntohl(u.lisp.flags_nonce);
	c->header_second = bpf_ntohl(u.lisp.iid_lsb);
	flags = c->header_first >> 24;
	if (u.udp.dest == bpf_htons(LISP_VXLAN_GPE_PORT))
		flags = vxlan_gpe_flags(flags);
	if (flags & LISP_FLAGS_KK)
		return flags & LISP_FLAG_P ? LISP_DROP_RESERVED_BIT : LISP_DROP_KEY_ID;
	if (flags & LISP_FLAG_P && !read_next_protocol(c, &flags))
		return LISP_DROP_RESERVED_BIT;
	/* They exclude each other; a receiver takes the field for a nonce. */
	if (flags & LISP_FLAG_N && flags & LISP_FLAG_V)
		note(c, LISP_COUNTER_NONCE_AND_VERSION);
	iid = flags & LISP_FLAG_I ? c->header_second >> 8 : 0;
	c->iid = iid;
	step(LISP_STEP_LISP_HEADER, flags, iid, 0);
	c->roots = iid == c->interface_iid ? c->interface_roots : index_of_roots(iid);
	c->removed = c->outer.l4_offset + sizeof(u) - c->outer.offset;
	c->payload = bpf_ntohs(u.udp.len) - sizeof(u);
	return LISP_DROP_NONE;
}

/* What the header says of the inner packet; 0: nothing. */
static __always_inline __be16 ethertype_told(const struct lisp_context *c)
{
	if (c->next_protocol == NEXT_PROTOCOL_IPV4)
		return bpf_htons(ETH_P_IP);
	return c->next_protocol == NEXT_PROTOCOL_IPV6 ? bpf_htons(ETH_P_IPV6) : 0;
}

/* Whether an skb holds several LISP packets, as segments of one datagram (UDP_SEGMENT): then the
 * inner packet ends within the first segment. One within which a super-packet is goes far beyond,
 * or is too long for its header to tell its length. */
static __always_inline bool is_train(const hook_frame *frame, const struct lisp_context *c)
{
	__u32 segment = segment_length(frame);
	const struct lisp_packet *inner = &c->packet;

	if (!segment || c->payload <= inner->length)
		return false;
	return inner->length > inner->l4_offset - inner->offset &&
	       inner->length + sizeof(struct lisp_header) <= segment;
}

/* The inner packet must end within the UDP payload. */
static __always_inline int read_inner(hook_frame *frame, struct lisp_context *c)
{
	__u32 offset = c->outer.l4_offset + sizeof(struct udp_lisp);

	if (parse_ip(frame, offset, ethertype_told(c), &c->packet) < 0 || c->packet.malformed)
		return LISP_DROP_INNER_MALFORMED;
	/* RFC 1812 s.5.3.7, RFC 4291 s.2.5.2 to 2.5.6, s.2.7: no router forwards packets from
	 * there. */
	if (!is_routable_unicast(&c->packet.source, c->packet.family))
		return LISP_DROP_INNER_MALFORMED;
	/* Nothing here can cut it apart, and the others would become contents of the first. */
	if (is_train(frame, c))
		return LISP_DROP_OUTER_MALFORMED;
	if (!segment_length(frame) && c->packet.length > c->payload)
		return LISP_DROP_INNER_MALFORMED;
	return LISP_DROP_NONE;
}

/* Stage 2 for a packet that is_lisp() has recognised; the reason to drop it, or LISP_DROP_NONE. */
static __always_inline int decapsulate(hook_frame *frame, struct lisp_context *c)
{
	int reason = read_lisp_header(frame, c);

	return reason ? reason : read_inner(frame, c);
}

/* RFC 6040 s.4.2. Returns the inner packet's new ECN field, or -1 to drop it. */
static __always_inline int decapsulated_ecn(struct lisp_context *c, __u8 outer, __u8 inner)
{
	if (inner == ECN_NOT_ECT) {
		if (outer != ECN_NOT_ECT)
			note(c, LISP_COUNTER_ECN_ALARM);
		return outer == ECN_CE ? -1 : ECN_NOT_ECT;
	}
	if (inner == ECN_CE) {
		if (outer == ECN_ECT1)
			note(c, LISP_COUNTER_ECN_ALARM);
		return ECN_CE;
	}
	if (inner == ECN_ECT1 && outer == ECN_ECT0)
		note(c, LISP_COUNTER_ECN_CURIOUS);
	if (outer == ECN_CE || outer == ECN_ECT1)
		return outer;
	return inner;
}

/* RFC 9300 s.5.3: DSCP from the outer header unless the settings say otherwise; the smaller TTL. */
static __always_inline int merge_tos_ttl(struct lisp_context *c)
{
	const struct lisp_settings *s = find_settings();
	int ecn = decapsulated_ecn(c, c->outer.tos & ECN_MASK, c->packet.tos & ECN_MASK);
	__u8 dscp = c->outer.tos & ~ECN_MASK;

	if (ecn < 0)
		return LISP_DROP_ECN;
	if (s && s->flags & LISP_SETTING_INNER_DSCP_KEPT)
		dscp = c->packet.tos & ~ECN_MASK;
	c->tos = dscp | ecn;
	c->ttl = c->outer.ttl < c->packet.ttl ? c->outer.ttl : c->packet.ttl;
	step(LISP_STEP_MARKING, c->tos, c->ttl, 0);
	return LISP_DROP_NONE;
}

/* How often it is noted that packets come from an RLOC. */
#define SOURCE_NOTED_NS 100000000ULL

/* That packets come from an RLOC: one is about to be decapsulated. A global
 * function: verified once. */
__noinline int lisp_note_source(const union lisp_address *source, __u32 family)
{
	struct lisp_rloc_key key = {.family = family};
	__u64 now = now_ns(), *last;

	if (!source)
		return 0;
	__builtin_memcpy(key.address, source, sizeof(key.address));
	last = bpf_map_lookup_elem(&sources, &key);
	if (!last)
		bpf_map_update_elem(&sources, &key, &now, BPF_ANY);
	else if (now - *last >= SOURCE_NOTED_NS)
		*last = now;
	return 0;
}

#endif

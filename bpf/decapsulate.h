/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 2: what is inside a LISP packet (RFC 9300 s.5.1-5.3, RFC 6040 s.4.2, RFC 9305 s.3). The UDP
 * checksum is not verified, zero or not (RFC 9300 s.5.3 allows that). Stage 6 takes headers off.
 */
#ifndef LISP_DECAPSULATE_H
#define LISP_DECAPSULATE_H

#include "classify.h"
#include "header.h"

static __always_inline void note(struct lisp_context *c, __u32 counter)
{
	c->notes |= 1U << counter;
}

/* What not every packet needs: below. */
static __always_inline int check_outer(hook_frame *frame, const struct lisp_context *c,
				       const struct udphdr *udp);
static __always_inline __u8 vxlan_gpe_flags(__u8 flags);
static __always_inline bool read_next_protocol(struct lisp_context *c, __u8 *flags);
static __always_inline bool is_train(const hook_frame *frame, const struct lisp_context *c);
static __always_inline bool holds_lisp(hook_frame *frame, const struct lisp_context *c);

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
	step(LISP_STEP_LISP_HEADER, flags, iid, 0);
	c->path_number = 0;
	if (iid && iid <= LISP_LOCATORS_MAX && has_setting(LISP_SETTING_PATHS_BY_NUMBER)) {
		c->path_number = iid;
		iid = 0;
	}
	/* c has those of the interface */
	if (iid != c->iid)
		c->roots = index_of_roots(iid);
	c->iid = iid;
	c->removed += c->outer.l4_offset + sizeof(u) - c->outer.offset;
	c->payload = bpf_ntohs(u.udp.len) - sizeof(u);
	return LISP_DROP_NONE;
}

/* The inner packet must end within the UDP payload. */
static __always_inline int read_inner(hook_frame *frame, struct lisp_context *c)
{
	__u32 offset = c->outer.l4_offset + sizeof(struct udp_lisp);

	/* sources: RFC 1812 s.5.3.7, RFC 4291 s.2.5.2 to 2.5.6, s.2.7 */
	if (parse_ip(frame, offset, c->told, &c->packet) < 0 || c->packet.malformed ||
	    !is_routable_unicast(&c->packet.source, c->packet.family))
		return LISP_DROP_INNER_MALFORMED;
	/* It cannot be cut apart here. */
	if (is_train(frame, c))
		return LISP_DROP_OUTER_MALFORMED;
	if (!segment_length(frame) && c->packet.length > c->payload)
		return LISP_DROP_INNER_MALFORMED;
	return LISP_DROP_NONE;
}

/* Reads what is in a LISP packet; the reason to drop it, or none. */
static __always_inline int decapsulate(hook_frame *frame, struct lisp_context *c)
{
	__u32 epoch = begin_lookup(c->outer.family, &c->outer.destination).epoch;
	int reason = read_lisp_header(frame, c);

	if (reason)
		return reason;
	if (c->iid == LISP_CONTROL_IID) {
		c->what = LISP_DO_PASS; /* a control message, in whatever form: user space's */
		return LISP_DROP_NONE;
	}
	reason = read_inner(frame, c);
	if (reason)
		return reason;
	c->since = begin_lookup(c->packet.family, &c->packet.destination);
	c->since.epoch = epoch;
	c->lisp_inside = holds_lisp(frame, c);
	return LISP_DROP_NONE;
}

/* ---- the marks of the inner packet ---- */

#define ECN_NOT_ECT 0
#define ECN_ECT1 1
#define ECN_ECT0 2
#define ECN_CE 3
#define ECN_MASK 3

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

/* Gives the inner packet its new TOS and TTL. RFC 9300 s.5.3: DSCP from the outer header unless the
 * settings say otherwise; the smaller TTL. */
static __always_inline int decapsulate_tos_ttl(struct lisp_context *c)
{
	int ecn = decapsulated_ecn(c, c->outer.tos & ECN_MASK, c->packet.tos & ECN_MASK);
	__u8 dscp = c->outer.tos & ~ECN_MASK;

	if (ecn < 0)
		return LISP_DROP_ECN;
	if (has_setting(LISP_SETTING_INNER_DSCP_KEPT))
		dscp = c->packet.tos & ~ECN_MASK;
	c->packet.tos = dscp | ecn;
	if (c->outer.ttl < c->packet.ttl)
		c->packet.ttl = c->outer.ttl;
	step(LISP_STEP_MARKING, c->packet.tos, c->packet.ttl, 0);
	return LISP_DROP_NONE;
}

/* ---- lengths, other encapsulations, a second layer ---- */

/* Whether the lengths agree. A GSO packet may be longer than any of the fields. */
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
	return c->outer.offset + c->outer.length < c->outer.l4_offset || length > ip_payload ||
			       length > octets_from(frame, c->outer.l4_offset)
		       ? LISP_DROP_OUTER_MALFORMED
		       : LISP_DROP_NONE;
}

/* The flags of VXLAN-GPE as LISP-GPE has them: version, B and O bits differ. KK stands for what is
 * not supported. */
static __always_inline __u8 vxlan_gpe_flags(__u8 flags)
{
	if (flags & (VXLAN_GPE_VERSION | VXLAN_GPE_OAM) || !(flags & LISP_FLAG_P) ||
	    !(flags & LISP_FLAG_I))
		return LISP_FLAG_P | LISP_FLAGS_KK;
	return LISP_FLAG_P | LISP_FLAG_I;
}

/* RFC 9305 s.3: N, E, V and their fields are void. False when what follows is not IP. */
static __always_inline bool read_next_protocol(struct lisp_context *c, __u8 *flags)
{
	__u8 next = c->header_first;

	*flags &= ~(LISP_FLAG_N | LISP_FLAG_E | LISP_FLAG_V);
	c->header_first = (__u32)*flags << 24;
	c->told = ethertype_of(next == NEXT_PROTOCOL_IPV4 ? 4 : 6);
	return next == NEXT_PROTOCOL_IPV4 || next == NEXT_PROTOCOL_IPV6;
}

/* Whether a GSO packet is several LISP packets (UDP_SEGMENT): then the inner packet ends within the
 * first segment. One inner GSO packet goes far beyond, or is too long for its length field. */
static __always_inline bool is_train(const hook_frame *frame, const struct lisp_context *c)
{
	__u32 segment = segment_length(frame);
	const struct lisp_packet *inner = &c->packet;

	if (!segment || c->payload <= inner->length)
		return false;
	return inner->length > inner->l4_offset - inner->offset &&
	       inner->length + sizeof(struct lisp_header) <= segment;
}

/* Whether what came in a LISP packet is itself one for this router. */
static __always_inline bool holds_lisp(hook_frame *frame, const struct lisp_context *c)
{
	return c->packet.protocol == IPPROTO_UDP && !c->packet.fragment &&
	       is_lisp(frame, &c->packet);
}

/* ---- what was decapsulated ---- */

/* A global function: verified once. */
__noinline int lisp_count_notes(__u32 notes, __u32 octets)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 32; i++)
		if (notes >> i & 1)
			count(i, octets);
	return 0;
}

static __always_inline void count_notes(const struct lisp_context *c, __u32 octets)
{
	if (c->notes)
		lisp_count_notes(c->notes, octets);
}

/* How often it is noted that packets come from an RLOC. */
#define SOURCE_NOTED_NS 100000000ULL

/* Notes that a packet from an RLOC was decapsulated. A global function: verified once. */
__noinline int lisp_note_decapsulated(const union lisp_address *source, __u32 family)
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

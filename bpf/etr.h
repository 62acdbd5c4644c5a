/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What an ETR decides about a packet from the core (RFC 9300 s.5.1-5.3, RFC 6040 s.4.2), for both
 * hooks: everything is read and judged before anything is changed. Nothing here ever changes a
 * frame. The UDP checksum is not verified (RFC 9300 s.5.3 allows that), zero or not.
 */
#ifndef LISP_ETR_H
#define LISP_ETR_H

#include "itr.h"

#define ECN_NOT_ECT 0
#define ECN_ECT1 1
#define ECN_ECT0 2
#define ECN_CE 3
#define ECN_MASK 3

/* A packet on its way through the ETR. */
struct etr {
	struct lisp_packet outer;
	struct lisp_packet inner;
	/* of the interface where it came in */
	__u32 interface_flags;
	__u32 interface_iid;
	__u32 interface_roots;
	__u32 roots; /* index of those of the Instance-ID */
	__u32 l2_length;
	__u32 removed; /* octets of outer headers */
	__u32 payload; /* octets behind the LISP header, as the UDP length says */
	__u8 tos;      /* that the inner packet gets */
	__u8 ttl;
	__u32 mapping_index;
	__u32 iid;
	__u32 first; /* the LISP header in host order */
	__u32 second;
	__u8 next_protocol; /* 0 without P */
	__u32 entry_flags;  /* of the destination's entry in the Database: enum lisp_mapping_flag */
	__u32 notes;        /* counters to count when the packet's fate is sealed, a bit for each */
	struct decision_time since; /* for decisions that are kept */
};

/* Another program may see the packet anew when this one passes it on: nothing is counted before
 * that is decided. */
static __always_inline void note(struct etr *e, __u32 counter) { e->notes |= 1U << counter; }

static __always_inline void count_noted(const struct etr *e, __u32 counter, __u32 octets)
{
	if (e->notes & 1U << counter)
		count(counter, octets);
}

static __always_inline void count_notes(const struct etr *e, __u32 octets)
{
	if (!e->notes)
		return;
	count_noted(e, LISP_COUNTER_NONCE_AND_VERSION, octets);
	count_noted(e, LISP_COUNTER_ECN_ALARM, octets);
	count_noted(e, LISP_COUNTER_ECN_CURIOUS, octets);
	count_noted(e, LISP_COUNTER_VERSION_STALE_DESTINATION, octets);
	count_noted(e, LISP_COUNTER_VERSION_STALE_SOURCE, octets);
}

static __always_inline bool takes_vxlan_gpe(void)
{
	const struct lisp_settings *s = find_settings();

	return s && s->flags & LISP_SETTING_VXLAN_GPE;
}

/* Whether the outer packet is UDP to the LISP data port of an own RLOC, and whole. */
static __always_inline bool is_lisp(hook_frame *frame, const struct lisp_packet *outer)
{
	__be16 port;

	if (outer->protocol != IPPROTO_UDP)
		return false;
	if (outer->fragment) {
		if (is_own_rloc(outer->family, &outer->destination))
			count(LISP_COUNTER_OUTER_FRAGMENT, frame_length(frame));
		return false;
	}
	if (read_octets(frame, outer->l4_offset + 2, &port, sizeof(port)) < 0)
		return false;
	if (port != bpf_htons(LISP_DATA_PORT) &&
	    !(port == bpf_htons(LISP_VXLAN_GPE_PORT) && takes_vxlan_gpe()))
		return false;
	return is_own_rloc(outer->family, &outer->destination);
}

/* Lengths of the outer headers against each other and the packet. A super-packet may be longer than
 * any of them can tell. */
static __always_inline int check_outer(hook_frame *frame, const struct etr *e,
				       const struct udphdr *udp)
{
	__u32 ip_payload = e->outer.offset + e->outer.length - e->outer.l4_offset;
	__u32 length = bpf_ntohs(udp->len);

	if (e->outer.malformed)
		return LISP_DROP_OUTER_MALFORMED;
	if (length < sizeof(struct udp_lisp))
		return LISP_DROP_LISP_HEADER_TRUNCATED;
	if (segment_length(frame))
		return LISP_DROP_NONE;
	if (e->outer.offset + e->outer.length < e->outer.l4_offset || length > ip_payload)
		return LISP_DROP_OUTER_MALFORMED;
	if (length > octets_from(frame, e->outer.l4_offset))
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
static __always_inline bool read_next_protocol(struct etr *e, __u8 *flags)
{
	__u8 next = e->first;

	*flags &= ~(LISP_FLAG_N | LISP_FLAG_E | LISP_FLAG_V);
	e->first = (__u32)*flags << 24;
	e->next_protocol = next;
	return next == NEXT_PROTOCOL_IPV4 || next == NEXT_PROTOCOL_IPV6;
}

/* RFC 9300 s.5.1. */
static __always_inline int read_lisp_header(hook_frame *frame, struct etr *e)
{
	struct udp_lisp u;
	__u32 iid;
	__u8 flags;
	int reason;

	if (read_octets(frame, e->outer.l4_offset, &u, sizeof(u)) < 0)
		return LISP_DROP_LISP_HEADER_TRUNCATED;
	reason = check_outer(frame, e, &u.udp);
	if (reason)
		return reason;
	e->first = bpf_ntohl(u.lisp.flags_nonce);
	e->second = bpf_ntohl(u.lisp.iid_lsb);
	flags = e->first >> 24;
	if (u.udp.dest == bpf_htons(LISP_VXLAN_GPE_PORT))
		flags = vxlan_gpe_flags(flags);
	if (flags & LISP_FLAGS_KK)
		return flags & LISP_FLAG_P ? LISP_DROP_RESERVED_BIT : LISP_DROP_KEY_ID;
	if (flags & LISP_FLAG_P && !read_next_protocol(e, &flags))
		return LISP_DROP_RESERVED_BIT;
	/* They exclude each other; a receiver takes the field for a nonce. */
	if (flags & LISP_FLAG_N && flags & LISP_FLAG_V)
		note(e, LISP_COUNTER_NONCE_AND_VERSION);
	iid = flags & LISP_FLAG_I ? e->second >> 8 : 0;
	e->iid = iid;
	step(LISP_STEP_LISP_HEADER, flags, iid, 0);
	e->roots = iid == e->interface_iid ? e->interface_roots : index_of_roots(iid);
	e->removed = e->outer.l4_offset + sizeof(u) - e->outer.offset;
	e->payload = bpf_ntohs(u.udp.len) - sizeof(u);
	return LISP_DROP_NONE;
}

/* What the header says of the inner packet; 0: nothing. */
static __always_inline __be16 ethertype_told(const struct etr *e)
{
	if (e->next_protocol == NEXT_PROTOCOL_IPV4)
		return bpf_htons(ETH_P_IP);
	return e->next_protocol == NEXT_PROTOCOL_IPV6 ? bpf_htons(ETH_P_IPV6) : 0;
}

/* Whether an skb holds several LISP packets, as segments of one datagram (UDP_SEGMENT): then the
 * inner packet ends within the first segment. One within which a super-packet is goes far beyond,
 * or is too long for its header to tell its length. */
static __always_inline bool is_train(const hook_frame *frame, const struct etr *e)
{
	__u32 segment = segment_length(frame);
	const struct lisp_packet *inner = &e->inner;

	if (!segment || e->payload <= inner->length)
		return false;
	return inner->length > inner->l4_offset - inner->offset &&
	       inner->length + sizeof(struct lisp_header) <= segment;
}

/* The inner packet must end within the UDP payload, and its receiver must be ours. */
static __always_inline int read_inner(hook_frame *frame, struct etr *e)
{
	__u32 offset = e->outer.l4_offset + sizeof(struct udp_lisp);
	const struct lisp_mapping *own;

	if (parse_ip(frame, offset, ethertype_told(e), &e->inner) < 0 || e->inner.malformed)
		return LISP_DROP_INNER_MALFORMED;
	/* RFC 1812 s.5.3.7, RFC 4291 s.2.5.2 to 2.5.6, s.2.7: no router forwards packets from
	 * there. */
	if (!is_routable_unicast(&e->inner.source, e->inner.family))
		return LISP_DROP_INNER_MALFORMED;
	if (is_train(frame, e))
		/* nothing here can cut it apart, and the others would become contents of the first
		 */
		return LISP_DROP_OUTER_MALFORMED;
	if (!segment_length(frame) && e->inner.length > e->payload)
		return LISP_DROP_INNER_MALFORMED;
	own = find_mapping(find_roots(e->roots), LISP_ROOT_DATABASE, e->inner.family,
			   &e->inner.destination, &e->mapping_index);
	if (!own)
		return LISP_DROP_EID_NOT_IN_DATABASE;
	e->entry_flags = *(const volatile __u32 *)&own->flags;
	return LISP_DROP_NONE;
}

/* What trusted.h makes of the packet. */
static __always_inline int judge_trusted(hook_frame *frame, struct etr *e)
{
	struct lisp_trusted *p = find_trusted();
	int reason;

	if (!p)
		return LISP_DROP_NONE;
	p->first = e->first;
	p->second = e->second;
	p->iid = e->iid;
	p->mapping_index = e->mapping_index;
	p->ifindex = incoming_ifindex(frame);
	p->notes = 0;
	p->family = e->inner.family;
	p->rloc_family = e->outer.family;
	__builtin_memcpy(p->source, &e->inner.source, sizeof(p->source));
	__builtin_memcpy(p->destination, &e->inner.destination, sizeof(p->destination));
	__builtin_memcpy(p->rloc, &e->outer.source, sizeof(p->rloc));
	__builtin_memcpy(p->own_rloc, &e->outer.destination, sizeof(p->own_rloc));
	reason = lisp_judge_received();
	e->notes |= p->notes;
	return reason;
}

static __always_inline bool heeds_headers(void)
{
	const struct lisp_settings *s = find_settings();

	return s && s->flags & SETTINGS_HEEDED;
}

/* How often it is noted that packets come from an RLOC. */
#define SOURCE_NOTED_NS 100000000ULL

/* That packets come from an RLOC: one is about to be decapsulated. A program of its own to the
 * verifier, which so looks at it once. */
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

/* RFC 6040 s.4.2. Returns the inner packet's new ECN field, or -1 to drop it. */
static __always_inline int decapsulated_ecn(struct etr *e, __u8 outer, __u8 inner)
{
	if (inner == ECN_NOT_ECT) {
		if (outer != ECN_NOT_ECT)
			note(e, LISP_COUNTER_ECN_ALARM);
		return outer == ECN_CE ? -1 : ECN_NOT_ECT;
	}
	if (inner == ECN_CE) {
		if (outer == ECN_ECT1)
			note(e, LISP_COUNTER_ECN_ALARM);
		return ECN_CE;
	}
	if (inner == ECN_ECT1 && outer == ECN_ECT0)
		note(e, LISP_COUNTER_ECN_CURIOUS);
	if (outer == ECN_CE || outer == ECN_ECT1)
		return outer;
	return inner;
}

/* RFC 9300 s.5.3: DSCP from the outer header unless the settings say otherwise; the smaller TTL. */
static __always_inline int merge_tos_ttl(struct etr *e)
{
	const struct lisp_settings *s = find_settings();
	int ecn = decapsulated_ecn(e, e->outer.tos & ECN_MASK, e->inner.tos & ECN_MASK);
	__u8 dscp = e->outer.tos & ~ECN_MASK;

	if (ecn < 0)
		return LISP_DROP_ECN;
	if (s && s->flags & LISP_SETTING_INNER_DSCP_KEPT)
		dscp = e->inner.tos & ~ECN_MASK;
	e->tos = dscp | ecn;
	e->ttl = e->outer.ttl < e->inner.ttl ? e->outer.ttl : e->inner.ttl;
	step(LISP_STEP_MARKING, e->tos, e->ttl, 0);
	return LISP_DROP_NONE;
}

static __always_inline bool has_instances(const struct lisp_settings *s)
{
	return s && s->flags & LISP_SETTING_INSTANCES;
}

/* Where the packet counts as come in, for its route within the site. Of equal EIDs in several
 * Instance-IDs only the route by the interface of the packet's own is right: *flags says to look
 * for that one. */
static __always_inline __u32 site_route_from(hook_frame *frame, const struct etr *e, __u32 *flags)
{
	const struct lisp_settings *s = find_settings();
	__u32 *site = has_instances(s) ? bpf_map_lookup_elem(&sites, &e->iid) : NULL;

	*flags = 0;
	if (site && *site) {
		*flags = BPF_FIB_LOOKUP_OUTPUT;
		return *site;
	}
	return s && s->tap_ifindex ? s->tap_ifindex : incoming_ifindex(frame);
}

/* Whether EIDs of the packet's Instance-ID are behind an interface. */
static __always_inline bool is_of_instance(const struct lisp_interface *at, const struct etr *e)
{
	return !has_instances(find_settings()) || (at && at->iid == e->iid);
}

/* The stack knows the EIDs of one Instance-ID alone, that of loci0. */
static __always_inline bool is_for_stack(const struct etr *e)
{
	const struct lisp_settings *s = find_settings();

	return !has_instances(s) ||
	       is_of_instance(find_interface(s->tap_ifindex, LISP_INTERFACE_TAP), e);
}

/* Everything about a packet that is_lisp() has recognised; the reason to drop it, or
 * LISP_DROP_NONE. */
static __always_inline int judge(hook_frame *frame, struct etr *e)
{
	int reason = read_lisp_header(frame, e);

	if (!reason)
		reason = read_inner(frame, e);
	if (!reason && heeds_headers())
		reason = judge_trusted(frame, e);
	if (!reason)
		reason = merge_tos_ttl(e);
	return reason;
}

#endif

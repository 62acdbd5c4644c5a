/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Decapsulation (RFC 9300 s.5.1-5.3, RFC 6040 s.4.2): everything is read and judged first, then the packet is changed, then
 * it is forwarded to the site or handed to the stack. Outer fragments and everything else that is not LISP to an own RLOC
 * are never touched. The UDP checksum is not verified (RFC 9300 s.5.3 allows that), zero or not.
 */
#ifndef LISP_DECAP_H
#define LISP_DECAP_H

#include "encap.h"

/* Since Linux 6.3. UAPI headers of the building machine may be older. */
#define ADJ_ROOM_DECAP_L3_IPV4 (1ULL << 7)
#define ADJ_ROOM_DECAP_L3_IPV6 (1ULL << 8)

#define ECN_NOT_ECT 0
#define ECN_ECT1 1
#define ECN_ECT0 2
#define ECN_CE 3
#define ECN_MASK 3

/* User space sets it to 1 before loading when bpf_skb_adjust_room knows the two flags above. */
volatile const __u32 lisp_decap_l3_flags = 0;

/* A packet on its way through the ETR. */
struct etr {
	struct lisp_packet outer;
	struct lisp_packet inner;
	const struct lisp_interface *core;
	const struct lisp_roots *roots; /* of the Instance-ID */
	__u32 l2_length;
	__u32 removed; /* octets of outer headers */
	__u32 payload; /* octets behind the LISP header, as the UDP length says */
	__u8 tos;      /* that the inner packet gets */
	__u8 ttl;
	__u32 mapping_index;
};

/* Whether the outer packet is UDP to the LISP data port of an own RLOC, and whole. */
static __always_inline bool is_lisp(struct __sk_buff *skb, const struct lisp_packet *outer)
{
	__be16 port;

	if (outer->protocol != IPPROTO_UDP)
		return false;
	if (outer->fragment) {
		if (is_own_rloc(outer->family, &outer->destination))
			count(LISP_COUNTER_OUTER_FRAGMENT, skb->len);
		return false;
	}
	if (read_octets(skb, outer->l4_offset + 2, &port, sizeof(port)) < 0)
		return false;
	return port == bpf_htons(LISP_DATA_PORT) && is_own_rloc(outer->family, &outer->destination);
}

/* Lengths of the outer headers against each other and the packet. A super-packet may be longer than any of them can tell. */
static __always_inline int check_outer(struct __sk_buff *skb, const struct etr *e, const struct udphdr *udp)
{
	__u32 ip_payload = e->outer.offset + e->outer.length - e->outer.l4_offset;
	__u32 length = bpf_ntohs(udp->len);

	if (e->outer.malformed)
		return LISP_DROP_OUTER_MALFORMED;
	if (length < sizeof(struct udp_lisp))
		return LISP_DROP_LISP_HEADER_TRUNCATED;
	if (skb->gso_size)
		return LISP_DROP_NONE;
	if (e->outer.offset + e->outer.length < e->outer.l4_offset || length > ip_payload)
		return LISP_DROP_OUTER_MALFORMED;
	if (length > octets_from(skb, e->outer.l4_offset))
		return LISP_DROP_OUTER_MALFORMED;
	return LISP_DROP_NONE;
}

/* RFC 9300 s.5.1. What L, E, and the nonce say is not used yet. */
static __always_inline int read_lisp_header(struct __sk_buff *skb, struct etr *e)
{
	struct udp_lisp u;
	__u32 iid;
	__u8 flags;
	int reason;

	if (read_octets(skb, e->outer.l4_offset, &u, sizeof(u)) < 0)
		return LISP_DROP_LISP_HEADER_TRUNCATED;
	reason = check_outer(skb, e, &u.udp);
	if (reason)
		return reason;
	flags = bpf_ntohl(u.lisp.flags_nonce) >> 24;
	if (flags & LISP_FLAGS_KK)
		return LISP_DROP_KEY_ID;
	if (flags & LISP_FLAG_R)
		return LISP_DROP_RESERVED_BIT;
	/* They exclude each other; a receiver takes the field for a nonce. */
	if (flags & LISP_FLAG_N && flags & LISP_FLAG_V)
		count(LISP_COUNTER_NONCE_AND_VERSION, skb->len);
	iid = flags & LISP_FLAG_I ? bpf_ntohl(u.lisp.iid_lsb) >> 8 : 0;
	e->roots = iid == e->core->iid ? find_roots(e->core->roots) : find_instance(iid);
	e->removed = e->outer.l4_offset + sizeof(u) - e->outer.offset;
	e->payload = bpf_ntohs(u.udp.len) - sizeof(u);
	return LISP_DROP_NONE;
}

/* The inner packet must end within the UDP payload, and its receiver must be ours. */
static __always_inline int read_inner(struct __sk_buff *skb, struct etr *e)
{
	__u32 offset = e->outer.l4_offset + sizeof(struct udp_lisp);

	if (parse_ip(skb, offset, 0, &e->inner) < 0 || e->inner.malformed)
		return LISP_DROP_INNER_MALFORMED;
	if (!skb->gso_size && e->inner.length > e->payload)
		return LISP_DROP_INNER_MALFORMED;
	if (!find_mapping(e->roots, LISP_ROOT_DATABASE, e->inner.family, &e->inner.destination, &e->mapping_index))
		return LISP_DROP_EID_NOT_IN_DATABASE;
	return LISP_DROP_NONE;
}

/* RFC 6040 s.4.2. Returns the inner packet's new ECN field, or -1 to drop it. */
static __always_inline int decapsulated_ecn(struct __sk_buff *skb, __u8 outer, __u8 inner)
{
	if (inner == ECN_NOT_ECT) {
		if (outer != ECN_NOT_ECT)
			count(LISP_COUNTER_ECN_ALARM, skb->len);
		return outer == ECN_CE ? -1 : ECN_NOT_ECT;
	}
	if (inner == ECN_CE) {
		if (outer == ECN_ECT1)
			count(LISP_COUNTER_ECN_ALARM, skb->len);
		return ECN_CE;
	}
	if (inner == ECN_ECT1 && outer == ECN_ECT0)
		count(LISP_COUNTER_ECN_CURIOUS, skb->len);
	if (outer == ECN_CE || outer == ECN_ECT1)
		return outer;
	return inner;
}

/* RFC 9300 s.5.3: DSCP from the outer header unless the settings say otherwise; the smaller TTL. */
static __always_inline int merge_tos_ttl(struct __sk_buff *skb, struct etr *e)
{
	const struct lisp_settings *s = find_settings();
	int ecn = decapsulated_ecn(skb, e->outer.tos & ECN_MASK, e->inner.tos & ECN_MASK);
	__u8 dscp = e->outer.tos & ~ECN_MASK;

	if (ecn < 0)
		return LISP_DROP_ECN;
	if (s && s->flags & LISP_SETTING_INNER_DSCP_KEPT)
		dscp = e->inner.tos & ~ECN_MASK;
	e->tos = dscp | ecn;
	e->ttl = e->outer.ttl < e->inner.ttl ? e->outer.ttl : e->inner.ttl;
	return LISP_DROP_NONE;
}

/* Removes the outer headers. Where the kernel lacks the flags that say which
 * family remains, bpf_skb_change_proto turns the outer header into one of that family first, 20 octets longer or shorter. */
static __always_inline long remove_outer(struct __sk_buff *skb, const struct etr *e)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	__u32 removed = e->removed;

	if (lisp_decap_l3_flags) {
		flags |= e->inner.family == 4 ? ADJ_ROOM_DECAP_L3_IPV4 : ADJ_ROOM_DECAP_L3_IPV6;
	} else if (e->outer.family != e->inner.family) {
		if (bpf_skb_change_proto(skb, ethertype_of(e->inner.family), 0) < 0)
			return -1;
		removed += e->inner.family == 6 ? 20 : -20;
	}
	return bpf_skb_adjust_room(skb, -(__s32)removed, BPF_ADJ_ROOM_MAC, flags);
}

/* By loci0: there, not on a core interface, the reverse path filter lets a packet from a remote EID pass. */
static __noinline int hand_to_stack(struct __sk_buff *skb, const struct etr *e)
{
	const struct lisp_settings *s = find_settings();
	struct ethhdr header = { .h_proto = ethertype_of(e->inner.family) };

	count(LISP_COUNTER_TO_STACK, skb->len);
	if (!s || !s->tap_ifindex) {
		if (e->l2_length)
			bpf_skb_store_bytes(skb, 12, &header.h_proto, sizeof(header.h_proto), 0);
		return TC_ACT_OK;
	}
	__builtin_memcpy(header.h_dest, s->tap_mac, ETH_ALEN);
	if (set_ethernet(skb, e->l2_length, &header) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	return bpf_redirect(s->tap_ifindex, BPF_F_INGRESS);
}

/* The packet is bare now. To the site by route and neighbour; all else is the stack's: own addresses, expired TTL, too
 * big for the site, routes that lead elsewhere. */
static __noinline int forward_to_site(struct __sk_buff *skb, struct etr *e)
{
	const struct lisp_settings *s = find_settings();
	struct bpf_fib_lookup f = {};
	__u32 length = longest_segment(skb, &e->inner);
	long answer;

	if (e->inner.ttl <= 1)
		return hand_to_stack(skb, e);
	f.ifindex = s && s->tap_ifindex ? s->tap_ifindex : skb->ifindex;
	f.tot_len = length < MAX_IP_LENGTH ? length : MAX_IP_LENGTH;
	answer = find_route(skb, &f, &e->inner, 0);
	if (answer != BPF_FIB_LKUP_RET_SUCCESS && answer != BPF_FIB_LKUP_RET_NO_NEIGH)
		return hand_to_stack(skb, e);
	if (!find_interface(f.ifindex, LISP_INTERFACE_SITE))
		return hand_to_stack(skb, e);
	if (set_tos_ttl(skb, &e->inner, e->inner.tos, e->inner.ttl - 1) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	return send(skb, &f, answer, e->l2_length, e->inner.family);
}

/* Everything about a packet whose outer header is_lisp() has recognised. */
static __noinline int decapsulate(struct __sk_buff *skb, struct etr *e)
{
	__u32 l4_within;
	int reason = read_lisp_header(skb, e);

	if (!reason)
		reason = read_inner(skb, e);
	if (!reason)
		reason = merge_tos_ttl(skb, e);
	if (reason)
		return drop(skb, reason);
	if (remove_outer(skb, e) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	l4_within = e->inner.l4_offset - e->inner.offset;
	e->inner.offset = e->l2_length;
	e->inner.l4_offset = e->l2_length + l4_within;
	/* The kernel may refuse it (it does for what was encapsulated on this machine). Padding does no harm then. */
	trim(skb, &e->inner);
	if (set_tos_ttl(skb, &e->inner, e->tos, e->ttl) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	count(e->outer.family == 4 ? LISP_COUNTER_DECAPSULATED_IPV4 : LISP_COUNTER_DECAPSULATED_IPV6,
	      octets_from(skb, e->l2_length));
	count_mapping(e->mapping_index, octets_from(skb, e->l2_length));
	return forward_to_site(skb, e);
}

#endif

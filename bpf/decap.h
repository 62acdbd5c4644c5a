/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Decapsulation at the tc hooks (RFC 9300 s.5.1-5.3): when etr.h has judged the packet, it is
 * changed, then forwarded to the site or handed to the stack. Outer fragments and everything else
 * that is not LISP to an own RLOC are never touched.
 */
#ifndef LISP_DECAP_H
#define LISP_DECAP_H

#include "send.h"
#include "shared.h"

/* Removes the outer headers. Where the kernel lacks the flags that say which
 * family remains, bpf_skb_change_proto turns the outer header into one of that family first, 20
 * octets longer or shorter. */
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

/* Link layer header and the octets of the inner header that change, in one piece. */
struct front_inner {
	__u8 zero[2];
	struct ethhdr ethernet;
	union lisp_head inner;
};

#define FRONT_INNER_STORED 2

/* Writes TOS, TTL and the link layer header of the bare packet. */
static __always_inline long store_front_inner(struct __sk_buff *skb, const struct etr *e,
					      struct front_inner *front, __u8 ttl)
{
	__u64 sum;

	front->inner = e->inner.head;
	sum = change_head(&front->inner, e->tos, ttl);
	front->ethernet.h_proto = ethertype_of(e->inner.family);
	if (e->l2_length == 0 && bpf_skb_change_head(skb, ETH_HLEN, 0) < 0)
		return -1;
	if (e->inner.family == 6)
		bpf_csum_update(skb, fold(sum));
	return bpf_skb_store_bytes(skb, 0, &front->ethernet, sizeof(*front) - FRONT_INNER_STORED,
				   0);
}

/* The stack goes on with the packet where it is, on the core interface. */
static __always_inline int leave_to_stack(struct __sk_buff *skb, const struct etr *e,
					  struct front_inner *front)
{
	__u64 sum;
	long failed = 0;

	front->inner = e->inner.head;
	sum = change_head(&front->inner, e->tos, e->ttl);
	front->ethernet.h_proto = ethertype_of(e->inner.family);
	if (e->l2_length)
		failed = bpf_skb_store_bytes(skb, 12, &front->ethernet.h_proto,
					     sizeof(front->ethernet.h_proto), 0);
	if (e->inner.family == 6)
		bpf_csum_update(skb, fold(sum));
	failed |= bpf_skb_store_bytes(skb, e->l2_length, &front->inner, sizeof(front->inner), 0);
	return failed ? drop(skb, LISP_DROP_DECAPSULATION_FAILED) : TC_ACT_OK;
}

/* By loci0: there, not on a core interface, the reverse path filter lets a packet from a remote EID
 * pass. */
static __noinline int hand_to_stack(struct __sk_buff *skb, const struct etr *e)
{
	const struct lisp_settings *s = find_settings();
	struct front_inner front = {};
	__u32 tap = present_tap(skb);

	if (!tap && s && s->tap_ifindex)
		return drop(skb, LISP_DROP_NO_TAP);
	count(LISP_COUNTER_TO_STACK, skb->len);
	step(LISP_STEP_STACK, 0, 0, 0);
	if (!tap || !s)
		return leave_to_stack(skb, e, &front);
	__builtin_memcpy(front.ethernet.h_dest, s->tap_mac, ETH_ALEN);
	if (store_front_inner(skb, e, &front, e->ttl) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	return bpf_redirect(tap, BPF_F_INGRESS);
}

/* The packet is bare now. To the site by route and neighbour. */
static __noinline int send_to_site(struct __sk_buff *skb, const struct etr *e,
				   const struct lisp_next_hop *hop)
{
	struct front_inner front = {};

	__builtin_memcpy(&front.ethernet, hop->macs, sizeof(hop->macs));
	if (store_front_inner(skb, e, &front, e->ttl - 1) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	if (hop->vlan && bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), hop->vlan) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	return send_by_hop(hop, true, e->l2_length);
}

/* Everything about a packet whose outer header is_lisp() has recognised. */
static __noinline int decapsulate(struct __sk_buff *skb, struct etr *e)
{
	struct lisp_next_hop *hop = NULL;
	__u32 l4_within;
	int reason;

	e->since = begin_decision(e->outer.family, &e->outer.destination);
	reason = judge(skb, e);
	count_notes(e, skb->len);
	if (reason)
		return drop(skb, reason);
	/* The route is that of the packet as it will be. Expired TTL is the stack's to answer. */
	e->inner.tos = e->tos;
	if (e->ttl > 1 && !(e->interface_flags & LISP_INTERFACE_STACK))
		hop = find_inner_hop(skb, e);
	if (hop && is_for_decision(hop, e->l2_length)) {
		share_decapsulation(skb, e, hop);
		keep_shortcut(keep_decapsulation(skb, e, hop), hop);
	}
	if (!hop && !is_for_stack(e))
		return drop(skb, LISP_DROP_OTHER_INSTANCE);
	if (remove_outer(skb, e) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	l4_within = e->inner.l4_offset - e->inner.offset;
	e->inner.offset = e->l2_length;
	e->inner.l4_offset = e->l2_length + l4_within;
	/* The kernel may refuse it (it does for what was encapsulated on this machine). Padding
	 * does no harm then. */
	trim(skb, &e->inner);
	step(LISP_STEP_DECAPSULATED, 0, 0, 0);
	count(e->outer.family == 4 ? LISP_COUNTER_DECAPSULATED_IPV4
				   : LISP_COUNTER_DECAPSULATED_IPV6,
	      octets_from(skb, e->l2_length));
	count_mapping(e->mapping_index, octets_from(skb, e->l2_length));
	lisp_note_source(&e->outer.source, e->outer.family);
	return hop ? send_to_site(skb, e, hop) : hand_to_stack(skb, e);
}

#endif

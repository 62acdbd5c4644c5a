/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Decapsulation at the tc hooks (RFC 9300 s.5.1-5.3): when etr.h has judged the packet, it is changed, then forwarded to the
 * site or handed to the stack. Outer fragments and everything else that is not LISP to an own RLOC are never touched.
 */
#ifndef LISP_DECAP_H
#define LISP_DECAP_H

#include "etr.h"
#include "send.h"

/* Since Linux 6.3. UAPI headers of the building machine may be older. */
#define ADJ_ROOM_DECAP_L3_IPV4 (1ULL << 7)
#define ADJ_ROOM_DECAP_L3_IPV6 (1ULL << 8)

/* User space sets it to 1 before loading when bpf_skb_adjust_room knows the two flags above. */
volatile const __u32 lisp_decap_l3_flags = 0;

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
	int reason = judge(skb, e);

	count_notes(e, skb->len);
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

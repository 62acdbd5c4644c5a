/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Encapsulation at the tc hooks (RFC 9300 s.5.1-5.3), as itr.h decides. Never fragments, and never
 * sends a packet that its path cannot carry: those go to user space.
 */
#ifndef LISP_ENCAP_H
#define LISP_ENCAP_H

#include "miss.h"
#include "send.h"
#include "shared.h"

#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif

/* All that is written before the rest of the inner packet, in one piece. IP headers stand at
 * multiples of four octets. */
struct front_ipv4 {
	__u8 zero[2];
	struct ethhdr ethernet;
	struct outer_ipv4 outer;
	union lisp_head inner;
};

struct front_ipv6 {
	__u8 zero[2];
	struct ethhdr ethernet;
	struct outer_ipv6 outer;
	union lisp_head inner;
};

#define FRONT_STORED offsetof(struct front_ipv4, ethernet)

_Static_assert(sizeof(struct front_ipv4) == FRONT_STORED + ETH_HLEN + 36 + 12,
	       "headers are stored as they lie in memory");
_Static_assert(sizeof(struct front_ipv6) == FRONT_STORED + ETH_HLEN + 56 + 12,
	       "headers are stored as they lie in memory");

static __always_inline void fill_ethernet(struct ethhdr *ethernet, const struct lisp_next_hop *hop,
					  __u8 family)
{
	__builtin_memcpy(ethernet, hop->macs, sizeof(hop->macs));
	ethernet->h_proto = ethertype_of(family);
}

/* What headers in whole words add to a checksum over the packet. */
static __always_inline __u64 sum_of(const void *headers, __u32 octets)
{
	const word_of_header *words = headers;
	__u64 sum = 0;

	for (__u32 i = 0; i < octets / sizeof(*words); i++)
		sum += words[i];
	return sum;
}

static __always_inline long store_front_ipv4(struct __sk_buff *skb, const struct lisp_locator *l,
					     const struct itr *t, const struct lisp_next_hop *hop,
					     __u16 length)
{
	struct front_ipv4 front = {.inner = t->packet.head};
	__u64 sum = change_head(&front.inner, t->packet.tos, t->packet.ttl);

	fill_ethernet(&front.ethernet, hop, 4);
	fill_outer_ipv4(&front.outer, l, t, length);
	/* An IPv4 header sums up to nothing. */
	bpf_csum_update(skb, fold(sum + sum_of(&front.outer.payload, sizeof(front.outer.payload))));
	return bpf_skb_store_bytes(skb, 0, &front.ethernet, sizeof(front) - FRONT_STORED, 0);
}

static __always_inline long store_front_ipv6(struct __sk_buff *skb, const struct lisp_locator *l,
					     const struct itr *t, const struct lisp_next_hop *hop,
					     __u16 length)
{
	struct front_ipv6 front = {.inner = t->packet.head};
	__u64 sum = change_head(&front.inner, t->packet.tos, t->packet.ttl);

	fill_ethernet(&front.ethernet, hop, 6);
	fill_outer_ipv6(&front.outer, l, t, length);
	bpf_csum_update(skb, fold(sum + sum_of(&front.outer, sizeof(front.outer))));
	return bpf_skb_store_bytes(skb, 0, &front.ethernet, sizeof(front) - FRONT_STORED, 0);
}

/* What bpf_skb_adjust_room answers for an skb that was encapsulated before, also when it was
 * decapsulated since: the kernel keeps no more than one state of that kind. The skb is as it was
 * then. */
#define ALREADY_ENCAPSULATED -114

/* What add_outer answers when only a fresh skb can be encapsulated. */
#define NEEDS_FRESH_SKB 1

/* The kernel may set an skb's family only when it removes a header; so some octets more than needed
 * are made first. */
#define SPARE_OCTETS 8

/* Makes room in an skb that was encapsulated before. What it remembers of the headers within is
 * still true when one layer was taken off, and then it can be segmented later as well. A
 * super-packet with a tunnel in it cannot: its segments would each need two layers of lengths. */
static __noinline long make_room_again(struct __sk_buff *skb, __u8 family, const struct itr *t)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	__u32 octets = outer_length(family);

	if (skb->gso_size && t->packet.protocol != IPPROTO_TCP)
		return NEEDS_FRESH_SKB;
	if (family == t->packet.family)
		return bpf_skb_adjust_room(skb, octets, BPF_ADJ_ROOM_MAC, flags);
	if (!lisp_decap_l3_flags)
		return NEEDS_FRESH_SKB;
	if (bpf_skb_adjust_room(skb, octets + SPARE_OCTETS, BPF_ADJ_ROOM_MAC, flags) < 0)
		return -1;
	flags |= family == 4 ? ADJ_ROOM_DECAP_L3_IPV4 : ADJ_ROOM_DECAP_L3_IPV6;
	return bpf_skb_adjust_room(skb, -SPARE_OCTETS, BPF_ADJ_ROOM_MAC, flags);
}

/* Makes room before the inner packet. FIXED_GSO: each segment keeps its size and grows by the
 * headers, which the size check has allowed for. */
static __always_inline long make_room(struct __sk_buff *skb, __u8 family, const struct itr *t)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP;
	long answer;

	flags |= family == 4 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
	answer = bpf_skb_adjust_room(skb, outer_length(family), BPF_ADJ_ROOM_MAC, flags);
	return answer == ALREADY_ENCAPSULATED ? make_room_again(skb, family, t) : answer;
}

/* Makes room and writes everything before the inner packet. */
static __noinline long add_outer(struct __sk_buff *skb, const struct lisp_locator *l,
				 const struct itr *t, const struct lisp_next_hop *hop)
{
	__u32 length = octets_from(skb, t->packet.offset) + outer_length(l->family);
	long answer = make_room(skb, l->family, t);

	if (answer)
		return answer;
	if (t->l2_length == 0 && bpf_skb_change_head(skb, ETH_HLEN, 0) < 0)
		return -1;
	/* Only a super-packet can be longer than length fields can tell; its segments get theirs
	 * when it is cut. */
	if (length > MAX_IP_LENGTH)
		length = MAX_IP_LENGTH;
	return l->family == 4 ? store_front_ipv4(skb, l, t, hop, length)
			      : store_front_ipv6(skb, l, t, hop, length);
}

/* Sends the packet of `t` to its locator by flow. */
static __noinline int encapsulate(struct __sk_buff *skb, struct itr *t)
{
	const struct lisp_locator *l;
	struct lisp_next_hop *hop;
	__u32 octets, mtu = 0;
	__u8 family;
	long answer;

	t->hash = flow_hash(skb, &t->packet);
	l = select_locator(t);
	if (!l)
		return refuse(skb, t, LISP_DROP_NO_LOCATOR);
	if (t->listed) {
		answer = judge_rlocs(l);
		if (answer)
			return drop(skb, answer);
	}
	if (t->tagged && untag(skb, t) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	family = l->family;
	/* First of all the padding goes, because lengths are those of the skb from here on. */
	if (trim(skb, &t->packet) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	octets = octets_from(skb, t->packet.offset);
	answer = find_outer_hop(skb, t, l, &hop, &mtu);
	if (answer == BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return wait_too_big(skb, t, mtu - outer_length(family));
	if (answer != BPF_FIB_LKUP_RET_SUCCESS)
		return refuse(skb, t, LISP_DROP_NO_ROUTE);
	choose_header(t, l);
	if (t->hook == LISP_INTERFACE_SITE && !t->released && is_for_decision(hop, t->l2_length)) {
		share_encapsulation(skb, t, l, hop);
		keep_shortcut(keep_encapsulation(skb, t, l, hop), hop);
	}
	if (t->forwarded)
		t->packet.ttl--;
	answer = add_outer(skb, l, t, hop);
	/* On its way through the TAP it is cut into packets, each a fresh skb. */
	if (answer == NEEDS_FRESH_SKB)
		return wait_at_tap(skb, t, LISP_TAP_REASON_HOLD, 0);
	if (answer < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	step(LISP_STEP_ENCAPSULATED, family, 0, 0);
	count(family == 4 ? LISP_COUNTER_ENCAPSULATED_IPV4 : LISP_COUNTER_ENCAPSULATED_IPV6,
	      octets);
	count_mapping(t->mapping_index, octets);
	return send_by_hop(hop, is_at_ingress(t), t->l2_length);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Encapsulation at the tc hooks (RFC 9300 s.5.1-5.3), as itr.h decides. Never fragments, and never sends a packet that its
 * path cannot carry: those go to user space.
 */
#ifndef LISP_ENCAP_H
#define LISP_ENCAP_H

#include "miss.h"
#include "send.h"

static __always_inline long store_outer_ipv4(struct __sk_buff *skb, const struct lisp_locator *l, const struct itr *t,
					     __u16 length)
{
	struct outer_ipv4 o;

	fill_outer_ipv4(&o, l, t, length);
	return bpf_skb_store_bytes(skb, t->packet.offset, &o, sizeof(o), BPF_F_RECOMPUTE_CSUM);
}

static __always_inline long store_outer_ipv6(struct __sk_buff *skb, const struct lisp_locator *l, const struct itr *t,
					     __u16 length)
{
	struct outer_ipv6 o;

	fill_outer_ipv6(&o, l, t, length);
	return bpf_skb_store_bytes(skb, t->packet.offset, &o, sizeof(o), BPF_F_RECOMPUTE_CSUM);
}

/* Makes room and writes the outer headers. FIXED_GSO: each segment keeps its size and grows by the headers, which
 * the size check has allowed for. */
static __noinline long add_outer(struct __sk_buff *skb, const struct lisp_locator *l, const struct itr *t)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP;
	__u32 length = octets_from(skb, t->packet.offset) + outer_length(l->family);

	flags |= l->family == 4 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
	if (bpf_skb_adjust_room(skb, outer_length(l->family), BPF_ADJ_ROOM_MAC, flags) < 0)
		return -1;
	/* Only a super-packet can be longer than length fields can tell; its segments get theirs when it is cut. */
	if (length > MAX_IP_LENGTH)
		length = MAX_IP_LENGTH;
	return l->family == 4 ? store_outer_ipv4(skb, l, t, length) : store_outer_ipv6(skb, l, t, length);
}

/* Sends the packet of `t` to its locator by flow. */
static __noinline int encapsulate(struct __sk_buff *skb, struct itr *t)
{
	const struct lisp_locator *l;
	struct bpf_fib_lookup f = {};
	__u8 family, ttl = t->packet.ttl - (t->forwarded ? 1 : 0);
	__u32 octets;
	long answer;

	t->hash = flow_hash(skb, &t->packet);
	l = select_locator(t->locator_set, t->hash);
	if (!l)
		return drop(skb, LISP_DROP_NO_LOCATOR);
	family = l->family;
	/* First of all the padding goes, because lengths are those of the skb from here on. */
	if (trim(skb, &t->packet) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	octets = octets_from(skb, t->packet.offset);
	answer = find_outer_route(skb, &f, l, t);
	if (answer == BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return wait_too_big(skb, t, f.mtu_result - outer_length(family));
	if (answer != BPF_FIB_LKUP_RET_SUCCESS && answer != BPF_FIB_LKUP_RET_NO_NEIGH)
		return drop(skb, LISP_DROP_NO_ROUTE);
	/* A default route into the TAP is for EIDs; for an RLOC it would be a loop. */
	if (is_tap(f.ifindex))
		return drop(skb, LISP_DROP_NO_ROUTE);
	if (set_tos_ttl(skb, &t->packet, t->packet.tos, ttl) < 0 || add_outer(skb, l, t) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	count(family == 4 ? LISP_COUNTER_ENCAPSULATED_IPV4 : LISP_COUNTER_ENCAPSULATED_IPV6, octets);
	count_mapping(t->mapping_index, octets);
	return send(skb, &f, answer, t->l2_length, family);
}

#endif

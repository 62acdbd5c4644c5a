/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is done to skbs by what packets between many pairs of addresses share (shared.h):
 * encapsulation and decapsulation of the plainest packets (RFC 9300 s.5.1-5.3), as reuse_tc.h does
 * it by decisions about one pair. Nothing here waits or passes on its own account.
 */
#ifndef LISP_SCATTERED_TC_H
#define LISP_SCATTERED_TC_H

#include "reuse_tc.h"
#include "shared.h"

static __always_inline int encapsulate_scattered(struct __sk_buff *skb,
						 const struct lisp_interface *site, __u8 family)
{
	void *at = frame_data(skb) + ETH_HLEN, *end = frame_end(skb);
	__u32 octets = skb->len - ETH_HLEN, longest;
	struct lisp_clock *clock = find_clock();
	const struct lisp_decision *d;
	struct outgoing o = {};
	struct decision_key k;
	int answer;

	if (!clock || at + header_octets(family) + L4_OCTETS > end ||
	    !read_plain(at, family, &o.packet, &k) || may_be_lisp(site, &o.packet))
		return NOT_KEPT;
	longest = longest_of(skb, at, &o.packet, family);
	take_addresses(&o.addresses, &k, family);
	d = find_for_outgoing(site, &o, family, skb->ifindex, clock->boot_ns);
	if (!d || o.packet.length > octets || longest > d->longest)
		return NOT_KEPT;
	fill_words(&o.words, &o.packet, clock);
	answer = put_front(skb, d, &o.words, o.packet.tos, octets);
	if (answer != TC_ACT_OK)
		return answer;
	count_outgoing(&o, clock->boot_ns);
	return send_by_decision(d);
}

static __always_inline int decapsulate_scattered(struct __sk_buff *skb,
						 const struct lisp_interface *core,
						 __u8 outer_family, __u8 family)
{
	struct plain_addresses a;
	struct lisp_decision *d;
	struct decision_key k;
	struct plain_packet p;
	__u64 now = now_ns();
	long octets;

	if (!read_incoming(skb, &p, &k, outer_family, family))
		return NOT_KEPT;
	take_addresses(&a, &k, family);
	if (!is_routable_unicast(&a.source, family))
		return NOT_KEPT;
	k.what = what_of(0, p.tos, family, LISP_WAY_ENTRY);
	d = find_for_entry(core, &k, &a.destination, family, now);
	if (!d || !is_for(skb, d, &p, outer_family, family))
		return NOT_KEPT;
	octets = remove_front(skb, d, &p, outer_family, family);
	if (octets < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	count_use(d, octets, now);
	return send_by_decision(d);
}

/* Whether the packet at hand goes by what is shared, and not by a decision about its addresses. */
static __always_inline bool goes_scattered(void)
{
	struct lisp_clock *clock = lisp_tracing ? NULL : find_clock();

	return clock && is_left_to_others(clock);
}

/* Sends a packet from the site by what is shared; NOT_KEPT where nothing is. A call of its own, as
 * reuse_for_site(). */
static __noinline int scatter_from_site(struct __sk_buff *skb, const struct lisp_interface *site)
{
	if (lisp_tracing || site->l2_length != ETH_HLEN)
		return NOT_KEPT;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return encapsulate_scattered(skb, site, 4);
	return skb->protocol == bpf_htons(ETH_P_IPV6) ? encapsulate_scattered(skb, site, 6)
						      : NOT_KEPT;
}

/* The same for a packet from the core. */
static __noinline int scatter_from_core(struct __sk_buff *skb, const struct lisp_interface *core)
{
	bool outer4 = skb->protocol == bpf_htons(ETH_P_IP);
	const __u8 *first = frame_data(skb) + ETH_HLEN +
			    (outer4 ? outer_length(4) : outer_length(6));

	if (lisp_tracing || core->l2_length != ETH_HLEN || core->flags & LISP_INTERFACE_STACK)
		return NOT_KEPT;
	if ((!outer4 && skb->protocol != bpf_htons(ETH_P_IPV6)) ||
	    (void *)first + 1 > frame_end(skb))
		return NOT_KEPT;
	if (*first >> 4 == 4)
		return outer4 ? decapsulate_scattered(skb, core, 4, 4)
			      : decapsulate_scattered(skb, core, 6, 4);
	return outer4 ? decapsulate_scattered(skb, core, 4, 6)
		      : decapsulate_scattered(skb, core, 6, 6);
}

#endif

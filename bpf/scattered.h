/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is done to frames by what packets between many pairs of addresses share (shared.h):
 * encapsulation and decapsulation of the plainest packets (RFC 9300 s.5.1-5.3), as reuse.h does it
 * by decisions about one pair. Nothing here waits or passes on its own account, or drops but for
 * want of room.
 */
#ifndef LISP_SCATTERED_H
#define LISP_SCATTERED_H

#include "reuse.h"
#include "shared.h"

static __always_inline bool may_be_unfinished(const struct lisp_interface *at,
					      const struct plain_packet *p,
					      const struct plain_addresses *a, __u8 family)
{
	return at->flags & LISP_INTERFACE_UNFINISHED &&
	       is_plain_unfinished(p, family,
				   sum_address(&a->source, family) +
					   sum_address(&a->destination, family));
}

static __always_inline int encapsulate_scattered(struct xdp_md *frame,
						 const struct lisp_interface *site, __u8 family)
{
	void *at = frame_data(frame) + ETH_HLEN, *end = frame_end(frame);
	struct lisp_clock *clock = find_clock();
	const struct lisp_decision *d;
	struct outgoing o = {};
	struct decision_key k;
	__u32 octets;

	if (!clock || at + header_octets(family) + L4_OCTETS > end ||
	    !read_plain(at, family, &o.packet, &k) || may_be_lisp(site, &o.packet))
		return NOT_KEPT;
	octets = end - at;
	take_addresses(&o.addresses, &k, family);
	d = find_for_outgoing(site, &o, family, frame->ingress_ifindex, clock->boot_ns);
	if (!d || o.packet.length > octets || o.packet.length > d->longest ||
	    may_be_unfinished(site, &o.packet, &o.addresses, family))
		return NOT_KEPT;
	fill_words(&o.words, &o.packet, clock);
	age(at, family, o.words.ttl);
	if (put_front(frame, d, &o.words, octets - o.packet.length) < 0)
		return drop(frame, LISP_DROP_ENCAPSULATION_FAILED);
	count_outgoing(&o, clock->boot_ns);
	return send(d);
}

static __always_inline int decapsulate_scattered(struct xdp_md *frame,
						 const struct lisp_interface *core,
						 __u8 outer_family, __u8 family)
{
	void *outer = frame_data(frame) + ETH_HLEN, *end = frame_end(frame);
	void *at = outer + outer_length(outer_family);
	struct plain_addresses a;
	struct lisp_decision *d;
	struct decision_key k;
	struct plain_packet p;
	struct plain_outer o;
	__u64 now = now_ns();

	if (at + header_octets(family) + L4_OCTETS > end)
		return NOT_KEPT;
	if (!read_plain_outer(outer, end - outer, outer_family, &o) ||
	    !read_plain(at, family, &p, &k))
		return NOT_KEPT;
	if (o.ttl <= 1 || p.length > o.payload || (o.tos ^ p.tos) & ECN_MASK)
		return NOT_KEPT;
	take_addresses(&a, &k, family);
	if (!is_routable_unicast(&a.source, family))
		return NOT_KEPT;
	k.where = where_of(frame->ingress_ifindex, o.iid);
	k.what = what_of(0, o.tos, family, LISP_WAY_ENTRY);
	d = find_for_entry(core, &k, &a.destination, family, now);
	if (!d || p.length > d->longest || !is_for_rloc(outer, outer_family, d) ||
	    may_be_unfinished(core, &p, &a, family))
		return NOT_KEPT;
	change_head(at, o.tos, (o.ttl < p.ttl ? o.ttl : p.ttl) - 1);
	if (remove_front(frame, d, outer_family, (__u32)(end - at) - p.length) < 0)
		return drop(frame, LISP_DROP_DECAPSULATION_FAILED);
	count(outer_family == 4 ? LISP_COUNTER_DECAPSULATED_IPV4 : LISP_COUNTER_DECAPSULATED_IPV6,
	      p.length);
	count_use(d, p.length, now);
	return send(d);
}

/* Sends a packet from the core by what is kept for its entry of the Database; NOT_KEPT where
 * nothing is. */
static __always_inline int scatter_from_core(struct xdp_md *frame,
					     const struct lisp_interface *core, __u8 outer_family)
{
	const __u8 *data = frame_data(frame);
	const __u8 *first;

	first = data + ETH_HLEN + (outer_family == 4 ? outer_length(4) : outer_length(6));
	if ((void *)first + 1 > frame_end(frame))
		return NOT_KEPT;
	if (*first >> 4 == 4)
		return outer_family == 4 ? decapsulate_scattered(frame, core, 4, 4)
					 : decapsulate_scattered(frame, core, 6, 4);
	return outer_family == 4 ? decapsulate_scattered(frame, core, 4, 6)
				 : decapsulate_scattered(frame, core, 6, 6);
}

/* The same for a packet of either side, whose EtherType tells its family. */
static __always_inline int scatter(struct xdp_md *frame, const struct lisp_interface *at,
				   __u8 family)
{
	int verdict = NOT_KEPT;

	if (at->flags & LISP_INTERFACE_STACK)
		return NOT_KEPT;
	if (at->flags & LISP_INTERFACE_CORE)
		verdict = family == 4 ? scatter_from_core(frame, at, 4)
				      : scatter_from_core(frame, at, 6);
	if (verdict == NOT_KEPT && at->flags & LISP_INTERFACE_SITE)
		verdict = family == 4 ? encapsulate_scattered(frame, at, 4)
				      : encapsulate_scattered(frame, at, 6);
	return verdict;
}

#endif

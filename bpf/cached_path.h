/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The path of plain packets by the flow cache, or by the per-locator-set cache while most packets
 * miss the former. What no cache knows answers NOT_CACHED and goes through all stages.
 */
#ifndef LISP_CACHED_PATH_H
#define LISP_CACHED_PATH_H

#include "backlog.h"
#include "locator_set_cache.h"

/* Whether an outer UDP checksum follows from the inner one, which covers all behind its IP header.
 * The packet must not overtake what is in the TAP's queue; a GSO packet has no single one. */
static __noinline bool has_plain_checksum(hook_frame *frame, const struct lisp_varying *v)
{
	__u32 header = header_octets(v->family);
	struct udphdr udp;

	if (segment_length(frame) || is_any_in_backlog() || is_any_being_cut())
		return false;
	if (v->protocol == IPPROTO_TCP)
		return true;
	return load_octets(frame, ETH_HLEN + v->removed + header, &udp, sizeof(udp)) == 0 &&
	       udp.check && bpf_ntohs(udp.len) == v->length - header;
}

/* Whether a packet can go by an action here. */
static __always_inline bool can_apply(hook_frame *frame, const struct lisp_action_record *a,
				      const struct lisp_varying *v)
{
	return !(a->flags & LISP_ACTION_CHECKSUM) || has_plain_checksum(frame, v);
}

/* Relays a packet by an action. */
static __noinline int relay_cached(hook_frame *frame, struct lisp_action_record *a,
				   const struct lisp_varying *v)
{
	return can_apply(frame, a, v) ? lisp_encapsulate(frame, a, v) : NOT_CACHED;
}

/* Sends a packet that came without LISP: by the flow cache where `site` is NULL. */
static __always_inline int encapsulate_cached(hook_frame *frame, struct lisp_clock *clock,
					      const struct lisp_interface *site, __u8 family)
{
	const void *at = frame_data(frame) + ETH_HLEN;
	struct lisp_action_record *a;
	struct lisp_varying v;
	struct plain_packet p;
	int verdict;

	if (at + header_octets(family) + L4_OCTETS > frame_end(frame) ||
	    !read_plain(frame, at, family, &p))
		return NOT_CACHED;
	a = site ? find_by_set(site, &p, clock->boot_ns, &v.hash)
		 : find_by_flow(frame, &p, 0, LISP_DO_ENCAPSULATE, clock->boot_ns, &v.hash);
	if (!a || p.longest > a->longest || p.length > octets_at(frame, at))
		return NOT_CACHED;
	vary_plain(&v, &p, 0, a, clock);
	if (!can_apply(frame, a, &v))
		return NOT_CACHED;
	verdict = apply_encapsulation(frame, a, &v);
	if (verdict == HOOK_REDIRECT)
		count_mapping(p.mapping_index, v.length, clock->boot_ns);
	return verdict;
}

/* Delivers a packet from the core, or relays it: by the flow cache where `core` is NULL. */
static __always_inline int deliver_cached_as(hook_frame *frame, struct lisp_clock *clock,
					     const struct lisp_interface *core, __u8 outer_family,
					     __u8 family)
{
	struct lisp_action_record *a;
	struct lisp_varying v;
	struct plain_packet p;
	__u32 iid;
	int verdict;

	if (!read_plain_from_core(frame, outer_family, family, &p, &iid))
		return NOT_CACHED;
	a = core ? find_by_entry(frame, core, &p, iid, clock->boot_ns)
		 : find_by_flow(frame, &p, iid, LISP_DO_DELIVER, clock->boot_ns, &v.hash);
	if (!a || p.longest > a->longest)
		return NOT_CACHED;
	vary_plain(&v, &p, outer_length(outer_family), a, clock);
	verdict = a->what == LISP_DO_RELAY ? relay_cached(frame, a, &v)
					   : apply_delivery(frame, a, &v, outer_family);
	if (verdict == HOOK_REDIRECT)
		count_mapping(p.mapping_index, v.length, clock->boot_ns);
	return verdict;
}

static __always_inline int deliver_cached(hook_frame *frame, struct lisp_clock *clock,
					  const struct lisp_interface *core, __u8 outer_family)
{
	const __u8 *inner = frame_data(frame) + ETH_HLEN + outer_length(outer_family);

	if ((void *)inner + 1 > frame_end(frame))
		return NOT_CACHED;
	return *inner >> 4 == 4 ? deliver_cached_as(frame, clock, core, outer_family, 4)
				: deliver_cached_as(frame, clock, core, outer_family, 6);
}

/* Whether packets go by the per-locator-set cache: while most miss the flow cache, all but a sample
 * do. */
static __always_inline bool goes_by_set(struct lisp_clock *clock)
{
	return mostly_misses(clock) && ++clock->packets & SAMPLE_ONE_IN - 1;
}

#endif

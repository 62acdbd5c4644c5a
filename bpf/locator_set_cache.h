/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The path for packets that miss the flow cache, while most do: there are more pairs of addresses
 * than it holds. Plain packets go by the action record of their locator, or of their entry of the
 * Database where it has a single next hop; only the tables are asked for each. The rules are those
 * of admit.h and look_up.h, for packets with nothing out of the ordinary: whatever differs answers
 * NOT_CACHED and goes through all stages.
 */
#ifndef LISP_LOCATOR_SET_CACHE_H
#define LISP_LOCATOR_SET_CACHE_H

#include "flow_cache.h"

/* The locator-set of a mapping and 1; 0 where its packets go through all stages. */
static __always_inline __u32 locator_set_of(__u32 index, __u32 iid)
{
	__u32 word = find_page(index);
	const struct lisp_mapping *m;

	if (word)
		return word;
	m = bpf_map_lookup_elem(&mappings, &index);
	if (!m || (m->flags & (LISP_MAPPING_VALID | LISP_MAPPING_HOLD)) != LISP_MAPPING_VALID ||
	    m->iid != iid)
		return 0;
	return *(const volatile __u32 *)&m->locator_set + 1;
}

/* The record for a key, if there is one that the caches may use now. */
static __always_inline struct lisp_action_record *find_cached(const struct action_key *k, __u64 now)
{
	const struct lisp_generations *g = find_generations();
	struct lisp_action_record *a = action_at(choose_place(k));

	if (!a || !g || !has_action_key(a, k) ||
	    !action_counts(a, *(const volatile __u32 *)&g->epoch, now))
		return NULL;
	return a->flags & LISP_ACTION_UNCACHED || !is_for_hook(a) ? NULL : a;
}

/* The record of packets to a locator-set. */
static __always_inline struct lisp_action_record *
find_for_set(__u32 locator_set, __u32 iid, __u8 tos, __u8 family, __u32 hash, __u64 now)
{
	const struct lisp_locator_set *set = find_locator_set(locator_set);
	struct action_key key;

	if (!set)
		return NULL;
	key = key_of_encapsulation(locator_set, locator_for(set, hash), iid, outer_tos(tos),
				   port_in_key(hash), family);
	return find_cached(&key, now);
}

static __always_inline bool may_be_partial(const struct lisp_interface *at,
					   const struct plain_packet *p, __u8 family)
{
	return HOOK_IS_XDP && at->flags & LISP_INTERFACE_CHECKSUM_PARTIAL &&
	       is_plain_partial(p, family,
				sum_address(&p->source, family) +
					sum_address(&p->destination, family));
}

/* Whether a packet of an interface that is of the core as well may be LISP to us, which comes
 * before its addresses. */
static __always_inline bool may_be_lisp(const struct lisp_interface *site,
					const struct plain_packet *p)
{
	__be16 port = destination_port(p);

	return site->flags & LISP_INTERFACE_CORE &&
	       (port == bpf_htons(LISP_DATA_PORT) || port == bpf_htons(LISP_VXLAN_GPE_PORT));
}

/* Whether the packet goes from an own EID to somewhere else, and may be carried there. */
static __always_inline bool leaves_site(const struct lisp_roots *of, const struct plain_packet *p,
					__u8 family)
{
	return is_routable_unicast(&p->destination, family) && is_own_eid(of, family, &p->source) &&
	       !is_own_eid(of, family, &p->destination);
}

static __always_inline int encapsulate_by_set(hook_frame *frame, const struct lisp_interface *site,
					      __u8 family)
{
	const void *at = frame_data(frame) + ETH_HLEN;
	const struct lisp_roots *of = find_roots(site->roots);
	struct lisp_clock *clock = find_clock();
	struct lisp_action_record *a;
	struct lisp_varying v;
	struct plain_packet p;
	__u32 slot, index, set;
	int verdict;

	if (!clock || at + header_octets(family) + L4_OCTETS > frame_end(frame) ||
	    !read_plain(frame, at, family, &p) || may_be_lisp(site, &p))
		return NOT_CACHED;
	slot = find_leaf(of, LISP_ROOT_MAP_CACHE, family, &p.destination);
	index = slot & LISP_SLOT_INDEX_MASK;
	if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_LEAF || !leaves_site(of, &p, family))
		return NOT_CACHED;
	v.hash = hash_address(hash_address(HASH_BEGIN, &p.source, family), &p.destination, family);
	v.hash = finish_hash(v.hash, p.ports, p.protocol);
	set = locator_set_of(index, site->iid);
	if (!set)
		return NOT_CACHED;
	a = find_for_set(set - 1, site->iid, p.tos, family, v.hash, clock->boot_ns);
	if (!a || p.longest > a->longest || p.length > octets_at(frame, at) ||
	    may_be_partial(site, &p, family))
		return NOT_CACHED;
	vary_encapsulation(&v, &p, family, a, clock);
	verdict = apply_encapsulation(frame, a, &v);
	if (has_left(verdict))
		count_mapping(index, p.length);
	return verdict;
}

/* The record of packets to an entry of the Database. */
static __always_inline struct lisp_action_record *
find_for_entry(hook_frame *frame, const struct lisp_interface *core, __u32 iid, __u8 family,
	       const union lisp_address *destination, __u32 *index, __u64 now)
{
	const struct lisp_roots *of = find_roots(iid == core->iid ? core->roots
								  : index_of_roots(iid));
	const struct lisp_mapping *m = find_covering(of, LISP_ROOT_DATABASE, family, destination,
						     index);
	struct action_key key;
	__u32 target, flags;

	if (!m)
		return NULL;
	target = target_of_delivery(*(const volatile __u32 *)&m->flags, *index);
	if (!target)
		return NULL;
	key = key_of_delivery(target, site_route_from(frame, iid, &flags), iid, family, NULL);
	return find_cached(&key, now);
}

static __always_inline int deliver_by_entry(hook_frame *frame, const struct lisp_interface *core,
					    __u8 outer_family, __u8 family)
{
	struct lisp_clock *clock = find_clock();
	struct lisp_action_record *a;
	struct plain_packet p;
	struct lisp_varying v;
	__u32 iid, index;
	int verdict;

	if (!clock || !read_plain_from_core(frame, outer_family, family, &p, &iid))
		return NOT_CACHED;
	if (!is_routable_unicast(&p.source, family))
		return NOT_CACHED;
	a = find_for_entry(frame, core, iid, family, &p.destination, &index, clock->boot_ns);
	if (!a || p.longest > a->longest || may_be_partial(core, &p, family))
		return NOT_CACHED;
	vary_delivery(&v, &p, outer_family, family);
	verdict = apply_delivery(frame, a, &v, outer_family);
	if (has_left(verdict))
		count_mapping(index, p.length);
	return verdict;
}

/* While most packets miss the flow cache, all but a sample of them go this way. */
static __always_inline bool goes_by_set(struct lisp_clock *clock)
{
	return mostly_misses(clock) && ++clock->turn & SAMPLE_ONE_IN - 1;
}

#endif

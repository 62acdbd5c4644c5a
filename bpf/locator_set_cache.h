/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The per-locator-set cache: which action record plain packets get while most miss the flow cache,
 * because there are more pairs of addresses than it holds. It finds the record of their locator, or
 * of their entry of the Database where that has a single next hop, by the tables alone. The rules
 * are those of admit.h and lookup.h for plain packets; all others go through the stages.
 */
#ifndef LISP_LOCATOR_SET_CACHE_H
#define LISP_LOCATOR_SET_CACHE_H

#include "flow_cache.h"

/* The locator-set and 1 of a run of mappings with consecutive indexes; 0: look at the record. */
static __always_inline __u32 locator_set_of_run(__u32 index)
{
	__u32 run = index / LISP_PAGE_MAPPINGS, at = run / LISP_WORD_PAGES;
	const volatile __u64 *word = bpf_map_lookup_elem(&mapping_pages, &at);

	return word ? *word >> run % LISP_WORD_PAGES * 16 & 0xFFFF : 0;
}

/* The locator-set of a mapping and 1; 0 where its packets go through all stages. */
static __always_inline __u32 locator_set_of(__u32 index, __u32 iid)
{
	__u32 word = locator_set_of_run(index);
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
	       is_plain_partial(p, family, sum_addresses(&p->source, &p->destination, family));
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

/* The record by which a packet from the site goes, the hash of its flow and the index of its
 * mapping; NULL where it has to go through all stages. */
static __always_inline struct lisp_action_record *
find_encapsulation_by_set(const struct lisp_interface *site, const struct plain_packet *p,
			  __u8 family, const struct lisp_clock *clock, __u32 *hash, __u32 *index)
{
	const struct lisp_roots *of = find_roots(site->roots);
	__u32 slot, set;

	if (may_be_lisp(site, p))
		return NULL;
	slot = find_leaf(of, LISP_ROOT_MAP_CACHE, family, &p->destination);
	*index = slot & LISP_SLOT_INDEX_MASK;
	if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_LEAF || !leaves_site(of, p, family))
		return NULL;
	*hash = finish_hash(hash_addresses(&p->source, &p->destination, family), p->ports,
			    p->protocol);
	set = locator_set_of(*index, site->iid);
	if (!set || may_be_partial(site, p, family))
		return NULL;
	return find_for_set(set - 1, site->iid, p->tos, family, *hash, clock->boot_ns);
}

/* The record of packets to an entry of the Database. */
static __always_inline struct lisp_action_record *
find_delivery_by_entry(hook_frame *frame, const struct lisp_interface *core,
		       const struct plain_packet *p, __u8 family, __u32 iid, __u64 now,
		       __u32 *index)
{
	const struct lisp_roots *of = find_roots(iid == core->iid ? core->roots
								  : index_of_roots(iid));
	const struct lisp_mapping *m;
	struct action_key key;
	__u32 target, flags;

	if (!is_routable_unicast(&p->source, family) || may_be_partial(core, p, family))
		return NULL;
	m = find_covering(of, LISP_ROOT_DATABASE, family, &p->destination, index);
	if (!m)
		return NULL;
	target = target_of_delivery(*(const volatile __u32 *)&m->flags, *index);
	if (!target)
		return NULL;
	key = key_of_delivery(target, site_route_from(frame, iid, &flags), iid, family, NULL);
	return find_cached(&key, now);
}

#endif

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
	__u32 run = index / LISP_RUN_MAPPINGS, at = run / LISP_WORD_RUNS;
	const volatile __u64 *word = bpf_map_lookup_elem(&mapping_runs, &at);

	return word ? *word >> run % LISP_WORD_RUNS * 16 & 0xFFFF : 0;
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

static __always_inline bool may_be_partial(const struct lisp_interface *at,
					   const struct plain_packet *p)
{
	return HOOK_IS_XDP && at->flags & LISP_INTERFACE_CHECKSUM_PARTIAL &&
	       is_plain_partial(p, sum_addresses(&p->source, &p->destination, p->family));
}

/* The place of the locator of a plain packet in its set: by the binding of its flow, or by the
 * hash. */
static __always_inline __u32 locator_of_plain(const struct plain_packet *p, __u32 iid,
					      __u32 locator_set, __u32 hash, __u64 now)
{
	const struct lisp_locator_set *set = find_locator_set(locator_set);
	__u32 locator = LISP_BUCKET_NONE;

	if (has_bindings()) {
		want_flow(iid, p->family, p->protocol, p->ports, &p->source, &p->destination);
		locator = lisp_bound_locator(locator_set, now);
	}
	if (locator == LISP_BUCKET_NONE && set)
		locator = locator_for(set, hash);
	return locator;
}

/* The record of a packet from the site, and the hash of its flow; NULL for none. */
static __always_inline struct lisp_action_record *
find_by_set(const struct lisp_interface *site, struct plain_packet *p, __u64 now, __u32 *hash)
{
	const struct lisp_roots *of = find_roots(site->roots);
	struct action_key key;
	__u32 slot, index;

	if (site->flags & LISP_INTERFACE_CORE && may_be_lisp(p))
		return NULL;
	slot = find_leaf(of, LISP_ROOT_MAP_CACHE, p->family, &p->destination);
	p->mapping_index = slot & LISP_SLOT_INDEX_MASK;
	if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_LEAF ||
	    !is_routable_unicast(&p->destination, p->family) ||
	    !is_own_eid(of, p->family, &p->source) || is_own_eid(of, p->family, &p->destination))
		return NULL;
	*hash = finish_hash(hash_addresses(&p->source, &p->destination, p->family), p->ports,
			    p->protocol);
	index = locator_set_of(p->mapping_index, site->iid);
	if (!index || may_be_partial(site, p))
		return NULL;
	key = key_of_encapsulation(index - 1, locator_of_plain(p, site->iid, index - 1, *hash, now),
				   site->iid, outer_tos(p->tos), port_in_key(*hash),
				   LISP_DO_ENCAPSULATE | (__u32)p->family << 8);
	return find_cached(&key, now);
}

/* The record of a packet from the core, by its entry of the Database. */
static __always_inline struct lisp_action_record *find_by_entry(hook_frame *frame,
								const struct lisp_interface *core,
								struct plain_packet *p, __u32 iid,
								__u64 now)
{
	__u32 roots = iid == core->iid ? core->roots : index_of_roots(iid), target, flags;
	const struct lisp_mapping *m;
	struct action_key key;

	if (!is_routable_unicast(&p->source, p->family) || may_be_partial(core, p))
		return NULL;
	m = find_covering(find_roots(roots), LISP_ROOT_DATABASE, p->family, &p->destination,
			  &p->mapping_index);
	if (!m)
		return NULL;
	target = target_of_delivery(*(const volatile __u32 *)&m->flags, p->mapping_index);
	if (!target)
		return NULL;
	key = key_of_delivery(target, site_route_from(frame, iid, &flags), iid, p->family, NULL);
	return find_cached(&key, now);
}

#endif

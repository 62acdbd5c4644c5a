/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Flows that are bound to a path (abi_paths.h): which locator of its mapping's set a flow goes to
 * (stage 5, forward/select.go). A binding chooses nothing but one of these.
 */
#ifndef LISP_BINDINGS_H
#define LISP_BINDINGS_H

#include "context.h"
#include "header.h"

/* The flow that is asked for next: the stack of the programs is full without it. */
PER_PROCESSOR(wanted_flows, 1, struct lisp_binding_key);

static __always_inline bool has_bindings(void)
{
	const struct lisp_generations *g = find_generations();

	return g && *(const volatile __u32 *)&g->bindings;
}

static __always_inline struct lisp_binding_key *find_wanted(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&wanted_flows, &zero);
}

/* Writes down a flow; NULL never happens. Of IPv4 addresses only the first word counts. */
static __always_inline struct lisp_binding_key *want_flow(__u32 iid, __u8 family, __u8 protocol,
							  __be32 ports,
							  const union lisp_address *source,
							  const union lisp_address *destination)
{
	struct lisp_binding_key *k = find_wanted();

	if (!k)
		return NULL;
	__builtin_memset(k, 0, sizeof(*k));
	k->iid = iid;
	k->ports = ports;
	k->family = family;
	k->protocol = protocol;
	if (family == 4) {
		OCTETS4(k->source) = source->words[0];
		OCTETS4(k->destination) = destination->words[0];
		return k;
	}
	__builtin_memcpy(k->source, source, sizeof(k->source));
	__builtin_memcpy(k->destination, destination, sizeof(k->destination));
	return k;
}

/* The place in a set of the locator that the wanted flow is bound to, where that can be used;
 * LISP_BUCKET_NONE for none. It is used `now`; 0 for no use. A global function: verified once. */
__noinline int lisp_bound_locator(__u32 locator_set, __u64 now)
{
	const struct lisp_binding_key *k = find_wanted();
	const struct lisp_locator_set *set = find_locator_set(locator_set);
	struct lisp_binding *b = k ? bpf_map_lookup_elem(&bindings, k) : NULL;
	__u32 used = now >> LISP_LAST_USED_SHIFT, path;

	if (!b || !set)
		return LISP_BUCKET_NONE;
	path = *(const volatile __u32 *)&b->path;
	if (now && !lisp_tracing && *(volatile __u32 *)&b->last_used != used)
		*(volatile __u32 *)&b->last_used = used;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LISP_LOCATORS_MAX; i++) {
		__u32 index = set->first + i;
		const struct lisp_locator *l = bpf_map_lookup_elem(&locators, &index);

		if (!l || i >= set->count)
			break;
		if (*(const volatile __u8 *)&l->flags & LISP_LOCATOR_UP && l->path == path) {
			step(LISP_STEP_BINDING, locator_set, i, path);
			return i;
		}
	}
	step(LISP_STEP_BINDING, locator_set, LISP_BUCKET_NONE, path);
	return LISP_BUCKET_NONE;
}

/* The same for the packet at hand; not for its second layer, which is between RLOCs. A global
 * function: verified once. */
__noinline int lisp_select_bound(struct lisp_context *c)
{
	/* A fragment does not tell its flow. */
	if (!c || c->second || c->packet.fragment)
		return LISP_BUCKET_NONE;
	want_flow(c->iid, c->packet.family, c->packet.protocol, c->ports, &c->packet.source,
		  &c->packet.destination);
	return lisp_bound_locator(c->locator_set, c->opens ? 0 : now_ns());
}

/* Whether a flow between the addresses of the packet at hand is bound. A global function: verified
 * once. */
__noinline int lisp_is_pair_bound(struct lisp_context *c)
{
	const struct lisp_binding_key *k;

	if (!c)
		return false;
	k = want_flow(c->iid, c->packet.family, 0, 0, &c->packet.source, &c->packet.destination);
	return k && bpf_map_lookup_elem(&bound_pairs, k);
}

#endif

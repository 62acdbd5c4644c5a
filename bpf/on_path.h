/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Routers that stand on several paths of a mapping (stage 5, forward/flow.go): what tells the
 * path that a relayed packet is on, and what tells the next router. It chooses nothing but a
 * locator of the mapping's set.
 */
#ifndef LISP_ON_PATH_H
#define LISP_ON_PATH_H

#include "context.h"
#include "decapsulate.h"

/* Whether a packet may tell its path: it is relayed, and did not wait. */
static __always_inline bool is_on_path(const struct lisp_context *c)
{
	return c->what == LISP_DO_RELAY && !c->released &&
	       has_setting(LISP_SETTING_PATHS_BY_NUMBER | LISP_SETTING_PATHS_BY_SOURCE);
}

/* Whether a hop of the path of a locator is the outer source. */
static __always_inline bool is_hop_source(__u32 locator, __u32 hop, const struct lisp_context *c)
{
	const struct lisp_path *path = bpf_map_lookup_elem(&paths, &locator);
	const struct lisp_hop *h;

	if (!path || hop >= LISP_HOPS_MAX)
		return false;
	h = &path->hops[hop];
	return h->family == c->outer.family && is_same_address(h->address, &c->outer.source);
}

/* What lisp_find_on_path() looks for among the paths that this router is on. */
enum on_path {
	ON_PATH_BY_NUMBER, /* the path of the number that the packet has */
	ON_PATH_BY_SOURCE, /* the one that has the outer source before this router */
	ON_PATH_BEGINS,    /* the first that begins here and can be used */
	ON_PATH_ANY,
};

static __always_inline bool is_found(const struct lisp_locator *l, __u32 index, __u32 what,
				     const struct lisp_context *c)
{
	__u32 place = *(const volatile __u8 *)&l->place;

	if (!place)
		return false;
	switch (what) {
	case ON_PATH_BY_NUMBER:
		return l->number == c->path_number;
	case ON_PATH_BY_SOURCE:
		return place > 1 && is_hop_source(index, place - 2, c);
	case ON_PATH_BEGINS:
		return place == 1 && *(const volatile __u8 *)&l->flags & LISP_LOCATOR_UP;
	}
	return true;
}

/* What look_at_place() looks for, and where it has found that. */
struct on_path_search {
	const struct lisp_context *c;
	__u32 first; /* of the locators of the set */
	__u32 what;
	__u32 found;
};

/* Ends a search at the locator that it is for. */
static int look_at_place(__u32 place, void *context)
{
	struct on_path_search *s = context;
	__u32 index = s->first + place;
	const struct lisp_locator *l = bpf_map_lookup_elem(&locators, &index);

	if (l && !is_found(l, index, s->what, s->c))
		return 0;
	if (l)
		s->found = place;
	return 1;
}

/* The place of such a path in the set of the packet at hand; LISP_BUCKET_NONE for none. A loop
 * whose body is verified once, for few packets come here. A global function: verified once. */
__noinline int lisp_find_on_path(const struct lisp_context *c, __u32 what)
{
	const struct lisp_locator_set *set = c ? find_locator_set(c->locator_set) : NULL;
	struct on_path_search s = {.c = c, .what = what, .found = LISP_BUCKET_NONE};

	if (!set)
		return LISP_BUCKET_NONE;
	s.first = set->first;
	bpf_loop(set->count, look_at_place, &s, 0);
	return s.found;
}

/* Whether the locator at a place of the set can be used. */
static __always_inline bool is_place_up(const struct lisp_context *c, __u32 place)
{
	const struct lisp_locator_set *set = find_locator_set(c->locator_set);
	__u32 index = set ? set->first + place : 0;
	const struct lisp_locator *l = set ? bpf_map_lookup_elem(&locators, &index) : NULL;

	return l && *(const volatile __u8 *)&l->flags & LISP_LOCATOR_UP;
}

/* The place in the set of the path that the packet at hand is on, where it can be used; without one
 * that has the outer source before this router, the first that begins here. LISP_BUCKET_NONE for
 * none. A global function: verified once. */
__noinline int lisp_identify_path(struct lisp_context *c)
{
	bool by_source = has_setting(LISP_SETTING_PATHS_BY_SOURCE);
	__u32 found;

	if (!c)
		return LISP_BUCKET_NONE;
	found = lisp_find_on_path(c, by_source ? ON_PATH_BY_SOURCE : ON_PATH_BY_NUMBER);
	if (found != LISP_BUCKET_NONE && !is_place_up(c, found))
		found = LISP_BUCKET_NONE;
	else if (found == LISP_BUCKET_NONE && by_source)
		found = lisp_find_on_path(c, ON_PATH_BEGINS);
	if (found == LISP_BUCKET_NONE &&
	    (c->path_number || lisp_find_on_path(c, ON_PATH_ANY) != LISP_BUCKET_NONE))
		note(c, LISP_COUNTER_PATH_UNIDENTIFIED);
	step(LISP_STEP_ON_PATH, c->locator_set, found, c->path_number);
	return found;
}

/* What packets of an Instance-ID to a locator carry in its place. */
static __always_inline __u32 iid_on_wire(__u32 iid, const struct lisp_locator *l)
{
	if (iid || !l->sent_number || !has_setting(LISP_SETTING_PATHS_NUMBERED))
		return iid;
	return l->sent_number;
}

#endif

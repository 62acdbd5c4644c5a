/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 4, for both hooks: what the map-cache says of a packet from a site (RFC 9300 s.4, s.7),
 * what the Database says of one from the core.
 */
#ifndef LISP_LOOKUP_H
#define LISP_LOOKUP_H

#include "context.h"

/* What not every packet needs: below. */
static __always_inline __u32 reason_of_action(__u8 action);

/* What the map-cache says about a packet from an EID of ours to somewhere else; ENCAPSULATE where a
 * locator is to be selected. */
static __always_inline int look_up_mapping(struct lisp_context *c)
{
	const struct lisp_mapping *m;

	m = find_mapping(find_roots(c->roots), LISP_ROOT_MAP_CACHE, c->packet.family,
			 &c->packet.destination, &c->mapping_index);
	if (!m)
		return LISP_DO_MISS;
	c->mapping_iid = m->iid;
	c->locator_set = m->locator_set;
	if (c->locator_set != LISP_NO_LOCATOR_SET) {
		c->reason = LISP_TAP_REASON_HOLD;
		return m->flags & LISP_MAPPING_HOLD && !c->released ? LISP_DO_WAIT
								    : LISP_DO_ENCAPSULATE;
	}
	if (m->action == LISP_ACTION_SEND_MAP_REQUEST)
		return LISP_DO_MISS;
	c->negative = c->mapping_index + 1;
	if (m->action == LISP_ACTION_NATIVELY_FORWARD)
		return LISP_DO_NATIVELY;
	c->reason = reason_of_action(m->action);
	return LISP_DO_REFUSE;
}

/* Whether a packet from the core is to an EID of ours, which comes before any other role. */
static __always_inline bool look_up_entry(struct lisp_context *c)
{
	const struct lisp_mapping *own;

	own = find_mapping(find_roots(c->roots), LISP_ROOT_DATABASE, c->packet.family,
			   &c->packet.destination, &c->mapping_index);
	if (!own)
		return false;
	c->what = LISP_DO_DELIVER;
	c->mapping_flags = *(const volatile __u32 *)&own->flags;
	return true;
}

/* Why a negative mapping drops its packets; the reasons have the order of the actions. */
static __always_inline __u32 reason_of_action(__u8 action)
{
	if (action < LISP_ACTION_DROP || action > LISP_ACTION_DROP_AUTHENTICATION_FAILURE)
		return LISP_DROP_NO_ACTION;
	return LISP_DROP_ACTION_DROP + action - LISP_ACTION_DROP;
}

#endif

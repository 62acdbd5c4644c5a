/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 4 and the order of the stages, for both hooks: what the map-cache says of a packet from a
 * site (RFC 9300 s.4, s.7), what the Database says of one from the core.
 */
#ifndef LISP_LOOKUP_H
#define LISP_LOOKUP_H

#include "layers.h"

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

/* Stages 4 and 5 of an admitted packet from an EID of ours. */
static __always_inline int decide_for_core(hook_frame *frame, struct lisp_context *c)
{
	int what;

	c->listed = has_setting(LISP_SETTING_LISTS);
	if (c->listed) {
		c->reason = judge_eids(c);
		if (c->reason)
			return LISP_DO_DROP;
	}
	what = look_up_mapping(c);
	if (what != LISP_DO_ENCAPSULATE)
		return what;
	return has_setting(LISP_SETTING_TWO_LAYERS) ? select_layers(frame, c)
						    : lisp_select_encapsulation(frame, c);
}

/* An EID of ours comes before any other role. */
static __always_inline int look_up_entry(struct lisp_context *c)
{
	const struct lisp_mapping *own;

	own = find_mapping(find_roots(c->roots), LISP_ROOT_DATABASE, c->packet.family,
			   &c->packet.destination, &c->mapping_index);
	if (!own)
		return admit_by_role(c);
	c->what = LISP_DO_DELIVER;
	c->mapping_flags = *(const volatile __u32 *)&own->flags;
	return LISP_DROP_NONE;
}

/* Whether what came in a LISP packet is itself one for this router. */
static __always_inline bool holds_lisp(hook_frame *frame, const struct lisp_context *c)
{
	return c->packet.protocol == IPPROTO_UDP && !c->packet.fragment &&
	       is_lisp(frame, &c->packet);
}

/* Stages 2 to 4 of a packet that is_lisp() has recognised, before anything is changed; the reason
 * to drop it, or none. */
__noinline int lisp_judge_from_core(hook_frame *frame, struct lisp_context *c)
{
	__u32 epoch;
	int reason;

	if (!c)
		return LISP_DROP_OUTER_MALFORMED;
	epoch = begin_lookup(c->outer.family, &c->outer.destination).epoch;
	reason = read_lisp_header(frame, c);
	if (!reason)
		reason = read_inner(frame, c);
	if (reason)
		return reason;
	c->since = begin_lookup(c->packet.family, &c->packet.destination);
	c->since.epoch = epoch;
	c->lisp_inside = holds_lisp(frame, c);
	reason = look_up_entry(c);
	if (!reason)
		reason = admit_from_core(frame, c);
	return reason ? reason : merge_tos_ttl(c);
}

/* The same stages for a second layer, whose marks are those with which it left the first; there is
 * no third. A global function: verified once. */
__noinline int lisp_judge_second_layer(hook_frame *frame, struct lisp_context *c)
{
	__u32 removed;
	int reason;

	if (!c || !has_setting(LISP_SETTING_TWO_LAYERS))
		return LISP_DROP_RECURSION_DEPTH;
	step(LISP_STEP_LAYER, 2, 0, 0);
	lisp_note_source(&c->outer.source, c->outer.family);
	removed = c->removed;
	c->outer = c->packet;
	c->told = 0;
	reason = lisp_judge_from_core(frame, c);
	if (reason)
		return reason;
	c->removed += removed;
	if (c->lisp_inside)
		return LISP_DROP_RECURSION_DEPTH;
	note(c, LISP_COUNTER_DECAPSULATED_TWICE);
	return LISP_DROP_NONE;
}

#endif

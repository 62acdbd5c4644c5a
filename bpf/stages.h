/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The order of the stages, for both hooks, as forward/xtr.go has it. */
#ifndef LISP_STAGES_H
#define LISP_STAGES_H

#include "layers.h"

/* Stages 4 and 5 of an admitted packet from an EID of ours. */
static __always_inline int decide_for_core(hook_frame *frame, struct lisp_context *c)
{
	int what;

	c->listed = has_setting(LISP_SETTING_LISTS);
	if (c->listed) {
		c->reason = admit_by_lists(c);
		if (c->reason)
			return LISP_DO_DROP;
	}
	what = look_up_mapping(c);
	if (what != LISP_DO_ENCAPSULATE)
		return what;
	return has_setting(LISP_SETTING_TWO_LAYERS) ? select_layers(frame, c)
						    : lisp_select_encapsulation(frame, c);
}

/* Stages 2 to 4 of a packet that is_lisp() has recognised, before anything is changed; the reason
 * to drop it, or none. */
__noinline int lisp_take_layer(hook_frame *frame, struct lisp_context *c)
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
	return reason ? reason : decapsulate_tos_ttl(c);
}

/* The same stages for a second layer, whose marks are those with which it left the first; there is
 * no third. A global function: verified once. */
__noinline int lisp_take_second_layer(hook_frame *frame, struct lisp_context *c)
{
	__u32 removed;
	int reason;

	if (!c || !has_setting(LISP_SETTING_TWO_LAYERS))
		return LISP_DROP_RECURSION_DEPTH;
	step(LISP_STEP_LAYER, 2, 0, 0);
	lisp_note_decapsulated(&c->outer.source, c->outer.family);
	removed = c->removed;
	c->outer = c->packet;
	c->told = 0;
	reason = lisp_take_layer(frame, c);
	if (reason)
		return reason;
	c->removed += removed;
	if (c->lisp_inside)
		return LISP_DROP_RECURSION_DEPTH;
	note(c, LISP_COUNTER_DECAPSULATED_TWICE);
	return LISP_DROP_NONE;
}

#endif

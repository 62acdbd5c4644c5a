/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The order of the stages, for both hooks, as forward/xtr.go has it. Each call is in the header of
 * its name.
 *
 *   outbound  classify, admit, look up, select, apply: ITR, PITR
 *   inbound   decapsulate, look up, admit, select or relay, apply: ETR, RTR, PETR
 *
 * Entry points read the packet and say which of the two it is; those at egress and those of packets
 * that waited admit it themselves, and begin with lisp_towards_core().
 */
#ifndef LISP_STAGES_H
#define LISP_STAGES_H

#include "admit.h"
#include "classify.h"
#include "decapsulate.h"
#include "layers.h"
#include "lookup.h"
#include "select.h"

/* ---- what differs, in lisp_tc.bpf.c and lisp_xdp.bpf.c ---- */

/* Whether the hook can read what is behind the UDP header of a LISP packet. */
static __always_inline bool can_reach_inner(hook_frame *frame, const struct lisp_packet *outer);

/* Whether a packet, unchanged so far, has to go on to the program at tc. */
static __always_inline bool must_go_to_tc(hook_frame *frame, const struct lisp_context *c);

/* The last stage, by what was decided (enum lisp_what); c->reason says why it is dropped, refused
 * or has to wait. */
static __always_inline int apply_towards_core(hook_frame *frame, struct lisp_context *c, int what);
static __always_inline int apply_from_core(hook_frame *frame, struct lisp_context *c, int what);

/* ---- outbound ---- */

/* The last stages of a packet that was admitted. A global function: verified once. */
__noinline int lisp_towards_core(hook_frame *frame, struct lisp_context *c)
{
	int what;

	if (!c)
		return HOOK_PASS;
	what = admit_by_lists(c);
	if (what == LISP_DO_ENCAPSULATE)
		what = look_up_mapping(c);
	if (what == LISP_DO_ENCAPSULATE)
		what = has_layers() ? select_layers(frame, c) : lisp_select_encapsulation(frame, c);
	return apply_towards_core(frame, c, what);
}

/* Leads a packet that came in without LISP through the stages. */
static __always_inline int outbound(hook_frame *frame, struct lisp_context *c)
{
	if (!classify(c) || !admit_towards_core(c) || must_go_to_tc(frame, c))
		return HOOK_PASS;
	return lisp_towards_core(frame, c);
}

/* ---- inbound ---- */

/* Finds out what is within a packet for an own RLOC, and as what this router takes it; the reason
 * to drop it, or none. Nothing is changed yet. A global function: verified once. */
__noinline int lisp_take_layer(hook_frame *frame, struct lisp_context *c)
{
	int reason;

	if (!c)
		return LISP_DROP_OUTER_MALFORMED;
	reason = decapsulate(frame, c);
	if (!reason && c->what == LISP_DO_PASS)
		return admit_control(c);
	if (!reason && !look_up_entry(c))
		reason = admit_by_role(c);
	/* the router before the last hop writes the Instance-ID */
	if (!reason && c->path_number && c->what != LISP_DO_RELAY)
		reason = LISP_DROP_EID_NOT_IN_DATABASE;
	if (!reason)
		reason = admit_from_core(frame, c);
	return reason ? reason : decapsulate_tos_ttl(c);
}

/* The same for a packet that came within another one for this router; there is no third. A global
 * function: verified once. */
__noinline int lisp_take_second_layer(hook_frame *frame, struct lisp_context *c)
{
	int reason;

	if (!c || !has_layers())
		return LISP_DROP_RECURSION_DEPTH;
	enter_second_layer(c);
	reason = lisp_take_layer(frame, c);
	if (!reason && c->what == LISP_DO_PASS)
		return LISP_DROP_CONTROL_SOURCE;
	return reason ? reason : leave_second_layer(c);
}

/* A decapsulated packet goes to where the map-cache says, as one of the site does. */
static __always_inline int relay(hook_frame *frame, struct lisp_context *c)
{
	lisp_note_decapsulated(&c->outer.source, c->outer.family);
	return lisp_towards_core(frame, c);
}

/* Leads a packet that is_lisp() has recognised through the stages. */
static __noinline int inbound(hook_frame *frame, struct lisp_context *c)
{
	if (!can_reach_inner(frame, &c->outer))
		return HOOK_PASS;
	c->reason = lisp_take_layer(frame, c);
	if (!c->reason && c->what == LISP_DO_PASS)
		return HOOK_PASS;
	if (!c->reason && c->lisp_inside) {
		if (!can_reach_inner(frame, &c->packet))
			return HOOK_PASS;
		c->reason = lisp_take_second_layer(frame, c);
	}
	if (!c->reason && must_go_to_tc(frame, c))
		return HOOK_PASS;
	if (!c->reason && c->what == LISP_DO_RELAY && c->packet.ttl > 1)
		return relay(frame, c);
	return apply_from_core(frame, c, select_delivery(frame, c));
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 1: what a frame is to LISP (RFC 9300 s.4): a packet of a site, or one from the core for
 * this router. Nothing here changes a frame.
 */
#ifndef LISP_CLASSIFY_H
#define LISP_CLASSIFY_H

#include "context.h"

/* Whether LISP can carry a packet that came without it; its look-ups begin after this. */
static __always_inline bool classify(struct lisp_context *c)
{
	if (c->packet.malformed || !is_routable_unicast(&c->packet.destination, c->packet.family))
		return false;
	c->since = begin_lookup(c->packet.family, &c->packet.destination);
	return true;
}

/* Whether the outer packet is UDP to a port of an own RLOC, and whole. */
static __always_inline bool is_lisp(hook_frame *frame, const struct lisp_packet *outer)
{
	__be16 port;

	if (outer->protocol != IPPROTO_UDP)
		return false;
	if (outer->fragment) {
		if (is_own_rloc(outer->family, &outer->destination, 0))
			count(LISP_COUNTER_OUTER_FRAGMENT, frame_length(frame));
		return false;
	}
	if (read_octets(frame, outer->l4_offset + 2, &port, sizeof(port)) < 0)
		return false;
	if (port == bpf_htons(LISP_DATA_PORT))
		port = 0;
	else if (!port || !has_setting(LISP_SETTING_OTHER_PORTS))
		return false;
	return is_own_rloc(outer->family, &outer->destination, port);
}

#endif

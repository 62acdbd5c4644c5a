/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 3: which packets this router forwards by LISP (RFC 9300 s.4, s.5). From the site: from an
 * EID of the Database to somewhere else. From the core: what lists, source check, nonces, status
 * bits and versions let pass. A role adds its rules here.
 */
#ifndef LISP_ADMIT_H
#define LISP_ADMIT_H

#include "decapsulate.h"
#include "nonce_lsb_version.h"

/* What not every packet needs: below. */
static __noinline bool is_proxied(struct lisp_context *c);
static __always_inline struct lisp_trusted *describe(const struct lisp_context *c);
static __always_inline void describe_rlocs(struct lisp_trusted *p, __u8 family, const void *rloc,
					   const void *own);

/* Whether a packet to an own EID-prefix is at hand, which is the site's own affair. */
static __always_inline bool is_within_site(const struct lisp_context *c)
{
	bool within = is_own_eid(find_roots(c->roots), c->packet.family, &c->packet.destination);

	step(LISP_STEP_WITHIN_SITE, within, 0, 0);
	return within;
}

static __always_inline bool comes_from_eid(const struct lisp_context *c)
{
	bool own = is_own_eid(find_roots(c->roots), c->packet.family, &c->packet.source);

	step(LISP_STEP_SOURCE, own, 0, 0);
	return own;
}

/* Whether a packet that came in without LISP is LISP's; expired ones are the stack's to answer. */
static __always_inline bool admit_towards_core(struct lisp_context *c)
{
	return c->packet.ttl > 1 &&
	       ((c->side == LISP_INTERFACE_SITE && comes_from_eid(c)) || is_proxied(c)) &&
	       !is_within_site(c);
}

/* Whether a packet from the core to an EID of ours is let in; the reason to drop it, or none. */
static __always_inline int admit_from_core(hook_frame *frame, struct lisp_context *c)
{
	struct lisp_trusted *p = has_setting(SETTINGS_JUDGING) ? describe(c) : NULL;
	int reason;

	if (!p)
		return LISP_DROP_NONE;
	describe_rlocs(p, c->outer.family, &c->outer.source, &c->outer.destination);
	p->first = c->header_first;
	p->second = c->header_second;
	p->ifindex = incoming_ifindex(frame);
	p->notes = 0;
	reason = lisp_judge_received(c->what == LISP_DO_DELIVER);
	c->notes |= p->notes;
	return reason;
}

/* A control message in a data packet is let in from an RTR of ours, to the socket that user space
 * has at the port; the reason to drop it, or none. */
static __noinline int admit_control(const struct lisp_context *c)
{
	return lisp_ask_policy(LISP_LIST_CONTROL, 0, &c->outer.source, c->outer.family) ==
			       LISP_LIST_PERMITS
		       ? LISP_DROP_NONE
		       : LISP_DROP_CONTROL_SOURCE;
}

/* ---- lists ---- */

/* What lists and data headers are judged by, but for the RLOCs; NULL never happens. */
static __always_inline struct lisp_trusted *describe(const struct lisp_context *c)
{
	struct lisp_trusted *p = find_trusted();

	if (!p)
		return NULL;
	p->source_iid = p->iid = c->iid;
	p->mapping_index = c->mapping_index;
	p->family = c->packet.family;
	__builtin_memcpy(p->source, &c->packet.source, sizeof(p->source));
	__builtin_memcpy(p->destination, &c->packet.destination, sizeof(p->destination));
	return p;
}

static __always_inline void describe_rlocs(struct lisp_trusted *p, __u8 family, const void *rloc,
					   const void *own)
{
	p->rloc_family = family;
	__builtin_memcpy(p->rloc, rloc, sizeof(p->rloc));
	__builtin_memcpy(p->own_rloc, own, sizeof(p->own_rloc));
}

/* What the lists of EIDs say; the reason to drop, or none. */
static __noinline int judge_eids(const struct lisp_context *c)
{
	return describe(c) ? judge_pair(LISP_LIST_INNER_SOURCE) : LISP_DROP_NONE;
}

/* Asks the lists, if there are any, before a mapping is asked for: ENCAPSULATE or DROP. */
static __always_inline int admit_by_lists(struct lisp_context *c)
{
	c->listed = has_setting(LISP_SETTING_LISTS);
	if (!c->listed)
		return LISP_DO_ENCAPSULATE;
	c->reason = judge_eids(c);
	return c->reason ? LISP_DO_DROP : LISP_DO_ENCAPSULATE;
}

/* ---- PITR, RTR, PETR ---- */

/* Whether a packet is a PITR's to encapsulate, which sources that are no EIDs have. Those to the
 * router itself are not, whatever the policy covers. */
static __noinline bool is_proxied(struct lisp_context *c)
{
	const struct lisp_packet *p = &c->packet;

	if (lisp_ask_policy(LISP_LIST_PITR, c->iid, &p->destination, p->family) ||
	    lisp_ask_policy(LISP_LIST_PITR_SOURCE, c->iid, &p->source, p->family) ||
	    !is_routable_unicast(&p->source, p->family) ||
	    is_own_rloc(p->family, &p->destination, 0))
		return false;
	c->what = LISP_DO_PROXY;
	return true;
}

/* What the policy of an RTR, or a router behind a NAT that registered it, says of a packet. */
static __always_inline int ask_relay(const struct lisp_context *c)
{
	__u32 family = c->packet.family;
	int answer = lisp_ask_relay(c->roots, c->iid, &c->packet.destination, family);

	if (answer == LISP_LIST_PERMITS)
		return answer;
	return lisp_ask_relay(c->roots, c->iid, &c->packet.source, family);
}

/* The other roles of a decapsulated packet, which is to no EID of ours: an RTR relays it, a PETR
 * sends it natively, and what is to the router itself ends there. The reason to drop it, or none.
 */
static __noinline int admit_by_role(struct lisp_context *c)
{
	const struct lisp_packet *p = &c->packet;
	bool own = is_own_rloc(p->family, &p->destination, 0);
	int relayed = ask_relay(c), exits = relayed;

	c->what = LISP_DO_RELAY;
	if (own || relayed != LISP_LIST_PERMITS) {
		exits = lisp_ask_policy(LISP_LIST_PETR, c->iid, &p->source, p->family);
		c->what = own ? LISP_DO_LOCAL : LISP_DO_NATIVELY;
	}
	if (exits == LISP_LIST_PERMITS)
		return is_routable_unicast(&p->destination, p->family) ? LISP_DROP_NONE
								       : LISP_DROP_NOT_FORWARDABLE;
	if (relayed == LISP_LIST_PERMITS)
		return c->lisp_inside ? LISP_DROP_NONE : LISP_DROP_NOT_IN_POLICY;
	return relayed == LISP_LIST_DENIES || exits == LISP_LIST_DENIES
		       ? LISP_DROP_NOT_IN_POLICY
		       : LISP_DROP_EID_NOT_IN_DATABASE;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stages 4 and 5 with two layers of encapsulation (RFC 9300 s.4): an RLOC that a mapping of
 * Instance-ID 0 covers is an EID itself, and the encapsulated packet is encapsulated again. All is
 * decided before anything is written: what has to wait, or is too big, is the packet between EIDs.
 * No cache knows packets of two layers.
 */
#ifndef LISP_LAYERS_H
#define LISP_LAYERS_H

#include "lookup.h"
#include "select.h"

#define LISP_CONTROL_PORT 4342

/* Both are below. */
__noinline int lisp_look_up_rloc(hook_frame *frame, struct lisp_context *c);
__noinline int lisp_select_first_layer(hook_frame *frame, struct lisp_context *c, int what);

/* The context of the second layer; NULL never happens. */
static __always_inline struct lisp_context *find_second_layer(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&second_layers, &zero);
}

static __always_inline bool has_layers(void) { return has_setting(LISP_SETTING_TWO_LAYERS); }

/* Stages 4, for the RLOC, and 5 of a packet whose mapping has a locator-set. */
static __always_inline int select_layers(hook_frame *frame, struct lisp_context *c)
{
	int what = lisp_look_up_rloc(frame, c);

	if (what == LISP_DO_ENCAPSULATE)
		return lisp_select_encapsulation(frame, c);
	if (what != LISP_DO_ENCAPSULATE_TWICE)
		return what;
	what = lisp_select_encapsulation(frame, find_second_layer());
	return lisp_select_first_layer(frame, c, what);
}

/* ---- from the core ---- */

/* The packet that was in another one is taken as that one was, with the marks that it left with. */
static __always_inline void enter_second_layer(struct lisp_context *c)
{
	step(LISP_STEP_LAYER, 2, 0, 0);
	lisp_note_decapsulated(&c->outer.source, c->outer.family);
	c->outer = c->packet;
	c->told = 0;
}

/* The reason to drop what was in two layers, or none. */
static __always_inline int leave_second_layer(struct lisp_context *c)
{
	if (c->lisp_inside)
		return LISP_DROP_RECURSION_DEPTH;
	note(c, LISP_COUNTER_DECAPSULATED_TWICE);
	return LISP_DROP_NONE;
}

/* ---- towards the core ---- */

/* The packet of the second layer is the first layer's header, as it will be. */
static __always_inline void begin_second_layer(struct lisp_context *s, const struct lisp_context *c,
					       const struct lisp_locator *l)
{
	__u32 ports = (__u32)bpf_ntohs(source_port_to(l, c->hash)) << 16 | bpf_ntohs(port_of(l));

	__builtin_memset(s, 0, sizeof(*s));
	s->second = true;
	s->packet.family = l->family;
	s->packet.protocol = IPPROTO_UDP;
	s->packet.tos = outer_tos(c->packet.tos);
	__builtin_memcpy(&s->packet.source, l->source, sizeof(s->packet.source));
	__builtin_memcpy(&s->packet.destination, l->rloc, sizeof(s->packet.destination));
	s->hash = finish_hash(hash_addresses(&s->packet.source, &s->packet.destination, l->family),
			      bpf_htonl(ports), IPPROTO_UDP);
	s->what = LISP_DO_ENCAPSULATE;
	s->roots = index_of_roots(0);
	s->since = c->since;
	s->listed = c->listed;
}

/* What the map-cache says of an RLOC: ENCAPSULATE where packets go to it as they are. */
static __always_inline int look_up_rloc(struct lisp_context *c, struct lisp_context *s)
{
	const struct lisp_mapping *m;

	step(LISP_STEP_LAYER, 1, 0, 0);
	m = find_mapping(find_roots(s->roots), LISP_ROOT_MAP_CACHE, s->packet.family,
			 &s->packet.destination, &s->mapping_index);
	if (!m)
		return LISP_DO_MISS_RLOC;
	if (m->action == LISP_ACTION_NATIVELY_FORWARD) { /* with proxy ETRs too: it is not an EID */
		c->negative = s->mapping_index + 1;
		return LISP_DO_ENCAPSULATE;
	}
	s->locator_set = m->locator_set;
	if (s->locator_set != LISP_NO_LOCATOR_SET) {
		c->reason = LISP_TAP_REASON_RLOC;
		return m->flags & LISP_MAPPING_HOLD && !c->resolved ? LISP_DO_WAIT
								    : LISP_DO_ENCAPSULATE_TWICE;
	}
	if (m->action == LISP_ACTION_SEND_MAP_REQUEST)
		return LISP_DO_MISS_RLOC;
	c->negative = s->mapping_index + 1;
	c->reason = reason_of_action(m->action);
	return LISP_DO_REFUSE;
}

/* Why the second layer cannot go to a locator: it leads back to this router or to the same mapping,
 * or its RLOC would need a third layer. */
static __always_inline __u32 judge_second(const struct lisp_context *s,
					  const struct lisp_locator *l)
{
	const union lisp_address *rloc = (const union lisp_address *)l->rloc;
	const struct lisp_mapping *next;
	__u32 index;

	if (is_own_rloc(l->family, rloc, 0))
		return LISP_DROP_MAPPING_LOOP;
	next = find_mapping(find_roots(s->roots), LISP_ROOT_MAP_CACHE, l->family, rloc, &index);
	if (next && index == s->mapping_index)
		return LISP_DROP_MAPPING_LOOP;
	if ((next && next->locator_set != LISP_NO_LOCATOR_SET &&
	     next->action != LISP_ACTION_NATIVELY_FORWARD) ||
	    *(const volatile __u8 *)&l->flags & LISP_LOCATOR_LOOKUP)
		return LISP_DROP_RECURSION_DEPTH;
	return LISP_DROP_NONE;
}

/* A packet between EIDs that is LISP's already has a layer. */
static __always_inline bool has_layer(hook_frame *frame, const struct lisp_packet *p)
{
	__be16 port;

	return p->protocol == IPPROTO_UDP && !p->fragment &&
	       load_from(frame, p, p->l4_offset + 2, &port, sizeof(port)) == 0 &&
	       (port == bpf_htons(LISP_DATA_PORT) || port == bpf_htons(LISP_CONTROL_PORT));
}

/* The record of the first layer, which has no next hop. */
static __always_inline int make_first_layer(struct lisp_context *c, const struct lisp_locator *l)
{
	struct action_key key = key_of_encapsulation(c->locator_set, c->locator, c->mapping_iid,
						     outer_tos(c->packet.tos), 0,
						     c->what | (__u32)c->packet.family << 8);
	struct lisp_action_record *a;

	key.target_from |= (__u64)LISP_FIRST_LAYER << 32;
	a = take_action(&key, &c->action);
	if (!a)
		return LISP_DO_PASS;
	if (action_counts(a, c->since.epoch, now_ns()))
		return LISP_DO_ENCAPSULATE_TWICE;
	a->flags = LISP_ACTION_UNCACHED;
	make_template(a, l);
	a->epoch = c->since.epoch;
	a->expires_ns = now_ns() + LISP_ACTION_NS;
	return LISP_DO_ENCAPSULATE_TWICE;
}

/* Why the second layer goes nowhere, or LISP_DROP_NONE; `headers` are octets of the first one. */
static __always_inline __u32 select_second(hook_frame *frame, const struct lisp_context *c,
					   struct lisp_context *s, __u32 headers)
{
	const struct lisp_locator *l = select_locator(s);

	s->packet.length = longest_segment(frame, &c->packet) + headers;
	return l ? judge_second(s, l) : LISP_DROP_NO_LOCATOR;
}

/* Stage 4 for the RLOC of a packet whose mapping has a locator-set: ENCAPSULATE where it goes there
 * as it is, ENCAPSULATE_TWICE where there is a locator for the second layer. A global function:
 * verified once. */
__noinline int lisp_look_up_rloc(hook_frame *frame, struct lisp_context *c)
{
	struct lisp_context *s = find_second_layer();
	const struct lisp_locator *l;
	int what;

	if (!c || !s)
		return LISP_DO_PASS;
	c->ports = flow_ports(frame, &c->packet);
	c->opens = has_bindings() && has_syn(frame, &c->packet);
	c->hash = flow_hash(&c->packet, c->ports);
	c->reason = LISP_DROP_NO_LOCATOR;
	l = select_locator(c);
	if (!l)
		return LISP_DO_REFUSE;
	c->reason = LISP_DROP_OWN_NEXT_HOP;
	if (is_own_rloc(l->family, (const union lisp_address *)l->rloc, 0))
		return LISP_DO_REFUSE;
	c->reason = LISP_DROP_NOT_ON_PATH;
	if (is_off_path(c, l))
		return LISP_DO_DROP;
	begin_second_layer(s, c, l);
	what = look_up_rloc(c, s);
	if (what != LISP_DO_ENCAPSULATE_TWICE)
		return what;
	c->reason = judge_locator(c, l);
	if (c->reason)
		return LISP_DO_DROP;
	c->reason = select_second(frame, c, s, outer_length(l->family));
	return c->reason ? LISP_DO_REFUSE : LISP_DO_ENCAPSULATE_TWICE;
}

/* The end of stage 5: `what` was decided about the second layer. A global function: verified once.
 */
__noinline int lisp_select_first_layer(hook_frame *frame, struct lisp_context *c, int what)
{
	struct lisp_context *s = find_second_layer();
	const struct lisp_locator_set *set;
	const struct lisp_locator *l;
	__u32 headers;

	if (!c || !s)
		return LISP_DO_PASS;
	c->reason = s->reason;
	if (what != LISP_DO_ENCAPSULATE && what != LISP_DO_WAIT)
		return what;
	headers = outer_length(s->packet.family);
	c->mtu = s->mtu > headers ? s->mtu - headers : 0;
	if (has_layer(frame, &c->packet)) {
		c->reason = LISP_DROP_RECURSION_DEPTH;
		return LISP_DO_REFUSE;
	}
	set = find_locator_set(c->locator_set);
	l = set ? locator_of(c, set) : NULL;
	if (!l)
		return LISP_DO_PASS;
	return what == LISP_DO_ENCAPSULATE ? make_first_layer(c, l) : what;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * TCP packets that begin or end a connection which may be bound to a path (struct lisp_subflow, RFC
 * 8684; forward/flows.go): those with SYN that have an option of Multipath TCP, and those with FIN
 * or RST of flows that are bound. User space is told of them when they go on; nothing here changes
 * a packet, or holds it.
 */
#ifndef LISP_SUBFLOW_H
#define LISP_SUBFLOW_H

#include "bindings.h"
#include "events.h"

#define TCP_HEADER_MIN 20
#define TCP_OPTION_END 0
#define TCP_OPTION_NONE 1
#define TCP_OPTION_MULTIPATH 30

/* The event about the packet at hand. */
PER_PROCESSOR(subflow_events, 1, struct lisp_subflow);

static __always_inline struct lisp_subflow *find_subflow(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&subflow_events, &zero);
}

/* An octet of the TCP header. */
static __always_inline __u8 tcp_octet(const struct lisp_subflow *s, __u32 at)
{
	return s->tcp[at & (sizeof(s->tcp) - 1)];
}

/* Whether the header of find_subflow() has an option of Multipath TCP. Options behind one whose
 * length is wrong are not looked at. The place is kept in the map, so that the verifier sees the
 * same state in each round. A global function: verified once. */
__noinline int lisp_is_multipath(void)
{
	struct lisp_subflow *s = find_subflow();
	__u8 kind, octets, left;

	if (!s)
		return false;
	s->at = TCP_HEADER_MIN;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LISP_TCP_HEADER_MAX - TCP_HEADER_MIN; i++) {
		if (s->at >= s->octets)
			return false;
		left = s->octets - s->at;
		kind = tcp_octet(s, s->at);
		octets = 1;
		if (kind == TCP_OPTION_END)
			return false;
		if (kind != TCP_OPTION_NONE) {
			octets = tcp_octet(s, s->at + 1);
			if (left < 2 || octets < 2 || octets > left)
				return false;
		}
		if (kind == TCP_OPTION_MULTIPATH)
			return true;
		*(volatile __u8 *)&s->at += octets;
	}
	return false;
}

/* Whether a set has two locators or more that a binding may choose. A global function: verified
 * once. */
__noinline int lisp_has_choice(__u32 locator_set)
{
	const struct lisp_locator_set *set = find_locator_set(locator_set);
	bool one = false;

	if (!set)
		return false;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LISP_LOCATORS_MAX; i++) {
		__u32 index = set->first + i;
		const struct lisp_locator *l = bpf_map_lookup_elem(&locators, &index);

		if (!l || i >= set->count)
			return false;
		if (!(*(const volatile __u8 *)&l->flags & LISP_LOCATOR_UP))
			continue;
		if (one)
			return true;
		one = true;
	}
	return false;
}

/* Whether the flow of the packet at hand is bound, or its other direction. */
static __always_inline bool is_either_bound(const struct lisp_context *c, __be32 ports)
{
	const struct lisp_packet *p = &c->packet;
	const struct lisp_binding_key *k;

	k = want_flow(c->iid, p->family, p->protocol, ports, &p->source, &p->destination);
	if (k && bpf_map_lookup_elem(&bindings, k))
		return true;
	k = want_flow(c->iid, p->family, p->protocol, ports << 16 | ports >> 16, &p->destination,
		      &p->source);
	return k && bpf_map_lookup_elem(&bindings, k);
}

/* Whether an address of IPv6 stands for one of IPv4, which no flow has. */
static __always_inline bool is_mapped(const union lisp_address *a)
{
	return !a->words[0] && !a->words[1] && a->words[2] == bpf_htonl(0xFFFF);
}

/* Whether one more may be raised within this second; two processors at once may both get the last.
 */
static __always_inline bool take_of_second(__u64 now)
{
	__u32 zero = 0;
	struct lisp_subflow_rate *r = bpf_map_lookup_elem(&subflow_rate, &zero);

	if (!r)
		return false;
	/* Another processor may have begun a later second than `now`. */
	if ((__s64)(now - *(volatile __u64 *)&r->since_ns) >= 1000000000LL) {
		r->since_ns = now;
		r->raised = 0;
	}
	if (*(volatile __u64 *)&r->raised >= LISP_SUBFLOWS_MAX)
		return false;
	__sync_fetch_and_add(&r->raised, 1);
	return true;
}

/* Whether an event of a source EID may be raised now. */
static __always_inline bool take_of_source(const struct lisp_subflow *s, __u64 now)
{
	struct lisp_limit_key key = {.iid = s->iid, .family = s->family};
	const __u64 *last;
	__u64 due = now;

	__builtin_memcpy(key.destination, s->source, sizeof(key.destination));
	last = bpf_map_lookup_elem(&subflow_limits, &key);
	if (last && *last > now)
		due = *last;
	if (due - now > (LISP_SUBFLOW_BURST - 1) * LISP_SUBFLOW_NS || !take_of_second(now))
		return false;
	due += LISP_SUBFLOW_NS;
	bpf_map_update_elem(&subflow_limits, &key, &due, BPF_ANY);
	return true;
}

/* Raises the event of find_subflow(), within both rates. */
static __always_inline int raise_subflow(struct lisp_subflow *s)
{
	if (!take_of_source(s, bpf_ktime_get_boot_ns()))
		count(LISP_COUNTER_SUBFLOWS_LIMITED, 0);
	else if (bpf_ringbuf_output(&subflows, s, sizeof(*s), BPF_RB_FORCE_WAKEUP))
		count(LISP_COUNTER_EVENT_LOST, 0);
	return 0;
}

/* Reads the TCP header of a packet, all of which it must have; false where it has not, or neither
 * begins nor ends a connection. */
static __always_inline bool read_beginning_or_end(hook_frame *frame, const struct lisp_packet *p,
						  struct lisp_subflow *s)
{
	__u32 octets, end;

	if (p->protocol != IPPROTO_TCP || p->fragment ||
	    load_from(frame, p, p->l4_offset, s->tcp, TCP_HEADER_MIN) < 0 ||
	    !(s->tcp[TCP_FLAGS_OFFSET] & TCP_BEGINS_OR_ENDS))
		return false;
	octets = (s->tcp[12] >> 4) * 4;
	end = segment_length(frame) ? frame_length(frame) : p->offset + p->length;
	if (octets < TCP_HEADER_MIN || p->l4_offset + octets > end)
		return false;
	s->octets = octets;
	/* The verifier of Linux 6.1 does not learn from a comparison that a number is not 0. */
	octets--;
	asm volatile("" : "+r"(octets));
	octets = (octets & (sizeof(s->tcp) - 1)) + 1;
	return load_octets(frame, p->l4_offset, s->tcp, octets) == 0;
}

/* Tells of a packet that is about to go on, where it begins or ends a connection that may be bound.
 * A global function: verified once. */
__noinline int lisp_tell_subflow(hook_frame *frame, struct lisp_context *c)
{
	struct lisp_subflow *s = find_subflow();
	bool delivered;
	__u8 flags;

	if (!c || !s || lisp_tracing || !read_beginning_or_end(frame, &c->packet, s))
		return 0;
	c->begins_or_ends = true;
	if (c->packet.family == 6 &&
	    (is_mapped(&c->packet.source) || is_mapped(&c->packet.destination)))
		return 0;
	delivered = c->what == LISP_DO_DELIVER;
	flags = s->tcp[TCP_FLAGS_OFFSET];
	if (!(flags & TCP_FLAG_SYN && lisp_is_multipath() &&
	      (delivered || (c->what == LISP_DO_ENCAPSULATE && lisp_has_choice(c->locator_set)))) &&
	    !(flags & TCP_BEGINS_OR_ENDS & ~TCP_FLAG_SYN && has_bindings() &&
	      is_either_bound(c, OCTETS4(s->tcp))))
		return 0;
	s->iid = c->iid;
	s->family = c->packet.family;
	s->from_core = delivered;
	__builtin_memcpy(s->source, &c->packet.source, sizeof(s->source));
	__builtin_memcpy(s->destination, &c->packet.destination, sizeof(s->destination));
	return raise_subflow(s);
}

static __always_inline void tell_subflow(hook_frame *frame, struct lisp_context *c)
{
	if (has_setting(LISP_SETTING_SUBFLOWS))
		lisp_tell_subflow(frame, c);
}

#endif

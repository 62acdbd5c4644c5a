/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Events for user space (abi_events.h), at most one in an interval for each kind and subject; and
 * how often sources are told that their packets are dropped (RFC 9301 s.5.4), by user space
 * (forward/icmp.go).
 */
#ifndef LISP_EVENTS_H
#define LISP_EVENTS_H

#include "counters.h"
#include "settings.h"

/* An event, empty but for these, which the caller submits; NULL where there is no room. */
static __always_inline struct lisp_event *new_event(__u32 kind, __u32 iid, __u32 ifindex,
						    __u8 family)
{
	struct lisp_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		count(LISP_COUNTER_EVENT_LOST, 0);
		return NULL;
	}
	*e = (struct lisp_event){.kind = kind,
				 .iid = iid,
				 .ifindex = ifindex,
				 .family = family,
				 .time_ns = bpf_ktime_get_boot_ns()};
	return e;
}

/* Whether the last event for a key is an interval ago. */
static __always_inline bool is_due(const struct lisp_limit_key *key, __u64 now, __u64 interval_ns)
{
	const __u64 *last = bpf_map_lookup_elem(&limits, key);

	return !last || now - *last >= interval_ns;
}

/* The same, and an event is raised now; two processors at once may both get a yes. */
static __always_inline bool may_raise(const struct lisp_limit_key *key, __u64 interval_ns)
{
	__u64 now = bpf_ktime_get_boot_ns();

	if (!is_due(key, now, interval_ns))
		return false;
	bpf_map_update_elem(&limits, key, &now, BPF_ANY);
	return true;
}

/* Raises the event of a miss, unless one was raised for the key within the interval; wake_up is
 * BPF_RB_*. */
static __always_inline int raise_miss_event(const struct lisp_limit_key *key, __u32 ifindex,
					    const void *source, __u64 wake_up)
{
	const struct lisp_settings *s = find_settings();
	struct lisp_event *e;

	if (!may_raise(key, s ? s->miss_interval_ns : 0))
		return 0;
	e = new_event(LISP_EVENT_MISS, key->iid, ifindex, key->family);
	if (!e)
		return 0;
	e->reason = LISP_TAP_REASON_MISS;
	__builtin_memcpy(e->source, source, sizeof(e->source));
	__builtin_memcpy(e->destination, key->destination, sizeof(e->destination));
	bpf_ringbuf_submit(e, wake_up);
	return 0;
}

/* ---- Destination Unreachable ---- */

/* Whether the source of a packet is to be told: each at most once in LISP_UNREACHABLE_SOURCE_NS,
 * all of an Instance-ID and family together once in LISP_UNREACHABLE_NS. XDP asks as well and
 * leaves the packet to tc, which asks again. */
static __noinline bool is_answer_due(const struct lisp_packet *p, __u32 iid)
{
	struct lisp_limit_key key = {
		.kind = LISP_LIMIT_UNREACHABLE, .iid = iid, .family = p->family};
	__u64 now = bpf_ktime_get_boot_ns();

	if (!is_due(&key, now, LISP_UNREACHABLE_NS))
		return false;
	__builtin_memcpy(key.destination, &p->source, sizeof(key.destination));
	return is_due(&key, now, LISP_UNREACHABLE_SOURCE_NS);
}

#endif

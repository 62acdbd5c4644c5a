/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Events for user space (abi_events.h), at most one in an interval for each kind and subject. One
 * that finds no room in the ring buffer is counted.
 */
#ifndef LISP_EVENTS_H
#define LISP_EVENTS_H

#include "lookup.h"

/* An event, empty but for these, which the caller submits; NULL where there is no room. */
static __always_inline struct lisp_event *new_event(__u32 kind, __u32 iid, __u32 ifindex,
						    __u8 family)
{
	struct lisp_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		count(LISP_COUNTER_EVENT_LOST, 0);
		return NULL;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->kind = kind;
	e->iid = iid;
	e->ifindex = ifindex;
	e->family = family;
	e->time_ns = bpf_ktime_get_boot_ns();
	return e;
}

/* Whether no event for a key was raised within an interval, and one is now; two processors at once
 * may both get a yes. */
static __always_inline bool may_raise(const struct lisp_limit_key *key, __u64 interval_ns)
{
	__u64 now = bpf_ktime_get_boot_ns();
	const __u64 *last = bpf_map_lookup_elem(&limits, key);

	if (last && now - *last < interval_ns)
		return false;
	bpf_map_update_elem(&limits, key, &now, BPF_ANY);
	return true;
}

#endif

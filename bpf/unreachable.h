/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How often sources are told that their packets are dropped (RFC 9301 s.5.4: ICMP Destination
 * Unreachable SHOULD be sent): to each source at most once in LISP_UNREACHABLE_SOURCE_NS, to all of
 * them once in LISP_UNREACHABLE_NS, per Instance-ID and family. Who may be told at all, and the
 * answer itself, are user space's (forward/icmp.go). Nothing here ever changes a frame.
 */
#ifndef LISP_UNREACHABLE_H
#define LISP_UNREACHABLE_H

#include "lookup.h"

static __always_inline bool has_rested(const struct lisp_limit_key *key, __u64 now, __u64 interval)
{
	const __u64 *last = bpf_map_lookup_elem(&limits, key);

	return !last || now - *last >= interval;
}

/* Changes nothing: XDP asks as well, and leaves the packet to tc, which asks again. */
static __noinline bool is_answer_due(const struct lisp_packet *p, __u32 iid)
{
	struct lisp_limit_key key = {
		.kind = LISP_LIMIT_UNREACHABLE, .iid = iid, .family = p->family};
	__u64 now = bpf_ktime_get_boot_ns();

	if (!has_rested(&key, now, LISP_UNREACHABLE_NS))
		return false;
	__builtin_memcpy(key.destination, &p->source, sizeof(key.destination));
	return has_rested(&key, now, LISP_UNREACHABLE_SOURCE_NS);
}

#endif

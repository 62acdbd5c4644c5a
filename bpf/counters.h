/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Counting, and each processor's clock, which also knows whether most packets miss the flow cache.
 */
#ifndef LISP_COUNTERS_H
#define LISP_COUNTERS_H

#include <stdbool.h>

#include "maps.h"
#include "trace.h"

/* How many mappings there are; user space sets it before loading. */
volatile const __u32 lisp_mapping_limit = 65536;

static __always_inline void count(__u32 index, __u32 octets)
{
	struct lisp_counter *c = bpf_map_lookup_elem(&counters, &index);

	if (!c)
		return;
	c->packets++;
	c->octets += octets;
}

static __always_inline int drop(hook_frame *frame, __u32 reason)
{
	struct lisp_counter *c = bpf_map_lookup_elem(&drops, &reason);

	if (c) {
		c->packets++;
		c->octets += frame_length(frame);
	}
	step(LISP_STEP_DROP, reason, 0, 0);
	sample_drop(frame, reason);
	return HOOK_DROP;
}

/* While most packets miss the flow cache, one of so many is looked up in it all the same, to see
 * whether they still do; a power of two. */
#define SAMPLE_ONE_IN 512
/* Fewer misses in a jiffy are not worth a thought. */
#define MISSED_MIN 64

/* Of lisp_clock.missing. */
#define MOSTLY_MISSING 2
#define MISSING_MAX 8

static __always_inline bool mostly_misses(const struct lisp_clock *c)
{
	return c->missing >= MOSTLY_MISSING;
}

/* Linux 6.1 refuses a loop whose counter is the key. */
static __always_inline __u64 packets_counted(__u32 index)
{
	const struct lisp_counter *c = bpf_map_lookup_elem(&counters, &index);

	return c ? c->packets : 0;
}

/* Judges by the packets of the last jiffy whether most of them miss the flow cache, twice in a row.
 * A global function: verified once. */
__noinline int lisp_judge_jiffy(void)
{
	__u32 zero = 0;
	struct lisp_clock *c = bpf_map_lookup_elem(&clocks, &zero);
	__u64 forwarded = packets_counted(LISP_COUNTER_ENCAPSULATED_IPV4) +
			  packets_counted(LISP_COUNTER_ENCAPSULATED_IPV6) +
			  packets_counted(LISP_COUNTER_DECAPSULATED_IPV4) +
			  packets_counted(LISP_COUNTER_DECAPSULATED_IPV6);

	if (!c)
		return 0;
	if (c->missed >= MISSED_MIN && c->missed * 2ULL > forwarded - c->forwarded)
		c->missing = c->missing ? MISSING_MAX : 1;
	else if (c->missing)
		c->missing--;
	c->forwarded = forwarded;
	c->missed = 0;
	return 0;
}

/* Counts a packet that went by a mapping, and says when; a traced packet does not. */
static __always_inline void count_mapping(__u32 index, __u32 octets, __u64 boot_ns)
{
	__u32 own = bpf_get_smp_processor_id() * lisp_mapping_limit + index;
	struct lisp_mapping_counters *c = bpf_map_lookup_elem(&mapping_counters, &own);
	__u32 used = boot_ns >> LISP_LAST_USED_SHIFT;
	struct lisp_mapping *m;

	if (c) {
		c->packets++;
		c->octets += octets;
	}
	m = bpf_map_lookup_elem(&mappings, &index);
	if (!lisp_tracing && m && *(volatile __u32 *)&m->last_used != used)
		*(volatile __u32 *)&m->last_used = used;
}

/* The processor's clock, whose boot_ns is CLOCK_BOOTTIME, at most a jiffy ago: reading it anew
 * costs as much as a lookup. */
static __always_inline struct lisp_clock *find_clock(void)
{
	__u64 jiffies = bpf_jiffies64();
	__u32 zero = 0;
	struct lisp_clock *c = bpf_map_lookup_elem(&clocks, &zero);

	if (c && c->jiffies != jiffies) {
		c->jiffies = jiffies;
		c->boot_ns = bpf_ktime_get_boot_ns();
		c->nonces ^= (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
		lisp_judge_jiffy();
	}
	return c;
}

static __always_inline __u64 now_ns(void)
{
	const struct lisp_clock *c = find_clock();

	return c ? c->boot_ns : 0;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What programs tell of single packets (abi_trace.h): the steps of a decision for `loci trace`,
 * which the verifier removes from attached programs, where the constant is 0; and dropped packets
 * for `loci capture`, while it runs.
 */
#ifndef LISP_TRACE_H
#define LISP_TRACE_H

#include "maps.h"

/* User space sets it to 1 before loading the copies that it runs itself. */
volatile const __u32 lisp_tracing = 0;

static __always_inline void step(enum lisp_step_kind kind, __u32 a, __u32 b, __u32 c)
{
	struct lisp_step *s;

	if (!lisp_tracing)
		return;
	s = bpf_ringbuf_reserve(&steps, sizeof(*s), 0);
	if (!s)
		return;
	s->kind = kind;
	s->a = a;
	s->b = b;
	s->c = c;
	bpf_ringbuf_submit(s, 0);
}

static __always_inline void take_sample(hook_frame *frame, struct lisp_watch *w, __u8 reason)
{
	__u32 octets = frame_length(frame), ifindex;
	const struct lisp_interface *at;
	struct lisp_sample *s;

	/* The length comes first: half of a frame's address must not be spilled. */
	asm volatile("" : "+r"(octets));
	ifindex = incoming_ifindex(frame);
	at = bpf_map_lookup_elem(&interfaces, &ifindex);
	s = bpf_ringbuf_reserve(&samples, sizeof(*s), 0);
	if (!s) {
		__sync_fetch_and_add(&w->lost, 1);
		return;
	}
	s->time_ns = bpf_ktime_get_boot_ns();
	s->ifindex = ifindex;
	s->length = octets;
	s->captured = 0;
	s->reason = reason;
	s->l2_length = at ? at->l2_length : 0;
	if (octets > LISP_SAMPLE_OCTETS)
		octets = LISP_SAMPLE_OCTETS;
	/* The verifier of Linux 6.1 does not learn from a comparison that a number is not 0. */
	octets--;
	asm volatile("" : "+r"(octets));
	octets = (octets & (LISP_SAMPLE_OCTETS - 1)) + 1;
	if (load_octets(frame, 0, s->octets, octets) == 0)
		s->captured = octets;
	bpf_ringbuf_submit(s, 0);
}

/* A packet was dropped. Not in line, because packets are dropped in many places. */
static __noinline int sample_drop(hook_frame *frame, __u32 reason)
{
	__u32 zero = 0;
	struct lisp_watch *w = bpf_map_lookup_elem(&watch, &zero);

	if (w && w->flags & LISP_WATCH_DROPS)
		take_sample(frame, w, reason);
	return 0;
}

#endif

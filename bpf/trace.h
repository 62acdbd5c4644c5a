/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The steps of a decision, for `loci trace` (abi.h, tracing). In attached programs the constant is 0, and the verifier
 * removes all of this.
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

#endif

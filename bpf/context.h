/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The context of the packet at hand: what the stages have found out about it. It is in a map, not
 * on the stack, because a chain of calls has 512 octets of stack in all. Each processor has its
 * own: a program runs to its end before another one of the data plane begins on that processor
 * (softirq, or with bottom halves disabled). It has no pointers, which a map cannot hold.
 */
#ifndef LISP_CONTEXT_H
#define LISP_CONTEXT_H

#include "etr.h"

struct lisp_context {
	struct itr itr;
	struct etr etr;
};

/* The copies of the programs that user space runs for traces, outside of softirq, have their own.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lisp_context);
} contexts SEC(".maps");

static __always_inline struct lisp_context *find_context(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&contexts, &zero);
}

/* The context of a packet from the site; NULL never happens, but the verifier cannot know. */
static __always_inline struct itr *new_itr(void)
{
	struct lisp_context *c = find_context();

	if (!c)
		return NULL;
	__builtin_memset(&c->itr, 0, sizeof(c->itr));
	return &c->itr;
}

/* The context of a packet from the core, which came in by that interface. */
static __always_inline struct etr *new_etr(const struct lisp_interface *core)
{
	struct lisp_context *c = find_context();

	if (!c)
		return NULL;
	__builtin_memset(&c->etr, 0, sizeof(c->etr));
	c->etr.interface_flags = core->flags;
	c->etr.interface_iid = core->iid;
	c->etr.interface_roots = core->roots;
	return &c->etr;
}

#endif

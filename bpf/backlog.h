/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Whose packets are in the TAP's queue (abi_backlog.h). */
#ifndef LISP_BACKLOG_H
#define LISP_BACKLOG_H

#include "context.h"

static __always_inline __s32 *share_at(struct lisp_backlog *u, __u32 hash)
{
	return &u->shares[hash & (LISP_BACKLOG_SHARES - 1)];
}

/* The hash of a packet's network, from that of its interface. */
static __always_inline __u32 hash_network(__u32 hash, const struct lisp_packet *p)
{
	const union lisp_address *a = &p->source;

	if (p->family == 4)
		return hash_step(hash, bpf_ntohl(a->words[0]) >> 8);
	return hash_step(hash_step(hash, bpf_ntohl(a->words[0])), bpf_ntohl(a->words[1]));
}

/* The hash of a packet's source, from that of its network. */
static __always_inline __u32 hash_source(__u32 hash, const struct lisp_packet *p)
{
	const union lisp_address *a = &p->source;

	if (p->family == 4)
		return hash_step(hash, bpf_ntohl(a->words[0]) & 255);
	return hash_step(hash_step(hash, bpf_ntohl(a->words[2])), bpf_ntohl(a->words[3]));
}

/* So many jiffies after a GSO packet went to be cut, others go the same way: none overtakes it. */
#define CUTTING_JIFFIES 2

static __always_inline void note_cutting(void)
{
	__u32 zero = 0;
	__u64 *until = bpf_map_lookup_elem(&cutting, &zero);

	if (until)
		*until = bpf_jiffies64() + CUTTING_JIFFIES;
}

static __always_inline bool is_any_being_cut(void)
{
	__u32 zero = 0;
	const __u64 *until = bpf_map_lookup_elem(&cutting, &zero);

	return until && bpf_jiffies64() < *until;
}

/* Whether any packet is in the TAP's queue, or being written back. */
static __always_inline bool is_any_in_backlog(void)
{
	__u32 zero = 0;
	struct lisp_backlog *u = bpf_map_lookup_elem(&backlog, &zero);

	return u && *(const volatile __s32 *)&u->places;
}

/* Whether packets of a packet's source are in the queue, or being written back. */
static __noinline bool is_in_backlog(const struct lisp_context *c)
{
	__u32 zero = 0;
	struct lisp_backlog *u = bpf_map_lookup_elem(&backlog, &zero);

	if (!u)
		return false;
	return *share_at(u, hash_source(hash_network(hash_step(u->seed, c->origin), &c->packet),
					&c->packet)) > 0;
}

#endif

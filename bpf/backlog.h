/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which packets find a place in the TAP's queue (abi_backlog.h): a source that sends faster than
 * user space reads loses its own packets, not those of others.
 */
#ifndef LISP_BACKLOG_H
#define LISP_BACKLOG_H

#include "context.h"

/* How many times what is left free ... */
#define NETWORK_SHARE 3
#define INTERFACE_SHARE 7

/* Packets that were counted and then lost, as while loci0 was down, are forgotten when the reader
 * looks: so often a packet wakes the reader although there seems to be no place. */
#define TRY_NS 100000000

static __always_inline bool is_refused(struct lisp_backlog *u)
{
	__u64 now = bpf_ktime_get_boot_ns();

	if ((__s64)(now - u->tried_ns) < TRY_NS)
		return true;
	if (!lisp_tracing)
		u->tried_ns = now;
	return false;
}

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

/* 0, and a packet of so many octets is counted; -1 when its source, network or interface has its
 * share. */
static __noinline int add_to_backlog(const struct lisp_context *c, __u32 octets)
{
	__s32 *of_interface, *of_network, *of_source, left,
		places = 1 + octets / LISP_BACKLOG_OCTETS;
	__u32 zero = 0, hash;
	struct lisp_backlog *u = bpf_map_lookup_elem(&backlog, &zero);

	if (!u || !u->limit)
		return 0;
	hash = hash_step(u->seed, c->origin);
	of_interface = share_at(u, hash);
	hash = hash_network(hash, &c->packet);
	of_network = share_at(u, hash);
	of_source = share_at(u, hash_source(hash, &c->packet));
	left = (__s32)u->limit - u->places;
	if ((left <= 0 || *of_source >= left || *of_network >= NETWORK_SHARE * left ||
	     *of_interface >= INTERFACE_SHARE * left) &&
	    is_refused(u))
		return -1;
	/* A packet that is traced goes nowhere. */
	if (lisp_tracing)
		return 0;
	__sync_fetch_and_add(&u->places, places);
	__sync_fetch_and_add(of_interface, places);
	__sync_fetch_and_add(of_network, places);
	__sync_fetch_and_add(of_source, places);
	return 0;
}

#endif

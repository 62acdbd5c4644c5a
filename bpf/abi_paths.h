/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The part of abi.h about paths of several hops, and about flows that are bound to a path. It holds
 * no code.
 */
#ifndef LISP_ABI_PATHS_H
#define LISP_ABI_PATHS_H

#include <linux/types.h>

/* HASH paths: index of a locator with LISP_LOCATOR_PATH (__u32) -> this. Only user space writes
 * it; programs look up hops for the source check. */
#define LISP_HOPS_MAX 8 /* RFC 8060 s.4.6 has no limit; lisp.MaxHops */

struct lisp_hop {
	__u8 family;
	__u8 port[2]; /* in network order */
	__u8 address[16];
};

struct lisp_path {
	__u8 count;
	__u8 next;
	__u8 bits[LISP_HOPS_MAX];
	struct lisp_hop hops[LISP_HOPS_MAX];
};

/* ---- flows that are bound to a path ----
 *
 * HASH bindings: lisp_binding_key -> lisp_binding. Only user space adds and removes. The flow of a
 * packet goes to the locator of its mapping's set that has the path's number, where that has
 * LISP_LOCATOR_UP; else it goes by its hash, as without a binding.
 * HASH bound_pairs: the same key with ports and protocol 0 -> how many flows between these
 * addresses are bound (__u32). The flow cache then asks about each flow between them. Neither is
 * asked while lisp_generations.bindings is 0. After a change of either, user space raises the
 * generation of the destination.
 */
#define LISP_BINDINGS 65536

struct lisp_binding_key {
	__u32 iid;
	__be32 ports; /* as they stand in the packet: the source's, the destination's */
	__u8 family;
	__u8 protocol;
	__u8 zero[2];
	__u8 source[16];
	__u8 destination[16];
};

#define LISP_PATH_OCTETS 162

struct lisp_binding {
	__u64 created_ns; /* for user space only */
	/* When a packet of the flow last went through the stages, in LISP_LAST_USED_SHIFT: programs
	 * write it, on whatever processor, and only when it changes. 0: never. */
	__u32 last_used;
	__u32 path;                  /* its number: lisp_locator.path */
	__u8 hops[LISP_PATH_OCTETS]; /* a lisp_path, for user space only */
	__u8 zero[6];
};

/* Ring buffer `subflows`, of its own so that no miss is lost for one: a TCP packet that begins or
 * ends a flow which may be bound. It is raised by the program that sends the packet on. */
#define LISP_TCP_HEADER_MAX 60

/* So many of a source EID come at once at most, one more for each of these times that passes, and
 * so many of all within a second. */
#define LISP_SUBFLOW_BURST 16
#define LISP_SUBFLOW_NS 1000000ULL
#define LISP_SUBFLOWS_MAX 5000

struct lisp_subflow {
	__u32 iid;
	__u8 family;
	__u8 from_core;
	__u8 octets; /* of the TCP header, as far as the packet has it */
	__u8 at;     /* for programs: where the next option is */
	__u8 source[16];
	__u8 destination[16];
	__u8 tcp[64]; /* LISP_TCP_HEADER_MAX, and what a mask may reach */
};

/* LRU_HASH subflow_limits: lisp_limit_key with a source EID -> when its events would have come, had
 * they kept their distance (__u64).
 * ARRAY subflow_rate[1]: how many were raised within the second that began then. */
struct lisp_subflow_rate {
	__u64 since_ns;
	__u64 raised;
};

#endif

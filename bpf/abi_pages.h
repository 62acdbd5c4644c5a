/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The part of abi.h about many mappings at a time (docs/decisions/0016): what those side by side
 * have in common, and packets that are not yet counted at each. It holds no code.
 */
#ifndef LISP_ABI_PAGES_H
#define LISP_ABI_PAGES_H

#include <linux/types.h>

/* ARRAY mapping_pages (BPF_F_MMAPABLE): of LISP_PAGE_MAPPINGS mappings whose indexes stand side by
 * side, 16 bits of a word. 0: look at their records. Else the records of all that a program may
 * hold the index of say the same: they count, none is on hold, their locator_set is those bits less
 * one, and their iid is one and the same; entries of the Database aside. User space takes them back
 * before it changes a record to anything else. */
#define LISP_PAGE_MAPPINGS 64
#define LISP_WORD_PAGES 4

/* ARRAY pending_counts (BPF_F_MMAPABLE), at the processor, which alone writes there, but for items
 * that user space sets to 0: packets that mapping_counters and last_used do not know yet. The
 * processor adds them up together, since accesses to memory that do not wait for each other take
 * little more than one: when there are as many as fit, and at the latest with its first packet of
 * another jiffy. Where none comes user space reads them as they stand, and clears those of an index
 * before it is used again. */
#define LISP_PENDING_MAX 16
struct lisp_pending {
	/* odd while items are added up: then, and when it has changed since, whoever reads begins
	 * anew */
	__u32 sequence;
	__u32 next; /* the first free item */
	__u32 tick; /* when the items were used, in LISP_LAST_USED_SHIFT */
	__u32 zero;
	__u64 items[LISP_PENDING_MAX]; /* index of the mapping << 32 | octets; 0 for none */
	__u64 zero2[6];                /* processors share no cache line */
};

/* ARRAY set_fronts (BPF_F_MMAPABLE, so that cache lines hold two), at processor * LISP_SET_FRONTS +
 * place: which front (LISP_WAY_FRONT) packets to a locator-set get, in as little memory as can be:
 * each packet may ask for another one. */
#define LISP_SET_FRONTS 4096
struct lisp_set_front {
	__u32 set;     /* the locator-set and 1; 0: nothing is kept here */
	__u32 ifindex; /* where the packet came in */
	__u32 iid_tos; /* the Instance-ID of what it got, its TOS in the highest octet */
	__u8 family;   /* its own */
	__u8 hook;     /* as in lisp_decision */
	__u16 serial;  /* of the locator-set: while it has that, this can be believed for longer */
	__u32 epoch;
	__u32 expires; /* in LISP_LAST_USED_SHIFT */
	/* its place, or LISP_FLOW_COUNTS and the bits of the flow's hash by which there are several
	 */
	__u32 front;
	__u32 generation; /* of the front */
};

#endif

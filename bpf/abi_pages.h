/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The part of abi.h about many mappings at a time (docs/decisions/0016): what those side by side have in common, and packets that are
 * not yet counted at each. It holds no code.
 */
#ifndef LISP_ABI_PAGES_H
#define LISP_ABI_PAGES_H

#include <linux/types.h>

/* ARRAY mapping_pages (BPF_F_MMAPABLE): of LISP_PAGE_MAPPINGS mappings whose indexes stand side by side, one word. 0: look at their records. Else
 * the records of all that a program may hold the index of say the same: they count, none is on hold, their locator_set is that in the low 32
 * bits less one, their iid that in the high ones; entries of the Database aside. User space takes the word back before it changes a record to anything else. */
#define LISP_PAGE_MAPPINGS 64

/* ARRAY pending_counts (BPF_F_MMAPABLE), at the processor, which alone writes there, but for items that user space sets to 0: packets that mapping_counters
 * and last_used do not know yet. The processor adds them up together, since accesses to memory that do not wait for each other take little more than one: when there are as many as
 * fit, and at the latest with its first packet of another jiffy. Where none comes user space reads them as they stand, and clears
 * those of an index before it is used again. */
#define LISP_PENDING_MAX 16
struct lisp_pending {
	__u32 sequence; /* odd while items are added up: then, and when it has changed since, whoever reads begins anew */
	__u32 next;	/* the first free item */
	__u32 tick;	/* when the items were used, in LISP_LAST_USED_SHIFT */
	__u32 zero;
	__u64 items[LISP_PENDING_MAX]; /* index of the mapping << 32 | octets; 0 for none */
	__u64 zero2[6];			/* processors share no cache line */
};

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The part of abi.h about the TAP's queue (docs/decisions/0017): how many packets are in it, and
 * whose.
 */
#ifndef LISP_ABI_BACKLOG_H
#define LISP_ABI_BACKLOG_H

#include <linux/types.h>

/* ARRAY backlog[1] (BPF_F_MMAPABLE): what is in the TAP's queue, in places: a packet takes one, and
 * one more for each LISP_BACKLOG_OCTETS of it. Programs add the packets that they send there, the
 * reader takes off those that it reads, and sets all to 0 when the queue is empty; both by atomic
 * additions. No source takes more of the queue than it leaves free, so one alone takes half. Its
 * network, the first 24 (IPv4) or 64 bits (IPv6) of the address, takes three times that at most,
 * its interface seven times: forged sources leave room to others. A number is at the lowest bits of
 * the flow hash's h after
 *
 *   seed, step(origin)           the interface's
 *   step for each of             the network's: IPv4: the address >> 8; IPv6: its first two words
 *   step for each of             the source's: IPv4: the address & 255; IPv6: its last two words
 *
 * and others may be at the same place: user space chooses the seed at random. */
#define LISP_BACKLOG_SHARES 16384 /* a power of two */
#define LISP_BACKLOG_OCTETS 4096

struct lisp_backlog {
	__u32 limit; /* places; not more than packets that the queue holds; 0: not counted */
	__u32 seed;
	__s32 places; /* taken */
	__u32 zero;
	/* when a packet was sent there though it was refused a place: see punt.h */
	__u64 tried_ns;
	__s32 shares[LISP_BACKLOG_SHARES];
};

#endif

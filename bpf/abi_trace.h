/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The part of abi.h about looking at single packets: the steps of a traced one, and what is left of
 * a dropped one. It holds no code.
 */
#ifndef LISP_ABI_TRACE_H
#define LISP_ABI_TRACE_H

#include <linux/types.h>

/* ---- tracing ----
 *
 * What a program decides about one packet, step by step, into the ring buffer `steps`: only by the
 * copies of the programs that have lisp_tracing set, which user space runs itself and attaches
 * nowhere.
 */
enum lisp_step_kind {
	LISP_STEP_SOURCE = 1,      /* a: whether the source is an own EID */
	LISP_STEP_WITHIN_SITE = 2, /* a: whether the destination is one as well */
	/* a: enum lisp_root_kind; b: whether there is one; c: its index */
	LISP_STEP_MAPPING = 3,
	/* a: locator set; b: place in it, or LISP_BUCKET_NONE; c: flow hash */
	LISP_STEP_LOCATOR = 4,
	/* a: answer of bpf_fib_lookup; b: ifindex; c: MTU of the path where that is the answer */
	LISP_STEP_ROUTE = 5,
	LISP_STEP_LISP_HEADER = 6, /* a: flags; b: Instance-ID */
	LISP_STEP_MARKING = 7,     /* a: DSCP and ECN, b: TTL, both of the decapsulated packet */
	LISP_STEP_WAIT = 8,        /* a: enum lisp_tap_reason; b: largest inner packet that fits */
	LISP_STEP_NATIVE = 9,
	LISP_STEP_STACK = 10,        /* decapsulated, and handed to the stack */
	LISP_STEP_ENCAPSULATED = 11, /* a: family of the RLOCs; b: enum lisp_what */
	LISP_STEP_DECAPSULATED = 12,
	LISP_STEP_DROP = 13, /* a: enum lisp_drop */
	LISP_STEP_LIST = 14, /* a: enum lisp_list_kind; b: enum lisp_list_entry */
	/* with two layers; a: 1: the RLOC is looked up, 2: a LISP packet is within the LISP packet
	 */
	LISP_STEP_LAYER = 15,
	/* the flow is bound to a path; a: locator set; b: its place in it, or LISP_BUCKET_NONE
	 * where it is not there or cannot be used; c: number of the path */
	LISP_STEP_BINDING = 16,
	/* an RTR goes by the path that the packet is on; a: locator set; b: its place in it, or
	 * LISP_BUCKET_NONE where it cannot be told or used; c: the number that the packet has */
	LISP_STEP_ON_PATH = 17,
};

struct lisp_step {
	__u32 kind; /* enum lisp_step_kind */
	__u32 a;
	__u32 b;
	__u32 c;
};

/* ---- capture of dropped packets ----
 *
 * While user space watches, each drop leaves the beginning of its packet in the ring buffer
 * `samples`; those of user space itself are in the QUEUE `pending_samples`.
 */
#define LISP_SAMPLE_OCTETS 128

enum lisp_watch_flag {
	LISP_WATCH_DROPS = 1 << 0,
};

/* ARRAY watch[1]. */
struct lisp_watch {
	__u64 flags; /* enum lisp_watch_flag */
	__u64 lost;  /* samples that found no room */
};

struct lisp_sample {
	__u64 time_ns;
	__u32 ifindex;  /* where the packet came in; at the way out, where it was to leave */
	__u32 length;   /* of the frame */
	__u32 captured; /* octets of it that are here */
	__u8 reason;    /* enum lisp_drop */
	__u8 l2_length; /* of its link layer header */
	__u8 zero[2];
	__u8 octets[LISP_SAMPLE_OCTETS];
};

#endif

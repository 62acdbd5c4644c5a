/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A frame as the tc hooks see it: an skb. hook_tc.h and hook_xdp.h define the same names, and each
 * program includes one of them before all else, so that whatever only reads and judges packets
 * is written once for both hooks. Nothing here ever changes
 * a frame.
 *
 *   hook_frame       the context of a program
 *   HOOK_DROP        the verdict that drops the frame
 *   read_octets      copies octets of the frame
 *   load_octets      the same, of any number
 *   frame_length     octets of the frame, link layer header included
 *   segment_length   octets of payload in each segment of a GSO packet; 0 for other packets
 *   incoming_ifindex where the frame came in
 *   frame_data, frame_end  the octets that are in one piece
 *   HOOK_OF_FLOW     in keys of the flow cache: each hook has entries of its own
 *   HOOK_IS_XDP      whether it is that one
 */
#ifndef LISP_HOOK_TC_H
#define LISP_HOOK_TC_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

typedef struct __sk_buff hook_frame;

#define HOOK_DROP TC_ACT_SHOT
#define HOOK_OF_FLOW 1

#define HOOK_IS_XDP 0

/* Headers that begin within so many octets are read without a call, the others by one. */
#define DIRECT_OFFSET_MAX 256

#include "frame_ends.h"

/* Copies octets of the skb, wherever its linear part ends; `length` is a constant. Calls cost more
 * than all the rest of parsing, and nearly always the headers are in the linear part. What is read
 * that way may be written: apply_tc.h does so, and the kernel therefore copies the headers of
 * cloned skbs before these programs run, of those too that pass untouched. */
static __always_inline long read_octets(hook_frame *frame, __u32 offset, void *to, __u32 length)
{
	const void *data = (const void *)(long)frame->data;
	const void *end = (const void *)(long)frame->data_end;
	__u32 direct = offset;

	/* The compiler must not forget that the limit holds for what is added. */
	asm volatile("" : "+r"(direct));
	if (direct <= DIRECT_OFFSET_MAX && data + direct + length <= end) {
		__builtin_memcpy(to, data + direct, length);
		return 0;
	}
	return bpf_skb_load_bytes(frame, offset, to, length);
}

/* The same for any number of octets, at any cost. */
static __always_inline long load_octets(hook_frame *frame, __u32 offset, void *to, __u32 length)
{
	return bpf_skb_load_bytes(frame, offset, to, length);
}

static __always_inline __u32 frame_length(const hook_frame *frame) { return frame->len; }

static __always_inline __u32 segment_length(const hook_frame *frame) { return frame->gso_size; }

static __always_inline __u32 incoming_ifindex(const hook_frame *frame) { return frame->ifindex; }

#endif

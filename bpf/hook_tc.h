/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A frame as the tc hooks see it: an skb. hook_tc.h and hook_xdp.h define the same names; each
 * program includes one of them first, so that most code is written once for both hooks.
 *
 *   HOOK_DROP, HOOK_PASS, HOOK_REDIRECT  verdicts; HOOK_PASS leaves the frame to the kernel
 *   load_octets      copies any number of octets of the frame, by a call
 *   frame_length     octets of the frame, link layer header included
 *   segment_length   octets of payload in each segment of a GSO packet; 0 for other packets
 *   incoming_ifindex where the frame came in
 */
#ifndef LISP_HOOK_TC_H
#define LISP_HOOK_TC_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

typedef struct __sk_buff hook_frame;

#define HOOK_IS_XDP 0
#define HOOK_DROP TC_ACT_SHOT
#define HOOK_PASS TC_ACT_UNSPEC
#define HOOK_REDIRECT TC_ACT_REDIRECT

static __always_inline long load_octets(hook_frame *frame, __u32 offset, void *to, __u32 length)
{
	return bpf_skb_load_bytes(frame, offset, to, length);
}

static __always_inline __u32 frame_length(const hook_frame *frame) { return frame->len; }

static __always_inline __u32 segment_length(const hook_frame *frame) { return frame->gso_size; }

static __always_inline __u32 incoming_ifindex(const hook_frame *frame) { return frame->ifindex; }

#include "frame.h"

#endif

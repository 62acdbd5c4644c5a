/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A frame as the XDP hook sees it: octets in one piece. hook_tc.h explains the names. */
#ifndef LISP_HOOK_XDP_H
#define LISP_HOOK_XDP_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

typedef struct xdp_md hook_frame;

#define HOOK_IS_XDP 1
#define HOOK_DROP XDP_DROP
#define HOOK_PASS XDP_PASS
#define HOOK_REDIRECT XDP_REDIRECT

static __always_inline long load_octets(hook_frame *frame, __u32 offset, void *to, __u32 length)
{
	return bpf_xdp_load_bytes(frame, offset, to, length);
}

#include "frame.h"

static __always_inline __u32 frame_length(const hook_frame *frame)
{
	return frame_end(frame) - frame_data(frame);
}

static __always_inline __u32 segment_length(const hook_frame *frame)
{
	(void)frame;
	return 0;
}

static __always_inline __u32 incoming_ifindex(const hook_frame *frame)
{
	return frame->ingress_ifindex;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where the octets of a frame that are in one piece begin and end, the same at both hooks.
 * hook_tc.h and hook_xdp.h include it behind their hook_frame. Nothing here reads or changes a
 * frame.
 */
#ifndef LISP_FRAME_ENDS_H
#define LISP_FRAME_ENDS_H

/* Both are pointers to the verifier and 32-bit numbers to the compiler, which must not spill half
 * of one. */
static __always_inline void *frame_data(const hook_frame *frame)
{
	void *data;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(data)
		     : "r"(frame), "i"(__builtin_offsetof(hook_frame, data)));
	return data;
}

static __always_inline void *frame_end(const hook_frame *frame)
{
	void *end;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(end)
		     : "r"(frame), "i"(__builtin_offsetof(hook_frame, data_end)));
	return end;
}

#endif

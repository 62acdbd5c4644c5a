/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reading the octets of a frame, the same at both hooks: hook_tc.h and hook_xdp.h include it. */
#ifndef LISP_FRAME_H
#define LISP_FRAME_H

/* Headers that begin within so many octets are read without a call. */
#define DIRECT_OFFSET_MAX 256

/* Both ends are pointers to the verifier and 32-bit numbers to the compiler, which must not spill
 * half of one. */
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

/* Copies octets of the frame; `length` is a constant. At tc, octets behind the linear part are read
 * by a call, at XDP they are not read: only long chains of extension headers reach so far. */
static __always_inline long read_octets(hook_frame *frame, __u32 offset, void *to, __u32 length)
{
	const void *data = frame_data(frame);
	__u32 direct = offset;

	/* The compiler must not forget that the limit holds for what is added. */
	asm volatile("" : "+r"(direct));
	if (direct <= DIRECT_OFFSET_MAX && data + direct + length <= frame_end(frame)) {
		__builtin_memcpy(to, data + direct, length);
		return 0;
	}
	return HOOK_IS_XDP ? -1 : load_octets(frame, offset, to, length);
}

#endif

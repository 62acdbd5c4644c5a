/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The kernel's own routes and neighbours (bpf_fib_lookup). Routes of what this host sends itself
 * are looked up as if it came in by `lo`, as the kernel does: rules `iif lo` hold.
 */
#ifndef LISP_ROUTE_H
#define LISP_ROUTE_H

#include "context.h"
#include "header.h"

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif

#define LO_IFINDEX 1
#define NO_SUCH_DEVICE 19 /* ENODEV */
#define MAX_IP_LENGTH 65535

/* Asks for the route between two addresses of one family. `length` is that of the longest packet on
 * the wire. */
static __always_inline long find_route(hook_frame *frame, struct bpf_fib_lookup *f,
				       const struct lisp_packet *p, __u32 flags)
{
	long answer;

	f->family = p->family == 4 ? AF_INET : AF_INET6;
	f->l4_protocol = p->protocol;
	if (p->family == 4) {
		f->tos = p->tos & 0x1C;
		f->ipv4_src = p->source.words[0];
		f->ipv4_dst = p->destination.words[0];
	} else {
		__builtin_memcpy(f->ipv6_src, &p->source, sizeof(f->ipv6_src));
		__builtin_memcpy(f->ipv6_dst, &p->destination, sizeof(f->ipv6_dst));
	}
	answer = bpf_fib_lookup(frame, f, sizeof(*f), flags);
	step(LISP_STEP_ROUTE, answer, f->ifindex,
	     answer == BPF_FIB_LKUP_RET_FRAG_NEEDED ? f->mtu_result : 0);
	return answer;
}

/* Whether an answer leads out of this host. A default route into the TAP is for EIDs: by it, outer
 * packets would go round and round. */
static __always_inline bool is_way_out(const struct bpf_fib_lookup *f, long answer)
{
	const struct lisp_settings *s = find_settings();

	return (answer == BPF_FIB_LKUP_RET_SUCCESS || answer == BPF_FIB_LKUP_RET_NO_NEIGH) && s &&
	       s->tap_ifindex != f->ifindex;
}

#endif

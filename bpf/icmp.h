/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ICMP errors that this host's kernel sends. Their source is often an RLOC; but when the packet
 * they quote was on its way to an own EID, its sender has an EID too, and is reached by LISP alone.
 */
#ifndef LISP_ICMP_H
#define LISP_ICMP_H

#include "fib.h"

#define ICMP_HEADER_LENGTH 8

static __always_inline bool is_icmp_error(struct __sk_buff *skb, const struct lisp_packet *p)
{
	__u8 type;

	if (p->fragment || load_from(skb, p, p->l4_offset, &type, sizeof(type)) < 0)
		return false;
	if (p->family == 6)
		return p->protocol == NEXTHDR_ICMPV6 && type < 128;
	/* Destination Unreachable, Time Exceeded, Parameter Problem */
	return p->protocol == IPPROTO_ICMP && (type == 3 || type == 11 || type == 12);
}

/* Whether the packet is an ICMP error about a packet from its receiver to an EID of ours. */
static __noinline bool is_error_to_remote_eid(struct __sk_buff *skb, const struct lisp_packet *p,
					      const struct lisp_roots *of)
{
	union lisp_address quoted = {};
	__u32 quote = p->l4_offset + ICMP_HEADER_LENGTH;
	long failed;

	if (!is_icmp_error(skb, p))
		return false;
	if (p->family == 4)
		failed = load_from(skb, p, quote + 16, &quoted, 4);
	else
		failed = load_from(skb, p, quote + 24, &quoted, 16);
	return failed == 0 && is_own_eid(of, p->family, &quoted);
}

#endif

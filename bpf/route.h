/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The kernel's own routes and neighbours (bpf_fib_lookup), and the checksums of IPv4 headers.
 * Nothing here knows LISP, and nothing here changes a frame.
 *
 * Routes of what this host sends itself are looked up as if it came in by `lo`, which is how the
 * kernel looks them up: rules `iif lo` hold.
 */
#ifndef LISP_ROUTE_H
#define LISP_ROUTE_H

#include "headers.h"
#include "lookup.h"

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

/* What the first octets of an IP header become with another TOS and TTL; the IPv4 checksum follows
 * by increments, so that a wrong one stays wrong and is seen by the receiver. Returns the
 * difference that makes to a checksum over the packet. */
static __always_inline __u64 change_head(union lisp_head *h, __u8 tos, __u8 ttl)
{
	__u8 *o = h->octets;
	__u64 before = (__u64)h->words[0] + h->words[1];
	__be16 first = h->halves[0], fifth = h->halves[4];
	__u32 sum;

	if (o[0] >> 4 == 6) {
		o[0] = 0x60 | tos >> 4;
		o[1] = tos << 4 | (o[1] & 0x0F);
		o[7] = ttl;
		return ((__u64)h->words[0] + h->words[1]) + 0x200000000ULL - 2 - before;
	}
	h->halves[0] = (first & bpf_htons(0xFF00)) | bpf_htons(tos);
	h->halves[4] = (fifth & bpf_htons(0x00FF)) | bpf_htons((__u16)ttl << 8);
	/* RFC 1624 s.3, for both words at once. */
	sum = (__u32)(__u16)~h->halves[5] + (__u16)~first + h->halves[0] + (__u16)~fifth +
	      h->halves[4];
	sum = (sum & 0xFFFF) + (sum >> 16);
	h->halves[5] = ~(sum + (sum >> 16));
	return 0;
}

typedef __u32 __attribute__((may_alias)) word_of_header;

/* RFC 791 s.3.1: the checksum of a header, from the sum of its 32-bit words, the checksum being 0.
 */
static __always_inline __u16 checksum_of(__u64 sum)
{
	sum = (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
	sum = (sum & 0xFFFF) + (sum >> 16);
	return ~(__u16)(sum + (sum >> 16));
}

#endif

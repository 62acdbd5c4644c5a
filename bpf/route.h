/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The kernel's own routes and neighbours (bpf_fib_lookup), and the checksums of IPv4 headers. Nothing here knows LISP, and
 * nothing here changes a frame.
 *
 * Routes of what this host sends itself are looked up as if it came in by `lo`, which is how the kernel looks them up:
 * rules `iif lo` hold.
 */
#ifndef LISP_ROUTE_H
#define LISP_ROUTE_H

#include "fib.h"

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif

#define LO_IFINDEX 1
#define MAX_IP_LENGTH 65535

/* Asks for the route between two addresses of one family. `length` is that of the longest packet on the wire. */
static __always_inline long find_route(hook_frame *frame, struct bpf_fib_lookup *f, const struct lisp_packet *p,
				       __u32 flags)
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
	step(LISP_STEP_ROUTE, answer, f->ifindex, answer == BPF_FIB_LKUP_RET_FRAG_NEEDED ? f->mtu_result : 0);
	return answer;
}

/* RFC 1624 s.3, for one 16-bit word of a header that changes. */
static __always_inline __u16 update_checksum(__u16 checksum, __u16 old, __u16 new)
{
	__u32 sum = (__u16)~checksum + (__u16)~old + (__u32)new;

	sum = (sum & 0xFFFF) + (sum >> 16);
	sum = (sum & 0xFFFF) + (sum >> 16);
	return ~sum;
}

/* What the first octets of an IP header become with another TOS and TTL; the IPv4 checksum follows by increments, so that a
 * wrong one stays wrong and is seen by the receiver. Returns the difference that makes to a checksum over the packet. */
static __always_inline __u64 change_head(union lisp_head *h, __u8 tos, __u8 ttl)
{
	__u8 *o = h->octets;
	__u64 before = (__u64)h->words[0] + h->words[1];
	__u16 checksum = (__u16)o[11] << 8 | o[10];

	if (o[0] >> 4 == 6) {
		o[0] = 0x60 | tos >> 4;
		o[1] = tos << 4 | (o[1] & 0x0F);
		o[7] = ttl;
		return ((__u64)h->words[0] + h->words[1]) + 0x200000000ULL - 2 - before;
	}
	checksum = update_checksum(checksum, bpf_htons(o[1]), bpf_htons(tos));
	checksum = update_checksum(checksum, bpf_htons(o[8] << 8), bpf_htons(ttl << 8));
	o[1] = tos;
	o[8] = ttl;
	o[10] = checksum;
	o[11] = checksum >> 8;
	return 0;
}

typedef __u32 __attribute__((may_alias)) word_of_header;

/* RFC 791 s.3.1: the checksum of a header, from the sum of its 32-bit words, the checksum being 0. */
static __always_inline __u16 checksum_of(__u64 sum)
{
	sum = (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
	sum = (sum & 0xFFFF) + (sum >> 16);
	return ~(__u16)(sum + (sum >> 16));
}

static __always_inline __be16 ethertype_of(__u8 family)
{
	return family == 4 ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
}

#endif

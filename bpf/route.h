/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * From an IP packet to a frame on the right interface: the kernel's own routes and neighbours (bpf_fib_lookup), TTL and
 * TOS of a packet, link layer headers. Nothing here knows LISP.
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
static __always_inline long find_route(struct __sk_buff *skb, struct bpf_fib_lookup *f, const struct lisp_packet *p,
				       __u32 flags)
{
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
	return bpf_fib_lookup(skb, f, sizeof(*f), flags);
}

/* RFC 1624 s.3, for one 16-bit word of a header that changes. */
static __always_inline __u16 update_checksum(__u16 checksum, __u16 old, __u16 new)
{
	__u32 sum = (__u16)~checksum + (__u16)~old + (__u32)new;

	sum = (sum & 0xFFFF) + (sum >> 16);
	sum = (sum & 0xFFFF) + (sum >> 16);
	return ~sum;
}

typedef __u32 __attribute__((may_alias)) word_of_header;

/* RFC 791 s.3.1: the checksum of a header without options whose checksum field is 0. */
static __always_inline __u16 header_checksum(const struct iphdr *h)
{
	const word_of_header *words = (const word_of_header *)h;
	__u64 sum = 0;

	for (__u32 i = 0; i < sizeof(*h) / sizeof(*words); i++)
		sum += words[i];
	sum = (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
	sum = (sum & 0xFFFF) + (sum >> 16);
	return ~(__u16)(sum + (sum >> 16));
}

static __always_inline long store_ipv4_tos_ttl(struct __sk_buff *skb, struct lisp_packet *p, __u8 tos, __u8 ttl)
{
	struct {
		__u8 ttl, protocol;
		__u16 checksum;
	} middle = { .ttl = ttl, .protocol = p->protocol };
	long failed = 0;

	p->checksum = update_checksum(p->checksum, bpf_htons(p->tos), bpf_htons(tos));
	p->checksum = update_checksum(p->checksum, bpf_htons(p->ttl << 8), bpf_htons(ttl << 8));
	middle.checksum = p->checksum;
	/* The header sums up to the same as before, so that a hardware checksum over the packet stays right. */
	if (tos != p->tos)
		failed |= bpf_skb_store_bytes(skb, p->offset + 1, &tos, sizeof(tos), 0);
	return failed | bpf_skb_store_bytes(skb, p->offset + 8, &middle, sizeof(middle), 0);
}

static __always_inline long store_ipv6_tos_ttl(struct __sk_buff *skb, const struct lisp_packet *p, __u8 tos, __u8 ttl)
{
	__u8 head[2];
	long failed = 0;

	if (tos != p->tos) {
		failed |= read_octets(skb, p->offset, head, sizeof(head));
		head[0] = 0x60 | tos >> 4;
		head[1] = tos << 4 | (head[1] & 0x0F);
		failed |= bpf_skb_store_bytes(skb, p->offset, head, sizeof(head), BPF_F_RECOMPUTE_CSUM);
	}
	return failed | bpf_skb_store_bytes(skb, p->offset + 7, &ttl, sizeof(ttl), BPF_F_RECOMPUTE_CSUM);
}

/* Writes TOS and TTL where they differ from what the packet has; the IPv4 checksum follows by increments, so that a
 * wrong one stays wrong and is seen by the receiver. */
static __always_inline long set_tos_ttl(struct __sk_buff *skb, struct lisp_packet *p, __u8 tos, __u8 ttl)
{
	long failed;

	if (tos == p->tos && ttl == p->ttl)
		return 0;
	failed = p->family == 4 ? store_ipv4_tos_ttl(skb, p, tos, ttl) : store_ipv6_tos_ttl(skb, p, tos, ttl);
	p->tos = tos;
	p->ttl = ttl;
	return failed;
}

/* Writes an Ethernet header before the packet, making room for it on interfaces that have none. */
static __always_inline long set_ethernet(struct __sk_buff *skb, __u32 l2_length, const struct ethhdr *header)
{
	if (l2_length == 0 && bpf_skb_change_head(skb, sizeof(*header), 0) < 0)
		return -1;
	return bpf_skb_store_bytes(skb, 0, header, sizeof(*header), 0);
}

static __always_inline __be16 ethertype_of(__u8 family)
{
	return family == 4 ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
}

/* Sends by the next hop whose hardware address the kernel has yet to find; it queues the packet meanwhile. What this host
 * sent itself still carries the route that led here, by whose neighbour the kernel would resume it: so the kernel looks
 * the route up anew. */
static __always_inline int send_by_neighbour(struct __sk_buff *skb, const struct bpf_fib_lookup *f)
{
	struct bpf_redir_neigh next = { .nh_family = f->family };

	if (!skb->ingress_ifindex)
		return bpf_redirect_neigh(f->ifindex, NULL, 0, 0);
	if (f->family == AF_INET)
		next.ipv4_nh = f->ipv4_dst;
	else
		__builtin_memcpy(next.ipv6_nh, f->ipv6_dst, sizeof(next.ipv6_nh));
	return bpf_redirect_neigh(f->ifindex, &next, sizeof(next), 0);
}

/* Sends the packet, which is of this family now, as find_route answered. */
static __always_inline int send(struct __sk_buff *skb, const struct bpf_fib_lookup *f, long answer, __u32 l2_length,
				__u8 family)
{
	struct ethhdr header = { .h_proto = ethertype_of(family) };

	if (answer == BPF_FIB_LKUP_RET_SUCCESS) {
		__builtin_memcpy(header.h_dest, f->dmac, ETH_ALEN);
		__builtin_memcpy(header.h_source, f->smac, ETH_ALEN);
	}
	if (set_ethernet(skb, l2_length, &header) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	if (answer == BPF_FIB_LKUP_RET_NO_NEIGH)
		return send_by_neighbour(skb, f);
	return bpf_redirect(f->ifindex, 0);
}

#endif

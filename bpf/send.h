/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What tc changes of an skb and how it sends one on: TTL and TOS, padding, link layer headers. Nothing here knows LISP, and
 * nothing decides where a packet goes (route.h).
 */
#ifndef LISP_SEND_H
#define LISP_SEND_H

#include "route.h"

/* Takes off what follows the packet, such as the padding of short Ethernet frames. */
static __always_inline long trim(struct __sk_buff *skb, const struct lisp_packet *p)
{
	if (skb->gso_size || octets_from(skb, p->offset) <= p->length)
		return 0;
	return bpf_skb_change_tail(skb, p->offset + p->length, 0);
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

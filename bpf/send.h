/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What tc changes of an skb and how it sends one on: TTL and TOS, padding, link layer headers, the
 * way out, which kept decisions remember. Nothing here reads or writes a LISP packet, and nothing
 * decides where one goes (route.h).
 */
#ifndef LISP_SEND_H
#define LISP_SEND_H

#include "decisions.h"

/* Since Linux 6.3. UAPI headers of the building machine may be older. */
#define ADJ_ROOM_DECAP_L3_IPV4 (1ULL << 7)
#define ADJ_ROOM_DECAP_L3_IPV6 (1ULL << 8)

/* User space sets it to 1 before loading when bpf_skb_adjust_room knows the two flags above. */
volatile const __u32 lisp_decap_l3_flags = 0;

/* Takes off what follows the packet, such as the padding of short Ethernet frames. */
static __always_inline long trim(struct __sk_buff *skb, const struct lisp_packet *p)
{
	if (skb->gso_size || octets_from(skb, p->offset) <= p->length)
		return 0;
	return bpf_skb_change_tail(skb, p->offset + p->length, 0);
}

/* The sum that bpf_csum_update takes. */
static __always_inline __u32 fold(__u64 sum)
{
	sum = (sum & 0xFFFFFFFF) + (sum >> 32);
	return (sum & 0xFFFFFFFF) + (sum >> 32);
}

/* The TAP's index; 0 while there is none. One that was deleted leaves its index in the settings
 * until user space makes another: a packet that is sent to it would be lost without a word. */
static __noinline __u32 present_tap(struct __sk_buff *skb)
{
	const struct lisp_settings *s = find_settings();
	__u32 mtu = 0;

	if (!s || !s->tap_ifindex ||
	    bpf_check_mtu(skb, s->tap_ifindex, &mtu, 0, 0) == -NO_SUCH_DEVICE)
		return 0;
	return s->tap_ifindex;
}

/* Writes an Ethernet header before the packet, making room for it on interfaces that have none. */
static __always_inline long set_ethernet(struct __sk_buff *skb, __u32 l2_length,
					 const struct ethhdr *header)
{
	if (l2_length == 0 && bpf_skb_change_head(skb, sizeof(*header), 0) < 0)
		return -1;
	return bpf_skb_store_bytes(skb, 0, header, sizeof(*header), 0);
}

/* Sends by the next hop whose hardware address the kernel has yet to find; it queues the packet
 * meanwhile. What leaves by the stack still carries the route that led here, by whose neighbour the
 * kernel would resume it: so the kernel looks the route up anew. */
static __always_inline int send_by_neighbour(__u32 ifindex, __u8 family, const void *gateway,
					     bool at_ingress)
{
	struct bpf_redir_neigh next = {.nh_family = family};

	if (!at_ingress)
		return bpf_redirect_neigh(ifindex, NULL, 0, 0);
	__builtin_memcpy(next.ipv6_nh, gateway, sizeof(next.ipv6_nh));
	return bpf_redirect_neigh(ifindex, &next, sizeof(next), 0);
}

/* Whether packets can go again as one to that next hop does, which came with a link layer header of
 * so many octets. */
static __always_inline bool is_for_decision(const struct lisp_next_hop *hop, __u32 l2_length)
{
	return hop->flags & LISP_NEXT_HOP_RESOLVED && l2_length == ETH_HLEN;
}

/* Completes a decision, NULL for none, by the way its packets leave. */
static __always_inline void keep_shortcut(struct lisp_decision *d, const struct lisp_next_hop *hop)
{
	if (d && hop->flags & LISP_NEXT_HOP_PEER)
		d->notice |= DECISION_PEER;
}

static __always_inline int send_by_decision(const struct lisp_decision *d)
{
	return d->notice & DECISION_PEER ? bpf_redirect_peer(d->out, 0) : bpf_redirect(d->out, 0);
}

/* Sends the packet, whose link layer header is written. */
static __always_inline int send_by_hop(const struct lisp_next_hop *hop, bool at_ingress,
				       __u32 l2_length)
{
	if (hop->flags & LISP_NEXT_HOP_PEER && hop->flags & LISP_NEXT_HOP_RESOLVED && at_ingress &&
	    l2_length)
		return bpf_redirect_peer(hop->ifindex, 0);
	if (!(hop->flags & LISP_NEXT_HOP_RESOLVED) || hop->flags & LISP_NEXT_HOP_CONFIRM)
		return send_by_neighbour(hop->ifindex, hop->family, hop->gateway, at_ingress);
	return bpf_redirect(hop->ifindex, 0);
}

#endif

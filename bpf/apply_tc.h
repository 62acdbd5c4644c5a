/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 6 at tc: the one encapsulator and the one decapsulator of skbs (RFC 9300 s.5.1-5.3). GSO
 * packets stay whole. What the path cannot carry does not come here.
 */
#ifndef LISP_APPLY_TC_H
#define LISP_APPLY_TC_H

#include "apply.h"
#include "outer_checksum.h"

/* Since Linux 6.3. UAPI headers of the building machine may be older. */
#define ADJ_ROOM_DECAP_L3_IPV4 (1ULL << 7)
#define ADJ_ROOM_DECAP_L3_IPV6 (1ULL << 8)

/* User space sets it to 1 before loading when bpf_skb_adjust_room knows the two flags above. */
volatile const __u32 lisp_decap_l3_flags = 0;

/* ---- the way out ---- */

/* Sends by a neighbour whose hardware address the kernel has to find or confirm; it queues the
 * packet meanwhile. For a packet on its way out the kernel looks up the route anew: the one that
 * the packet still carries led here. */
static __always_inline int send_by_neighbour(__u32 ifindex, __u8 family, const void *gateway,
					     bool at_ingress)
{
	struct bpf_redir_neigh next = {.nh_family = family};

	if (!at_ingress)
		return bpf_redirect_neigh(ifindex, NULL, 0, 0);
	__builtin_memcpy(next.ipv6_nh, gateway, sizeof(next.ipv6_nh));
	return bpf_redirect_neigh(ifindex, &next, sizeof(next), 0);
}

static __always_inline bool goes_by_peer(const struct lisp_action_record *a,
					 const struct lisp_varying *v)
{
	return a->flags & LISP_ACTION_PEER && a->flags & LISP_ACTION_RESOLVED && v->at_ingress &&
	       v->l2_length;
}

static __always_inline bool goes_by_neighbour(const struct lisp_action_record *a,
					      const struct lisp_varying *v)
{
	return !(a->flags & LISP_ACTION_RESOLVED) ||
	       (a->flags & LISP_ACTION_CONFIRM && !goes_by_peer(a, v));
}

/* Sends the packet, whose link layer header is written. */
static __always_inline int send(struct lisp_action_record *a, const struct lisp_varying *v)
{
	if (goes_by_peer(a, v))
		return bpf_redirect_peer(a->ifindex, 0);
	if (!goes_by_neighbour(a, v))
		return bpf_redirect(a->ifindex, 0);
	a->flags &= ~LISP_ACTION_CONFIRM;
	return send_by_neighbour(a->neighbour_ifindex, a->neighbour_family, a->gateway,
				 v->at_ingress);
}

/* ---- encapsulation ---- */

/* What bpf_skb_adjust_room answers for an skb that was encapsulated before, also when it was
 * decapsulated since; the skb is as it was then. */
#define ALREADY_ENCAPSULATED -114

/* Only a new skb can be encapsulated: the caches leave this packet to the stages. */
#define NEEDS_FRESH_SKB NOT_CACHED

/* The kernel may set an skb's family only when it removes a header; so some octets more than needed
 * are made first. */
#define SPARE_OCTETS 8

/* Makes what stands before the inner packet longer by so many octets, or shorter, and of another
 * family. What the skb remembers of the inner headers stays true. */
static __noinline long resize(struct __sk_buff *skb, int octets, __u8 family)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;

	if (skb->protocol != ethertype_of(family) && !lisp_decap_l3_flags) {
		/* of a GSO packet it would change the inner family */
		if (skb->gso_size)
			return NEEDS_FRESH_SKB;
		/* it takes 20 octets away, which must not be those of a header that stays */
		if (family == 4 && octets >= 0) {
			if (bpf_skb_adjust_room(skb, octets + 20, BPF_ADJ_ROOM_MAC, flags) < 0)
				return -1;
			octets = -20;
		}
		if (bpf_skb_change_proto(skb, ethertype_of(family), 0) < 0)
			return -1;
		octets += family == 4 ? 20 : -20;
	} else if (skb->protocol != ethertype_of(family)) {
		if (octets >= 0 &&
		    bpf_skb_adjust_room(skb, octets + SPARE_OCTETS, BPF_ADJ_ROOM_MAC, flags) < 0)
			return -1;
		if (octets >= 0)
			octets = -SPARE_OCTETS;
		flags |= family == 4 ? ADJ_ROOM_DECAP_L3_IPV4 : ADJ_ROOM_DECAP_L3_IPV6;
	}
	return octets ? bpf_skb_adjust_room(skb, octets, BPF_ADJ_ROOM_MAC, flags) : 0;
}

/* Makes room in an skb that was encapsulated before, and decapsulated since: then it can be
 * segmented later as well. A GSO packet with a tunnel in it cannot: its segments would need two
 * layers of lengths. */
static __always_inline long make_room_again(struct __sk_buff *skb, __u8 family,
					    const struct lisp_varying *v)
{
	if (skb->gso_size && v->protocol != IPPROTO_TCP)
		return NEEDS_FRESH_SKB;
	return resize(skb, outer_length(family), family);
}

/* Makes room before the inner packet. FIXED_GSO: each segment keeps its size and grows by the
 * headers, which the size check has allowed for. */
static __always_inline long make_room(struct __sk_buff *skb, __u8 family,
				      const struct lisp_varying *v)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP;
	long answer;

	flags |= family == 4 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
	answer = bpf_skb_adjust_room(skb, outer_length(family), BPF_ADJ_ROOM_MAC, flags);
	return answer == ALREADY_ENCAPSULATED ? make_room_again(skb, family, v) : answer;
}

/* Where so many octets from the beginning of the frame can be written; NULL where they cannot. */
static __always_inline void *writable(struct __sk_buff *skb, __u32 octets)
{
	if (frame_data(skb) + octets > frame_end(skb) && bpf_skb_pull_data(skb, octets) < 0)
		return NULL;
	return frame_data(skb);
}

/* Writes all headers up to the TTL of the inner packet; there is room for them. */
static __always_inline long write_outer(struct __sk_buff *skb, const struct lisp_action_record *a,
					const struct lisp_varying *v, __u8 outer_family)
{
	__u32 offset = ETH_HLEN + outer_length(outer_family);
	void *to = writable(skb, offset + sizeof(struct iphdr));
	__u64 sum, old = 0;

	if (!to || to + offset + sizeof(struct iphdr) > frame_end(skb))
		return -1;
	if (v->removed)
		old = fold(sum_words(to + ETH_HLEN, outer_length(outer_family)));
	if (outer_family == 4)
		write_headers_ipv4(skb, a, v);
	else
		write_headers_ipv6(skb, a, v);
	sum = change_head(to + offset, v->tos, v->ttl);
	if (a->flags & LISP_ACTION_CHECKSUM && lisp_put_checksum(skb, v, outer_family))
		return -1;
	/* An IPv4 header sums up to nothing. */
	sum += outer_family == 4
		       ? sum_words(to + offset - sizeof(struct udp_lisp), sizeof(struct udp_lisp))
		       : sum_words(to + ETH_HLEN, outer_length(6));
	bpf_csum_update(skb, fold(sum + (__u32)~old));
	return 0;
}

/* NEEDS_FRESH_SKB where the kernel cannot encapsulate this skb, which is as it was. The padding
 * goes first, because lengths are those of the skb from here on. */
static __always_inline long put_headers(struct __sk_buff *skb, const struct lisp_action_record *a,
					const struct lisp_varying *v)
{
	__u32 length = v->l2_length + v->removed + v->length;
	long failed;

	if (!skb->gso_size && skb->len > length && bpf_skb_change_tail(skb, length, 0) < 0)
		return -1;
	if (v->removed)
		failed = resize(skb, (int)outer_length(a->outer_family) - (int)v->removed,
				a->outer_family);
	else
		failed = make_room(skb, a->outer_family, v);
	if (failed == NEEDS_FRESH_SKB)
		return NEEDS_FRESH_SKB;
	if (!failed && !v->l2_length)
		failed = bpf_skb_change_head(skb, ETH_HLEN, 0);
	if (!failed)
		failed = a->outer_family == 4 ? write_outer(skb, a, v, 4)
					      : write_outer(skb, a, v, 6);
	return failed ? -1 : 0;
}

static __always_inline int apply_encapsulation(struct __sk_buff *skb, struct lisp_action_record *a,
					       const struct lisp_varying *v)
{
	long failed = put_headers(skb, a, v);

	if (failed == NEEDS_FRESH_SKB)
		return NEEDS_FRESH_SKB;
	if (failed)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	count_encapsulated(a->what, a->outer_family, v->length);
	return send(a, v);
}

/* ---- decapsulation ---- */

/* Removes the outer headers. Where the kernel lacks the flags that say which family remains,
 * bpf_skb_change_proto turns the outer header into one of that family first, 20 octets longer or
 * shorter. */
static __always_inline long remove_outer(struct __sk_buff *skb, const struct lisp_varying *v)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	__u32 removed = v->removed;

	if (lisp_decap_l3_flags) {
		flags |= v->family == 4 ? ADJ_ROOM_DECAP_L3_IPV4 : ADJ_ROOM_DECAP_L3_IPV6;
	} else if (skb->protocol != ethertype_of(v->family)) {
		if (bpf_skb_change_proto(skb, ethertype_of(v->family), 0) < 0)
			return -1;
		removed += v->family == 6 ? 20 : -20;
	}
	return bpf_skb_adjust_room(skb, -(__s32)removed, BPF_ADJ_ROOM_MAC, flags);
}

/* Gives the bare packet, which begins behind `l2_length` octets, an Ethernet header there, its TOS
 * and TTL. */
static __always_inline long write_inner(struct __sk_buff *skb, const void *ethernet,
					const struct lisp_varying *v, __u32 l2_length)
{
	void *to = writable(skb, l2_length + sizeof(union lisp_head));
	__u64 sum;

	if (!to || to + l2_length + sizeof(union lisp_head) > frame_end(skb))
		return -1;
	if (l2_length)
		write_ethernet(to, ethernet);
	sum = change_head(to + l2_length, v->tos, v->ttl);
	if (v->family == 6)
		bpf_csum_update(skb, fold(sum));
	return 0;
}

/* Takes the outer headers and the padding off. The kernel refuses the latter for what was
 * encapsulated on this machine; padding does no harm then. */
static __always_inline long take_outer_off(struct __sk_buff *skb, const struct lisp_varying *v,
					   __u32 outer_family)
{
	if (remove_outer(skb, v) < 0)
		return -1;
	if (!skb->gso_size && skb->len > v->l2_length + v->length)
		bpf_skb_change_tail(skb, v->l2_length + v->length, 0);
	count_decapsulated(outer_family, skb->len - v->l2_length);
	return 0;
}

/* Where the device of a VLAN has to confirm a neighbour, it adds the tag. */
static __always_inline int apply_delivery(struct __sk_buff *skb, struct lisp_action_record *a,
					  const struct lisp_varying *v, __u32 outer_family)
{
	bool by_device = a->neighbour_ifindex != a->ifindex && goes_by_neighbour(a, v);
	long failed = take_outer_off(skb, v, outer_family);

	if (!failed && !v->l2_length)
		failed = bpf_skb_change_head(skb, ETH_HLEN, 0);
	if (!failed)
		failed = write_inner(skb, a->header, v, ETH_HLEN);
	if (!failed && a->vlan && !by_device)
		failed = bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), a->vlan);
	if (failed)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	return send(a, v);
}

#endif

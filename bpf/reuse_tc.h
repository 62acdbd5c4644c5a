/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is done to skbs by decisions that are kept (decisions.h): encapsulation and decapsulation of
 * the plainest packets (RFC 9300 s.5.1-5.3), as reuse.h does it to frames, and of super-packets of
 * such. Whatever is not the plainest packet (options, extension headers, fragments, tags, other
 * header flags, headers beyond the linear part) is decided anew. Unfinished checksums stay what
 * they are.
 */
#ifndef LISP_REUSE_TC_H
#define LISP_REUSE_TC_H

#include "encap.h"
#include "plain.h"

/* What the longest packet on the wire has in octets; `at` is the packet, of which L4_OCTETS behind
 * the IP header can be read. */
static __always_inline __u32 longest_of(const struct __sk_buff *skb, const void *at,
					const struct plain_packet *p, __u8 family)
{
	__u32 l4_length = sizeof(struct udphdr);

	if (!skb->gso_size)
		return p->length;
	if (p->protocol == IPPROTO_TCP)
		l4_length = *((const __u8 *)at + header_octets(family) + 12) >> 4 << 2;
	return header_octets(family) + l4_length + skb->gso_size;
}

/* Writes the outer headers, for which there is room, and makes the packet behind them one hop
 * older. */
static __always_inline long write_before(struct __sk_buff *skb, const struct lisp_decision *d,
					 const struct front_words *w, __u8 tos, __u8 outer_family)
{
	__u32 offset = ETH_HLEN + outer_length(outer_family);
	void *to = frame_data(skb);
	__u64 sum;

	if (to + offset + sizeof(union lisp_head) > frame_end(skb))
		return -1;
	if (outer_family == 4)
		write_front_ipv4(skb, d, w);
	else
		write_front_ipv6(skb, d, w);
	sum = change_head(to + offset, tos, w->ttl);
	/* An IPv4 header sums up to nothing. */
	sum += outer_family == 4
		       ? sum_of(to + offset - sizeof(struct udp_lisp), sizeof(struct udp_lisp))
		       : sum_of(to + ETH_HLEN, sizeof(struct outer_ipv6));
	bpf_csum_update(skb, fold(sum));
	return 0;
}

static __always_inline long make_plain_room(struct __sk_buff *skb, __u8 outer_family)
{
	const __u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP;

	if (outer_family == 4)
		return bpf_skb_adjust_room(skb, outer_length(4), BPF_ADJ_ROOM_MAC,
					   flags | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4);
	return bpf_skb_adjust_room(skb, outer_length(6), BPF_ADJ_ROOM_MAC,
				   flags | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6);
}

/* Puts the outer headers before the packet, of which `octets` are there, and counts it. NOT_KEPT
 * and HOOK_DROP are answers as well. */
static __always_inline int put_front(struct __sk_buff *skb, const struct lisp_decision *d,
				     const struct front_words *w, __u8 tos, __u32 octets)
{
	long failed;

	/* A super-packet has no padding, and fits no length field when it is too long. */
	if (skb->gso_size &&
	    (w->length != octets || octets + sizeof(struct outer_ipv6) > MAX_IP_LENGTH))
		return NOT_KEPT;
	if (octets > w->length && bpf_skb_change_tail(skb, ETH_HLEN + w->length, 0) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	failed = make_plain_room(skb, d->outer_family);
	if (failed == ALREADY_ENCAPSULATED)
		return NOT_KEPT;
	if (!failed)
		failed = d->outer_family == 4 ? write_before(skb, d, w, tos, 4)
					      : write_before(skb, d, w, tos, 6);
	if (failed)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	count(d->outer_family == 4 ? LISP_COUNTER_ENCAPSULATED_IPV4
				   : LISP_COUNTER_ENCAPSULATED_IPV6,
	      w->length);
	return TC_ACT_OK;
}

static __always_inline int reuse_encapsulation(struct __sk_buff *skb,
					       const struct lisp_interface *site, __u8 family)
{
	void *at = frame_data(skb) + ETH_HLEN, *end = frame_end(skb);
	__u32 octets = skb->len - ETH_HLEN, longest;
	struct lisp_clock *clock = find_clock();
	struct front_words words = {};
	struct lisp_decision *d;
	struct decision_key k;
	struct plain_packet p;
	int answer;

	if (!clock || at + header_octets(family) + L4_OCTETS > end ||
	    !read_plain(at, family, &p, &k) || may_be_lisp(site, &p))
		return NOT_KEPT;
	k.where = where_of(skb->ifindex, 0);
	k.what = what_of(0, p.tos, family, LISP_WAY_ENCAPSULATED);
	longest = longest_of(skb, at, &p, family);
	d = find_for_flow(&k, &p, family, clock->boot_ns, &words.hash);
	if (!d || p.length > octets || longest > d->longest)
		return NOT_KEPT;
	fill_words(&words, &p, clock);
	answer = put_front(skb, d, &words, p.tos, octets);
	if (answer != TC_ACT_OK)
		return answer;
	count_use(d, p.length, clock->boot_ns);
	return send_by_decision(d);
}

/* Takes off the outer headers. */
static __always_inline long remove_plain(struct __sk_buff *skb, __u8 outer_family, __u8 family)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;

	if (lisp_decap_l3_flags)
		flags |= family == 4 ? ADJ_ROOM_DECAP_L3_IPV4 : ADJ_ROOM_DECAP_L3_IPV6;
	return bpf_skb_adjust_room(skb, -(__s32)outer_length(outer_family), BPF_ADJ_ROOM_MAC,
				   flags);
}

/* Writes the Ethernet header, TOS and TTL of the bare packet. */
static __always_inline long write_bare(struct __sk_buff *skb, const struct lisp_decision *d,
				       __u8 tos, __u8 ttl, __u8 family)
{
	void *to = frame_data(skb);
	__u64 sum;

	if (to + ETH_HLEN + sizeof(union lisp_head) > frame_end(skb))
		return -1;
	OCTETS8(to) = OCTETS8(d->front);
	OCTETS4(to + 8) = OCTETS4(d->front + 8);
	OCTETS2(to + 12) = OCTETS2(d->front + 12);
	sum = change_head(to + ETH_HLEN, tos, ttl);
	if (family == 6)
		bpf_csum_update(skb, fold(sum));
	return 0;
}

/* Takes off the outer headers and the padding, writes the TOS and TTL that `p` has, and counts the
 * packet; its octets, or -1. */
static __always_inline long remove_front(struct __sk_buff *skb, const struct lisp_decision *d,
					 const struct plain_packet *p, __u8 outer_family,
					 __u8 family)
{
	if (remove_plain(skb, outer_family, family) < 0)
		return -1;
	/* The kernel may refuse it (it does for what was encapsulated on this machine). Padding
	 * does no harm then. */
	if (skb->len - ETH_HLEN > p->length && !skb->gso_size)
		bpf_skb_change_tail(skb, ETH_HLEN + p->length, 0);
	if (write_bare(skb, d, p->tos, p->ttl, family) < 0)
		return -1;
	count(outer_family == 4 ? LISP_COUNTER_DECAPSULATED_IPV4 : LISP_COUNTER_DECAPSULATED_IPV6,
	      skb->len - ETH_HLEN);
	return skb->len - ETH_HLEN;
}

/* Reads a packet from the core that may go by what is kept, and what the headers say that is left
 * of it: TOS, TTL. */
static __always_inline bool read_incoming(struct __sk_buff *skb, struct plain_packet *p,
					  struct decision_key *k, __u8 outer_family, __u8 family)
{
	const void *outer = frame_data(skb) + ETH_HLEN, *end = frame_end(skb);
	const void *at = outer + outer_length(outer_family);
	struct plain_outer o;

	if (at + header_octets(family) + L4_OCTETS > end ||
	    (outer_family != family && !lisp_decap_l3_flags))
		return false;
	if (!read_plain_outer(outer, skb->len - ETH_HLEN, outer_family, &o) ||
	    !read_plain(at, family, p, k))
		return false;
	/* Where the markings differ, RFC 6040 may have more to say; a super-packet whose lengths
	 * differ may be several of LISP. */
	if (o.ttl <= 1 || p->length > o.payload || (o.tos ^ p->tos) & ECN_MASK ||
	    (skb->gso_size && p->length != o.payload))
		return false;
	k->where = where_of(skb->ifindex, o.iid);
	p->tos = o.tos;
	p->ttl = (o.ttl < p->ttl ? o.ttl : p->ttl) - 1;
	return true;
}

/* Whether a packet from the core is one that a decision is about: it fits, and came to the same
 * RLOC. */
static __always_inline bool is_for(struct __sk_buff *skb, const struct lisp_decision *d,
				   const struct plain_packet *p, __u8 outer_family, __u8 family)
{
	const void *outer = frame_data(skb) + ETH_HLEN;
	const void *at = outer + outer_length(outer_family);

	if (at + header_octets(family) + L4_OCTETS > frame_end(skb))
		return false;
	return longest_of(skb, at, p, family) <= d->longest && is_for_rloc(outer, outer_family, d);
}

static __always_inline int reuse_decapsulation(struct __sk_buff *skb, __u8 outer_family,
					       __u8 family)
{
	struct lisp_clock *clock = find_clock();
	struct lisp_decision *d;
	struct decision_key k;
	struct plain_packet p;
	long octets;

	if (!clock || !read_incoming(skb, &p, &k, outer_family, family))
		return NOT_KEPT;
	k.what = what_of(0, p.tos, family, LISP_WAY_DECAPSULATED);
	d = find_decision(&k, family, clock->boot_ns);
	if (!d || !is_for(skb, d, &p, outer_family, family))
		return NOT_KEPT;
	octets = remove_front(skb, d, &p, outer_family, family);
	if (octets < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	count_use(d, octets, clock->boot_ns);
	return send_by_decision(d);
}

/* What was decided about such a packet from the site before is done to it; NOT_KEPT where nothing
 * was. A call of its own, or its variables would take stack from those who decide anew. */
static __noinline int reuse_for_site(struct __sk_buff *skb, const struct lisp_interface *site)
{
	if (lisp_tracing || site->l2_length != ETH_HLEN)
		return NOT_KEPT;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return reuse_encapsulation(skb, site, 4);
	return skb->protocol == bpf_htons(ETH_P_IPV6) ? reuse_encapsulation(skb, site, 6)
						      : NOT_KEPT;
}

/* The same for a packet from the core. */
static __noinline int reuse_for_core(struct __sk_buff *skb, const struct lisp_interface *core)
{
	bool outer4 = skb->protocol == bpf_htons(ETH_P_IP);
	const __u8 *first = frame_data(skb) + ETH_HLEN +
			    (outer4 ? outer_length(4) : outer_length(6));

	if (lisp_tracing || core->l2_length != ETH_HLEN || core->flags & LISP_INTERFACE_STACK)
		return NOT_KEPT;
	if ((!outer4 && skb->protocol != bpf_htons(ETH_P_IPV6)) ||
	    (void *)first + 1 > frame_end(skb))
		return NOT_KEPT;
	if (*first >> 4 == 4)
		return outer4 ? reuse_decapsulation(skb, 4, 4) : reuse_decapsulation(skb, 6, 4);
	return outer4 ? reuse_decapsulation(skb, 4, 6) : reuse_decapsulation(skb, 6, 6);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is done to frames by decisions that are kept (decisions.h): encapsulation and decapsulation of the plainest packets (RFC 9300
 * s.5.1-5.3), with their own lengths, TTL, ports and nonces, counted like all others. Whatever is not the plainest packet (options,
 * extension headers, fragments, tags, other header flags) is decided anew: this file never drops, waits or passes on its own account.
 */
#ifndef LISP_REUSE_H
#define LISP_REUSE_H

#include "plain.h"

/* As is_unfinished(), of a packet whose addresses the decision has summed up. A packet that may be a tunnel's shares its decision
 * with all others between two addresses. */
static __always_inline bool is_plain_unfinished(const struct plain_packet *p, __u8 family, __u32 sum)
{
	if (p->protocol == IPPROTO_UDP && is_tunnel_port(p->ports >> 16))
		return true;
	sum += bpf_htons(p->protocol) + bpf_htons(p->length - header_octets(family));
	sum = (sum & 0xFFFF) + (sum >> 16);
	return p->checksum == (__u16)((sum & 0xFFFF) + (sum >> 16));
}

/* Takes off what follows the packet, makes or takes room before it. */
static __always_inline long adjust(struct xdp_md *frame, __u32 surplus, int head)
{
	if (surplus && bpf_xdp_adjust_tail(frame, -(int)surplus) < 0)
		return -1;
	return bpf_xdp_adjust_head(frame, head);
}

static __always_inline int reuse_encapsulation(struct xdp_md *frame, const struct lisp_interface *site, __u8 family)
{
	void *at = frame_data(frame) + ETH_HLEN, *end = frame_end(frame);
	struct lisp_clock *clock = find_clock();
	struct lisp_decision *d;
	struct front_words words = {};
	struct decision_key k;
	struct plain_packet p;
	__u32 octets;
	long failed;

	if (!clock || at + header_octets(family) + L4_OCTETS > end || !read_plain(at, family, &p, &k) || may_be_lisp(site, &p))
		return NOT_KEPT;
	octets = end - at;
	k.where = where_of(frame->ingress_ifindex, 0);
	k.what = what_of(0, p.tos, family, LISP_WAY_ENCAPSULATED);
	d = find_for_flow(&k, &p, family, clock->boot_ns, &words.hash);
	if (!d || p.length > octets || p.length > d->longest)
		return NOT_KEPT;
	if (site->flags & LISP_INTERFACE_UNFINISHED && is_plain_unfinished(&p, family, d->pseudo_sum))
		return NOT_KEPT;
	words.length = p.length;
	words.ttl = p.ttl - 1;
	words.nonce = next_nonce(clock);
	change_head(at, p.tos, words.ttl);
	failed = adjust(frame, octets - p.length, -(int)outer_length(d->outer_family));
	if (!failed)
		failed = d->outer_family == 4 ? write_front_ipv4(frame, d, &words) : write_front_ipv6(frame, d, &words);
	if (failed)
		return drop(frame, LISP_DROP_ENCAPSULATION_FAILED);
	count(d->outer_family == 4 ? LISP_COUNTER_ENCAPSULATED_IPV4 : LISP_COUNTER_ENCAPSULATED_IPV6, p.length);
	count_use(d, p.length, clock->boot_ns);
	return bpf_redirect(d->out, 0);
}

/* Takes off the outer headers and `surplus` octets at the end, and writes the Ethernet header anew. */
static __always_inline long remove_front(struct xdp_md *frame, const struct lisp_decision *d, __u8 outer_family, __u32 surplus)
{
	void *to;

	if (adjust(frame, surplus, outer_length(outer_family)) < 0)
		return -1;
	to = frame_data(frame);
	if (to + ETH_HLEN > frame_end(frame))
		return -1;
	OCTETS8(to) = OCTETS8(d->front);
	OCTETS4(to + 8) = OCTETS4(d->front + 8);
	OCTETS2(to + 12) = OCTETS2(d->front + 12);
	return 0;
}

static __always_inline int reuse_decapsulation(struct xdp_md *frame, const struct lisp_interface *core, __u8 outer_family, __u8 family)
{
	void *outer = frame_data(frame) + ETH_HLEN, *end = frame_end(frame);
	void *at = outer + outer_length(outer_family);
	struct decision_key k;
	struct plain_packet p;
	struct plain_outer o;
	struct lisp_decision *d;
	__u64 now = now_ns();

	if (at + header_octets(family) + L4_OCTETS > end)
		return NOT_KEPT;
	if (!read_plain_outer(outer, end - outer, outer_family, &o) || !read_plain(at, family, &p, &k))
		return NOT_KEPT;
	/* Where the markings differ, RFC 6040 may have more to say. */
	if (o.ttl <= 1 || p.length > o.payload || (o.tos ^ p.tos) & ECN_MASK)
		return NOT_KEPT;
	k.where = where_of(frame->ingress_ifindex, o.iid);
	k.what = what_of(0, o.tos, family, LISP_WAY_DECAPSULATED);
	d = find_decision(&k, family, now);
	if (!d || p.length > d->longest || !is_for_rloc(outer, outer_family, d))
		return NOT_KEPT;
	if (core->flags & LISP_INTERFACE_UNFINISHED && is_plain_unfinished(&p, family, d->pseudo_sum))
		return NOT_KEPT;
	change_head(at, o.tos, (o.ttl < p.ttl ? o.ttl : p.ttl) - 1);
	if (remove_front(frame, d, outer_family, (__u32)(end - at) - p.length) < 0)
		return drop(frame, LISP_DROP_DECAPSULATION_FAILED);
	count(outer_family == 4 ? LISP_COUNTER_DECAPSULATED_IPV4 : LISP_COUNTER_DECAPSULATED_IPV6, p.length);
	count_use(d, p.length, now);
	return bpf_redirect(d->out, 0);
}

/* What was decided about such a packet from the core before is done to it; NOT_KEPT where nothing was. */
static __always_inline int reuse_for_core(struct xdp_md *frame, const struct lisp_interface *core, __u8 outer_family)
{
	const __u8 *data = frame_data(frame);
	const __u8 *first;

	first = data + ETH_HLEN + (outer_family == 4 ? outer_length(4) : outer_length(6));
	if ((void *)first + 1 > frame_end(frame))
		return NOT_KEPT;
	if (*first >> 4 == 4)
		return outer_family == 4 ? reuse_decapsulation(frame, core, 4, 4) : reuse_decapsulation(frame, core, 6, 4);
	return outer_family == 4 ? reuse_decapsulation(frame, core, 4, 6) : reuse_decapsulation(frame, core, 6, 6);
}

/* The same for a packet from the site. */
static __always_inline int reuse_for_site(struct xdp_md *frame, const struct lisp_interface *site, __u8 family)
{
	return family == 4 ? reuse_encapsulation(frame, site, 4) : reuse_encapsulation(frame, site, 6);
}

/* The same for a packet of either, whose EtherType tells its family. */
static __always_inline int reuse(struct xdp_md *frame, const struct lisp_interface *at, __u8 family)
{
	int verdict = NOT_KEPT;

	if (at->flags & LISP_INTERFACE_STACK)
		return NOT_KEPT;
	if (at->flags & LISP_INTERFACE_CORE)
		verdict = reuse_for_core(frame, at, family);
	if (verdict == NOT_KEPT && at->flags & LISP_INTERFACE_SITE)
		verdict = reuse_for_site(frame, at, family);
	return verdict;
}

#endif

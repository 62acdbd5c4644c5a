/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is done to frames by decisions that are kept (decisions.h): encapsulation and decapsulation
 * of the plainest packets (RFC 9300 s.5.1-5.3), with their own lengths, TTL, ports and nonces,
 * counted like all others. Whatever is not the plainest packet (options, extension headers,
 * fragments, tags, other header flags) is decided anew: this file never waits or passes on its own
 * account, and drops only for want of room.
 */
#ifndef LISP_REUSE_H
#define LISP_REUSE_H

#include "plain.h"

/* As is_unfinished(), of a packet whose addresses are summed up. A packet that may be a tunnel's
 * shares its decision with all others between two addresses. */
static __always_inline bool is_plain_unfinished(const struct plain_packet *p, __u8 family,
						__u32 sum)
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

/* The longer way where the interface has no place, or has just gone from it. */
static __always_inline int send(const struct lisp_decision *d)
{
	int verdict = bpf_redirect_map(&devices, d->device, 0);

	return verdict == XDP_REDIRECT ? verdict : bpf_redirect(d->out, 0);
}

/* Whether a frame came to the address of its interface. */
static __always_inline bool is_to(const void *data, const struct lisp_decision *d)
{
	return (OCTETS8(data) & bpf_cpu_to_be64(0xFFFFFFFFFFFF0000)) == OCTETS8(d->to);
}

/* Whether a packet has to be looked at by more than is kept: its checksum may be unfinished, or it
 * may be LISP to us. */
static __always_inline bool is_notable(const struct plain_packet *p, __u8 family,
				       const struct lisp_decision *d)
{
	if (d->notice & DECISION_UNFINISHED && is_plain_unfinished(p, family, d->pseudo_sum))
		return true;
	return d->notice & DECISION_CORE && p->ports >> 16 == bpf_htons(LISP_VXLAN_GPE_PORT);
}

/* Puts the outer headers before the packet, whose TTL is written, in place of `surplus` octets
 * behind it, and counts it. */
static __always_inline long put_front(struct xdp_md *frame, const struct lisp_decision *d,
				      const struct front_words *w, __u32 surplus)
{
	long failed = adjust(frame, surplus, -(int)outer_length(d->outer_family));

	if (!failed)
		failed = d->outer_family == 4 ? write_front_ipv4(frame, d, w)
					      : write_front_ipv6(frame, d, w);
	if (!failed)
		count(d->outer_family == 4 ? LISP_COUNTER_ENCAPSULATED_IPV4
					   : LISP_COUNTER_ENCAPSULATED_IPV6,
		      w->length);
	return failed;
}

static __always_inline int reuse_encapsulation(struct xdp_md *frame, __u8 family)
{
	const void *data = frame_data(frame), *end = frame_end(frame);
	void *at = (void *)data + ETH_HLEN;
	struct lisp_clock *clock = find_clock();
	struct front_words words = {};
	struct lisp_decision *d;
	struct decision_key k;
	struct plain_packet p;
	__u32 octets;

	if (!clock || is_left_to_others(clock) || at + header_octets(family) + L4_OCTETS > end ||
	    !read_plain(at, family, &p, &k))
		return NOT_KEPT;
	octets = end - at;
	k.where = where_of(frame->ingress_ifindex, 0);
	k.what = what_of(0, p.tos, family, LISP_WAY_ENCAPSULATED);
	d = find_for_flow(&k, &p, family, clock->boot_ns, &words.hash);
	if (!d || !is_to(data, d) || p.length > octets || p.length > d->longest ||
	    (d->notice && is_notable(&p, family, d)))
		return NOT_KEPT;
	fill_words(&words, &p, clock);
	age(at, family, words.ttl);
	if (put_front(frame, d, &words, octets - p.length) < 0)
		return drop(frame, LISP_DROP_ENCAPSULATION_FAILED);
	count_use(d, p.length, clock->boot_ns);
	return send(d);
}

/* Takes off the outer headers and `surplus` octets at the end, and writes the Ethernet header anew.
 */
static __always_inline long remove_front(struct xdp_md *frame, const struct lisp_decision *d,
					 __u8 outer_family, __u32 surplus)
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

static __always_inline int reuse_decapsulation(struct xdp_md *frame, __u8 outer_family, __u8 family)
{
	const void *data = frame_data(frame), *end = frame_end(frame);
	void *outer = (void *)data + ETH_HLEN;
	void *at = outer + outer_length(outer_family);
	struct decision_key k;
	struct plain_packet p;
	struct plain_outer o;
	struct lisp_decision *d;
	struct lisp_clock *clock = find_clock();
	__u64 now = clock ? clock->boot_ns : 0;

	if (!clock || is_left_to_others(clock) || at + header_octets(family) + L4_OCTETS > end)
		return NOT_KEPT;
	if (!read_plain_outer(outer, end - outer, outer_family, &o) ||
	    !read_plain(at, family, &p, &k))
		return NOT_KEPT;
	/* Where the markings differ, RFC 6040 may have more to say. */
	if (o.ttl <= 1 || p.length > o.payload || (o.tos ^ p.tos) & ECN_MASK)
		return NOT_KEPT;
	k.where = where_of(frame->ingress_ifindex, o.iid);
	k.what = what_of(0, o.tos, family, LISP_WAY_DECAPSULATED);
	d = find_decision(&k, family, now);
	if (!d || !is_to(data, d) || p.length > d->longest || !is_for_rloc(outer, outer_family, d))
		return NOT_KEPT;
	if (d->notice & DECISION_UNFINISHED && is_plain_unfinished(&p, family, d->pseudo_sum))
		return NOT_KEPT;
	if (p.tos == o.tos && p.ttl <= o.ttl)
		age(at, family, p.ttl - 1);
	else
		change_head(at, o.tos, (o.ttl < p.ttl ? o.ttl : p.ttl) - 1);
	if (remove_front(frame, d, outer_family, (__u32)(end - at) - p.length) < 0)
		return drop(frame, LISP_DROP_DECAPSULATION_FAILED);
	count(outer_family == 4 ? LISP_COUNTER_DECAPSULATED_IPV4 : LISP_COUNTER_DECAPSULATED_IPV6,
	      p.length);
	count_use(d, p.length, now);
	return send(d);
}

/* What was decided about such a packet to a port of LISP before is done to it; NOT_KEPT where
 * nothing was. */
static __always_inline int reuse_for_core(struct xdp_md *frame, __u8 outer_family)
{
	const __u8 *first = frame_data(frame) + ETH_HLEN + outer_length(outer_family);

	if ((void *)first + 1 > frame_end(frame))
		return NOT_KEPT;
	return *first >> 4 == 4 ? reuse_decapsulation(frame, outer_family, 4)
				: reuse_decapsulation(frame, outer_family, 6);
}

/* The same for any packet of a family. What is LISP by its port is never from the site here, not
 * even where it is. */
static __always_inline int reuse_family(struct xdp_md *frame, __u8 family)
{
	const void *at = frame_data(frame) + ETH_HLEN;
	const struct udphdr *u = at + header_octets(family);
	__u8 protocol;

	if ((void *)u + L4_OCTETS > frame_end(frame))
		return NOT_KEPT;
	protocol = family == 4 ? ((const struct iphdr *)at)->protocol
			       : ((const struct ipv6hdr *)at)->nexthdr;
	if (protocol == IPPROTO_UDP && u->dest == bpf_htons(LISP_DATA_PORT))
		return reuse_for_core(frame, family);
	return reuse_encapsulation(frame, family);
}

/* The same for any frame. */
static __always_inline int reuse(struct xdp_md *frame)
{
	const struct ethhdr *header = frame_data(frame);
	__be16 ethertype;

	if ((void *)(header + 1) > frame_end(frame))
		return NOT_KEPT;
	ethertype = OCTETS2((const void *)(header + 1) - sizeof(header->h_proto));
	if (ethertype == bpf_htons(ETH_P_IP))
		return reuse_family(frame, 4);
	return ethertype == bpf_htons(ETH_P_IPV6) ? reuse_family(frame, 6) : NOT_KEPT;
}

/* ---- what is kept of interfaces ---- */

/* The place of an interface in devices, LISP_DEVICES where it has none. A map of devices is for XDP
 * alone. A program of its own to the verifier, which so looks at it once. */
__noinline __u32 lisp_place_device(__u32 ifindex)
{
	__u32 place = ifindex % LISP_DEVICES;
	const __u32 *device = bpf_map_lookup_elem(&devices, &place);

	return device && *device == ifindex ? place : LISP_DEVICES;
}

/* Completes what shared.h has shared, if anything. */
static __always_inline void keep_device(struct lisp_decision *d)
{
	if (d)
		d->device = lisp_place_device(d->out);
}

/* Completes what keep_*() has kept, if anything, of frames that come in at an interface. */
static __always_inline void keep_interface(struct lisp_decision *d, const struct lisp_interface *at)
{
	if (!d)
		return;
	d->device = lisp_place_device(d->out);
	if (at->flags & LISP_INTERFACE_UNFINISHED)
		d->notice |= DECISION_UNFINISHED;
	if (at->flags & LISP_INTERFACE_CORE)
		d->notice |= DECISION_CORE;
	__builtin_memcpy(d->to, at->mac, sizeof(at->mac));
}

#endif

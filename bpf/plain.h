/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The plainest packets, about which decisions are kept (decisions.h), for both hooks: reading them,
 * finding what was decided, and the front that they get (RFC 9300 s.5.1-5.3), with their own
 * lengths, TTL, ports and nonces. Nothing here changes a frame but write_front_*(), which write the
 * headers for which the hook has made room.
 */
#ifndef LISP_PLAIN_H
#define LISP_PLAIN_H

#include "decisions.h"

/* What is answered by who has left the frame as it was because nothing is kept; no verdict of
 * either hook. */
#define NOT_KEPT -2

/* A TCP or UDP packet right behind its IP header, as far as it is read here. */
struct plain_packet {
	__u32 length; /* as the IP header says */
	__u8 tos;
	__u8 ttl;
	__u8 protocol;
	__be32 ports;
	__be16 checksum; /* of TCP or UDP */
};

#define L4_OCTETS 18 /* up to the checksum of TCP */

/* Whether the packet at `at`, of which L4_OCTETS behind the IP header can be read, has the header
 * that nearly all have. */
static __always_inline bool is_plain_ip(const void *at, __u8 family)
{
	if (family == 4)
		return *(const __u8 *)at == 0x45 &&
		       !(((const struct iphdr *)at)->frag_off & bpf_htons(IPV4_MF_OR_OFFSET));
	return *(const __u8 *)at >> 4 == 6;
}

/* Reads the packet at `at`, of which L4_OCTETS behind the IP header can be read. */
static __always_inline bool read_plain(const void *at, __u8 family, struct plain_packet *p,
				       struct decision_key *k)
{
	const struct ipv6hdr *h6 = at;
	const struct iphdr *h4 = at;
	const void *l4 = at + header_octets(family);

	if (!is_plain_ip(at, family))
		return false;
	if (family == 4) {
		p->length = bpf_ntohs(h4->tot_len);
		p->tos = h4->tos;
		p->ttl = h4->ttl;
		p->protocol = h4->protocol;
		k->addresses[0] = OCTETS8(&h4->saddr);
		k->addresses[1] = k->addresses[2] = k->addresses[3] = 0;
	} else {
		p->length = bpf_ntohs(h6->payload_len) + sizeof(*h6);
		p->tos = bpf_ntohs(OCTETS2(at)) >> 4;
		p->ttl = h6->hop_limit;
		p->protocol = h6->nexthdr;
		k->addresses[0] = OCTETS8(&h6->saddr);
		k->addresses[1] = OCTETS8((const void *)&h6->saddr + 8);
		k->addresses[2] = OCTETS8(&h6->daddr);
		k->addresses[3] = OCTETS8((const void *)&h6->daddr + 8);
	}
	if (p->protocol != IPPROTO_UDP && p->protocol != IPPROTO_TCP)
		return false;
	p->ports = OCTETS4(l4);
	p->checksum = p->protocol == IPPROTO_TCP ? OCTETS2(l4 + TCP_CHECKSUM_OFFSET)
						 : OCTETS2(l4 + UDP_CHECKSUM_OFFSET);
	return p->ttl > 1 && p->length >= header_octets(family) + sizeof(struct udphdr);
}

/* The decision about a packet from the site, and its flow's hash; NULL for none. */
static __always_inline struct lisp_decision *find_for_flow(struct decision_key *k,
							   const struct plain_packet *p,
							   __u8 family, __u64 now, __u32 *hash)
{
	struct lisp_decision *d = find_decision(k, family, now);

	if (!d)
		return NULL;
	*hash = finish_hash(d->address_hash, p->ports, p->protocol);
	if (!d->flow_mask)
		return d;
	k->what |= LISP_FLOW_COUNTS | (*hash & d->flow_mask);
	return find_decision(k, family, now);
}

/* While packets are scattered, all but a sample of them go by what many share (shared.h). */
static __always_inline bool is_left_to_others(struct lisp_clock *clock)
{
	return is_scattered(clock) && ++clock->turn & SAMPLE_ONE_IN - 1;
}

/* Whether the packet at hand was just left to them. */
static __always_inline bool are_scattered(void)
{
	__u32 zero = 0;
	const struct lisp_clock *c = bpf_map_lookup_elem(&clocks, &zero);

	return c && is_scattered(c) && c->turn & SAMPLE_ONE_IN - 1;
}

/* What differs between the fronts of two packets. */
struct front_words {
	__u32 length; /* of the inner packet */
	__u32 hash;
	__u32 nonce;
	__u8 ttl;
};

/* The nonce of a packet whose settings ask for no echo, so that nobody ever looks at it: RFC 9300
 * s.5.1 wants it random, and it is not worth a call. Where echoes are asked for nothing is kept,
 * and each nonce comes from the kernel. */
static __always_inline __u32 next_nonce(struct lisp_clock *c)
{
	c->nonces = c->nonces * 0x5851F42D4C957F2DULL + 0x14057B7EF767814FULL;
	return c->nonces >> 40;
}

static __always_inline void fill_words(struct front_words *w, const struct plain_packet *p,
				       struct lisp_clock *c)
{
	w->length = p->length;
	w->ttl = p->ttl - 1;
	w->nonce = next_nonce(c);
}

static __always_inline void write_udp_lisp(void *to, const __u8 *front, const struct front_words *w)
{
	OCTETS4(to) = OCTETS4(front) | bpf_htons(source_port_of(w->hash));
	OCTETS4(to + 4) = bpf_htons(w->length + sizeof(struct udp_lisp));
	OCTETS4(to + 8) = OCTETS4(front + 8) | bpf_htonl(w->nonce);
	OCTETS4(to + 12) = OCTETS4(front + 12);
}

/* Writes the front before a packet, each octet once. */
static __always_inline long write_front_ipv4(hook_frame *frame, const struct lisp_decision *d,
					     const struct front_words *w)
{
	void *to = frame_data(frame);
	const __u8 *front = d->front;
	__u32 total = w->length + sizeof(struct outer_ipv4);
	__u32 sum = d->outer_sum + bpf_htons(total) + w->ttl;

	if (to + ETH_HLEN + sizeof(struct outer_ipv4) > frame_end(frame))
		return -1;
	OCTETS8(to) = OCTETS8(front);
	OCTETS8(to + 8) = OCTETS8(front + 8);
	OCTETS2(to + 16) = bpf_htons(total);
	OCTETS4(to + 18) = OCTETS4(front + 18);
	sum = (sum & 0xFFFF) + (sum >> 16);
	OCTETS4(to + 22) = OCTETS4(front + 22) | w->ttl | ~(sum + (sum >> 16)) << 16;
	OCTETS8(to + 26) = OCTETS8(front + 26);
	write_udp_lisp(to + 34, front + 34, w);
	return 0;
}

static __always_inline long write_front_ipv6(hook_frame *frame, const struct lisp_decision *d,
					     const struct front_words *w)
{
	void *to = frame_data(frame);
	const __u8 *front = d->front;

	if (to + ETH_HLEN + sizeof(struct outer_ipv6) > frame_end(frame))
		return -1;
	OCTETS8(to) = OCTETS8(front);
	OCTETS4(to + 8) = OCTETS4(front + 8);
	OCTETS2(to + 12) = OCTETS2(front + 12);
	OCTETS4(to + 14) = OCTETS4(front + 14) | bpf_htonl(flow_label_of(w->hash));
	OCTETS4(to + 18) = OCTETS4(front + 18) | bpf_htons(w->length + sizeof(struct udp_lisp)) |
			   (__u32)w->ttl << 24;
#pragma unroll
	for (int i = 22; i < 54; i += 8)
		OCTETS8(to + i) = OCTETS8(front + i);
	write_udp_lisp(to + 54, front + 54, w);
	return 0;
}

/* As count_mapping(), with one look at the mapping for all packets of a moment. */
static __always_inline void count_use(struct lisp_decision *d, __u32 octets, __u64 boot_ns)
{
	__u32 now = boot_ns >> LISP_LAST_USED_SHIFT;

	count_at(d->counters, octets);
	if (d->used == now)
		return;
	d->used = now;
	mark_used(d->mapping_index, now);
}

/* Whether a packet of an interface that is of the core as well may be LISP to us, which comes
 * before its addresses. */
static __always_inline bool may_be_lisp(const struct lisp_interface *site,
					const struct plain_packet *p)
{
	__be16 port = p->ports >> 16;

	return site->flags & LISP_INTERFACE_CORE &&
	       (port == bpf_htons(LISP_DATA_PORT) || port == bpf_htons(LISP_VXLAN_GPE_PORT));
}

/* Makes a packet one hop older; the IPv4 checksum follows by increments (RFC 1624). */
static __always_inline void age(void *at, __u8 family, __u8 ttl)
{
	__u32 checksum;

	if (family == 6) {
		((struct ipv6hdr *)at)->hop_limit = ttl;
		return;
	}
	((struct iphdr *)at)->ttl = ttl;
	checksum = ((struct iphdr *)at)->check + bpf_htons(0x0100);
	((struct iphdr *)at)->check = checksum + (checksum >= 0xFFFF);
}

/* The outer header of a packet that may be decapsulated by a kept decision. */
struct plain_outer {
	__u32 payload; /* octets behind the LISP header */
	__u32 iid;
	__u8 tos;
	__u8 ttl;
};

/* Reads outer headers that say nothing out of the ordinary; `octets` are there from `at` on. */
static __always_inline bool read_plain_outer(const void *at, __u32 octets, __u8 family,
					     struct plain_outer *o)
{
	const struct udp_lisp *u = at + header_octets(family);
	__u32 length, udp_length = bpf_ntohs(u->udp.len);
	const struct ipv6hdr *h6 = at;
	const struct iphdr *h4 = at;

	if (u->udp.dest != bpf_htons(LISP_DATA_PORT) ||
	    u->lisp.flags_nonce & bpf_htonl(~((LISP_FLAG_N | LISP_FLAG_I) << 24 | NONCE_MASK)))
		return false;
	if (family == 4) {
		if (!is_plain_ip(at, 4) || h4->protocol != IPPROTO_UDP)
			return false;
		length = bpf_ntohs(h4->tot_len);
		o->tos = h4->tos;
		o->ttl = h4->ttl;
	} else {
		if (!is_plain_ip(at, 6) || h6->nexthdr != IPPROTO_UDP)
			return false;
		length = bpf_ntohs(h6->payload_len) + sizeof(*h6);
		o->tos = bpf_ntohs(OCTETS2(at)) >> 4;
		o->ttl = h6->hop_limit;
	}
	if (length > octets || udp_length < sizeof(*u) ||
	    udp_length + header_octets(family) > length)
		return false;
	o->payload = udp_length - sizeof(*u);
	o->iid = u->lisp.flags_nonce & bpf_htonl(LISP_FLAG_I << 24)
			 ? bpf_ntohl(u->lisp.iid_lsb) >> 8
			 : 0;
	return true;
}

/* Whether the outer packet at `at` went to the RLOC of a decision, which was an own one then; when
 * it no longer is, the decision is void. */
static __always_inline bool is_for_rloc(const void *at, __u8 family, const struct lisp_decision *d)
{
	const __u8 *rloc = d->front + FRONT_RLOC;
	const struct ipv6hdr *h6 = at;
	const struct iphdr *h4 = at;

	if (d->outer_family != family)
		return false;
	if (family == 4)
		return h4->daddr == OCTETS4(rloc);
	return OCTETS8(&h6->daddr) == OCTETS8(rloc) &&
	       OCTETS8((const void *)&h6->daddr + 8) == OCTETS8(rloc + 8);
}

#endif

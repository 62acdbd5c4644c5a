/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Decisions about packets of XDP, kept by each processor and reused for packets that differ only in their lengths, TTL and
 * contents (docs/decisions/0009). What a decision rests on is in its key, in what is looked at anew for each packet, in a generation
 * that user space raises when it changes a table, or it is the kernel's (routes, neighbours), which is asked again after
 * LISP_NEXT_HOP_NS. Counters, TTL (RFC 9300 s.5.3), ECN (RFC 6040), nonces and sizes are never kept. Whatever is not the plainest
 * packet (options, extension headers, fragments, tags, other header flags) is decided anew: this file never drops, waits or passes.
 */
#ifndef LISP_DECISIONS_H
#define LISP_DECISIONS_H

#include "hops.h"
#include "unfinished.h"

/* What reuse_*() answers when it has left the frame as it was, and no XDP verdict is. */
#define NOT_KEPT -1

/* A newcomer takes the place of a decision that still counts once in so many packets; a power of two. */
#define DISPLACE_ONE_IN 8

/* The beginning of a lisp_decision. */
struct decision_key {
	__u64 addresses[4];
	__u64 where; /* ifindex and Instance-ID */
	__u64 what;  /* ports, protocol, TOS, family, way */
};

_Static_assert(sizeof(struct decision_key) == 48 && __builtin_offsetof(struct lisp_decision, epoch) == 48, "the key comes first");
_Static_assert(__builtin_offsetof(struct lisp_decision, front) % 8 == 0, "it is copied by words");

static __always_inline __u64 where_of(__u32 ifindex, __u32 iid) { return ifindex | (__u64)iid << 32; }

static __always_inline __u64 what_of(__be32 ports, __u8 protocol, __u8 tos, __u8 family, __u8 way)
{
	return ports | (__u64)protocol << 32 | (__u64)tos << 40 | (__u64)family << 48 | (__u64)way << 56;
}

/* The place of a key. Products of odd numbers are added up, because they do not wait for each other. */
static __always_inline struct lisp_decision *decision_at(const struct decision_key *k, __u8 family)
{
	__u64 h = k->addresses[0] * 0x9E3779B97F4A7C15ULL + k->where * 0xC2B2AE3D27D4EB4FULL + k->what * 0xD6E8FEB86659FD93ULL;
	__u32 place = bpf_get_smp_processor_id() * LISP_DECISIONS;

	if (family == 6)
		h += k->addresses[1] * 0xFF51AFD7ED558CCDULL + k->addresses[2] * 0xC4CEB9FE1A85EC53ULL + k->addresses[3] * 0x87C37B91114253D5ULL;
	place += h >> 40 & (LISP_DECISIONS - 1);
	return bpf_map_lookup_elem(&decisions, &place);
}

static __always_inline bool has_key(const struct lisp_decision *d, const struct decision_key *k, __u8 family)
{
	const struct decision_key *own = (const struct decision_key *)d;

	if (own->addresses[0] != k->addresses[0] || own->where != k->where || own->what != k->what)
		return false;
	return family == 4 || (own->addresses[1] == k->addresses[1] && own->addresses[2] == k->addresses[2] &&
			       own->addresses[3] == k->addresses[3]);
}

static __always_inline const struct lisp_generations *find_generations(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&generations, &zero);
}

static __always_inline __u32 generation_place(__u8 family, const union lisp_address *destination)
{
	__u64 x = bpf_ntohl(destination->words[0]);

	x = family == 4 ? x >> 8 : x << 16 | bpf_ntohl(destination->words[1]) >> 16;
	return (__u32)(x ^ x >> 32) * 0x9E3779B1U >> 20;
}

/* Whether nothing has changed that a decision rests on. */
static __always_inline bool holds(const struct lisp_decision *d)
{
	const struct lisp_generations *g = find_generations();

	return g && *(const volatile __u32 *)&g->epoch == d->epoch &&
	       *(const volatile __u32 *)&g->destinations[d->generation_place & (LISP_GENERATIONS - 1)] == d->generation &&
	       now_ns() < d->expires_ns;
}

/* What was in force when a decision began. */
struct decision_time {
	__u32 epoch;
	__u32 generation;
	__u32 place; /* of the generation */
};

/* Before the first lookup of a decision: what is found later is at least as new as these numbers. */
static __always_inline struct decision_time begin_decision(__u8 family, const union lisp_address *destination)
{
	const struct lisp_generations *g = find_generations();
	struct decision_time t = { .place = generation_place(family, destination) };
	__u32 zero = 0;
	struct lisp_clock *c = bpf_map_lookup_elem(&clocks, &zero);

	if (!g || !c)
		return t;
	t.epoch = *(const volatile __u32 *)&g->epoch;
	t.generation = *(const volatile __u32 *)&g->destinations[t.place];
	/* Its result is used, or it would order nothing. */
	t.epoch += __sync_fetch_and_add(&c->order, 0);
	return t;
}

/* ---- what is done to packets ---- */

/* The octets at an address, whatever its alignment. */
#define OCTETS2(at) (*(__u16 *)(at))
#define OCTETS4(at) (*(__u32 *)(at))
#define OCTETS8(at) (*(__u64 *)(at))

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

static __always_inline __u32 header_octets(__u8 family) { return family == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr); }

/* Reads the packet at `at`, of which `length` octets are there and L4_OCTETS behind the IP header can be read. */
static __always_inline bool read_plain(const void *at, __u8 family, struct plain_packet *p, struct decision_key *k)
{
	const struct ipv6hdr *h6 = at;
	const struct iphdr *h4 = at;
	const void *l4 = at + header_octets(family);

	if (family == 4) {
		if (*(const __u8 *)at != 0x45 || h4->frag_off & bpf_htons(IPV4_MF_OR_OFFSET))
			return false;
		p->length = bpf_ntohs(h4->tot_len);
		p->tos = h4->tos;
		p->ttl = h4->ttl;
		p->protocol = h4->protocol;
		k->addresses[0] = OCTETS8(&h4->saddr);
		k->addresses[1] = k->addresses[2] = k->addresses[3] = 0;
	} else {
		if (*(const __u8 *)at >> 4 != 6)
			return false;
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
	p->checksum = p->protocol == IPPROTO_TCP ? OCTETS2(l4 + TCP_CHECKSUM_OFFSET) : OCTETS2(l4 + UDP_CHECKSUM_OFFSET);
	return p->ttl > 1 && p->length >= header_octets(family) + sizeof(struct udphdr);
}

/* As is_unfinished(), of a packet whose addresses the decision has summed up. */
static __always_inline bool is_plain_unfinished(const struct plain_packet *p, __u8 family, __u32 sum)
{
	sum += bpf_htons(p->length - header_octets(family));
	sum = (sum & 0xFFFF) + (sum >> 16);
	return p->checksum == (__u16)((sum & 0xFFFF) + (sum >> 16));
}

/* Writes the front before a packet of `length` octets with that TTL. */
static __always_inline long write_front_ipv4(struct xdp_md *frame, const struct lisp_decision *d, __u32 length, __u8 ttl)
{
	void *to = frame_data(frame);
	__u32 total = length + sizeof(struct outer_ipv4);
	__u64 sum = (__u64)d->outer_sum + ((__u32)bpf_htons(total) << 16) + ttl;

	if (to + ETH_HLEN + sizeof(struct outer_ipv4) > frame_end(frame))
		return -1;
#pragma unroll
	for (int i = 0; i < 48; i += 8)
		OCTETS8(to + i) = OCTETS8(d->front + i);
	OCTETS2(to + 48) = OCTETS2(d->front + 48);
	OCTETS2(to + ETH_HLEN + 2) = bpf_htons(total);
	*(__u8 *)(to + ETH_HLEN + 8) = ttl;
	OCTETS2(to + ETH_HLEN + 10) = checksum_of(sum);
	OCTETS2(to + ETH_HLEN + 20 + 4) = bpf_htons(total - sizeof(struct iphdr));
	OCTETS4(to + ETH_HLEN + 28) = OCTETS4(d->front + ETH_HLEN + 28) | bpf_htonl(bpf_get_prandom_u32() & NONCE_MASK);
	return 0;
}

static __always_inline long write_front_ipv6(struct xdp_md *frame, const struct lisp_decision *d, __u32 length, __u8 ttl)
{
	void *to = frame_data(frame);
	__be16 payload = bpf_htons(length + sizeof(struct udp_lisp));

	if (to + ETH_HLEN + sizeof(struct outer_ipv6) > frame_end(frame))
		return -1;
#pragma unroll
	for (int i = 0; i < 64; i += 8)
		OCTETS8(to + i) = OCTETS8(d->front + i);
	OCTETS4(to + 64) = OCTETS4(d->front + 64);
	OCTETS2(to + 68) = OCTETS2(d->front + 68);
	OCTETS2(to + ETH_HLEN + 4) = payload;
	*(__u8 *)(to + ETH_HLEN + 7) = ttl;
	OCTETS2(to + ETH_HLEN + 40 + 4) = payload;
	OCTETS4(to + ETH_HLEN + 48) = OCTETS4(d->front + ETH_HLEN + 48) | bpf_htonl(bpf_get_prandom_u32() & NONCE_MASK);
	return 0;
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
	struct decision_key k;
	struct plain_packet p;
	struct lisp_decision *d;
	__u32 octets;
	long failed;

	if (at + header_octets(family) + L4_OCTETS > end || !read_plain(at, family, &p, &k))
		return NOT_KEPT;
	octets = end - at;
	k.where = where_of(frame->ingress_ifindex, 0);
	k.what = what_of(p.ports, p.protocol, p.tos, family, LISP_WAY_ENCAPSULATED);
	d = decision_at(&k, family);
	if (!d || !has_key(d, &k, family) || !holds(d) || p.length > octets || p.length > d->longest)
		return NOT_KEPT;
	if (site->flags & LISP_INTERFACE_UNFINISHED && is_plain_unfinished(&p, family, d->pseudo_sum))
		return NOT_KEPT;
	change_head(at, p.tos, --p.ttl);
	failed = adjust(frame, octets - p.length, -(int)outer_length(d->outer_family));
	if (!failed)
		failed = d->outer_family == 4 ? write_front_ipv4(frame, d, p.length, p.ttl) : write_front_ipv6(frame, d, p.length, p.ttl);
	if (failed)
		return drop(frame, LISP_DROP_ENCAPSULATION_FAILED);
	count(d->outer_family == 4 ? LISP_COUNTER_ENCAPSULATED_IPV4 : LISP_COUNTER_ENCAPSULATED_IPV6, p.length);
	count_mapping(d->mapping_index, p.length);
	return bpf_redirect(d->out, 0);
}

/* The outer header of a packet that may be decapsulated by a kept decision. */
struct plain_outer {
	__u32 payload; /* octets behind the LISP header */
	__u32 iid;
	__u8 tos;
	__u8 ttl;
};

/* Reads outer headers that say nothing out of the ordinary, to the first own RLOC; `octets` are there from `at` on. */
static __always_inline bool read_plain_outer(const void *at, __u32 octets, __u8 family, struct plain_outer *o)
{
	const struct lisp_settings *s = find_settings();
	const struct udp_lisp *u = at + header_octets(family);
	__u32 length, udp_length = bpf_ntohs(u->udp.len);
	const struct ipv6hdr *h6 = at;
	const struct iphdr *h4 = at;
	__u8 flags = bpf_ntohl(u->lisp.flags_nonce) >> 24;

	if (!s || s->flags & (SETTINGS_HEEDED | LISP_SETTING_INNER_DSCP_KEPT) || u->udp.dest != bpf_htons(LISP_DATA_PORT))
		return false;
	if (flags & ~(LISP_FLAG_N | LISP_FLAG_I))
		return false;
	if (family == 4) {
		if (*(const __u8 *)at != 0x45 || h4->frag_off & bpf_htons(IPV4_MF_OR_OFFSET) || h4->protocol != IPPROTO_UDP)
			return false;
		if (h4->daddr != OCTETS4(s->rloc4) || !h4->daddr)
			return false;
		length = bpf_ntohs(h4->tot_len);
		o->tos = h4->tos;
		o->ttl = h4->ttl;
	} else {
		if (*(const __u8 *)at >> 4 != 6 || h6->nexthdr != IPPROTO_UDP)
			return false;
		if (OCTETS8(&h6->daddr) != OCTETS8(s->rloc6) || OCTETS8((const void *)&h6->daddr + 8) != OCTETS8(s->rloc6 + 8) ||
		    !OCTETS8(&h6->daddr))
			return false;
		length = bpf_ntohs(h6->payload_len) + sizeof(*h6);
		o->tos = bpf_ntohs(OCTETS2(at)) >> 4;
		o->ttl = h6->hop_limit;
	}
	if (length > octets || udp_length < sizeof(*u) || udp_length + header_octets(family) > length)
		return false;
	o->payload = udp_length - sizeof(*u);
	o->iid = flags & LISP_FLAG_I ? bpf_ntohl(u->lisp.iid_lsb) >> 8 : 0;
	return true;
}

/* Cuts off `removed` octets and sends the packet on. */
static __always_inline int finish_decapsulation(struct xdp_md *frame, const struct lisp_decision *d, __u32 surplus, __u32 removed, __u32 length)
{
	void *to;

	if (adjust(frame, surplus, removed) < 0)
		return drop(frame, LISP_DROP_DECAPSULATION_FAILED);
	to = frame_data(frame);
	if (to + ETH_HLEN > frame_end(frame))
		return drop(frame, LISP_DROP_DECAPSULATION_FAILED);
	OCTETS8(to) = OCTETS8(d->front);
	OCTETS4(to + 8) = OCTETS4(d->front + 8);
	OCTETS2(to + 12) = OCTETS2(d->front + 12);
	count(removed == outer_length(4) ? LISP_COUNTER_DECAPSULATED_IPV4 : LISP_COUNTER_DECAPSULATED_IPV6, length);
	count_mapping(d->mapping_index, length);
	return bpf_redirect(d->out, 0);
}

static __always_inline int reuse_decapsulation(struct xdp_md *frame, const struct lisp_interface *core, __u8 outer_family, __u8 family)
{
	void *outer = frame_data(frame) + ETH_HLEN, *end = frame_end(frame);
	void *at = outer + outer_length(outer_family);
	struct decision_key k;
	struct plain_packet p;
	struct plain_outer o;
	struct lisp_decision *d;
	__u32 sum;

	if (at + header_octets(family) + L4_OCTETS > end)
		return NOT_KEPT;
	if (!read_plain_outer(outer, end - outer, outer_family, &o) || !read_plain(at, family, &p, &k))
		return NOT_KEPT;
	/* Where the markings differ, RFC 6040 may have more to say. */
	if (o.ttl <= 1 || p.length > o.payload || (o.tos ^ p.tos) & ECN_MASK)
		return NOT_KEPT;
	k.where = where_of(frame->ingress_ifindex, o.iid);
	k.what = what_of(0, 0, o.tos, family, LISP_WAY_DECAPSULATED);
	d = decision_at(&k, family);
	if (!d || !has_key(d, &k, family) || !holds(d) || p.length > d->longest)
		return NOT_KEPT;
	sum = d->pseudo_sum + bpf_htons(p.protocol);
	if (core->flags & LISP_INTERFACE_UNFINISHED &&
	    (is_plain_unfinished(&p, family, sum) || (p.protocol == IPPROTO_UDP && is_tunnel_port(p.ports >> 16))))
		return NOT_KEPT;
	change_head(at, o.tos, (o.ttl < p.ttl ? o.ttl : p.ttl) - 1);
	return finish_decapsulation(frame, d, (__u32)(end - at) - p.length, outer_length(outer_family), p.length);
}

/* What was decided about such a packet from the core before is done to it; NOT_KEPT where nothing was. */
static __noinline int reuse_for_core(struct xdp_md *frame, const struct lisp_interface *core, __u8 outer_family)
{
	const __u8 *data = frame_data(frame);
	const __u8 *first;

	if (lisp_tracing || !core || core->flags & LISP_INTERFACE_STACK)
		return NOT_KEPT;
	first = data + ETH_HLEN + (outer_family == 4 ? outer_length(4) : outer_length(6));
	if ((void *)first + 1 > frame_end(frame))
		return NOT_KEPT;
	if (*first >> 4 == 4)
		return outer_family == 4 ? reuse_decapsulation(frame, core, 4, 4) : reuse_decapsulation(frame, core, 6, 4);
	return outer_family == 4 ? reuse_decapsulation(frame, core, 4, 6) : reuse_decapsulation(frame, core, 6, 6);
}

/* The same for a packet from the site. */
static __noinline int reuse_for_site(struct xdp_md *frame, const struct lisp_interface *site, __u8 family)
{
	if (lisp_tracing || !site || site->flags & LISP_INTERFACE_STACK)
		return NOT_KEPT;
	return family == 4 ? reuse_encapsulation(frame, site, 4) : reuse_encapsulation(frame, site, 6);
}

/* ---- what is kept ---- */

static __always_inline bool is_plain(const struct lisp_packet *p)
{
	return (p->protocol == IPPROTO_UDP || p->protocol == IPPROTO_TCP) && !p->fragment &&
	       p->l4_offset - p->offset == header_octets(p->family);
}

static __always_inline void fill_addresses(struct decision_key *k, const struct lisp_packet *p)
{
	if (p->family == 4) {
		k->addresses[0] = p->source.words[0] | (__u64)p->destination.words[0] << 32;
		k->addresses[1] = k->addresses[2] = k->addresses[3] = 0;
		return;
	}
	k->addresses[0] = p->source.pairs[0];
	k->addresses[1] = p->source.pairs[1];
	k->addresses[2] = p->destination.pairs[0];
	k->addresses[3] = p->destination.pairs[1];
}

/* Takes a place for a key; NULL where another decision shall stay. */
static __always_inline struct lisp_decision *take_place(const struct decision_key *k, const struct lisp_packet *p,
							const struct decision_time *t, const struct lisp_next_hop *hop)
{
	struct lisp_decision *d = decision_at(k, p->family);

	if (!d)
		return NULL;
	if (!has_key(d, k, p->family) && holds(d) && bpf_get_prandom_u32() & (DISPLACE_ONE_IN - 1))
		return NULL;
	*(struct decision_key *)d = *k;
	d->epoch = t->epoch;
	d->generation = t->generation;
	d->generation_place = t->place;
	d->expires_ns = hop->expires_ns;
	d->out = hop->ifindex;
	d->pseudo_sum = sum_address(&p->source, p->family) + sum_address(&p->destination, p->family);
	OCTETS8(d->front) = OCTETS8(hop->macs);
	OCTETS4(d->front + 8) = OCTETS4(hop->macs + 8);
	return d;
}

static __always_inline __u32 sum_header(const struct iphdr *h)
{
	const word_of_header *words = (const word_of_header *)h;
	__u64 sum = (__u64)words[0] + words[1] + words[2] + words[3] + words[4];

	return (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
}

static __always_inline void keep_front(struct lisp_decision *d, const struct itr *t, const struct lisp_locator *l)
{
	struct outer_ipv4 *o4 = (struct outer_ipv4 *)(d->front + ETH_HLEN);
	struct outer_ipv6 *o6 = (struct outer_ipv6 *)(d->front + ETH_HLEN);
	struct udp_lisp *u = l->family == 4 ? &o4->payload : &o6->payload;

	OCTETS2(d->front + 12) = ethertype_of(l->family);
	if (l->family == 4) {
		fill_outer_ipv4(o4, l, t, 0);
		o4->ip.ttl = 0;
		o4->ip.check = 0;
		d->outer_sum = sum_header(&o4->ip);
	} else {
		fill_outer_ipv6(o6, l, t, 0);
		o6->ip.payload_len = 0;
		o6->ip.hop_limit = 0;
	}
	u->udp.len = 0;
	u->lisp.flags_nonce &= bpf_htonl(~NONCE_MASK);
}

/* Keeps what is about to be done to a packet from the site. */
static __noinline void keep_encapsulation(struct xdp_md *frame, const struct itr *t, const struct decision_time *since,
					  const struct lisp_locator *l, const struct lisp_next_hop *hop)
{
	const struct lisp_settings *s = find_settings();
	__u32 longest = l->path_mtu && l->path_mtu < hop->mtu ? l->path_mtu : hop->mtu;
	struct lisp_decision *d;
	struct decision_key k;
	__be32 ports;

	if (lisp_tracing || !s || s->flags & SETTINGS_SENT || *(const volatile __u8 *)&l->encapsulation || t->tagged || t->listed)
		return;
	if (!is_plain(&t->packet) || longest < outer_length(l->family) || read_octets(frame, t->packet.l4_offset, &ports, sizeof(ports)) < 0)
		return;
	fill_addresses(&k, &t->packet);
	k.where = where_of(frame->ingress_ifindex, 0);
	k.what = what_of(ports, t->packet.protocol, t->packet.tos, t->packet.family, LISP_WAY_ENCAPSULATED);
	d = take_place(&k, &t->packet, since, hop);
	if (!d)
		return;
	d->pseudo_sum += bpf_htons(t->packet.protocol);
	d->longest = longest - outer_length(l->family);
	d->mapping_index = t->mapping_index;
	d->outer_family = l->family;
	keep_front(d, t, l);
}

/* Keeps what is about to be done to a packet from the core. */
static __noinline void keep_decapsulation(struct xdp_md *frame, const struct etr *e, const struct decision_time *since,
					  const struct lisp_next_hop *hop)
{
	const struct lisp_settings *s = find_settings();
	const __u32 others = SETTINGS_HEEDED | LISP_SETTING_INNER_DSCP_KEPT | LISP_SETTING_ROUTES_BY_FLOW;
	struct lisp_decision *d;
	struct decision_key k;

	if (lisp_tracing || !s || s->flags & others || hop->vlan || e->notes || e->next_protocol || !is_plain(&e->inner))
		return;
	fill_addresses(&k, &e->inner);
	k.where = where_of(frame->ingress_ifindex, e->iid);
	k.what = what_of(0, 0, e->tos, e->inner.family, LISP_WAY_DECAPSULATED);
	d = take_place(&k, &e->inner, since, hop);
	if (!d)
		return;
	d->longest = hop->mtu;
	d->mapping_index = e->mapping_index;
	OCTETS2(d->front + 12) = ethertype_of(e->inner.family);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Decisions about packets, kept by each processor for packets that differ only in their lengths,
 * TTL, ports and contents (docs/decisions/0009): where they are, until when they hold, and what is
 * put into them. What a decision rests on is in its key, in what is looked at anew for each packet
 * (reuse.h, reuse_tc.h, shared.h), in a generation that user space raises when it changes a table,
 * or it is the kernel's (routes, neighbours), which is asked again after LISP_NEXT_HOP_NS.
 * Counters, TTL (RFC 9300 s.5.3), ECN (RFC 6040), nonces, source ports and sizes are never kept.
 * Nothing here ever changes a frame.
 */
#ifndef LISP_DECISIONS_H
#define LISP_DECISIONS_H

#include "hops.h"
#include "unfinished.h"

/* A newcomer takes the place of a decision that still counts once in so many packets; a power of
 * two. */
#define DISPLACE_ONE_IN 8

/* Of lisp_decision.notice, about the interface where frames come in: checksums may be unfinished;
 * it is of the core (as well). */
#define DECISION_UNFINISHED (1 << 0)
#define DECISION_CORE (1 << 1)
/* At tc: what leaves by that interface takes the shortcut into the other end of a veth. */
#define DECISION_PEER (1 << 2)

/* Where the front of a decapsulated packet's decision has the own RLOC. */
#define FRONT_RLOC 16

/* The octets at an address, whatever its alignment. */
#define OCTETS2(at) (*(__u16 *)(at))
#define OCTETS4(at) (*(__u32 *)(at))
#define OCTETS8(at) (*(__u64 *)(at))

static __always_inline __u32 header_octets(__u8 family)
{
	return family == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
}

/* The beginning of a lisp_decision. */
struct decision_key {
	__u64 addresses[4];
	__u64 where; /* ifindex and Instance-ID */
	__u64 what;  /* flow, TOS, family, way, hook */
};

_Static_assert(sizeof(struct decision_key) == 48 &&
		       __builtin_offsetof(struct lisp_decision, epoch) == 48,
	       "the key comes first");
_Static_assert(sizeof(struct lisp_decision) == 192, "it takes three cache lines");
_Static_assert(__builtin_offsetof(struct lisp_decision, front) % 8 == 0, "it is copied by words");

static __always_inline __u64 where_of(__u32 ifindex, __u32 iid)
{
	return ifindex | (__u64)iid << 32;
}

static __always_inline __u64 what_of(__u32 flow, __u8 tos, __u8 family, __u8 way)
{
	return flow | (__u64)tos << 32 | (__u64)family << 40 | (__u64)way << 48 |
	       (__u64)HOOK_OF_DECISION << 56;
}

/* The place of a key. Products of odd numbers are added up, because they do not wait for each
 * other. */
static __always_inline struct lisp_decision *decision_at(const struct decision_key *k, __u8 family)
{
	__u64 h = k->addresses[0] * 0x9E3779B97F4A7C15ULL + k->where * 0xC2B2AE3D27D4EB4FULL +
		  k->what * 0xD6E8FEB86659FD93ULL;
	__u32 place = bpf_get_smp_processor_id() * LISP_PLACES;

	if (family == 6)
		h += k->addresses[1] * 0xFF51AFD7ED558CCDULL +
		     k->addresses[2] * 0xC4CEB9FE1A85EC53ULL +
		     k->addresses[3] * 0x87C37B91114253D5ULL;
	place += h >> 40 & (LISP_DECISIONS - 1);
	return bpf_map_lookup_elem(&decisions, &place);
}

static __always_inline bool has_key(const struct lisp_decision *d, const struct decision_key *k,
				    __u8 family)
{
	const struct decision_key *own = (const struct decision_key *)d;

	if (own->addresses[0] != k->addresses[0] || own->where != k->where || own->what != k->what)
		return false;
	return family == 4 ||
	       (own->addresses[1] == k->addresses[1] && own->addresses[2] == k->addresses[2] &&
		own->addresses[3] == k->addresses[3]);
}

static __always_inline __u32 generation_place(__u8 family, const union lisp_address *destination)
{
	__u64 x = bpf_ntohl(destination->words[0]);

	x = family == 4 ? x >> 8 : x << 16 | bpf_ntohl(destination->words[1]) >> 16;
	return (__u32)(x ^ x >> 32) * 0x9E3779B1U >> 20;
}

/* Whether nothing has changed that a decision rests on. */
static __always_inline bool holds(const struct lisp_decision *d, __u64 now)
{
	const struct lisp_generations *g = find_generations();

	return g && *(const volatile __u32 *)&g->epoch == d->epoch &&
	       *(const volatile __u32 *)&g
			       ->destinations[d->generation_place & (LISP_GENERATIONS - 1)] ==
		       d->generation &&
	       now < d->expires_ns;
}

/* The decision with a key that holds; NULL for none. */
static __always_inline struct lisp_decision *find_decision(const struct decision_key *k,
							   __u8 family, __u64 now)
{
	struct lisp_decision *d = decision_at(k, family);

	return d && has_key(d, k, family) && holds(d, now) ? d : NULL;
}

/* Before the first lookup of a decision: what is found later is at least as new as these numbers.
 */
static __always_inline struct decision_time begin_decision(__u8 family,
							   const union lisp_address *destination)
{
	const struct lisp_generations *g = find_generations();
	struct decision_time t = {.place = generation_place(family, destination)};
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

/* ---- what is kept ---- */

static __always_inline bool is_plain(const struct lisp_packet *p)
{
	return (p->protocol == IPPROTO_UDP || p->protocol == IPPROTO_TCP) && !p->fragment &&
	       p->l4_offset - p->offset == header_octets(p->family);
}

/* The family of a packet, known to the verifier on each of two ways from here on: whoever asks for
 * it again does not part them. */
static __always_inline __u8 known_family(const struct lisp_packet *p)
{
	__u32 family = p->family == 4 ? 4 : 6;

	asm volatile("" : "+r"(family)); /* or the compiler asks again as well */
	return family;
}

static __always_inline void fill_addresses(struct decision_key *k, const struct lisp_packet *p,
					   __u8 family)
{
	if (family == 4) {
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
static __always_inline struct lisp_decision *take_place(const struct decision_key *k,
							const struct lisp_packet *p, __u8 family,
							const struct decision_time *t,
							const struct lisp_next_hop *hop)
{
	struct lisp_decision *d = decision_at(k, family);

	if (!d)
		return NULL;
	if (!has_key(d, k, family) && holds(d, now_ns()) &&
	    bpf_get_prandom_u32() & (DISPLACE_ONE_IN - 1))
		return NULL;
	*(struct decision_key *)d = *k;
	d->epoch = t->epoch;
	d->generation = t->generation;
	d->generation_place = t->place;
	d->expires_ns = hop->expires_ns;
	d->out = hop->ifindex;
	d->flow_mask = 0;
	d->used = 0;
	d->notice = 0;
	d->address_hash = hash_address(hash_address(HASH_BEGIN, &p->source, family),
				       &p->destination, family);
	d->pseudo_sum = sum_address(&p->source, family) + sum_address(&p->destination, family);
	OCTETS8(d->front) = OCTETS8(hop->macs);
	OCTETS4(d->front + 8) = OCTETS4(hop->macs + 8);
	return d;
}

static __always_inline __u32 sum_header(const struct iphdr *h)
{
	const word_of_header *words = (const word_of_header *)h;
	__u64 sum = (__u64)words[0] + words[1] + words[2] + words[3] + words[4];

	sum = (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
	return (sum & 0xFFFF) + (sum >> 16);
}

static __always_inline void keep_front(struct lisp_decision *d, const struct itr *t,
				       const struct lisp_locator *l)
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
		OCTETS4(&o6->ip) &= bpf_htonl(~FLOW_LABEL_MASK);
		o6->ip.payload_len = 0;
		o6->ip.hop_limit = 0;
	}
	u->udp.source = 0;
	u->udp.len = 0;
	u->lisp.flags_nonce &= bpf_htonl(~NONCE_MASK);
}

/* The bits of a flow's hash on which the way of packets to a locator of a set depends: those of its
 * bucket, unless all are the same, and those of its source port where routes look at it. A program
 * of its own to the verifier, which so looks at it once. */
__noinline __u32 lisp_flow_mask(__u32 locator_set, __u32 locator)
{
	const struct lisp_locator_set *set = bpf_map_lookup_elem(&locator_sets, &locator_set);
	__u32 mask = routes_by_flow(find_settings()) ? 0x3FFF : 0;
	__u64 all = (locator & 0xFF) * 0x0101010101010101ULL, others = 0;

	if (!set)
		return mask;
#pragma unroll
	for (int i = 0; i < LISP_BUCKETS / 8; i++)
		others |= *((const volatile __u64 *)set->buckets + i) ^ all;
	return others ? mask | (LISP_BUCKETS - 1) << LISP_BUCKET_SHIFT : mask;
}

/* Says of all flows between two addresses that they differ by those bits. */
static __always_inline void keep_mask(struct decision_key *k, const struct itr *t, __u8 family,
				      const struct lisp_next_hop *hop, __u32 mask)
{
	struct lisp_decision *d = take_place(k, &t->packet, family, &t->since, hop);

	if (d)
		d->flow_mask = mask;
	k->what |= LISP_FLOW_COUNTS | (t->hash & mask);
}

/* Whether packets like this one can be sent by what is kept; `longest` is what the path carries. */
static __always_inline bool may_keep_encapsulation(const struct itr *t,
						   const struct lisp_locator *l, __u32 longest)
{
	const struct lisp_settings *s = find_settings();

	if (lisp_tracing || !s || s->flags & SETTINGS_SENT ||
	    *(const volatile __u8 *)&l->encapsulation || t->tagged || t->listed)
		return false;
	return is_plain(&t->packet) && longest >= outer_length(l->family);
}

/* Keeps what is about to be done to a packet from the site; NULL when it does not. */
static __noinline struct lisp_decision *keep_encapsulation(hook_frame *frame, const struct itr *t,
							   const struct lisp_locator *l,
							   const struct lisp_next_hop *hop)
{
	__u32 longest = l->path_mtu && l->path_mtu < hop->mtu ? l->path_mtu : hop->mtu;
	__u32 mask = lisp_flow_mask(t->locator_set, t->locator);
	__u8 family = known_family(&t->packet);
	struct lisp_decision *d;
	struct decision_key k;

	if (!may_keep_encapsulation(t, l, longest))
		return NULL;
	fill_addresses(&k, &t->packet, family);
	k.where = where_of(incoming_ifindex(frame), 0);
	k.what = what_of(0, t->packet.tos, family, LISP_WAY_ENCAPSULATED);
	if (mask)
		keep_mask(&k, t, family, hop, mask);
	d = take_place(&k, &t->packet, family, &t->since, hop);
	if (!d)
		return NULL;
	d->longest = longest - outer_length(l->family);
	d->mapping_index = t->mapping_index;
	d->counters = counters_of(t->mapping_index);
	d->outer_family = l->family;
	keep_front(d, t, l);
	return d;
}

/* The same of a packet from the core. */
static __always_inline bool may_keep_decapsulation(const struct etr *e,
						   const struct lisp_next_hop *hop)
{
	const __u32 others = SETTINGS_HEEDED | LISP_SETTING_INNER_DSCP_KEPT |
			     LISP_SETTING_ROUTES_BY_FLOW;
	const struct lisp_settings *s = find_settings();

	return !lisp_tracing && s && !(s->flags & others) && !hop->vlan && !e->notes &&
	       !e->next_protocol && is_plain(&e->inner);
}

/* Keeps what is about to be done to a packet from the core; NULL when it does not. */
static __noinline struct lisp_decision *keep_decapsulation(hook_frame *frame, const struct etr *e,
							   const struct lisp_next_hop *hop)
{
	__u8 family = known_family(&e->inner);
	struct lisp_decision *d;
	struct decision_key k;

	if (!may_keep_decapsulation(e, hop))
		return NULL;
	fill_addresses(&k, &e->inner, family);
	k.where = where_of(incoming_ifindex(frame), e->iid);
	k.what = what_of(0, e->tos, family, LISP_WAY_DECAPSULATED);
	d = take_place(&k, &e->inner, family, &e->since, hop);
	if (!d)
		return NULL;
	d->longest = hop->mtu;
	d->mapping_index = e->mapping_index;
	d->counters = counters_of(e->mapping_index);
	d->outer_family = e->outer.family;
	OCTETS2(d->front + 12) = ethertype_of(e->inner.family);
	__builtin_memcpy(d->front + FRONT_RLOC, &e->outer.destination,
			 sizeof(e->outer.destination));
	return d;
}

#endif

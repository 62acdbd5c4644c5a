/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The flow cache: which action record packets between two addresses get, kept by each processor for
 * plain packets (docs/decisions/0021). What an entry rests on is in its key, in what is looked at
 * anew for each packet, in a generation that user space raises when it changes a table, or in the
 * action record. An entry points to a record and has no rules of its own.
 */
#ifndef LISP_FLOW_CACHE_H
#define LISP_FLOW_CACHE_H

#include "plain.h"
#include "select.h"

/* A newcomer takes the place of an entry that still counts once in so many packets; a power of two.
 */
#define DISPLACE_ONE_IN 8

/* Longer than an action record counts, because only tables are behind an entry. */
#define FLOW_NS 150000000ULL

/* Of lisp_flow.notice, about the interface where frames come in: at XDP, checksums may be partial;
 * it is of the core as well. */
#define FLOW_CHECKSUM_PARTIAL (1 << 0)
#define FLOW_CORE (1 << 1)

/* The beginning of a lisp_flow. */
struct flow_key {
	__u64 addresses[4];
	__u64 where; /* ifindex and Instance-ID */
	__u64 what;  /* flow, TOS, family, what, hook */
};

_Static_assert(sizeof(struct flow_key) == 48 && __builtin_offsetof(struct lisp_flow, epoch) == 48,
	       "the key comes first");
_Static_assert(sizeof(struct lisp_flow) == 128, "it takes two cache lines");

static __always_inline __u64 where_of(__u32 ifindex, __u32 iid)
{
	return ifindex | (__u64)iid << 32;
}

static __always_inline __u64 what_of(__u32 flow, __u8 tos, __u8 family, __u8 what)
{
	return flow | (__u64)tos << 32 | (__u64)family << 40 | (__u64)what << 48 |
	       (__u64)HOOK_OF_FLOW << 56;
}

/* The place of a key. Products of odd numbers are added up, because they do not wait for each
 * other. */
static __always_inline struct lisp_flow *flow_at(const struct flow_key *k, __u8 family)
{
	__u64 h = k->addresses[0] * 0x9E3779B97F4A7C15ULL + k->where * 0xC2B2AE3D27D4EB4FULL +
		  k->what * 0xD6E8FEB86659FD93ULL;
	__u32 place = bpf_get_smp_processor_id() * LISP_FLOWS;

	if (family == 6)
		h += k->addresses[1] * 0xFF51AFD7ED558CCDULL +
		     k->addresses[2] * 0xC4CEB9FE1A85EC53ULL +
		     k->addresses[3] * 0x87C37B91114253D5ULL;
	place += h >> 40 & (LISP_FLOWS - 1);
	return bpf_map_lookup_elem(&flows, &place);
}

static __always_inline bool has_flow_key(const struct lisp_flow *f, const struct flow_key *k,
					 __u8 family)
{
	const struct flow_key *own = (const struct flow_key *)f;

	if (own->addresses[0] != k->addresses[0] || own->where != k->where || own->what != k->what)
		return false;
	return family == 4 ||
	       (own->addresses[1] == k->addresses[1] && own->addresses[2] == k->addresses[2] &&
		own->addresses[3] == k->addresses[3]);
}

/* ---- what is in force ---- */

/* Whether nothing has changed that an entry rests on. */
static __always_inline bool flow_counts(const struct lisp_flow *f, __u64 now)
{
	const struct lisp_generations *g = find_generations();

	return g && *(const volatile __u32 *)&g->epoch == f->epoch &&
	       *(const volatile __u32 *)&g
			       ->destinations[f->generation_place & (LISP_GENERATIONS - 1)] ==
		       f->generation &&
	       now < f->expires_ns;
}

/* ---- what is kept ---- */

static __always_inline bool is_plain(const struct lisp_packet *p)
{
	return (p->protocol == IPPROTO_UDP || p->protocol == IPPROTO_TCP) && !p->fragment &&
	       p->l4_offset - p->offset == header_octets(p->family);
}

static __always_inline void fill_addresses(struct flow_key *k, const union lisp_address *source,
					   const union lisp_address *destination, __u8 family)
{
	if (family == 4) {
		k->addresses[0] = source->words[0] | (__u64)destination->words[0] << 32;
		k->addresses[1] = k->addresses[2] = k->addresses[3] = 0;
		return;
	}
	k->addresses[0] = source->pairs[0];
	k->addresses[1] = source->pairs[1];
	k->addresses[2] = destination->pairs[0];
	k->addresses[3] = destination->pairs[1];
}

/* What XDP looks at for each frame of an interface. */
static __always_inline void note_interface(struct lisp_flow *f, __u32 ifindex)
{
	const struct lisp_interface *at = find_interface(ifindex, ~0U);

	if (!at)
		return;
	if (at->flags & LISP_INTERFACE_CORE)
		f->notice |= FLOW_CORE;
	if (!HOOK_IS_XDP)
		return;
	if (at->flags & LISP_INTERFACE_CHECKSUM_PARTIAL)
		f->notice |= FLOW_CHECKSUM_PARTIAL;
	__builtin_memcpy(f->to, at->mac, sizeof(at->mac));
}

/* Keeps an entry, unless another one shall stay; NULL then. */
static __always_inline struct lisp_flow *keep_entry(const struct flow_key *k,
						    const struct lisp_context *c)
{
	const struct lisp_packet *p = &c->packet;
	struct lisp_flow *f = flow_at(k, p->family);

	if (!f)
		return NULL;
	if (!has_flow_key(f, k, 6) && flow_counts(f, last_ns()) &&
	    bpf_get_prandom_u32() & (DISPLACE_ONE_IN - 1))
		return NULL;
	*(struct flow_key *)f = *k;
	f->epoch = c->since.epoch;
	f->generation = c->since.generation;
	f->generation_place = c->since.place;
	f->expires_ns = last_ns() + FLOW_NS;
	f->flow_mask = 0;
	f->used = 0;
	f->notice = 0;
	f->address_hash = hash_addresses(p);
	f->pseudo_sum = sum_address(&p->source, p->family) +
			sum_address(&p->destination, p->family);
	return f;
}

/* The bits of a flow's hash on which the action of packets to a locator of a set depends: those of
 * its bucket, unless all are the same, and those of its source port where routes look at it. */
static __always_inline __u32 mask_of_flows(__u32 locator_set, __u32 locator)
{
	const struct lisp_locator_set *set = find_locator_set(locator_set);
	__u32 mask = routes_by_flow(find_settings()) ? SOURCE_PORT_MASK : 0;
	__u64 all = (locator & 0xFF) * 0x0101010101010101ULL, others = 0;

	if (!set)
		return mask;
#pragma unroll
	for (int i = 0; i < LISP_BUCKETS / 8; i++)
		others |= *((const volatile __u64 *)set->buckets + i) ^ all;
	return others ? mask | (LISP_BUCKETS - 1) << LISP_BUCKET_SHIFT : mask;
}

/* One more packet that missed the flow cache. While most do, only a sample is known to, and stands
 * for as many as it is one of: the others were not looked up. */
static __always_inline void note_missed(void)
{
	struct lisp_clock *c = find_clock();

	if (!c)
		return;
	if (!mostly_misses(c))
		c->missed++;
	else if (!(c->turn & SAMPLE_ONE_IN - 1))
		c->missed += SAMPLE_ONE_IN;
}

/* Whether an action can serve packets of a flow; `what` is that of the action. */
static __always_inline bool may_be_cached(const struct lisp_context *c,
					  const struct lisp_action_record *a, int what)
{
	if (lisp_tracing || a->flags & LISP_ACTION_UNCACHED || !is_plain(&c->packet) ||
	    !(a->flags & LISP_ACTION_RESOLVED) || c->l2_length != ETH_HLEN)
		return false;
	if (what == LISP_DO_DELIVER)
		return !c->notes && !c->next_protocol;
	return !c->tagged && !c->released && c->side == LISP_INTERFACE_SITE;
}

/* Keeps which action a packet gets, which is about to leave by it. A global function: verified
 * once. */
__noinline int lisp_keep_flow(hook_frame *frame, struct lisp_context *c)
{
	const struct lisp_action_record *a;
	__u32 ifindex = incoming_ifindex(frame), mask = 0;
	struct lisp_flow *f;
	struct flow_key k;
	__u8 tos;

	if (!c)
		return 0;
	a = action_at(c->action);
	if (!a || !may_be_cached(c, a, a->what))
		return 0;
	note_missed();
	/* a DELIVER's TOS is already that of the packet */
	tos = c->packet.tos;
	fill_addresses(&k, &c->packet.source, &c->packet.destination, c->packet.family);
	k.where = where_of(ifindex, a->what == LISP_DO_DELIVER ? c->iid : 0);
	k.what = what_of(0, tos, c->packet.family, a->what);
	if (a->what == LISP_DO_ENCAPSULATE)
		mask = mask_of_flows(c->locator_set, c->locator);
	if (mask) {
		f = keep_entry(&k, c);
		if (f)
			f->flow_mask = mask;
		k.what |= LISP_FLOW_COUNTS | (c->hash & mask);
	}
	f = keep_entry(&k, c);
	if (!f)
		return 0;
	f->action = c->action;
	f->serial = a->serial;
	f->mapping_index = c->mapping_index;
	f->counters = counters_of(c->mapping_index);
	note_interface(f, ifindex);
	return 0;
}

/* ---- what is found ---- */

static __always_inline struct lisp_flow *find_flow(const struct flow_key *k, __u8 family, __u64 now)
{
	struct lisp_flow *f = flow_at(k, family);

	return f && has_flow_key(f, k, family) && flow_counts(f, now) ? f : NULL;
}

/* The entry of a packet from the site, and its flow's hash; NULL for none. */
static __always_inline struct lisp_flow *find_flow_by_hash(struct flow_key *k,
							   const struct plain_packet *p,
							   __u8 family, __u64 now, __u32 *hash)
{
	struct lisp_flow *f = find_flow(k, family, now);

	if (!f)
		return NULL;
	*hash = finish_hash(f->address_hash, p->ports, p->protocol);
	if (!f->flow_mask)
		return f;
	k->what |= LISP_FLOW_COUNTS | (*hash & f->flow_mask);
	return find_flow(k, family, now);
}

/* Both hooks share the records; frames go only to interfaces that take them. */
static __always_inline bool is_for_hook(const struct lisp_action_record *a)
{
	return !HOOK_IS_XDP || a->flags & LISP_ACTION_TAKES_FRAMES;
}

/* The record that an entry points to, if that is still the same one; the epoch is the entry's. */
static __always_inline struct lisp_action_record *action_of(const struct lisp_flow *f, __u64 now)
{
	struct lisp_action_record *a = action_at(f->action);

	return a && a->serial == f->serial && now < a->expires_ns && is_for_hook(a) ? a : NULL;
}

/* Whether a packet has to be looked at by more than is kept: it did not come to the address of the
 * interface, its checksum may be partial, or it may be LISP to us. */
static __always_inline bool is_notable(const hook_frame *frame, const struct lisp_flow *f,
				       const struct plain_packet *p, __u8 family)
{
	const void *data = frame_data(frame);
	__be16 port = destination_port(p);

	if (HOOK_IS_XDP &&
	    (data + ETH_HLEN > frame_end(frame) ||
	     (OCTETS8(data) & bpf_cpu_to_be64(0xFFFFFFFFFFFF0000)) != OCTETS8(f->to)))
		return true;
	if (!f->notice)
		return false;
	if (f->notice & FLOW_CHECKSUM_PARTIAL && is_plain_partial(p, family, f->pseudo_sum))
		return true;
	return f->what == LISP_DO_ENCAPSULATE && f->notice & FLOW_CORE &&
	       (port == bpf_htons(LISP_DATA_PORT) || port == bpf_htons(LISP_VXLAN_GPE_PORT));
}

/* As count_mapping(), with one look at the mapping for all packets of a moment. */
static __always_inline void count_flow(struct lisp_flow *f, __u32 octets, __u64 boot_ns)
{
	__u32 now = boot_ns >> LISP_LAST_USED_SHIFT;

	count_at(f->counters, octets);
	if (f->used == now)
		return;
	f->used = now;
	mark_used(f->mapping_index, now);
}

/* Sends a packet from the site by its entry; NOT_CACHED where it has none. */
static __always_inline int encapsulate_by_flow(hook_frame *frame, struct lisp_clock *clock,
					       __u8 family)
{
	const void *at = frame_data(frame) + ETH_HLEN;
	struct lisp_action_record *a;
	struct lisp_varying v;
	struct plain_packet p;
	struct lisp_flow *f;
	struct flow_key k;
	int verdict;

	if (at + header_octets(family) + L4_OCTETS > frame_end(frame) ||
	    !read_plain(frame, at, family, &p))
		return NOT_CACHED;
	fill_addresses(&k, &p.source, &p.destination, family);
	k.where = where_of(incoming_ifindex(frame), 0);
	k.what = what_of(0, p.tos, family, LISP_DO_ENCAPSULATE);
	f = find_flow_by_hash(&k, &p, family, clock->boot_ns, &v.hash);
	if (!f || is_notable(frame, f, &p, family))
		return NOT_CACHED;
	a = action_of(f, clock->boot_ns);
	if (!a || p.longest > a->longest || p.length > octets_at(frame, at))
		return NOT_CACHED;
	vary_encapsulation(&v, &p, family, a, clock);
	verdict = apply_encapsulation(frame, a, &v);
	if (has_left(verdict))
		count_flow(f, p.length, clock->boot_ns);
	return verdict;
}

/* The same for a packet from the core. */
static __always_inline int deliver_by_flow(hook_frame *frame, struct lisp_clock *clock,
					   __u8 outer_family, __u8 family)
{
	struct lisp_action_record *a;
	struct lisp_varying v;
	struct plain_packet p;
	struct lisp_flow *f;
	struct flow_key k;
	int verdict;
	__u32 iid;

	if (!read_plain_from_core(frame, outer_family, family, &p, &iid))
		return NOT_CACHED;
	fill_addresses(&k, &p.source, &p.destination, family);
	k.where = where_of(incoming_ifindex(frame), iid);
	k.what = what_of(0, p.tos, family, LISP_DO_DELIVER);
	f = find_flow(&k, family, clock->boot_ns);
	if (!f || is_notable(frame, f, &p, family))
		return NOT_CACHED;
	a = action_of(f, clock->boot_ns);
	if (!a || p.longest > a->longest)
		return NOT_CACHED;
	vary_delivery(&v, &p, outer_family, family);
	verdict = apply_delivery(frame, a, &v, outer_family);
	if (has_left(verdict))
		count_flow(f, p.length, clock->boot_ns);
	return verdict;
}

/* The family of the packet inside a LISP packet; 0 where that is cut off. */
static __always_inline __u8 inner_family(const hook_frame *frame, __u8 outer_family)
{
	const __u8 *first = frame_data(frame) + ETH_HLEN + outer_length(outer_family);

	if ((void *)first + 1 > frame_end(frame))
		return 0;
	return *first >> 4 == 4 ? 4 : 6;
}

#endif

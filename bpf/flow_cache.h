/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The flow cache: which action record plain packets between two addresses get, for each processor
 * (docs/decisions/0021). What an entry depends on is in its key, in what is looked at anew for each
 * packet, in a generation that user space raises when it changes a table, or in the action record.
 */
#ifndef LISP_FLOW_CACHE_H
#define LISP_FLOW_CACHE_H

#include "plain.h"
#include "select.h"

/* A new entry replaces one that still counts once in so many packets; a power of two. */
#define DISPLACE_ONE_IN 8

/* Longer than an action record counts, because an entry depends on tables alone. */
#define FLOW_NS 150000000ULL

/* Of lisp_flow.notice, about the interface where frames come in: at XDP, checksums may be partial;
 * it is of the core as well. */
#define FLOW_CHECKSUM_PARTIAL (1 << 0)
#define FLOW_CORE (1 << 1)
/* The action needs the hash of the flow. */
#define FLOW_HASHED (1 << 2)
/* Some flow between these addresses is bound to a path: the map of bindings is asked. */
#define FLOW_BINDINGS (1 << 3)

/* The beginning of a lisp_flow. */
struct flow_key {
	__u64 addresses[4];
	__u64 where; /* ifindex and Instance-ID */
	__u64 what;  /* flow, TOS, family, what, hook */
};

_Static_assert(sizeof(struct flow_key) == 48 && __builtin_offsetof(struct lisp_flow, epoch) == 48,
	       "the key comes first");
_Static_assert(sizeof(struct lisp_flow) == 128, "two cache lines");

/* Of IPv4 addresses only the first word counts. */
static __always_inline void fill_key(struct flow_key *k, const union lisp_address *source,
				     const union lisp_address *destination, __u64 ifindex_iid,
				     __u8 tos, __u8 family, __u8 what)
{
	k->where = ifindex_iid;
	k->what = (__u64)tos << 32 | (__u64)family << 40 | (__u64)what << 48 |
		  (__u64)!HOOK_IS_XDP << 56;
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

static __always_inline struct lisp_flow *flow_at(const struct flow_key *k, __u8 family)
{
	__u64 h = mix(k->addresses[0], k->where, k->what);
	__u32 place = bpf_get_smp_processor_id() * LISP_FLOWS;

	if (family == 6)
		h += mix_more(k->addresses[1], k->addresses[2], k->addresses[3], 0);
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

/* Whether nothing has changed that an entry depends on. */
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
	if (!has_flow_key(f, k, 6) && flow_counts(f, now_ns()) &&
	    bpf_get_prandom_u32() & (DISPLACE_ONE_IN - 1))
		return NULL;
	*(struct flow_key *)f = *k;
	f->epoch = c->since.epoch;
	f->generation = c->since.generation;
	f->generation_place = c->since.place;
	f->expires_ns = now_ns() + FLOW_NS;
	f->flow_mask = 0;
	f->notice = c->what == LISP_DO_DELIVER ? 0 : FLOW_HASHED;
	f->address_hash = hash_addresses(&p->source, &p->destination, p->family);
	f->pseudo_sum = sum_addresses(&p->source, &p->destination, p->family);
	return f;
}

/* The bits of a flow's hash on which the action of packets to a set depends: those of its bucket,
 * unless all are the same, and those of its source port where routes look at it. */
static __always_inline __u32 mask_of_flows(__u32 locator_set)
{
	const struct lisp_locator_set *set = find_locator_set(locator_set);
	__u32 mask = has_setting(LISP_SETTING_ROUTES_BY_FLOW) ? SOURCE_PORT_MASK : 0;
	__u64 all, others = 0;

	if (!set)
		return mask;
	all = *(const volatile __u8 *)set->buckets * 0x0101010101010101ULL;
#pragma unroll
	for (int i = 0; i < LISP_BUCKETS / 8; i++)
		others |= *((const volatile __u64 *)set->buckets + i) ^ all;
	return others ? mask | (LISP_BUCKETS - 1) << LISP_BUCKET_SHIFT : mask;
}

/* lisp_flow.flow of a flow that is bound to the locator at a place, or LISP_BUCKET_NONE. */
static __always_inline __u32 flow_bits(__u32 locator, __u32 hash, __u32 mask)
{
	if (locator == LISP_BUCKET_NONE)
		return LISP_FLOW_COUNTS | (hash & mask);
	return LISP_FLOW_COUNTS | LISP_FLOW_BOUND | locator << LISP_BUCKET_SHIFT |
	       (hash & mask & SOURCE_PORT_MASK);
}

/* One more packet that missed the flow cache. While most do, only a sample is looked up, and each
 * stands for SAMPLE_ONE_IN. */
static __always_inline void note_missed(void)
{
	struct lisp_clock *c = find_clock();

	if (!c)
		return;
	if (!mostly_misses(c))
		c->missed++;
	else if (!(c->packets & SAMPLE_ONE_IN - 1))
		c->missed += SAMPLE_ONE_IN;
}

/* Whether an action can serve packets of a flow; `came` is lisp_flow.what. */
static __always_inline bool may_be_cached(const struct lisp_context *c,
					  const struct lisp_action_record *a, __u8 came)
{
	if (lisp_tracing || a->flags & LISP_ACTION_UNCACHED || !is_plain(&c->packet) ||
	    c->begins_or_ends || !(a->flags & LISP_ACTION_RESOLVED) || c->l2_length != ETH_HLEN)
		return false;
	if (came == LISP_DO_DELIVER)
		return !c->notes && !c->told;
	return !c->tagged && !c->released && c->forwarded;
}

/* Keeps an entry that says by what flows between its addresses differ. */
static __always_inline void keep_branches(const struct flow_key *k, const struct lisp_context *c,
					  __u32 mask, bool bindings)
{
	struct lisp_flow *f = keep_entry(k, c);

	if (!f)
		return;
	f->flow_mask = mask;
	if (!bindings)
		return;
	f->notice |= FLOW_BINDINGS;
	f->locator_set = c->locator_set;
	f->flow_iid = c->iid;
}

/* Keeps which action a packet gets that is about to leave. A global function: verified once. */
__noinline int lisp_keep_flow(hook_frame *frame, struct lisp_context *c)
{
	const struct lisp_action_record *a;
	__u32 ifindex = incoming_ifindex(frame), mask = 0, iid = 0;
	bool bindings = false;
	struct lisp_flow *f;
	struct flow_key k;
	__u8 came;

	if (!c)
		return 0;
	came = c->removed ? LISP_DO_DELIVER : LISP_DO_ENCAPSULATE;
	a = action_at(c->action);
	if (!a || !may_be_cached(c, a, came))
		return 0;
	note_missed();
	if (a->what != LISP_DO_DELIVER) {
		mask = mask_of_flows(c->locator_set);
		bindings = has_bindings() && lisp_is_pair_bound(c);
	}
	if (c->removed)
		iid = c->path_number ? c->path_number : c->iid;
	fill_key(&k, &c->packet.source, &c->packet.destination, ifindex | (__u64)iid << 32,
		 c->packet.tos, c->packet.family, came);
	if (mask || bindings) {
		keep_branches(&k, c, mask, bindings);
		k.what |= flow_bits(c->bound ? c->locator : LISP_BUCKET_NONE, c->hash, mask);
	}
	f = keep_entry(&k, c);
	if (!f)
		return 0;
	f->action = c->action;
	f->serial = a->serial;
	f->mapping_index = c->mapping_index;
	note_interface(f, ifindex);
	return 0;
}

/* ---- what is found ---- */

static __always_inline struct lisp_flow *find_flow(const struct flow_key *k, __u8 family, __u64 now)
{
	struct lisp_flow *f = flow_at(k, family);

	return f && has_flow_key(f, k, family) && flow_counts(f, now) ? f : NULL;
}

/* Whether this hook can send by a record, which both share. */
static __always_inline bool is_for_hook(const struct lisp_action_record *a)
{
	return !HOOK_IS_XDP || a->flags & LISP_ACTION_TAKES_FRAMES;
}

/* Whether a packet is one for the stages: it did not come to the address of the interface, its
 * checksum may be partial, or it may be LISP to us. */
static __always_inline bool is_notable(const hook_frame *frame, const struct lisp_flow *f,
				       const struct plain_packet *p)
{
	const void *data = frame_data(frame);
	if (HOOK_IS_XDP &&
	    (data + ETH_HLEN > frame_end(frame) ||
	     (OCTETS8(data) & bpf_cpu_to_be64(0xFFFFFFFFFFFF0000)) != OCTETS8(f->to)))
		return true;
	if (!(f->notice & (FLOW_CHECKSUM_PARTIAL | FLOW_CORE)))
		return false;
	if (f->notice & FLOW_CHECKSUM_PARTIAL && is_plain_partial(p, f->pseudo_sum))
		return true;
	return f->what == LISP_DO_ENCAPSULATE && f->notice & FLOW_CORE && may_be_lisp(p);
}

/* So long an answer of the map of bindings is kept, in LISP_LAST_USED_SHIFT: it also notes that the
 * flow is in use. */
#define BOUND_ANSWER_TICKS 16

/* Asks the map of bindings for a flow between the addresses of an entry. */
static __always_inline __u32 ask_binding(const struct lisp_flow *f, __be32 ports, __u8 protocol,
					 __u64 now)
{
	struct lisp_binding_key *k = find_wanted();
	const __u64 *a = f->addresses;

	if (!k)
		return LISP_BUCKET_NONE;
	*k = (struct lisp_binding_key){
		.iid = f->flow_iid, .ports = ports, .family = f->family, .protocol = protocol};
	if (f->family == 4) {
		OCTETS4(k->source) = a[0];
		OCTETS4(k->destination) = a[0] >> 32;
	} else {
		__builtin_memcpy(k->source, a, sizeof(k->source));
		__builtin_memcpy(k->destination, a + 2, sizeof(k->destination));
	}
	return lisp_bound_locator(f->locator_set, now);
}

/* flow_bits() of a flow between the addresses of an entry, some of which are bound. A change of
 * bindings, locators or their states changes the tag. A global function: verified once. */
__noinline int lisp_find_bits(const struct lisp_flow *f, __u32 hash, __be32 ports, __u32 protocol,
			      __u64 now)
{
	__u32 place = bpf_get_smp_processor_id() * LISP_FLOWS, tick = now >> LISP_LAST_USED_SHIFT;
	struct lisp_bound_answer *w;
	__u64 tag;

	if (!f)
		return 0;
	tag = mix(f->addresses[0], (__u64)hash << 32 | protocol,
		  (__u64)f->epoch << 32 | f->generation) +
	      mix_more(f->addresses[1], f->addresses[2], f->addresses[3],
		       (__u64)f->flow_iid << 32 | f->locator_set);
	place += tag >> 40 & (LISP_FLOWS - 1);
	w = bpf_map_lookup_elem(&bound_answers, &place);
	if (!w)
		return 0;
	if (w->tag != tag || tick - w->asked >= BOUND_ANSWER_TICKS) {
		w->locator = ask_binding(f, ports, protocol, now);
		w->tag = tag;
		w->asked = tick;
	}
	return flow_bits(w->locator, hash, f->flow_mask);
}

/* The record of a plain packet; NULL for none. `iid` is 0 of packets that came without LISP.
 * Towards the core *hash becomes that of the flow. */
static __always_inline struct lisp_action_record *find_by_flow(hook_frame *frame,
							       struct plain_packet *p, __u32 iid,
							       __u8 what, __u64 now, __u32 *hash)
{
	__u64 where = incoming_ifindex(frame) | (__u64)iid << 32;
	struct lisp_action_record *a;
	struct lisp_flow *f;
	struct flow_key k;
	__u32 bits = 0;

	fill_key(&k, &p->source, &p->destination, where, p->tos, p->family, what);
	f = find_flow(&k, p->family, now);
	if (f && f->notice & FLOW_HASHED) {
		*hash = finish_hash(f->address_hash, p->ports, p->protocol);
		if (f->notice & FLOW_BINDINGS)
			bits = lisp_find_bits(f, *hash, p->ports, p->protocol, now);
		else if (f->flow_mask)
			bits = flow_bits(LISP_BUCKET_NONE, *hash, f->flow_mask);
		if (bits) {
			k.what |= bits;
			f = find_flow(&k, p->family, now);
		}
	}
	if (!f || is_notable(frame, f, p))
		return NULL;
	p->mapping_index = f->mapping_index;
	a = action_at(f->action);
	/* the epoch is the entry's */
	return a && a->serial == f->serial && now < a->expires_ns && is_for_hook(a) ? a : NULL;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Packets between more pairs of addresses than decisions can be kept about (docs/decisions/0014):
 * what all packets to a locator-set, or to an entry of the Database with one way
 * (LISP_MAPPING_ONE_WAY), have in common is kept once, in the shape and by the rules of
 * decisions.h, for each hook by itself. For each packet only the tables are asked: the map-cache,
 * or the Database, for its destination. Beside that stands which sources are EIDs of the Database,
 * and which blocks of destinations have none of its EIDs (RFC 9300 s.5), or are one entry's alone
 * (docs/decisions/0019).
 *
 * A processor goes this way while it decides most packets anew. Only the plainest packets do.
 * Nothing here changes a frame: scattered.h and scattered_tc.h do.
 */
#ifndef LISP_SHARED_H
#define LISP_SHARED_H

#include "plain.h"

/* Bits by which blocks of destinations are told apart: few, so that not much is kept about those in
 * use. Where an EID of the Database is in the large block, what is kept is about the small one. */
#define LARGE_BLOCK_BITS4 8
#define LARGE_BLOCK_BITS6 16
#define BLOCK_BITS4 16
#define BLOCK_BITS6 48
/* The same of blocks that an entry of the Database has to itself: large ones, and as small as are
 * routed in the Internet. */
#define ENTRY_LARGE_BITS4 8
#define ENTRY_LARGE_BITS6 20
#define ENTRY_BLOCK_BITS4 24
#define ENTRY_BLOCK_BITS6 48
/* An entry of more small blocks than 2 to this, and of no large one, would need more places than
 * there are. */
#define ENTRY_BLOCKS_BITS 8
/* What is kept of such a block is said by one of so many packets that asked the table; a power of
 * two. */
#define ENTRY_BLOCK_ONE_IN 16

/* ---- where it is kept ---- */

/* Keys with numbers side by side have places side by side: what a thousand locator-sets share does
 * not take turns. */
static __always_inline struct lisp_decision *shared_at(const struct decision_key *k)
{
	__u64 h = k->addresses[1] * 0xFF51AFD7ED558CCDULL + k->where * 0xC2B2AE3D27D4EB4FULL +
		  k->what * 0xD6E8FEB86659FD93ULL;
	__u32 place = bpf_get_smp_processor_id() * LISP_PLACES;

	place += (h >> 40) + k->addresses[0] & LISP_DECISIONS - 1;
	return bpf_map_lookup_elem(&decisions, &place);
}

static __always_inline const struct lisp_decision *find_shared(const struct decision_key *k,
							       __u64 now)
{
	const struct lisp_generations *g = find_generations();
	const struct lisp_decision *d = shared_at(k);
	const struct decision_key *own = (const struct decision_key *)d;

	if (!d || !g || own->addresses[0] != k->addresses[0] ||
	    own->addresses[1] != k->addresses[1] || own->where != k->where || own->what != k->what)
		return NULL;
	return *(const volatile __u32 *)&g->epoch == d->epoch && now < d->expires_ns ? d : NULL;
}

/* Longer than that of a next hop, because only tables are behind it, and shorter than an index of a
 * locator-set rests. */
#define TABLES_NS 150000000ULL

static __always_inline void fill_source(struct decision_key *k, const union lisp_address *source,
					__u8 family, __u32 ifindex)
{
	k->addresses[0] = family == 4 ? bpf_ntohl(source->words[0])
				      : bpf_be64_to_cpu(source->pairs[0]);
	k->addresses[1] = family == 4 ? 0 : bpf_be64_to_cpu(source->pairs[1]);
	k->where = where_of(ifindex, 0);
	k->what = what_of(0, 0, family, LISP_WAY_SOURCE);
}

/* The first 64 bits of an address. */
static __always_inline __u64 high_of(const union lisp_address *a, __u8 family)
{
	return family == 4 ? (__u64)bpf_ntohl(a->words[0]) << 32 : bpf_be64_to_cpu(a->pairs[0]);
}

static __always_inline void fill_block(struct decision_key *k, __u64 high, __u8 family, __u32 bits,
				       __u64 where, __u8 way)
{
	k->addresses[0] = high >> (64 - bits & 63);
	k->addresses[1] = 0;
	k->where = where;
	k->what = what_of(bits, 0, family, way);
}

/* The key of a block that an entry of the Database may have. Blocks in use are multiples of large
 * powers of two: all of the number counts for the place. */
static __always_inline void fill_block_of_entry(struct decision_key *k, __u64 high, __u8 family,
						__u32 bits, __u64 where)
{
	fill_block(k, high, family, bits, where, LISP_WAY_ENTRY_BLOCK);
	k->addresses[1] = k->addresses[0];
	k->addresses[0] = 0;
}

/* Fronts stand apart from all else: packets to many locator-sets rest on one of them, and would all
 * be decided about anew when something else takes its place. */
static __always_inline struct lisp_decision *front_at(__u32 place)
{
	place += bpf_get_smp_processor_id() * LISP_PLACES + LISP_DECISIONS;
	return bpf_map_lookup_elem(&decisions, &place);
}

/* The place of the front with a key, or else the one of its two that is over first. A program of
 * its own to the verifier, which so looks at it once. */
__noinline __u32 lisp_place_front(const struct decision_key *k)
{
	const struct lisp_decision *one, *other;
	__u32 place;
	__u64 h;

	if (!k)
		return 0;
	h = k->addresses[0] * 0x9E3779B97F4A7C15ULL + k->addresses[1] * 0xFF51AFD7ED558CCDULL +
	    k->what * 0xD6E8FEB86659FD93ULL;
	place = (h ^ k->where * 0xC2B2AE3D27D4EB4FULL) >> 40 & LISP_FRONTS - 1;
	one = front_at(place);
	other = front_at(place ^ 1);
	if (!one || !other || has_key(one, k, 6))
		return place;
	return has_key(other, k, 6) || other->expires_ns < one->expires_ns ? place ^ 1 : place;
}

/* ---- what is kept ---- */

static __always_inline struct lisp_decision *share(const struct decision_key *k,
						   const struct decision_time *t, __u64 expires_ns)
{
	struct lisp_decision *d = shared_at(k);

	if (!d)
		return NULL;
	*(struct decision_key *)d = *k;
	d->epoch = t->epoch;
	d->expires_ns = expires_ns;
	return d;
}

/* The slot that answers for all addresses of a block, the first `bits` of `high`; one of a node
 * where they differ, or may. A program of its own to the verifier, which so looks at it once. */
__noinline __u32 lisp_slot_of_block(__u32 index, __u32 slot, __u64 high, __u32 bits)
{
	void *table = bpf_map_lookup_elem(&fib, &index);
	const volatile struct lisp_compare *compare;
	const struct lisp_cell *cell;
	__u32 at, consumed, chosen, length;
	__u64 value;

	if (!table)
		return LISP_SLOT_NODE;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < BLOCK_BITS6; i++) {
		if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_NODE)
			return slot;
		at = slot & LISP_SLOT_CELL_MASK;
		consumed = (slot & ~LISP_SLOT_TAG_MASK) >> LISP_SLOT_STRIDE_SHIFT;
		if (consumed > bits)
			return LISP_SLOT_NODE;
		chosen = consumed ? high >> (64 - consumed & 63) : 0;
		at += chosen / LISP_CELL_SLOTS;
		cell = bpf_map_lookup_elem(table, &at);
		if (!cell)
			return LISP_SLOT_NODE;
		if (consumed) {
			slot = *(const volatile __u32 *)&cell->slots[chosen % LISP_CELL_SLOTS];
		} else {
			compare = (const volatile struct lisp_compare *)cell;
			consumed = length = compare->length & 63;
			value = compare->value;
			if (length > bits) {
				value >>= length - bits & 63;
				length = bits;
			}
			if (!length)
				return LISP_SLOT_NODE;
			if (high >> (64 - length & 63) != value)
				return compare->otherwise;
			if (consumed > bits)
				return LISP_SLOT_NODE;
			slot = compare->match;
		}
		bits -= consumed;
		high <<= consumed & 63;
	}
	return LISP_SLOT_NODE;
}

/* The bits of the larger of two blocks that has no prefix, 0 where neither is empty or its bits are
 * all 0. A program of its own as well. */
__noinline __u32 lisp_empty_block(__u64 root, __u64 high, __u32 large, __u32 small)
{
	__u32 index = root >> LISP_ROOT_TABLE_SHIFT & LISP_ROOT_TABLE_MASK;

	if (high >> (64 - large & 63) &&
	    (!(root & LISP_ROOT_IN_USE) ||
	     lisp_slot_of_block(index, root, high, large) == LISP_SLOT_EMPTY))
		return large;
	return high >> (64 - small & 63) &&
			       lisp_slot_of_block(index, root, high, small) == LISP_SLOT_EMPTY
		       ? small
		       : 0;
}

/* Keeps which entry of the Database has a block to itself, of so many bits, if one does: what the
 * table says, its root as well, after the epoch was read. A root that was read before may be that
 * of an earlier epoch. A program of its own to the verifier, which so looks at it once; stack is
 * scarce where it is called. */
__noinline int lisp_share_block_of_entry(const struct lisp_roots *of, __u64 high, __u64 where,
					 __u32 family, __u32 bits)
{
	const struct lisp_generations *g = find_generations();
	struct lisp_clock *c = find_clock();
	struct decision_time t = {};
	struct decision_key k = {};
	struct lisp_decision *d;
	__u32 slot;
	__u64 root;

	if (!of || !g || !c)
		return 0;
	t.epoch = *(const volatile __u32 *)&g->epoch;
	t.epoch += __sync_fetch_and_add(&c->order, 0);
	root = *(const volatile __u64 *)&of->roots[LISP_ROOT_DATABASE + (family == 6)];
	if (!(root & LISP_ROOT_IN_USE) ||
	    (family == 4 && root >> LISP_ROOT_BLOCK_SHIFT & LISP_ROOT_BLOCK_MASK))
		return 0;
	slot = lisp_slot_of_block(root >> LISP_ROOT_TABLE_SHIFT & LISP_ROOT_TABLE_MASK, root, high,
				  bits);
	if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_LEAF)
		return 0;
	fill_block_of_entry(&k, high, family, bits, where);
	d = share(&k, &t, c->boot_ns + TABLES_NS);
	if (d)
		d->mapping_index = slot & LISP_SLOT_INDEX_MASK;
	return 0;
}

/* By how many bits packets to all addresses of a block leave the site, and may be carried by LISP;
 * 0 where they do not. */
static __always_inline __u32 block_elsewhere(const struct itr *t)
{
	const __u8 *a = t->packet.destination.octets;
	const struct lisp_roots *of = find_roots(t->roots);
	__u64 root;

	if (!of)
		return 0;
	if (t->packet.family == 4) {
		root = *(const volatile __u64 *)&of->roots[LISP_ROOT_DATABASE];
		if (a[0] == 0 || a[0] == 127 || a[0] == 169 || a[0] >= 224 ||
		    root >> LISP_ROOT_BLOCK_SHIFT & LISP_ROOT_BLOCK_MASK)
			return 0;
		return lisp_empty_block(root,
					(__u64)bpf_ntohl(t->packet.destination.words[0]) << 32,
					LARGE_BLOCK_BITS4, BLOCK_BITS4);
	}
	if (a[0] >= 0xFE)
		return 0;
	root = *(const volatile __u64 *)&of->roots[LISP_ROOT_DATABASE + 1];
	return lisp_empty_block(root, bpf_be64_to_cpu(t->packet.destination.pairs[0]),
				LARGE_BLOCK_BITS6, BLOCK_BITS6);
}

/* One more packet that no decision was about. While packets are scattered only a sample is known to
 * be, and stands for as many as it is one of: for the others no decision was looked for. A program
 * of its own to the verifier, which so looks at it once. */
__noinline int lisp_note_stranger(void)
{
	struct lisp_clock *c = find_clock();

	if (!c)
		return 0;
	if (!is_scattered(c))
		c->strangers++;
	else if (!(c->turn & SAMPLE_ONE_IN - 1))
		c->strangers += SAMPLE_ONE_IN;
	return 0;
}

/* The key of the front of a locator's packets. Where routes look at ports, the front is that of
 * flows with one source port. */
static __always_inline void fill_front(struct decision_key *k, const struct itr *t,
				       const struct lisp_locator *l, __u32 ifindex)
{
	__u32 flow = routes_by_flow(find_settings()) ? t->hash & 0x3FFF : 0;

	__builtin_memcpy(k->addresses, l->rloc, sizeof(l->rloc));
	__builtin_memcpy(k->addresses + 2, l->source, sizeof(l->source));
	k->where = where_of(ifindex, t->mapping_iid);
	k->what = what_of(flow << 17 | (l->family == 6) << 16 | l->port, t->packet.tos,
			  t->packet.family, LISP_WAY_FRONT);
}

/* How packets leave towards a next hop. */
static __always_inline void share_way(struct lisp_decision *d, const struct lisp_next_hop *hop)
{
	d->out = hop->ifindex;
	d->notice = hop->flags & LISP_NEXT_HOP_PEER ? DECISION_PEER : 0;
	OCTETS8(d->front) = OCTETS8(hop->macs);
	OCTETS4(d->front + 8) = OCTETS4(hop->macs + 8);
}

/* Keeps the front of a locator's packets, at a place that it tells. */
static __always_inline struct lisp_decision *
share_front(const struct decision_key *k, const struct itr *t, const struct lisp_locator *l,
	    const struct lisp_next_hop *hop, __u32 *place)
{
	__u32 longest = l->path_mtu && l->path_mtu < hop->mtu ? l->path_mtu : hop->mtu;
	struct lisp_clock *clock = find_clock();
	struct lisp_decision *d;

	*place = lisp_place_front(k) & LISP_FRONTS - 1;
	d = front_at(*place);
	if (!d || !clock)
		return NULL;
	if (!has_key(d, k, 6)) {
		*(struct decision_key *)d = *k;
		d->generation = ++clock->fronts;
	}
	d->epoch = t->since.epoch;
	d->expires_ns = hop->expires_ns;
	share_way(d, hop);
	d->longest = longest - outer_length(l->family);
	d->outer_family = l->family;
	keep_front(d, t, l);
	return d;
}

/* What an entry of set_fronts says of packets beside the locator-set and the interface, but for the
 * highest 16 bits. */
static __always_inline __u64 set_front_what(__u32 iid, __u8 tos, __u8 family)
{
	return iid | (__u32)tos << 24 | (__u64)family << 32 | (__u64)HOOK_OF_DECISION << 40;
}

/* The place for a locator-set. Sets side by side have places side by side. */
static __always_inline __u32 place_set_front(__u32 set, __u32 ifindex, __u64 what)
{
	__u32 first = bpf_get_smp_processor_id() * LISP_SET_FRONTS;

	return first +
	       (set + ((what + ifindex) * 0x9E3779B97F4A7C15ULL >> 40) & LISP_SET_FRONTS - 1);
}

/* In LISP_LAST_USED_SHIFT: with what is missing of the first one less than an index of a
 * locator-set rests. */
#define SET_TICKS (TABLES_NS >> LISP_LAST_USED_SHIFT)

/* Whether an entry of set_fronts that has expired is still right: its locator-set has not become
 * another one since, as far as this packet can know, and then it is so for as long as before. A
 * program of its own to the verifier, which so looks at it once. */
__noinline int lisp_believe_longer(__u32 place, __u32 set, __u32 tick)
{
	struct lisp_set_front *s = bpf_map_lookup_elem(&set_fronts, &place);
	const struct lisp_locator_set *l = bpf_map_lookup_elem(&locator_sets, &set);

	if (!s || !l || (__u16) * (const volatile __u32 *)&l->serial != s->serial)
		return 0;
	s->expires = tick + SET_TICKS;
	return 1;
}

/* Keeps which front the packets to a locator-set get; NULL for no room. */
static __always_inline struct lisp_set_front *share_set_front(const struct itr *t, __u32 ifindex)
{
	const struct lisp_locator_set *set = bpf_map_lookup_elem(&locator_sets, &t->locator_set);
	__u64 what = set_front_what(t->mapping_iid, t->packet.tos, t->packet.family);
	__u32 place = place_set_front(t->locator_set, ifindex, what);
	struct lisp_set_front *s = bpf_map_lookup_elem(&set_fronts, &place);

	if (!s || !set)
		return NULL;
	s->set = t->locator_set + 1;
	s->ifindex = ifindex;
	OCTETS8(&s->iid_tos) = what;
	s->serial = *(const volatile __u32 *)&set->serial;
	s->epoch = t->since.epoch;
	s->expires = (last_ns() >> LISP_LAST_USED_SHIFT) + SET_TICKS;
	return s;
}

/* Says which front the packets to a locator-set have, and of which flows if that makes a
 * difference. */
static __always_inline void share_set(struct decision_key *k, const struct itr *t, __u32 place,
				      __u32 generation, __u32 ifindex)
{
	struct lisp_set_front *s = share_set_front(t, ifindex);
	__u32 mask = lisp_flow_mask(t->locator_set, t->locator);

	if (!s)
		return;
	s->front = mask ? LISP_FLOW_COUNTS | mask : place;
	s->generation = generation;
	if (!mask)
		return;
	k->addresses[0] = t->locator_set;
	k->addresses[1] = k->addresses[3] = 0;
	k->addresses[2] = (__u64)place << 32 | generation;
	k->what = what_of(LISP_FLOW_COUNTS | (t->hash & mask), t->packet.tos, t->packet.family,
			  LISP_WAY_SET);
	share(k, &t->since, last_ns() + TABLES_NS);
}

/* Keeps what is about to be done to a packet from the site for all packets to its locator-set; the
 * front that it has, or NULL. */
static __noinline struct lisp_decision *share_encapsulation(hook_frame *frame, const struct itr *t,
							    const struct lisp_locator *l,
							    const struct lisp_next_hop *hop)
{
	__u32 ifindex = incoming_ifindex(frame), place;
	struct decision_key k = {};
	struct lisp_decision *front;
	__u64 expires_ns = now_ns() + TABLES_NS;
	__u32 bits;

	if (!may_keep_encapsulation(t, l,
				    l->path_mtu && l->path_mtu < hop->mtu ? l->path_mtu : hop->mtu))
		return NULL;
	lisp_note_stranger();
	if (l->ifindex)
		return NULL;
	bits = block_elsewhere(t);
	if (bits) {
		fill_block(&k, high_of(&t->packet.destination, t->packet.family), t->packet.family,
			   bits, where_of(ifindex, 0), LISP_WAY_BLOCK);
		share(&k, &t->since, expires_ns);
	}
	fill_source(&k, &t->packet.source, t->packet.family, ifindex);
	share(&k, &t->since, expires_ns);
	fill_front(&k, t, l, ifindex);
	front = share_front(&k, t, l, hop, &place);
	if (front)
		share_set(&k, t, place, front->generation, ifindex);
	return front;
}

/* Keeps what is about to be done to a packet from the core for all packets to its entry of the
 * Database, where they take one way; NULL where they do not. */
static __noinline struct lisp_decision *share_decapsulation(hook_frame *frame, const struct etr *e,
							    const struct lisp_next_hop *hop)
{
	struct decision_key k = {};
	struct lisp_decision *d;

	if (!may_keep_decapsulation(e, hop))
		return NULL;
	lisp_note_stranger();
	if (!lisp_entry_of_one_way(e->entry_flags, e->mapping_index))
		return NULL;
	k.addresses[0] = e->mapping_index;
	k.where = where_of(incoming_ifindex(frame), e->iid);
	k.what = what_of(0, e->tos, e->inner.family, LISP_WAY_ENTRY);
	d = share(&k, &e->since, hop->expires_ns);
	if (!d)
		return NULL;
	share_way(d, hop);
	d->longest = hop->mtu;
	d->mapping_index = e->mapping_index;
	d->counters = counters_of(e->mapping_index);
	d->used = 0;
	d->outer_family = e->outer.family;
	OCTETS2(d->front + 12) = ethertype_of(e->inner.family);
	__builtin_memcpy(d->front + FRONT_RLOC, &e->outer.destination,
			 sizeof(e->outer.destination));
	return d;
}

/* ---- what is found ---- */

/* Source and destination of a plain packet. */
struct plain_addresses {
	union lisp_address source;
	union lisp_address destination;
};

static __always_inline void take_addresses(struct plain_addresses *a, const struct decision_key *k,
					   __u8 family)
{
	if (family == 4) {
		a->source.words[0] = k->addresses[0];
		a->destination.words[0] = k->addresses[0] >> 32;
		return;
	}
	a->source.pairs[0] = k->addresses[0];
	a->source.pairs[1] = k->addresses[1];
	a->destination.pairs[0] = k->addresses[2];
	a->destination.pairs[1] = k->addresses[3];
}

/* Whether the packet goes from an own EID to somewhere else. */
static __always_inline bool leaves_site(const struct lisp_roots *of,
					const struct plain_addresses *a, __u8 family, __u32 ifindex,
					__u64 now)
{
	__u64 high = high_of(&a->destination, family), where = where_of(ifindex, 0);
	struct decision_key k;

	fill_source(&k, &a->source, family, ifindex);
	if (!find_shared(&k, now))
		return false;
	fill_block(&k, high, family, family == 4 ? LARGE_BLOCK_BITS4 : LARGE_BLOCK_BITS6, where,
		   LISP_WAY_BLOCK);
	if (find_shared(&k, now))
		return true;
	fill_block(&k, high, family, family == 4 ? BLOCK_BITS4 : BLOCK_BITS6, where,
		   LISP_WAY_BLOCK);
	if (find_shared(&k, now))
		return true;
	return is_routable_unicast(&a->destination, family) &&
	       !is_own_eid(of, family, &a->destination);
}

/* The number and the place of the front of one flow to a locator-set whose flows have several, as
 * addresses[2] of a lisp_decision; 0 for none. */
static __always_inline __u64 find_front_of_flow(__u32 set, __u64 where, __u64 what, __u64 now)
{
	struct decision_key k = {.addresses = {set}, .where = where, .what = what};
	const struct lisp_decision *d = find_shared(&k, now);

	return d ? d->addresses[2] : 0;
}

/* The front of packets to a locator-set, or of the flow where that makes a difference. The epoch
 * need not be read before or after the number of the set: what is kept for a set is true of it in
 * either epoch, or has expired by the time that a set's number means another one (TABLES_NS), and
 * ticks may wrap around meanwhile. */
static __always_inline const struct lisp_decision *
find_front(__u32 set, __u32 iid, __u8 tos, __u8 family, __u32 ifindex, __u32 hash, __u64 now)
{
	const struct lisp_generations *g = find_generations();
	__u64 what = set_front_what(iid, tos, family), front;
	__u32 place = place_set_front(set, ifindex, what);
	const struct lisp_set_front *s = bpf_map_lookup_elem(&set_fronts, &place);
	const struct lisp_decision *d;

	if (!s || !g || s->set != set + 1 || s->ifindex != ifindex ||
	    (OCTETS8(&s->iid_tos) ^ what) << 16 || *(const volatile __u32 *)&g->epoch != s->epoch)
		return NULL;
	if ((__s32)((__u32)(now >> LISP_LAST_USED_SHIFT) - s->expires) >= 0 &&
	    !lisp_believe_longer(place, set, now >> LISP_LAST_USED_SHIFT))
		return NULL;
	front = (__u64)s->front << 32 | s->generation;
	if (s->front & LISP_FLOW_COUNTS)
		front = find_front_of_flow(
			set, where_of(ifindex, iid),
			what_of(LISP_FLOW_COUNTS | (hash & s->front), tos, family, LISP_WAY_SET),
			now);
	d = front_at(front >> 32 & LISP_FRONTS - 1);
	if (!d || d->way != LISP_WAY_FRONT || d->generation != (__u32)front || d->epoch != s->epoch)
		return NULL;
	return now < d->expires_ns ? d : NULL;
}

/* A plain packet from the site on its way by what is shared. */
struct outgoing {
	struct plain_packet packet;
	struct plain_addresses addresses;
	struct front_words words;
	__u32 index; /* of the mapping */
};

/* What find_page() answers where it is asked, of one mapping by its record; 0 where packets cannot
 * be sent by what is shared. */
static __always_inline __u32 word_of_record(__u32 index, __u32 iid)
{
	const struct lisp_mapping *m = bpf_map_lookup_elem(&mappings, &index);

	if (!m || (m->flags & (LISP_MAPPING_VALID | LISP_MAPPING_HOLD)) != LISP_MAPPING_VALID ||
	    m->iid != iid)
		return 0;
	return *(const volatile __u32 *)&m->locator_set + 1;
}

/* The front that it gets; NULL where nothing is shared. */
static __always_inline const struct lisp_decision *
find_for_outgoing(const struct lisp_interface *site, struct outgoing *o, __u8 family, __u32 ifindex,
		  __u64 now)
{
	const struct lisp_roots *of = find_roots(site->roots);
	__u32 slot = find_leaf(of, LISP_ROOT_MAP_CACHE, family, &o->addresses.destination), word;

	o->index = slot & LISP_SLOT_INDEX_MASK;
	o->words.hash = hash_address(hash_address(HASH_BEGIN, &o->addresses.source, family),
				     &o->addresses.destination, family);
	o->words.hash = finish_hash(o->words.hash, o->packet.ports, o->packet.protocol);
	if (!leaves_site(of, &o->addresses, family, ifindex, now) ||
	    (slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_LEAF)
		return NULL;
	word = find_page(o->index);
	if (!word)
		word = word_of_record(o->index, site->iid);
	return word ? find_front(word - 1, site->iid, o->packet.tos, family, ifindex, o->words.hash,
				 now)
		    : NULL;
}

static __always_inline void count_outgoing(const struct outgoing *o, __u64 now)
{
	count_later(o->index, o->packet.length, now >> LISP_LAST_USED_SHIFT);
}

/* The entry of the Database that a block of destinations has to itself, if that is kept. */
static __always_inline const struct lisp_decision *find_block_of_entry(__u64 high, __u8 family,
								       __u64 where, __u64 now)
{
	const struct lisp_decision *d;
	struct decision_key k;

	fill_block_of_entry(&k, high, family, family == 4 ? ENTRY_LARGE_BITS4 : ENTRY_LARGE_BITS6,
			    where);
	d = find_shared(&k, now);
	if (d)
		return d;
	fill_block_of_entry(&k, high, family, family == 4 ? ENTRY_BLOCK_BITS4 : ENTRY_BLOCK_BITS6,
			    where);
	return find_shared(&k, now);
}

/* By how many bits the blocks of an entry are kept, 0 for not at all. */
static __always_inline __u32 block_bits_of(const struct lisp_mapping *m, __u8 family)
{
	__u32 large = family == 4 ? ENTRY_LARGE_BITS4 : ENTRY_LARGE_BITS6,
	      small = family == 4 ? ENTRY_BLOCK_BITS4 : ENTRY_BLOCK_BITS6;

	if (m->prefix_length <= large)
		return large;
	return m->prefix_length + ENTRY_BLOCKS_BITS >= small && m->prefix_length <= small ? small
											  : 0;
}

/* The entry of the Database to whose addresses a packet from the core goes. The table is asked
 * where nothing is kept about the block. */
static __always_inline const struct lisp_mapping *find_entry(const struct lisp_interface *core,
							     __u64 where,
							     const union lisp_address *destination,
							     __u8 family, __u64 now, __u32 *index)
{
	__u64 high = high_of(destination, family);
	const struct lisp_decision *d = find_block_of_entry(high, family, where, now);
	const struct lisp_clock *clock;
	const struct lisp_mapping *m;
	const struct lisp_roots *of;
	__u32 iid = where >> 32, zero = 0, bits;

	if (d) {
		*index = d->mapping_index;
		return bpf_map_lookup_elem(&mappings, index);
	}
	of = iid == core->iid ? find_roots(core->roots) : find_instance(iid);
	m = find_covering(of, LISP_ROOT_DATABASE, family, destination, index);
	clock = bpf_map_lookup_elem(&clocks, &zero);
	if (!m || !of || !clock || clock->turn & ENTRY_BLOCK_ONE_IN - 1)
		return m;
	bits = block_bits_of(m, family);
	if (bits)
		lisp_share_block_of_entry(of, high, where, family, bits);
	return m;
}

/* What is kept for the entry of the Database to whose addresses a packet goes; NULL where they have
 * no common way. */
static __always_inline struct lisp_decision *find_for_entry(const struct lisp_interface *core,
							    struct decision_key *k,
							    const union lisp_address *destination,
							    __u8 family, __u64 now)
{
	const __u32 flags = LISP_MAPPING_VALID | LISP_MAPPING_ONE_WAY;
	const struct lisp_generations *g = find_generations();
	const struct lisp_mapping *m;
	__u32 index;

	m = find_entry(core, k->where, destination, family, now, &index);
	if (!m || !g || (*(const volatile __u32 *)&m->flags & flags) != flags ||
	    now >= *(const volatile __u64 *)&g->watched_until_ns)
		return NULL;
	k->addresses[0] = index;
	k->addresses[1] = 0;
	return (struct lisp_decision *)find_shared(k, now);
}

#endif

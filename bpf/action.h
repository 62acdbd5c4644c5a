/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Action records (abi_actions.h): the kernel's answer about the route of packets, which costs more
 * than all else, and their headers, kept by each processor. The key has all on which these depend,
 * but for the epoch. Lengths, TTL, ECN, nonces and source ports are each packet's own.
 */
#ifndef LISP_ACTION_H
#define LISP_ACTION_H

#include "route.h"

/* The beginning of an action record, and the packet whose addresses are part of its key; NULL where
 * none are. */
struct action_key {
	__u64 target_from;
	__u64 iid_port_tos_locator;
	__u32 what_family;
	const struct lisp_packet *pair;
};

_Static_assert(__builtin_offsetof(struct lisp_action_record, serial) == 20, "the key comes first");
_Static_assert(sizeof(struct lisp_action_record) == 192, "three cache lines");
_Static_assert(__builtin_offsetof(struct lisp_action_record, header) == 64, "at a cache line");

/* `what_family` is the action, with the family of the inner packet in the octet above it. */
static __always_inline struct action_key key_of_encapsulation(__u32 locator_set, __u32 locator,
							      __u32 iid, __u8 outer_tos, __u32 port,
							      __u32 what_family)
{
	return (struct action_key){
		.target_from = locator_set,
		.iid_port_tos_locator = iid | (__u64)(port & SOURCE_PORT_MASK) << 32 |
					(__u64)outer_tos << 48 | (__u64)locator << 56,
		.what_family = what_family,
	};
}

/* Towards the site; `target` is the Database entry's index and 1 where it has a single next hop,
 * else 0, and the addresses and the TOS of `pair` count. */
static __always_inline struct action_key
key_of_delivery(__u32 target, __u32 from, __u32 iid, __u8 family, const struct lisp_packet *pair)
{
	return (struct action_key){
		.target_from = target | (__u64)from << 32,
		.iid_port_tos_locator = iid | (__u64)(pair ? pair->tos : 0) << 48,
		.what_family = LISP_DO_DELIVER | (__u32)family << 8,
		.pair = pair,
	};
}

static __always_inline bool has_action_key(const struct lisp_action_record *a,
					   const struct action_key *k)
{
	const __u8 *own = (const __u8 *)a;

	if (OCTETS8(own) != k->target_from || OCTETS8(own + 8) != k->iid_port_tos_locator ||
	    OCTETS4(own + 16) != k->what_family)
		return false;
	return !k->pair || (is_same_address(a->source, &k->pair->source) &&
			    is_same_address(a->destination, &k->pair->destination));
}

static __always_inline struct lisp_action_record *action_at(__u32 place)
{
	place = bpf_get_smp_processor_id() * LISP_ACTIONS + (place & (LISP_ACTIONS - 1));
	return bpf_map_lookup_elem(&actions, &place);
}

static __always_inline __u32 place_of_action(const struct action_key *k)
{
	__u64 h = mix(k->target_from >> 32, k->iid_port_tos_locator, k->what_family);

	if (k->pair)
		h += mix_more(k->pair->source.pairs[0], k->pair->source.pairs[1],
			      k->pair->destination.pairs[0], k->pair->destination.pairs[1]);
	return (h >> 40) + (__u32)k->target_from * 2 & (LISP_ACTIONS - 1);
}

/* The place of a key, one of two: where it is already, or else the one that expires first. */
static __always_inline __u32 choose_place(const struct action_key *k)
{
	__u32 place = place_of_action(k);
	const struct lisp_action_record *one = action_at(place), *other = action_at(place ^ 1);

	if (!one || !other || has_action_key(one, k))
		return place;
	return has_action_key(other, k) || other->expires_ns < one->expires_ns ? place ^ 1 : place;
}

/* The record at the place of a key, to which it is given where it was another's; NULL never
 * happens.
 */
static __always_inline struct lisp_action_record *take_action(const struct action_key *k,
							      __u32 *place)
{
	struct lisp_clock *clock = find_clock();
	struct lisp_action_record *a;

	*place = choose_place(k);
	a = action_at(*place);
	if (!a || has_action_key(a, k))
		return a;
	__builtin_memset(a, 0, sizeof(*a));
	__builtin_memcpy(a, k, __builtin_offsetof(struct lisp_action_record, serial));
	if (k->pair) {
		__builtin_memcpy(a->source, &k->pair->source, sizeof(a->source));
		__builtin_memcpy(a->destination, &k->pair->destination, sizeof(a->destination));
	}
	a->serial = clock ? ++clock->serial : 0;
	return a;
}

static __always_inline bool action_counts(const struct lisp_action_record *a, __u32 epoch,
					  __u64 now)
{
	return now < a->expires_ns && a->epoch == epoch;
}

/* Notes the next hop that the kernel answered, to which frames leave by `ifindex`; one whose
 * address is not resolved serves this packet alone. `used` says that the record had one before. */
static __always_inline void set_next_hop(struct lisp_action_record *a,
					 const struct bpf_fib_lookup *f, long answer, __u32 ifindex,
					 bool used)
{
	const struct lisp_interface *out = bpf_map_lookup_elem(&interfaces, &ifindex);

	a->ifindex = ifindex;
	a->neighbour_ifindex = f->ifindex;
	a->neighbour_family = f->family;
	__builtin_memcpy(a->gateway, f->ipv6_dst, sizeof(a->gateway));
	__builtin_memset(a->header, 0, 12);
	a->flags = 0;
	a->vlan = 0;
	a->device = LISP_DEVICE_UNKNOWN;
	a->expires_ns = 0;
	if (out && out->flags & LISP_INTERFACE_PEER)
		a->flags |= LISP_ACTION_PEER;
	if (out && out->flags & LISP_INTERFACE_TAKES_FRAMES)
		a->flags |= LISP_ACTION_TAKES_FRAMES;
	if (answer != BPF_FIB_LKUP_RET_SUCCESS)
		return;
	if (used)
		a->flags |= LISP_ACTION_CONFIRM;
	a->flags |= LISP_ACTION_RESOLVED;
	a->expires_ns = now_ns() + LISP_ACTION_NS;
	__builtin_memcpy(a->header, f->dmac, ETH_ALEN);
	__builtin_memcpy(a->header + ETH_ALEN, f->smac, ETH_ALEN);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Next hops that the kernel told (route.h), kept by each processor for LISP_NEXT_HOP_NS: asking
 * costs more than all else that a packet needs. Nothing has to be told of changes of routes, rules,
 * neighbours or links, so that they are followed within that time whether user space lives or not.
 * Nothing here ever changes a frame.
 *
 * Which way a route leads may depend on the addresses, the TOS, and, where the host has rules or a
 * multipath hash of that kind, on ports (LISP_SETTING_ROUTES_BY_FLOW). The key of a kept next hop
 * has all of them that count; the addresses of an outer header are those of a locator in its set,
 * which never change. Towards the site none of them counts where user space has found that all
 * addresses of an EID-Prefix have one way (LISP_MAPPING_ONE_WAY): packets to a million hosts behind
 * a router of the site would ask for the same gateway a million times.
 */
#ifndef LISP_HOPS_H
#define LISP_HOPS_H

#include "context.h"
#include "vlans.h"

static __always_inline bool routes_by_flow(const struct lisp_settings *s)
{
	return !s || s->flags & LISP_SETTING_ROUTES_BY_FLOW;
}

/* Keeps what bpf_fib_lookup answered; a next hop whose address is not resolved serves this one
 * packet alone. `used` says that the same one was kept before. */
static __always_inline void keep_hop(struct lisp_next_hop *hop, const struct bpf_fib_lookup *f,
				     long answer, bool used)
{
	const struct lisp_interface *out = bpf_map_lookup_elem(&interfaces, &f->ifindex);

	hop->ifindex = f->ifindex;
	hop->mtu = f->mtu_result;
	hop->family = f->family;
	__builtin_memcpy(hop->gateway, f->ipv6_dst, sizeof(hop->gateway));
	__builtin_memset(hop->macs, 0, sizeof(hop->macs));
	hop->flags = 0;
	hop->vlan = 0;
	hop->expires_ns = 0;
	if (out && out->flags & LISP_INTERFACE_PEER)
		hop->flags = LISP_NEXT_HOP_PEER;
	if (out && out->flags & LISP_INTERFACE_TAKES_FRAMES)
		hop->flags |= LISP_NEXT_HOP_TAKES_FRAMES;
	if (answer != BPF_FIB_LKUP_RET_SUCCESS)
		return;
	if (used)
		hop->flags |= LISP_NEXT_HOP_CONFIRM;
	hop->flags |= LISP_NEXT_HOP_RESOLVED;
	hop->expires_ns = last_ns() + LISP_NEXT_HOP_NS;
	__builtin_memcpy(hop->macs, f->dmac, ETH_ALEN);
	__builtin_memcpy(hop->macs + ETH_ALEN, f->smac, ETH_ALEN);
}

static __always_inline struct lisp_outer_hop *outer_hop_of(const struct itr *t, __u16 port,
							   __u8 tos)
{
	__u32 place = hash_step(
		hash_step(t->locator_set, (__u32)t->locator << 24 | (__u32)tos << 16 | port), 0);

	place &= LISP_OUTER_HOPS - 1;
	return bpf_map_lookup_elem(&outer_hops, &place);
}

/* Asks the kernel; *mtu is what the path carries when the answer is FRAG_NEEDED. */
static STEP long ask_outer_hop(hook_frame *frame, const struct itr *t, const struct lisp_locator *l,
			       struct lisp_outer_hop *kept, __u32 *mtu)
{
	struct bpf_fib_lookup f = {};
	bool used = kept->hop.expires_ns;
	long answer = find_outer_route(frame, &f, l, t);

	*mtu = f.mtu_result;
	if (answer == BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return answer;
	kept->hop.expires_ns = 0;
	/* A default route into the TAP is for EIDs; for an RLOC it would be a loop. */
	if ((answer != BPF_FIB_LKUP_RET_SUCCESS && answer != BPF_FIB_LKUP_RET_NO_NEIGH) ||
	    is_tap(f.ifindex))
		return BPF_FIB_LKUP_RET_UNREACHABLE;
	keep_hop(&kept->hop, &f, answer, used);
	return BPF_FIB_LKUP_RET_SUCCESS;
}

/* The next hop of the outer packet in *hop; or, with another answer than SUCCESS, none: FRAG_NEEDED
 * when the path carries *mtu octets only, UNREACHABLE when there is no route. */
static __always_inline long find_outer_hop(hook_frame *frame, const struct itr *t,
					   const struct lisp_locator *l, struct lisp_next_hop **hop,
					   __u32 *mtu)
{
	const struct lisp_settings *s = find_settings();
	__u16 port = routes_by_flow(s) ? t->hash & 0x3FFF : 0;
	__u8 tos = outer_tos(t->packet.tos);
	struct lisp_outer_hop *kept = outer_hop_of(t, port, tos);
	__u32 length = longest_segment(frame, &t->packet) + outer_length(l->family);

	if (!kept)
		return BPF_FIB_LKUP_RET_UNREACHABLE;
	*hop = &kept->hop;
	if (kept->locator_set != t->locator_set || kept->port != port ||
	    kept->locator != t->locator || kept->tos != tos) {
		kept->locator_set = t->locator_set;
		kept->port = port;
		kept->locator = t->locator;
		kept->tos = tos;
		kept->hop.expires_ns = 0;
	}
	if (now_ns() < kept->hop.expires_ns && length <= kept->hop.mtu &&
	    (!l->path_mtu || length <= l->path_mtu)) {
		kept->hop.flags &= ~LISP_NEXT_HOP_CONFIRM;
		step(LISP_STEP_ROUTE, BPF_FIB_LKUP_RET_SUCCESS, kept->hop.ifindex, 0);
		return BPF_FIB_LKUP_RET_SUCCESS;
	}
	return ask_outer_hop(frame, t, l, kept, mtu);
}

static __always_inline bool is_same_address(const __u8 *a, const union lisp_address *b)
{
	const __u64 *x = (const __u64 *)a;

	return x[0] == b->pairs[0] && x[1] == b->pairs[1];
}

/* Makes a place that of a pair of addresses where it was another's. */
static __always_inline void keep_for_pair(struct lisp_inner_hop *kept, const struct lisp_packet *p,
					  __u32 from, __u32 iid)
{
	if (is_same_address(kept->destination, &p->destination) &&
	    is_same_address(kept->source, &p->source) && kept->ifindex == from &&
	    kept->family == p->family && kept->tos == p->tos && kept->iid == iid)
		return;
	__builtin_memcpy(kept->destination, &p->destination, sizeof(kept->destination));
	__builtin_memcpy(kept->source, &p->source, sizeof(kept->source));
	kept->ifindex = from;
	kept->family = p->family;
	kept->tos = p->tos;
	kept->iid = iid;
	kept->entry = 0;
	kept->hop.expires_ns = 0;
}

/* The same for an entry of the Database whose addresses all have one next hop. */
static __always_inline void keep_for_entry(struct lisp_inner_hop *kept, __u32 entry, __u32 from,
					   __u32 iid)
{
	if (kept->entry == entry && kept->ifindex == from && kept->iid == iid)
		return;
	__builtin_memset(kept, 0, sizeof(*kept));
	kept->ifindex = from;
	kept->iid = iid;
	kept->entry = entry;
}

/* The place of the next hop of a packet; with an entry (0: none), that of all packets to it. A
 * program of its own to the verifier, which so looks at it once. */
__noinline int lisp_place_inner_hop(const struct lisp_packet *p, __u32 from, __u32 iid, __u32 entry)
{
	struct lisp_inner_hop *kept;
	__u32 place;

	if (!p)
		return 0;
	place = entry ? hash_step(entry, 0)
		      : hash_address(hash_address(p->tos, &p->source, p->family), &p->destination,
				     p->family);
	place &= LISP_INNER_HOPS - 1;
	kept = bpf_map_lookup_elem(&inner_hops, &place);
	if (kept && entry)
		keep_for_entry(kept, entry, from, iid);
	else if (kept)
		keep_for_pair(kept, p, from, iid);
	return place;
}

/* The index of an entry and 1 where packets to all addresses of its EID-Prefix take one way; 0
 * where they do not, or nobody follows the routes that this rests on. The route by one of several
 * interfaces with equal EIDs is another one than what user space judges. */
__noinline int lisp_entry_of_one_way(__u32 flags, __u32 index)
{
	const struct lisp_generations *g = find_generations();

	if (!(flags & LISP_MAPPING_ONE_WAY) || has_instances(find_settings()))
		return 0;
	return g && now_ns() < *(const volatile __u64 *)&g->watched_until_ns ? index + 1 : 0;
}

static STEP bool ask_inner_hop(hook_frame *frame, const struct etr *e, __u32 flags,
			       struct lisp_inner_hop *kept)
{
	struct bpf_fib_lookup f = {.ifindex = kept->ifindex};
	__u32 length = longest_segment(frame, &e->inner);
	bool used = kept->hop.expires_ns;
	const struct lisp_interface *to;
	long answer;

	kept->hop.expires_ns = 0;
	f.tot_len = length < MAX_IP_LENGTH ? length : MAX_IP_LENGTH;
	answer = find_route(frame, &f, &e->inner, flags);
	/* the TAP was deleted, and whoever makes another does not live */
	if (answer == -NO_SUCH_DEVICE) {
		f.ifindex = incoming_ifindex(frame);
		answer = find_route(frame, &f, &e->inner, flags);
	}
	if (answer != BPF_FIB_LKUP_RET_SUCCESS && answer != BPF_FIB_LKUP_RET_NO_NEIGH)
		return false;
	to = find_site(f.ifindex, e->iid);
	if (!to || !is_of_instance(to, e) || to->flags & LISP_INTERFACE_STACK)
		return false;
	/* The tag is ours to add, but for a neighbour that the kernel's device of the VLAN has yet
	 * to find. */
	if (to->parent && answer == BPF_FIB_LKUP_RET_SUCCESS)
		f.ifindex = to->parent;
	keep_hop(&kept->hop, &f, answer, used);
	if (f.ifindex == to->parent)
		kept->hop.vlan = to->vlan;
	return true;
}

/* The next hop of a decapsulated packet, whose TOS is already what it will be, within the site;
 * NULL when the stack has to decide: own addresses, too big for the site, routes that lead
 * elsewhere. */
static __always_inline struct lisp_next_hop *find_inner_hop(hook_frame *frame, const struct etr *e)
{
	const struct lisp_settings *s = find_settings();
	struct lisp_inner_hop *kept;
	__u32 place, flags, from = site_route_from(frame, e, &flags);

	place = lisp_place_inner_hop(&e->inner, from, e->iid,
				     lisp_entry_of_one_way(e->entry_flags, e->mapping_index));
	kept = bpf_map_lookup_elem(&inner_hops, &place);
	if (!kept)
		return NULL;
	if (now_ns() < kept->hop.expires_ns && longest_segment(frame, &e->inner) <= kept->hop.mtu &&
	    !routes_by_flow(s)) {
		kept->hop.flags &= ~LISP_NEXT_HOP_CONFIRM;
		step(LISP_STEP_ROUTE, BPF_FIB_LKUP_RET_SUCCESS, kept->hop.ifindex, 0);
		return &kept->hop;
	}
	return ask_inner_hop(frame, e, flags, kept) ? &kept->hop : NULL;
}

#endif

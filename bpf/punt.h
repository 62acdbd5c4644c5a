/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What happens to a packet that cannot go out at once (RFC 9300 s.4, s.7; RFC 9301 s.5.4): an event
 * for user space, at most one per interval and destination, and the packet itself to the TAP with
 * metadata (abi_events.h). Its checksum and segmentation stay as they are.
 */
#ifndef LISP_PUNT_H
#define LISP_PUNT_H

#include "backlog.h"
#include "events.h"
#include "layers.h"

/* ---- which packets find a place in the TAP's queue: a source that sends faster than user space
 * reads loses its own packets, not those of others ---- */

/* How many times what is left free ... */
#define NETWORK_SHARE 3
#define INTERFACE_SHARE 7

/* Packets that were counted and then lost, as while loci0 was down, are forgotten when the reader
 * looks: so often a packet wakes the reader although there seems to be no place. */
#define TRY_NS 100000000

static __always_inline bool is_refused(struct lisp_backlog *u)
{
	__u64 now = bpf_ktime_get_boot_ns();

	if ((__s64)(now - u->tried_ns) < TRY_NS)
		return true;
	if (!lisp_tracing)
		u->tried_ns = now;
	return false;
}

/* 0, and a packet of so many octets is counted; -1 when its source, network or interface has its
 * share. */
static __noinline int add_to_backlog(const struct lisp_context *c, __u32 octets)
{
	__s32 *of_interface, *of_network, *of_source, left,
		places = 1 + octets / LISP_BACKLOG_OCTETS;
	__u32 zero = 0, hash;
	struct lisp_backlog *u = bpf_map_lookup_elem(&backlog, &zero);

	if (!u || !u->limit)
		return 0;
	hash = hash_step(u->seed, c->origin);
	of_interface = share_at(u, hash);
	hash = hash_network(hash, &c->packet);
	of_network = share_at(u, hash);
	of_source = share_at(u, hash_source(hash, &c->packet));
	left = (__s32)u->limit - u->places;
	if ((left <= 0 || *of_source >= left || *of_network >= NETWORK_SHARE * left ||
	     *of_interface >= INTERFACE_SHARE * left) &&
	    is_refused(u))
		return -1;
	/* A packet that is traced goes nowhere. */
	if (lisp_tracing)
		return 0;
	__sync_fetch_and_add(&u->places, places);
	__sync_fetch_and_add(of_interface, places);
	__sync_fetch_and_add(of_network, places);
	__sync_fetch_and_add(of_source, places);
	return 0;
}

/* ---- the way to the TAP ---- */

static __always_inline bool is_present(struct __sk_buff *skb, __u32 ifindex)
{
	__u32 mtu = 0;

	return ifindex && bpf_check_mtu(skb, ifindex, &mtu, 0, 0) != -NO_SUCH_DEVICE;
}

/* The TAP's index; 0 while there is none. A TAP that was deleted leaves its index in the settings
 * until user space makes another; packets sent to it would be lost uncounted. */
static __noinline __u32 present_tap(struct __sk_buff *skb)
{
	const struct lisp_settings *s = find_settings();

	return s && is_present(skb, s->tap_ifindex) ? s->tap_ifindex : 0;
}

/* Writes an Ethernet header before the packet, making room for it on interfaces that have none. */
static __always_inline long set_ethernet(struct __sk_buff *skb, __u32 l2_length,
					 const struct ethhdr *header)
{
	if (l2_length == 0 && bpf_skb_change_head(skb, sizeof(*header), 0) < 0)
		return -1;
	return bpf_skb_store_bytes(skb, 0, header, sizeof(*header), 0);
}

/* So many octets of events for which the reader was not woken may lie in the ring buffer. */
#define SILENT_EVENTS_MAX 16384

/* The reader of the TAP tells of a packet as soon as it reads it: waking the reader of events for
 * the same packet costs more than all else here. The event remains for when the TAP overflows.
 * BPF_RB_FORCE_WAKEUP: with such events in the buffer the kernel would wake no reader. */
static __always_inline __u64 wake_up_for(struct __sk_buff *skb, bool waits)
{
	if (waits && present_tap(skb) &&
	    bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) < SILENT_EVENTS_MAX)
		return BPF_RB_NO_WAKEUP;
	return BPF_RB_FORCE_WAKEUP;
}

static __noinline int raise_miss(struct __sk_buff *skb, const struct lisp_packet *p, __u32 iid,
				 __u32 origin, bool waits)
{
	struct lisp_limit_key key = {.kind = LISP_EVENT_MISS, .iid = iid, .family = p->family};

	__builtin_memcpy(key.destination, &p->destination, sizeof(key.destination));
	return raise_miss_event(&key, origin, &p->source, wake_up_for(skb, waits));
}

/* Takes the VLAN tag off and corrects the packet's offsets. */
static __noinline long untag(struct __sk_buff *skb, struct lisp_context *c)
{
	__u32 removed = c->l2_length - ETH_HLEN;

	if (bpf_skb_vlan_pop(skb) < 0)
		return -1;
	c->packet.offset -= removed;
	c->packet.l4_offset -= removed;
	c->l2_length = ETH_HLEN;
	c->tagged = false;
	return 0;
}

/* Takes the outer headers off a packet that is to be relayed, and corrects its offsets. */
static __noinline long strip(struct __sk_buff *skb, struct lisp_context *c)
{
	struct ethhdr header = {.h_proto = ethertype_of(c->packet.family)};
	struct lisp_varying v;

	vary_from_context(&v, skb, c, 0);
	if (remove_outer(skb, &v) < 0 ||
	    write_inner(skb, &header, &v, c->l2_length ? ETH_HLEN : 0) < 0)
		return -1;
	c->packet.offset -= c->removed;
	c->packet.l4_offset -= c->removed;
	c->removed = 0;
	return 0;
}

/* Makes the packet a bare one behind the metadata, of which magic, reason and detail are there.
 * Where that fails, the reason to drop it, negative. */
static __always_inline int put_metadata(struct __sk_buff *skb, struct lisp_context *c,
					struct lisp_tap_header *h)
{
	if (c->tagged && untag(skb, c) < 0)
		return -LISP_DROP_NO_TAP;
	if (c->removed && strip(skb, c) < 0)
		return -LISP_DROP_DECAPSULATION_FAILED;
	h->what = c->what;
	h->protocol = ethertype_of(c->packet.family);
	h->iid[0] = c->iid >> 16;
	h->iid[1] = c->iid >> 8;
	h->iid[2] = c->iid;
	h->origin[0] = c->origin >> 24;
	h->origin[1] = c->origin >> 16;
	h->origin[2] = c->origin >> 8;
	h->origin[3] = c->origin;
	return set_ethernet(skb, c->l2_length, (struct ethhdr *)h) < 0 ? -LISP_DROP_NO_TAP : 0;
}

/* To the TAP; at the TAP's own egress, on to its reader. `detail` is what the reason tells. Where
 * that fails, the reason to drop the packet, negative. A global function: verified once. */
__noinline int lisp_put_at_tap(struct __sk_buff *skb, struct lisp_context *c, __u32 reason,
			       __u32 detail)
{
	struct lisp_tap_header h = {
		.detail = bpf_htons(detail),
		.magic = LISP_TAP_WAITING,
		.reason = reason,
	};
	__u32 tap = present_tap(skb);
	int failed;

	if (!c || !tap)
		return -LISP_DROP_NO_TAP;
	if (add_to_backlog(c, octets_from(skb, c->packet.offset)) < 0)
		return -LISP_DROP_BACKLOG_SOURCE_LIMIT;
	failed = put_metadata(skb, c, &h);
	if (failed)
		return failed;
	if (c->side == LISP_INTERFACE_TAP && !c->released)
		return TC_ACT_OK;
	return bpf_redirect(tap, 0);
}

/* mtu is 0 but for LISP_TAP_REASON_TOO_BIG. */
static __noinline int wait_at_tap(struct __sk_buff *skb, struct lisp_context *c, __u8 reason,
				  __u32 mtu)
{
	int verdict = lisp_put_at_tap(skb, c, reason, mtu);

	if (verdict < 0)
		return drop(skb, -verdict);
	step(LISP_STEP_WAIT, reason, mtu, 0);
	count(mtu ? LISP_COUNTER_TOO_BIG : LISP_COUNTER_WAITING, skb->len);
	return verdict;
}

/* ---- GSO packets that the kernel cannot cut once they are encapsulated: behind two layers, or
 * with an outer UDP checksum ---- */

/* To the device that cuts it, from which it returns to lisp_ingress in segments; without one, by
 * the TAP and user space. A global function: verified once. */
__noinline int lisp_cut(struct __sk_buff *skb, struct lisp_context *c)
{
	struct lisp_tap_header h = {.magic = LISP_TAP_SEGMENT, .reason = LISP_TAP_REASON_SEGMENT};
	const struct lisp_settings *s = find_settings();
	int failed;

	if (!c || !s)
		return TC_ACT_SHOT;
	if (c->segment) /* the device has left it whole */
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	if (skb->gso_size && !lisp_tracing) {
		count(LISP_COUNTER_SEGMENTED, skb->len);
		note_cutting();
	}
	step(LISP_STEP_WAIT, LISP_TAP_REASON_SEGMENT, 0, 0);
	failed = put_metadata(skb, c, &h);
	return failed ? drop(skb, -failed) : bpf_redirect(s->segmenter_ifindex, 0);
}

/* Whether a packet has to be cut, or must not overtake one that is. */
static __always_inline bool goes_in_segments(struct __sk_buff *skb, const struct lisp_context *c)
{
	if (skb->gso_size)
		return true;
	return !c->segment && (is_any_being_cut() || (!c->released && is_in_backlog(c)));
}

static __always_inline int send_in_segments(struct __sk_buff *skb, struct lisp_context *c)
{
	const struct lisp_settings *s = find_settings();

	if (s && is_present(skb, s->segmenter_ifindex) && (c->released || !is_in_backlog(c)))
		return lisp_cut(skb, c);
	if (skb->gso_size)
		count(LISP_COUNTER_SEGMENTED, skb->len);
	return wait_at_tap(skb, c, LISP_TAP_REASON_SEGMENT, 0);
}

static __noinline int note_answer(const struct lisp_packet *p, __u32 iid)
{
	struct lisp_limit_key key = {
		.kind = LISP_LIMIT_UNREACHABLE, .iid = iid, .family = p->family};
	__u64 now = bpf_ktime_get_boot_ns();

	bpf_map_update_elem(&limits, &key, &now, BPF_ANY);
	__builtin_memcpy(key.destination, &p->source, sizeof(key.destination));
	bpf_map_update_elem(&limits, &key, &now, BPF_ANY);
	return 0;
}

/* Drops a packet. Where its source is to be told with Destination Unreachable, what was counted as
 * dropped goes to the TAP for that. */
static __noinline int refuse(struct __sk_buff *skb, struct lisp_context *c, __u32 reason)
{
	int verdict = drop(skb, reason);

	count_refused(c, reason, octets_of(skb, &c->packet));
	if (!is_answer_due(&c->packet, c->iid))
		return verdict;
	note_answer(&c->packet, c->iid);
	verdict = lisp_put_at_tap(skb, c, LISP_TAP_REASON_UNREACHABLE, reason);
	return verdict < 0 ? TC_ACT_SHOT : verdict;
}

/* A packet of this host that has been at the TAP, or was routed into it, leaves by the main table:
 * rules would lead it here again. */
static __noinline int send_by_main_table(struct __sk_buff *skb, const struct lisp_context *c)
{
	struct ethhdr header = {.h_proto = ethertype_of(c->packet.family)};
	struct bpf_fib_lookup f = {.ifindex = LO_IFINDEX};
	long answer = find_route(skb, &f, &c->packet, BPF_FIB_LOOKUP_DIRECT);

	if (!is_way_out(&f, answer))
		return drop(skb, LISP_DROP_NO_NATIVE_ROUTE);
	if (answer == BPF_FIB_LKUP_RET_SUCCESS) {
		__builtin_memcpy(header.h_dest, f.dmac, ETH_ALEN);
		__builtin_memcpy(header.h_source, f.smac, ETH_ALEN);
	}
	if (set_ethernet(skb, c->l2_length, &header) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	if (answer == BPF_FIB_LKUP_RET_NO_NEIGH)
		return send_by_neighbour(f.ifindex, f.family, f.ipv6_dst, is_at_ingress(c));
	return bpf_redirect(f.ifindex, 0);
}

/* A packet that waited returns to where it came in, for the stack. */
static __always_inline int return_to_origin(struct __sk_buff *skb, const struct lisp_context *c)
{
	const struct lisp_interface *from = find_interface(c->origin, LISP_INTERFACE_SITE |
									      LISP_INTERFACE_CORE);
	struct ethhdr header = {.h_proto = ethertype_of(c->packet.family)};

	if (!from)
		return drop(skb, LISP_DROP_NO_NATIVE_ROUTE);
	__builtin_memcpy(header.h_dest, from->mac, ETH_ALEN);
	if (bpf_skb_store_bytes(skb, 0, &header, sizeof(header), 0) < 0)
		return drop(skb, LISP_DROP_NO_NATIVE_ROUTE);
	if (!from->parent)
		return bpf_redirect(c->origin, BPF_F_INGRESS);
	if (bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), from->vlan) < 0)
		return drop(skb, LISP_DROP_NO_NATIVE_ROUTE);
	return bpf_redirect(from->parent, BPF_F_INGRESS);
}

/* By loci0, where the reverse path filter accepts packets from remote EIDs; without a TAP the bare
 * packet goes on where it is, on the core interface. */
static __noinline int hand_to_stack(struct __sk_buff *skb, const struct lisp_varying *v)
{
	const struct lisp_settings *s = find_settings();
	struct ethhdr ethernet = {};
	__u32 tap = present_tap(skb);
	long failed = 0;

	if (!s || (!tap && s->tap_ifindex))
		return drop(skb, LISP_DROP_NO_TAP);
	step(LISP_STEP_STACK, 0, 0, 0);
	if (tap)
		__builtin_memcpy(ethernet.h_dest, s->tap_mac, ETH_ALEN);
	else if (v->l2_length)
		failed = bpf_skb_load_bytes(skb, 0, &ethernet, 2 * ETH_ALEN);
	if (tap && !v->l2_length)
		failed = bpf_skb_change_head(skb, ETH_HLEN, 0);
	ethernet.h_proto = ethertype_of(v->family);
	if (failed || write_inner(skb, &ethernet, v, tap || v->l2_length ? ETH_HLEN : 0) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	return tap ? bpf_redirect(tap, BPF_F_INGRESS) : TC_ACT_OK;
}

/* Takes the outer headers off a packet that is for this host, or that its stack has to answer or
 * route. */
static __noinline int end_at_stack(struct __sk_buff *skb, struct lisp_context *c)
{
	struct lisp_varying v;

	vary_from_context(&v, skb, c, 0);
	if (take_outer_off(skb, &v, c->outer.family) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	count(LISP_COUNTER_TO_STACK, skb->len);
	return hand_to_stack(skb, &v);
}

/* A decapsulated packet, which the stack forwards natively for a PETR. */
static __noinline int exit_natively(struct __sk_buff *skb, struct lisp_context *c)
{
	struct lisp_varying v;

	if (lisp_ask_policy(LISP_LIST_PETR, c->iid, &c->packet.source, c->packet.family) !=
	    LISP_LIST_PERMITS)
		return drop(skb, LISP_DROP_NOT_IN_POLICY);
	vary_from_context(&v, skb, c, 0);
	if (c->removed && take_outer_off(skb, &v, c->outer.family) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	count(LISP_COUNTER_NATIVE, v.length);
	count_negative(c, v.length);
	step(LISP_STEP_NATIVE, 0, 0, 0);
	return hand_to_stack(skb, &v);
}

/* Whether a packet that waited on its way out of the stack has to go through it again, because now
 * it is known that its source is to be translated. A source that was translated already is not
 * where the packet came in. */
static __noinline bool is_to_be_translated(struct __sk_buff *skb, const struct lisp_context *c)
{
	struct bpf_fib_lookup f = {.ifindex = LO_IFINDEX};
	long answer;

	if (c->side != LISP_INTERFACE_TAP || !has_setting(LISP_SETTING_MARK_NATIVE) ||
	    !find_interface(c->origin, LISP_INTERFACE_SITE))
		return false;
	f.family = c->packet.family == 4 ? AF_INET : AF_INET6;
	if (c->packet.family == 4)
		f.ipv4_dst = c->packet.source.words[0];
	else
		__builtin_memcpy(f.ipv6_dst, &c->packet.source, sizeof(f.ipv6_dst));
	answer = bpf_fib_lookup(skb, &f, sizeof(f), BPF_FIB_LOOKUP_DIRECT);
	return (answer == BPF_FIB_LKUP_RET_SUCCESS || answer == BPF_FIB_LKUP_RET_NO_NEIGH) &&
	       f.ifindex == c->origin;
}

/* Leaves the packet to the routes of this host. */
static __always_inline int forward_natively(struct __sk_buff *skb, struct lisp_context *c)
{
	if (c->what == LISP_DO_RELAY)
		return exit_natively(skb, c);
	if (c->released && (c->forwarded || is_to_be_translated(skb, c)))
		return return_to_origin(skb, c); /* and comes here again, and is counted then */
	count(LISP_COUNTER_NATIVE, octets_from(skb, c->packet.offset));
	count_negative(c, octets_of(skb, &c->packet));
	step(LISP_STEP_NATIVE, 0, 0, 0);
	if (c->released || c->side == LISP_INTERFACE_TAP)
		return send_by_main_table(skb, c);
	if (c->side == LISP_INTERFACE_SITE && has_setting(LISP_SETTING_MARK_NATIVE))
		skb->mark |= LISP_NATIVE_MARK;
	return TC_ACT_UNSPEC;
}

/* That of the Instance-ID, else that of all. */
static __always_inline __u32 miss_policy(__u32 iid)
{
	const struct lisp_settings *s = find_settings();
	const __u32 *own = bpf_map_lookup_elem(&miss_policies, &iid);

	if (own)
		return *own;
	return s ? s->miss_policy : LISP_MISS_QUEUE;
}

static __always_inline int miss(struct __sk_buff *skb, struct lisp_context *c)
{
	__u32 policy;

	if (is_own_rloc(c->packet.family, &c->packet.destination, 0))
		return forward_natively(skb, c);
	if (c->released)
		return drop(skb, LISP_DROP_RELEASED_WITHOUT_MAPPING);
	count(LISP_COUNTER_MISS, skb->len);
	policy = miss_policy(c->iid);
	raise_miss(skb, &c->packet, c->iid, c->origin,
		   policy != LISP_MISS_DROP && policy != LISP_MISS_FORWARD_NATIVELY);
	if (policy == LISP_MISS_DROP)
		return drop(skb, LISP_DROP_MISS);
	if (policy == LISP_MISS_FORWARD_NATIVELY)
		return forward_natively(skb, c);
	return wait_at_tap(skb, c, LISP_TAP_REASON_MISS, 0);
}

/* No mapping covers the RLOC of a packet, which may be an EID: what is done, by the policy of the
 * packet's own Instance-ID. ENCAPSULATE: it goes there as it is. */
static __noinline int miss_rloc(struct __sk_buff *skb, struct lisp_context *c)
{
	const struct lisp_context *second = find_second_layer();
	__u32 policy = miss_policy(c->iid);

	c->reason = LISP_DROP_RELEASED_WITHOUT_MAPPING;
	if (!second || c->resolved)
		return LISP_DO_DROP;
	count(LISP_COUNTER_MISS, skb->len);
	raise_miss(skb, &second->packet, 0, c->origin,
		   policy != LISP_MISS_DROP && policy != LISP_MISS_FORWARD_NATIVELY);
	c->reason = LISP_DROP_MISS;
	if (policy == LISP_MISS_DROP)
		return LISP_DO_DROP;
	if (policy == LISP_MISS_FORWARD_NATIVELY)
		return LISP_DO_ENCAPSULATE;
	c->reason = LISP_TAP_REASON_RLOC;
	return LISP_DO_WAIT;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Loci's data plane at the XDP hook (RFC 9300 s.4, s.5): four programs, in front of those of
 * lisp_tc.bpf.c, which must be attached as well. lisp_xdp is attached at both sides and asks the
 * flow cache; it gives the rest to lisp_xdp_core or lisp_xdp_site by a tail call, to lisp_xdp_sets
 * before while most packets miss the flow cache (locator_set_cache.h).
 *
 * The stages are those of tc (stages.h) up to stage 5. Frames leave to neighbours that the kernel
 * knows, by interfaces that take frames (LISP_INTERFACE_TAKES_FRAMES), or are dropped. All others
 * pass to tc, unchanged and not counted.
 */

//go:build ignore

#include "hook_xdp.h"

#include "apply_xdp.h"
#include "cached_path.h"
#include "events.h"
#include "stages.h"
#include "subflow.h"

char _license[] SEC("license") = "GPL";

const union lisp_abi *const lisp_abi_in_btf = 0;

/* ---- stage 6: the action is applied, or left to tc ---- */

/* What not every packet needs: below. */
static __noinline int send_by_two_layers(struct xdp_md *frame, struct lisp_context *c);

/* How many times a next hop is asked for anew before one packet goes by tc, which makes the kernel
 * confirm the neighbour. */
#define CONFIRM_AFTER 100

/* Whether frames can be redirected there. */
static __always_inline bool takes_frames(struct lisp_action_record *a)
{
	const __u8 needed = LISP_ACTION_RESOLVED | LISP_ACTION_TAKES_FRAMES;

	if ((a->flags & needed) != needed)
		return false;
	if (!(a->flags & LISP_ACTION_CONFIRM))
		return true;
	a->flags &= ~LISP_ACTION_CONFIRM;
	if (++a->asked < CONFIRM_AFTER)
		return true;
	a->asked = 0;
	a->expires_ns = 1; /* expired: tc asks, and sees that it was used before */
	return false;
}

/* Whether the outer UDP checksum can be computed here; user space has to cut and sum up the rest,
 * and what comes after it from the same source must not overtake it. */
static __noinline bool can_sum_up(struct xdp_md *frame, const struct lisp_context *c)
{
	return !is_in_backlog(c) && has_checksum(frame, &c->packet);
}

/* Stage 6 towards the core. */
static __noinline int send_to_core(struct xdp_md *frame, struct lisp_context *c)
{
	struct lisp_action_record *a = action_at(c->action);
	struct lisp_varying v;
	int verdict;

	if (!a || (a->flags & LISP_ACTION_CHECKSUM && !can_sum_up(frame, c)) || !takes_frames(a))
		return XDP_PASS;
	count_notes(c, frame_length(frame));
	vary_header(c, a);
	tell_subflow(frame, c);
	lisp_keep_flow(frame, c);
	vary_from_context(&v, frame, c, 1);
	verdict = lisp_encapsulate(frame, a, &v);
	if (verdict == XDP_REDIRECT) {
		count_mapping(c->mapping_index, v.length, now_ns());
		count_negative(c, v.length);
	}
	return verdict;
}

static __always_inline int apply_towards_core(struct xdp_md *frame, struct lisp_context *c,
					      int what)
{
	switch (what) {
	case LISP_DO_ENCAPSULATE:
		return send_to_core(frame, c);
	case LISP_DO_ENCAPSULATE_TWICE:
		return send_by_two_layers(frame, c);
	case LISP_DO_REFUSE:
		/* where its source has to be told, that is left to tc */
		if (is_answer_due(&c->packet, c->iid))
			return XDP_PASS;
		count_refused(c, c->reason, octets_of(frame, &c->packet));
		break;
	case LISP_DO_DROP:
		break;
	default:
		return XDP_PASS;
	}
	count_notes(c, frame_length(frame));
	return drop(frame, c->reason);
}

/* Stage 6 towards the site. */
static __noinline int send_to_site(struct xdp_md *frame, struct lisp_context *c)
{
	struct lisp_action_record *a = action_at(c->action);
	struct lisp_varying v;
	int verdict;

	if (!a || !takes_frames(a))
		return XDP_PASS;
	count_notes(c, frame_length(frame));
	tell_subflow(frame, c);
	lisp_keep_flow(frame, c);
	vary_from_context(&v, frame, c, 1);
	verdict = lisp_deliver(frame, a, &v, c->outer.family);
	if (verdict != XDP_REDIRECT)
		return verdict;
	count_mapping(c->mapping_index, v.length, now_ns());
	lisp_note_decapsulated(&c->outer.source, c->outer.family);
	return verdict;
}

static __always_inline int apply_from_core(struct xdp_md *frame, struct lisp_context *c, int what)
{
	if (what == LISP_DO_DELIVER)
		return send_to_site(frame, c);
	if (what != LISP_DO_DROP)
		return XDP_PASS;
	count_notes(c, frame_length(frame));
	return drop(frame, c->reason);
}

/* ---- what cannot be read here, or done here, goes to tc ---- */

static __always_inline bool can_reach_inner(struct xdp_md *frame, const struct lisp_packet *outer)
{
	(void)frame;
	return outer->l4_offset + sizeof(struct udp_lisp) <= DIRECT_OFFSET_MAX;
}

static __always_inline bool must_go_to_tc(struct xdp_md *frame, const struct lisp_context *c)
{
	if (c->interface_flags & LISP_INTERFACE_STACK)
		return true;
	/* The walk over extension headers may have ended at what cannot be read here. */
	if (c->what != LISP_DO_DELIVER && c->packet.l4_offset > DIRECT_OFFSET_MAX)
		return true;
	return c->interface_flags & LISP_INTERFACE_CHECKSUM_PARTIAL &&
	       is_checksum_partial(frame, &c->packet);
}

/* ---- stage 6 of a second layer ---- */

/* Stage 6 of a packet to an RLOC that is an EID. */
static __noinline int send_by_two_layers(struct xdp_md *frame, struct lisp_context *c)
{
	struct lisp_context *second = find_second_layer();
	struct lisp_action_record *first = action_at(c->action), *outer;
	struct lisp_varying v;
	__u32 octets;

	outer = second ? action_at(second->action) : NULL;
	if (!first || !outer || (first->flags | outer->flags) & LISP_ACTION_CHECKSUM ||
	    !takes_frames(outer))
		return XDP_PASS;
	count_notes(c, frame_length(frame));
	vary_header(c, first);
	vary_header(second, outer);
	tell_subflow(frame, c);
	vary_from_context(&v, frame, c, 1);
	octets = v.length;
	if (lisp_put_headers(frame, first, &v))
		return drop(frame, LISP_DROP_ENCAPSULATION_FAILED);
	vary_second(&v, second, first);
	if (lisp_put_headers(frame, outer, &v))
		return drop(frame, LISP_DROP_ENCAPSULATION_FAILED);
	count_two_layers(c, second, outer, octets);
	return send(outer);
}

/* ---- entry points ---- */

static __always_inline const struct lisp_interface *find_port(const struct xdp_md *frame)
{
	return find_interface(frame->ingress_ifindex,
			      LISP_INTERFACE_SITE | LISP_INTERFACE_CORE | LISP_INTERFACE_TAGGED);
}

/* The EtherType of a frame to the address of the interface; 0 of all others. */
static __always_inline __be16 read_ethertype(const struct xdp_md *frame,
					     const struct lisp_interface *at)
{
	const void *header = frame_data(frame);

	if (!at || header + ETH_HLEN > frame_end(frame) || OCTETS4(header) != OCTETS4(at->mac) ||
	    OCTETS2(header + 4) != OCTETS2(at->mac + 4))
		return 0;
	return OCTETS2(header + 12);
}

/* What from_core() answers when the packet is not LISP to us. */
#define NOT_LISP -1

static __always_inline int from_core(struct xdp_md *frame, const struct lisp_interface *at,
				     __u32 ethertype)
{
	struct lisp_context *c = new_context(at);

	if (!c)
		return XDP_PASS;
	c->l2_length = ETH_HLEN;
	if (parse_ip(frame, ETH_HLEN, ethertype, &c->outer) < 0)
		return XDP_PASS;
	if (c->outer.fragment || !is_lisp(frame, &c->outer))
		return NOT_LISP;
	return inbound(frame, c);
}

/* What came without LISP; from the core it is a PITR's. */
static __always_inline int from_outside(struct xdp_md *frame, const struct lisp_interface *at,
					__u32 ethertype, bool tagged)
{
	struct lisp_context *c = new_context(at);

	if (!c || at->flags & LISP_INTERFACE_STACK)
		return XDP_PASS;
	c->side = at->flags & LISP_INTERFACE_SITE;
	c->forwarded = true;
	c->tagged = tagged;
	c->l2_length = ETH_HLEN + (tagged ? sizeof(struct vlan_tag) : 0);
	if (parse_ip(frame, c->l2_length, ethertype, &c->packet) < 0)
		return XDP_PASS;
	return outbound(frame, c);
}

/* The site of a frame with a tag, and what follows it; NULL for none. tc counts those with two
 * tags. */
static __noinline const struct lisp_interface *find_tagged(struct xdp_md *frame, __be16 *ethertype)
{
	struct vlan_tag tag;
	__u32 index;

	if (read_octets(frame, ETH_HLEN, &tag, sizeof(tag)) < 0)
		return NULL;
	*ethertype = tag.ethertype;
	return find_vlan(frame->ingress_ifindex, bpf_ntohs(tag.tci) & VLAN_ID_MASK, &index);
}

/* Frames of a core interface without a tag. What is not LISP to us may be of a site that is reached
 * by the same interface. */
SEC("xdp")
int lisp_xdp_core(struct xdp_md *frame)
{
	const struct lisp_interface *at = find_port(frame);
	__be16 ethertype = read_ethertype(frame, at);
	int verdict = NOT_LISP;

	if (!ethertype)
		return XDP_PASS;
	if (is_ip(ethertype))
		verdict = from_core(frame, at, ethertype);
	if (verdict != NOT_LISP)
		return verdict;
	bpf_tail_call(frame, &xdp_programs, LISP_XDP_SITE);
	return XDP_PASS;
}

/* Frames of a site, which may be a VLAN, and frames of the core that are not LISP to us. */
SEC("xdp")
int lisp_xdp_site(struct xdp_md *frame)
{
	const struct lisp_interface *at = find_port(frame);
	__be16 ethertype = read_ethertype(frame, at);
	bool tagged = ethertype == bpf_htons(ETH_P_8021Q);

	if (!ethertype || (tagged && !(at->flags & LISP_INTERFACE_TAGGED)))
		return XDP_PASS;
	if (tagged)
		at = find_tagged(frame, &ethertype);
	if (!at || !is_ip(ethertype) ||
	    (!(at->flags & LISP_INTERFACE_SITE) && !has_policy(LISP_LIST_PITR)))
		return XDP_PASS;
	return from_outside(frame, at, ethertype, tagged);
}

/* To the program that has the stages of the interface's side; without it, to tc. */
static __always_inline int go_to_stages(struct xdp_md *frame, const struct lisp_interface *at)
{
	bpf_tail_call(frame, &xdp_programs,
		      at->flags & LISP_INTERFACE_CORE ? LISP_XDP_CORE : LISP_XDP_SITE);
	return XDP_PASS;
}

static __always_inline int forward_by_set(struct xdp_md *frame, struct lisp_clock *clock,
					  const struct lisp_interface *at, __u8 family)
{
	int verdict = NOT_CACHED;

	if (!at || at->flags & LISP_INTERFACE_STACK)
		return NOT_CACHED;
	if (at->flags & LISP_INTERFACE_CORE)
		verdict = deliver_cached(frame, clock, at, family);
	if (verdict == NOT_CACHED && at->flags & LISP_INTERFACE_SITE)
		verdict = encapsulate_cached(frame, clock, at, family);
	return verdict;
}

/* Frames of either side while most packets miss the flow cache. */
SEC("xdp")
int lisp_xdp_sets(struct xdp_md *frame)
{
	const struct lisp_interface *at = find_port(frame);
	__be16 ethertype = read_ethertype(frame, at);
	struct lisp_clock *clock = find_clock();
	int verdict = NOT_CACHED;

	if (!ethertype || !clock)
		return XDP_PASS;
	if (ethertype == bpf_htons(ETH_P_IP))
		verdict = forward_by_set(frame, clock, at, 4);
	else if (ethertype == bpf_htons(ETH_P_IPV6))
		verdict = forward_by_set(frame, clock, at, 6);
	return verdict != NOT_CACHED ? verdict : go_to_stages(frame, at);
}

/* By the flow cache. What is LISP by its port counts as from the core. */
static __always_inline int forward_by_flow(struct xdp_md *frame, struct lisp_clock *clock,
					   __u8 family)
{
	const void *at = frame_data(frame) + ETH_HLEN;
	const struct udphdr *u = at + header_octets(family);
	__u8 protocol;

	if ((void *)u + L4_OCTETS > frame_end(frame))
		return NOT_CACHED;
	protocol = family == 4 ? ((const struct iphdr *)at)->protocol
			       : ((const struct ipv6hdr *)at)->nexthdr;
	if (protocol != IPPROTO_UDP || u->dest != bpf_htons(LISP_DATA_PORT))
		return encapsulate_cached(frame, clock, NULL, family);
	return deliver_cached(frame, clock, NULL, family);
}

static __always_inline int forward_cached(struct xdp_md *frame, struct lisp_clock *clock)
{
	const void *header = frame_data(frame);
	__be16 ethertype;

	if (header + ETH_HLEN > frame_end(frame))
		return NOT_CACHED;
	ethertype = OCTETS2(header + 12);
	if (ethertype == bpf_htons(ETH_P_IP))
		return forward_by_flow(frame, clock, 4);
	return ethertype == bpf_htons(ETH_P_IPV6) ? forward_by_flow(frame, clock, 6) : NOT_CACHED;
}

/* All frames. */
SEC("xdp")
int lisp_xdp(struct xdp_md *frame)
{
	struct lisp_clock *clock = find_clock();
	const struct lisp_interface *at;
	int verdict = NOT_CACHED;

	if (!clock)
		return XDP_PASS;
	if (goes_by_set(clock))
		bpf_tail_call(frame, &xdp_programs, LISP_XDP_SETS);
	else
		verdict = forward_cached(frame, clock);
	if (verdict != NOT_CACHED)
		return verdict;
	at = find_port(frame);
	return at ? go_to_stages(frame, at) : XDP_PASS;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Loci's data plane at the XDP hook (RFC 9300 s.4, s.5): four programs, in front of those of
 * lisp_tc.bpf.c, which must be attached as well. lisp_xdp is attached at both sides and asks the
 * flow cache; what is left it gives to lisp_xdp_core or lisp_xdp_site by a tail call, while most
 * packets miss the flow cache to lisp_xdp_sets before (locator_set_cache.h).
 *
 * The stages are those of tc up to stage 5; a packet leaves here that can go out at once to a
 * neighbour that the kernel knows, and is dropped here if it has to be. Everything else passes,
 * unchanged and not counted, and the program at tc treats it as if these were not there: misses,
 * packets that have to wait, what is too big, what is for this host, expired TTL, unknown
 * neighbours, VLANs that are no sites, fragments of outer packets, other routes.
 *
 * Frames are redirected only to interfaces of which user space has said that they take them
 * (LISP_INTERFACE_TAKES_FRAMES).
 *
 * How tests run it: as it is said in lisp_tc.bpf.c, with struct xdp_md.ingress_ifindex in the
 * context.
 */

//go:build ignore

#include "hook_xdp.h"

#include "apply_xdp.h"
#include "locator_set_cache.h"
#include "look_up.h"
#include "unreachable.h"

char _license[] SEC("license") = "GPL";

const union lisp_abi *const lisp_abi_in_btf = 0;

/* ---- after the stages: what was decided is done, or left to tc ---- */

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
	a->expires_ns = 1; /* long over: tc asks, and sees that it was used before */
	return false;
}

/* Drops a packet, or leaves that to tc where its source has to be told. */
static __always_inline int refuse(struct xdp_md *frame, const struct lisp_context *c)
{
	return is_answer_due(&c->packet, c->iid) ? XDP_PASS : drop(frame, c->reason);
}

/* Stage 6 towards the core. */
static __noinline int send_to_core(struct xdp_md *frame, struct lisp_context *c)
{
	struct lisp_action_record *a = action_at(c->action);
	struct lisp_varying v = {.hash = c->hash,
				 .length = c->packet.length,
				 .tos = c->packet.tos,
				 .ttl = c->packet.ttl - 1,
				 .family = c->packet.family,
				 .tagged = c->tagged};
	int verdict;

	if (!a || !takes_frames(a))
		return XDP_PASS;
	vary_header(c, a);
	v.first = c->header_first;
	v.second = c->header_second;
	lisp_keep_flow(frame, c);
	verdict = lisp_encapsulate(frame, a, &v);
	if (has_left(verdict))
		count_mapping(c->mapping_index, c->packet.length);
	return verdict;
}

/* Stages 4 to 6 of an admitted packet from the site. */
static __always_inline int forward_to_core(struct xdp_md *frame, struct lisp_context *c)
{
	switch (decide_for_core(frame, c)) {
	case LISP_DO_ENCAPSULATE:
		return send_to_core(frame, c);
	case LISP_DO_REFUSE:
		return refuse(frame, c);
	case LISP_DO_DROP:
		return drop(frame, c->reason);
	}
	return XDP_PASS;
}

/* Stage 6 towards the site. */
static __noinline int send_to_site(struct xdp_md *frame, struct lisp_context *c)
{
	struct lisp_action_record *a = action_at(c->action);
	struct lisp_varying v = {.length = c->packet.length,
				 .removed = c->removed,
				 .tos = c->tos,
				 .ttl = c->ttl - 1,
				 .family = c->packet.family};
	int verdict;

	if (!a || !takes_frames(a))
		return XDP_PASS;
	count_notes(c, frame_length(frame));
	lisp_note_source(&c->outer.source, c->outer.family);
	lisp_keep_flow(frame, c);
	verdict = lisp_deliver(frame, a, &v, c->outer.family);
	if (has_left(verdict))
		count_mapping(c->mapping_index, c->packet.length);
	return verdict;
}

/* Stages 2 to 6 of a packet that is_lisp() has recognised. */
static __always_inline int forward_from_core(struct xdp_md *frame, struct lisp_context *c)
{
	int reason;

	/* The inner packet begins where it cannot be read here. */
	if (c->outer.l4_offset + sizeof(struct udp_lisp) > DIRECT_OFFSET_MAX)
		return XDP_PASS;
	reason = lisp_judge_from_core(frame, c);
	if (reason) {
		count_notes(c, frame_length(frame));
		return drop(frame, reason);
	}
	if (c->ttl <= 1 || c->interface_flags & LISP_INTERFACE_STACK)
		return XDP_PASS;
	if (c->interface_flags & LISP_INTERFACE_CHECKSUM_PARTIAL &&
	    is_checksum_partial(frame, &c->packet))
		return XDP_PASS;
	return lisp_select_delivery(frame, c) == LISP_DO_DELIVER ? send_to_site(frame, c)
								 : XDP_PASS;
}

/* ---- entry points ---- */

/* For this machine, as the kernel judges it: by the address. */
static __always_inline bool is_for_host(const struct ethhdr *header,
					const struct lisp_interface *at)
{
	return OCTETS4(header->h_dest) == OCTETS4(at->mac) &&
	       OCTETS2(header->h_dest + 4) == OCTETS2(at->mac + 4);
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
	return forward_from_core(frame, c);
}

static __always_inline int from_site(struct xdp_md *frame, const struct lisp_interface *at,
				     __u32 ethertype, bool tagged)
{
	struct lisp_context *c = new_context(at);

	if (!c || at->flags & LISP_INTERFACE_STACK)
		return XDP_PASS;
	c->side = LISP_INTERFACE_SITE;
	c->forwarded = true;
	c->tagged = tagged;
	c->l2_length = ETH_HLEN + (tagged ? sizeof(struct vlan_tag) : 0);
	if (parse_ip(frame, c->l2_length, ethertype, &c->packet) < 0 || c->packet.malformed)
		return XDP_PASS;
	c->since = begin_lookup(c->packet.family, &c->packet.destination);
	/* The walk over extension headers may have ended at what cannot be read here. */
	if (!admit_from_site(c) || c->packet.l4_offset > DIRECT_OFFSET_MAX)
		return XDP_PASS;
	if (at->flags & LISP_INTERFACE_CHECKSUM_PARTIAL && is_checksum_partial(frame, &c->packet))
		return XDP_PASS;
	return forward_to_core(frame, c);
}

static __always_inline bool is_ip(__be16 ethertype)
{
	return ethertype == bpf_htons(ETH_P_IP) || ethertype == bpf_htons(ETH_P_IPV6);
}

/* The site of a frame with a tag, NULL where it is of none; tc counts those with two tags. */
static __noinline const struct lisp_interface *find_tagged(struct xdp_md *frame)
{
	struct vlan_tag tag;

	if (read_octets(frame, ETH_HLEN, &tag, sizeof(tag)) < 0)
		return NULL;
	return find_vlan(frame->ingress_ifindex, bpf_ntohs(tag.tci) & VLAN_ID_MASK);
}

static __always_inline const struct lisp_interface *find_port(const struct xdp_md *frame)
{
	return find_interface(frame->ingress_ifindex,
			      LISP_INTERFACE_SITE | LISP_INTERFACE_CORE | LISP_INTERFACE_TAGGED);
}

/* Frames of a core interface without a tag. What is not LISP to us may be of a site that is reached
 * by the same interface. */
SEC("xdp")
int lisp_xdp_core(struct xdp_md *frame)
{
	const struct lisp_interface *at = find_port(frame);
	const struct ethhdr *header = frame_data(frame);
	int verdict = NOT_LISP;
	__be16 ethertype;

	if (!at || (void *)(header + 1) > frame_end(frame) || !is_for_host(header, at))
		return XDP_PASS;
	ethertype = OCTETS2((const void *)(header + 1) - sizeof(header->h_proto));
	if (is_ip(ethertype))
		verdict = from_core(frame, at, ethertype);
	if (verdict != NOT_LISP)
		return verdict;
	bpf_tail_call(frame, &xdp_programs, LISP_XDP_SITE);
	return XDP_PASS;
}

/* Frames of a site, which may be a VLAN. */
SEC("xdp")
int lisp_xdp_site(struct xdp_md *frame)
{
	const struct lisp_interface *at = find_port(frame);
	const struct ethhdr *header = frame_data(frame);
	const struct vlan_tag *tag = (const void *)(header + 1);
	bool tagged = false;
	__be16 ethertype;

	if (!at || (void *)(tag + 1) > frame_end(frame) || !is_for_host(header, at))
		return XDP_PASS;
	ethertype = OCTETS2((const void *)(header + 1) - sizeof(header->h_proto));
	if (at->flags & LISP_INTERFACE_TAGGED && ethertype == bpf_htons(ETH_P_8021Q)) {
		tagged = true;
		ethertype = tag->ethertype;
		at = find_tagged(frame);
	}
	if (!at || !(at->flags & LISP_INTERFACE_SITE) || !is_ip(ethertype))
		return XDP_PASS;
	return from_site(frame, at, ethertype, tagged);
}

/* Which program has the stages is the interface's affair; where they are not in their places, tc
 * decides. */
static __always_inline int go_to_stages(struct xdp_md *frame, const struct lisp_interface *at)
{
	bpf_tail_call(frame, &xdp_programs,
		      at->flags & LISP_INTERFACE_CORE ? LISP_XDP_CORE : LISP_XDP_SITE);
	return XDP_PASS;
}

static __always_inline int deliver_by_outer(struct xdp_md *frame, const struct lisp_interface *core,
					    __u8 outer_family)
{
	switch (inner_family(frame, outer_family)) {
	case 4:
		return deliver_by_entry(frame, core, outer_family, 4);
	case 6:
		return deliver_by_entry(frame, core, outer_family, 6);
	}
	return NOT_CACHED;
}

static __always_inline int forward_by_set(struct xdp_md *frame, const struct lisp_interface *at,
					  __u8 family)
{
	int verdict = NOT_CACHED;

	if (at->flags & LISP_INTERFACE_STACK)
		return NOT_CACHED;
	if (at->flags & LISP_INTERFACE_CORE)
		verdict = deliver_by_outer(frame, at, family);
	if (verdict == NOT_CACHED && at->flags & LISP_INTERFACE_SITE)
		verdict = encapsulate_by_set(frame, at, family);
	return verdict;
}

/* Frames of either side while most packets miss the flow cache. */
SEC("xdp")
int lisp_xdp_sets(struct xdp_md *frame)
{
	const struct lisp_interface *at = find_port(frame);
	const struct ethhdr *header = frame_data(frame);
	int verdict = NOT_CACHED;
	__be16 ethertype;

	if (!at || (void *)(header + 1) > frame_end(frame) || !is_for_host(header, at))
		return XDP_PASS;
	ethertype = OCTETS2((const void *)(header + 1) - sizeof(header->h_proto));
	if (ethertype == bpf_htons(ETH_P_IP))
		verdict = forward_by_set(frame, at, 4);
	else if (ethertype == bpf_htons(ETH_P_IPV6))
		verdict = forward_by_set(frame, at, 6);
	return verdict != NOT_CACHED ? verdict : go_to_stages(frame, at);
}

/* By the flow cache. What is LISP by its port is never from the site here, not even where it is. */
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
		return encapsulate_by_flow(frame, clock, family);
	return inner_family(frame, family) == 4 ? deliver_by_flow(frame, clock, family, 4)
						: deliver_by_flow(frame, clock, family, 6);
}

static __always_inline int forward_cached(struct xdp_md *frame, struct lisp_clock *clock)
{
	const struct ethhdr *header = frame_data(frame);
	__be16 ethertype;

	if ((void *)(header + 1) > frame_end(frame))
		return NOT_CACHED;
	ethertype = OCTETS2((const void *)(header + 1) - sizeof(header->h_proto));
	if (ethertype == bpf_htons(ETH_P_IP))
		return forward_by_flow(frame, clock, 4);
	return ethertype == bpf_htons(ETH_P_IPV6) ? forward_by_flow(frame, clock, 6) : NOT_CACHED;
}

/* All frames, before anybody else sees them. */
SEC("xdp")
int lisp_xdp(struct xdp_md *frame)
{
	struct lisp_clock *clock = find_clock();
	const struct lisp_interface *at;
	int verdict = NOT_CACHED;
	bool by_set;

	if (!clock)
		return XDP_PASS;
	by_set = goes_by_set(clock);
	if (!by_set)
		verdict = forward_cached(frame, clock);
	if (verdict != NOT_CACHED)
		return verdict;
	if (by_set)
		bpf_tail_call(frame, &xdp_programs, LISP_XDP_SETS);
	at = find_port(frame);
	return at ? go_to_stages(frame, at) : XDP_PASS;
}

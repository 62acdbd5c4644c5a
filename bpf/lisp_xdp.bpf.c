/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Loci's data plane at the XDP hook (RFC 9300 s.4, s.5): four programs, in front of those of
 * lisp_tc.bpf.c, which must be attached as well. lisp_xdp is attached at both sides and does what
 * was decided before (reuse.h); what is left it gives to lisp_xdp_core or lisp_xdp_site by a tail
 * call, while hardly any flow comes twice to lisp_xdp_scattered before (scattered.h). So none needs
 * calls or room on the stack for another, and the verifier looks at each alone.
 *
 * What itr.h and etr.h decide is the same; they take the packets that can go out at once to a
 * neighbour that the kernel knows, and drop what has to be dropped. Everything else they pass on,
 * unchanged and not counted, and the program at tc treats it as if they were not there: misses,
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

#include "frames.h"

char _license[] SEC("license") = "GPL";

const union lisp_abi *const lisp_abi_in_btf = 0;

/* For this machine, as the kernel judges it: by the address. */
static __always_inline bool is_for_host(const struct ethhdr *header,
					const struct lisp_interface *at)
{
	return OCTETS4(header->h_dest) == OCTETS4(at->mac) &&
	       OCTETS2(header->h_dest + 4) == OCTETS2(at->mac + 4);
}

/* What decide_for_core() answers when the packet is not LISP to us. */
#define NOT_LISP -1

/* Functions of their own, or their stacks would add up. */
static __noinline int decide_for_core(struct xdp_md *frame, const struct lisp_interface *at,
				      __u32 ethertype)
{
	struct etr *e = new_etr(at);

	if (!e || parse_ip(frame, ETH_HLEN, ethertype, &e->outer) < 0)
		return XDP_PASS;
	if (e->outer.fragment || !is_lisp(frame, &e->outer))
		return NOT_LISP;
	return decapsulate(frame, at, e);
}

static __noinline int decide_for_site(struct xdp_md *frame, const struct lisp_interface *at,
				      __u32 ethertype, bool tagged)
{
	return encapsulate(frame, at, ethertype, tagged);
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
		verdict = decide_for_core(frame, at, ethertype);
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
	return decide_for_site(frame, at, ethertype, tagged);
}

/* Which of the programs that decide anew does so is the interface's affair; where they are not in
 * their places, tc decides. */
static __always_inline int leave_to_deciders(struct xdp_md *frame, const struct lisp_interface *at)
{
	bpf_tail_call(frame, &xdp_programs,
		      at->flags & LISP_INTERFACE_CORE ? LISP_XDP_CORE : LISP_XDP_SITE);
	return XDP_PASS;
}

/* Frames of either side while hardly any would go by a decision that lisp_xdp keeps. */
SEC("xdp")
int lisp_xdp_scattered(struct xdp_md *frame)
{
	const struct lisp_interface *at = find_port(frame);
	const struct ethhdr *header = frame_data(frame);
	int verdict = NOT_KEPT;
	__be16 ethertype;

	if (!at || (void *)(header + 1) > frame_end(frame) || !is_for_host(header, at))
		return XDP_PASS;
	ethertype = OCTETS2((const void *)(header + 1) - sizeof(header->h_proto));
	if (ethertype == bpf_htons(ETH_P_IP))
		verdict = scatter(frame, at, 4);
	else if (ethertype == bpf_htons(ETH_P_IPV6))
		verdict = scatter(frame, at, 6);
	return verdict != NOT_KEPT ? verdict : leave_to_deciders(frame, at);
}

/* All frames, before anybody else sees them. */
SEC("xdp")
int lisp_xdp(struct xdp_md *frame)
{
	const struct lisp_interface *at;
	int verdict = reuse(frame);

	if (verdict != NOT_KEPT)
		return verdict;
	if (are_scattered())
		bpf_tail_call(frame, &xdp_programs, LISP_XDP_SCATTERED);
	at = find_port(frame);
	return at ? leave_to_deciders(frame, at) : XDP_PASS;
}

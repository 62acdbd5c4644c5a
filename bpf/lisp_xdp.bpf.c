/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Loci's data plane at the XDP hook (RFC 9300 s.4, s.5): one program for both sides, in front of those of lisp_tc.bpf.c,
 * which must be attached as well. What itr.h and etr.h decide is the same; this program takes the packets that can go out at
 * once to a neighbour that the kernel knows, and drops what has to be dropped. Everything else it passes on, unchanged and
 * not counted, and the program at tc treats it as if this one were not there: misses, packets that have to wait, what is too
 * big, what is for this host, expired TTL, unknown neighbours, VLANs that are no sites, fragments of outer packets, other routes.
 *
 * Frames are redirected only to interfaces of which user space has said that they take them (LISP_INTERFACE_TAKES_FRAMES).
 *
 * How tests run it: as it is said in lisp_tc.bpf.c, with struct xdp_md.ingress_ifindex in the context.
 */

//go:build ignore

#include "hook_xdp.h"

#include "frames.h"

char _license[] SEC("license") = "GPL";

const union lisp_abi *const lisp_abi_in_btf = 0;

/* For this machine, as the kernel judges it: by the address. */
static __always_inline bool is_for_host(const struct ethhdr *header, const struct lisp_interface *at)
{
	return __builtin_memcmp(header->h_dest, at->mac, ETH_ALEN) == 0;
}

/* The site of a frame with a tag, NULL where it is of none; tc counts those with two tags. */
static __always_inline const struct lisp_interface *find_tagged(struct xdp_md *frame, __be16 *ethertype)
{
	struct vlan_tag tag;

	if (read_octets(frame, ETH_HLEN, &tag, sizeof(tag)) < 0)
		return NULL;
	*ethertype = tag.ethertype;
	return find_vlan(frame->ingress_ifindex, bpf_ntohs(tag.tci) & VLAN_ID_MASK);
}

SEC("xdp")
int lisp_xdp(struct xdp_md *frame)
{
	const __u32 kinds = LISP_INTERFACE_SITE | LISP_INTERFACE_CORE | LISP_INTERFACE_TAGGED;
	const struct lisp_interface *at = find_interface(frame->ingress_ifindex, kinds);
	struct ethhdr header;
	bool tagged = false;
	__be16 ethertype;

	if (!at || read_octets(frame, 0, &header, sizeof(header)) < 0 || !is_for_host(&header, at))
		return XDP_PASS;
	ethertype = header.h_proto;
	if (at->flags & LISP_INTERFACE_TAGGED && ethertype == bpf_htons(ETH_P_8021Q)) {
		tagged = true;
		at = find_tagged(frame, &ethertype);
		if (!at)
			return XDP_PASS;
	}
	if (ethertype != bpf_htons(ETH_P_IP) && ethertype != bpf_htons(ETH_P_IPV6))
		return XDP_PASS;
	if (at->flags & LISP_INTERFACE_CORE) {
		struct etr e = { .core = at };

		if (parse_ip(frame, ETH_HLEN, ethertype, &e.outer) < 0)
			return XDP_PASS;
		if (!e.outer.fragment && is_lisp(frame, &e.outer))
			return decapsulate(frame, &e);
	}
	if (at->flags & LISP_INTERFACE_SITE)
		return encapsulate(frame, at, ethertype, tagged);
	return XDP_PASS;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 6 at XDP: the one encapsulator and the one decapsulator of frames (RFC 9300 s.5.1-5.3). A
 * frame comes here when it is certain to leave or to be dropped.
 */
#ifndef LISP_APPLY_XDP_H
#define LISP_APPLY_XDP_H

#include "apply.h"
#include "vlans.h"

/* The place of an interface in devices, LISP_DEVICE_NONE where it has none. */
static __always_inline __u32 place_device(__u32 ifindex)
{
	__u32 place = ifindex % LISP_DEVICES;
	const __u32 *device = bpf_map_lookup_elem(&devices, &place);

	return device && *device == ifindex ? place : LISP_DEVICE_NONE;
}

/* By the interface's place where it has one: then the kernel need not search. */
static __always_inline int send(struct lisp_action_record *a)
{
	int verdict;

	if (a->device == LISP_DEVICE_UNKNOWN)
		a->device = place_device(a->ifindex);
	verdict = bpf_redirect_map(&devices, a->device, 0);
	return verdict == XDP_REDIRECT ? verdict : bpf_redirect(a->ifindex, 0);
}

/* Makes a packet one hop older; the IPv4 checksum follows by increments (RFC 1624). */
static __always_inline void age(void *at, __u8 family, __u8 ttl)
{
	__u32 checksum;

	if (family == 6) {
		((struct ipv6hdr *)at)->hop_limit = ttl;
		return;
	}
	((struct iphdr *)at)->ttl = ttl;
	checksum = ((struct iphdr *)at)->check + bpf_htons(0x0100);
	((struct iphdr *)at)->check = checksum + (checksum >= 0xFFFF);
}

/* Takes off what follows the packet, such as the padding of short Ethernet frames. */
static __always_inline long trim(struct xdp_md *frame, __u32 length)
{
	__u32 octets = frame_length(frame);

	return octets <= length ? 0 : bpf_xdp_adjust_tail(frame, -(int)(octets - length));
}

static __always_inline long encapsulate(struct xdp_md *frame, const struct lisp_action_record *a,
					const struct lisp_varying *v)
{
	__u32 tag = v->tagged ? sizeof(struct vlan_tag) : 0;
	void *at = frame_data(frame) + ETH_HLEN + tag;

	if (at + sizeof(union lisp_head) > frame_end(frame))
		return -1;
	age(at, v->family, v->ttl);
	if (trim(frame, ETH_HLEN + tag + v->length) < 0)
		return -1;
	if (bpf_xdp_adjust_head(frame, (int)tag - (int)outer_length(a->outer_family)) < 0)
		return -1;
	return a->outer_family == 4 ? write_headers_ipv4(frame, a, v)
				    : write_headers_ipv6(frame, a, v);
}

/* Puts the headers of an action before a packet and sends it. */
static __always_inline int apply_encapsulation(struct xdp_md *frame, struct lisp_action_record *a,
					       const struct lisp_varying *v)
{
	if (encapsulate(frame, a, v) < 0)
		return drop(frame, LISP_DROP_ENCAPSULATION_FAILED);
	count_encapsulated(a->outer_family, v->length);
	return send(a);
}

/* The same as a global function: verified once. */
__noinline int lisp_encapsulate(struct xdp_md *frame, struct lisp_action_record *a,
				const struct lisp_varying *v)
{
	return a && v ? apply_encapsulation(frame, a, v) : XDP_PASS;
}

/* Writes the VLAN tag behind the addresses. */
static __always_inline void write_tag(void *to, const struct lisp_action_record *a)
{
	struct vlan_tag *tag = to + ETH_HLEN;

	tag->ethertype = OCTETS2(to + 12);
	tag->tci = bpf_htons(a->vlan);
	OCTETS2(to + 12) = bpf_htons(ETH_P_8021Q);
}

static __always_inline long take_outer_off(struct xdp_md *frame, const struct lisp_action_record *a,
					   const struct lisp_varying *v)
{
	__u32 tag = a->vlan ? sizeof(struct vlan_tag) : 0;
	void *to;

	if (trim(frame, ETH_HLEN + v->removed + v->length) < 0)
		return -1;
	if (bpf_xdp_adjust_head(frame, (int)v->removed - (int)tag) < 0)
		return -1;
	to = frame_data(frame);
	if (to + ETH_HLEN + tag + sizeof(union lisp_head) > frame_end(frame))
		return -1;
	write_ethernet(to, a->header);
	if (tag)
		write_tag(to, a);
	change_head(to + ETH_HLEN + tag, v->tos, v->ttl);
	return 0;
}

/* Takes the outer headers off a packet and sends it to its receiver; `outer_family` is theirs. */
static __always_inline int apply_delivery(struct xdp_md *frame, struct lisp_action_record *a,
					  const struct lisp_varying *v, __u32 outer_family)
{
	if (take_outer_off(frame, a, v) < 0)
		return drop(frame, LISP_DROP_DECAPSULATION_FAILED);
	count_decapsulated(outer_family, v->length);
	return send(a);
}

/* The same as a global function: verified once. */
__noinline int lisp_deliver(struct xdp_md *frame, struct lisp_action_record *a,
			    const struct lisp_varying *v, __u32 outer_family)
{
	return a && v ? apply_delivery(frame, a, v, outer_family) : XDP_PASS;
}

/* What the verdict is of a packet that has left. */
static __always_inline bool has_left(int verdict) { return verdict == XDP_REDIRECT; }

#endif

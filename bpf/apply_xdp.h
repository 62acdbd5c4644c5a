/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 6 at XDP: the one encapsulator and the one decapsulator of frames (RFC 9300 s.5.1-5.3). A
 * frame comes here when it is certain to leave or to be dropped.
 */
#ifndef LISP_APPLY_XDP_H
#define LISP_APPLY_XDP_H

#include "apply.h"
#include "outer_checksum.h"
#include "vlans.h"

/* The place of an interface in devices, LISP_DEVICE_NONE where it has none. */
static __always_inline __u32 place_device(__u32 ifindex)
{
	__u32 place = ifindex % LISP_DEVICES;
	const __u32 *device = bpf_map_lookup_elem(&devices, &place);

	return device && *device == ifindex ? place : LISP_DEVICE_NONE;
}

static __always_inline int send(struct lisp_action_record *a)
{
	int verdict;

	if (a->device == LISP_DEVICE_UNKNOWN)
		a->device = place_device(a->ifindex);
	verdict = bpf_redirect_map(&devices, a->device, 0);
	return verdict == XDP_REDIRECT ? verdict : bpf_redirect(a->ifindex, 0);
}

/* Takes off what follows the packet, such as the padding of short Ethernet frames. */
static __always_inline long trim(struct xdp_md *frame, __u32 length)
{
	__u32 octets = frame_length(frame);

	return octets <= length ? 0 : bpf_xdp_adjust_tail(frame, -(int)(octets - length));
}

static __always_inline long put_headers(struct xdp_md *frame, const struct lisp_action_record *a,
					const struct lisp_varying *v)
{
	__u32 before = v->l2_length + v->removed;
	void *at = frame_data(frame) + before;
	int room = before - ETH_HLEN - outer_length(a->outer_family);

	if (before > DIRECT_OFFSET_MAX || at + sizeof(union lisp_head) > frame_end(frame))
		return -1;
	change_head(at, v->tos, v->ttl);
	if (trim(frame, before + v->length) < 0 || (room && bpf_xdp_adjust_head(frame, room) < 0))
		return -1;
	if (a->outer_family == 4 ? write_headers_ipv4(frame, a, v)
				 : write_headers_ipv6(frame, a, v))
		return -1;
	return a->flags & LISP_ACTION_CHECKSUM ? lisp_put_checksum(frame, v, a->outer_family) : 0;
}

static __always_inline int apply_encapsulation(struct xdp_md *frame, struct lisp_action_record *a,
					       const struct lisp_varying *v)
{
	if (put_headers(frame, a, v) < 0)
		return drop(frame, LISP_DROP_ENCAPSULATION_FAILED);
	count_encapsulated(a->what, a->outer_family, v->length);
	return send(a);
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

	if (trim(frame, ETH_HLEN + v->removed + v->length) < 0 ||
	    bpf_xdp_adjust_head(frame, (int)v->removed - (int)tag) < 0)
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

static __always_inline int apply_delivery(struct xdp_md *frame, struct lisp_action_record *a,
					  const struct lisp_varying *v, __u32 outer_family)
{
	if (take_outer_off(frame, a, v) < 0)
		return drop(frame, LISP_DROP_DECAPSULATION_FAILED);
	count_decapsulated(outer_family, v->length);
	return send(a);
}

#endif

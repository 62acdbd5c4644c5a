/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Encapsulation and decapsulation of XDP frames (RFC 9300 s.5.1-5.3), as itr.h and etr.h decide. A frame is changed, and
 * anything counted, only when it is certain to leave or to be dropped; until then XDP_PASS gives it to tc as it came.
 */
#ifndef LISP_FRAMES_H
#define LISP_FRAMES_H

#include "etr.h"
#include "unfinished.h"

/* The interface that the kernel named takes frames, and leads where they shall go. */
static __always_inline bool takes_frames(__u32 ifindex, __u32 flags)
{
	const struct lisp_interface *to = find_interface(ifindex, LISP_INTERFACE_TAKES_FRAMES);

	if (flags & LISP_INTERFACE_SITE && to && to->flags & LISP_INTERFACE_STACK)
		return false;
	return to && (to->flags & flags) == flags;
}

/* Takes off what follows the packet, such as the padding of short Ethernet frames. */
static __always_inline long trim(struct xdp_md *frame, const struct lisp_packet *p)
{
	__u32 octets = octets_from(frame, p->offset);

	return octets <= p->length ? 0 : bpf_xdp_adjust_tail(frame, -(int)(octets - p->length));
}

/* Writes TOS and TTL over those of `p`; the IPv4 checksum follows by increments, so that a wrong one stays wrong. */
static __always_inline void write_tos_ttl_ipv4(struct iphdr *ip, const struct lisp_packet *p, __u8 tos, __u8 ttl)
{
	__u16 checksum = p->checksum;

	if (tos != p->tos) {
		checksum = update_checksum(checksum, bpf_htons(p->tos), bpf_htons(tos));
		ip->tos = tos;
	}
	ip->check = update_checksum(checksum, bpf_htons(p->ttl << 8), bpf_htons(ttl << 8));
	ip->ttl = ttl;
}

static __always_inline void write_tos_ttl_ipv6(struct ipv6hdr *ip, const struct lisp_packet *p, __u8 tos, __u8 ttl)
{
	if (tos != p->tos) {
		ip->priority = tos >> 4;
		ip->flow_lbl[0] = tos << 4 | (ip->flow_lbl[0] & 0x0F);
	}
	ip->hop_limit = ttl;
}

/* The same for either family, with the packet at `at`. -1 when it is not within the frame, which cannot be. */
static __always_inline long write_tos_ttl(struct xdp_md *frame, void *at, const struct lisp_packet *p, __u8 tos, __u8 ttl)
{
	const void *end = (const void *)(long)frame->data_end;

	if (p->family == 4) {
		if (at + sizeof(struct iphdr) > end)
			return -1;
		write_tos_ttl_ipv4(at, p, tos, ttl);
		return 0;
	}
	if (at + sizeof(struct ipv6hdr) > end)
		return -1;
	write_tos_ttl_ipv6(at, p, tos, ttl);
	return 0;
}

static __always_inline void fill_ethernet(struct ethhdr *h, const struct bpf_fib_lookup *f, __u8 family)
{
	__builtin_memcpy(h->h_dest, f->dmac, ETH_ALEN);
	__builtin_memcpy(h->h_source, f->smac, ETH_ALEN);
	h->h_proto = ethertype_of(family);
}

/* Puts the outer headers before the packet and makes it one hop older. */
static __always_inline long add_outer_ipv4(struct xdp_md *frame, const struct lisp_locator *l, struct itr *t,
					   const struct bpf_fib_lookup *f)
{
	__u8 ttl = t->packet.ttl - 1;
	struct outer_ipv4 *outer;
	struct ethhdr *header;

	if (bpf_xdp_adjust_head(frame, -(int)sizeof(*outer)) < 0)
		return -1;
	header = (void *)(long)frame->data;
	outer = (void *)(header + 1);
	if ((void *)(outer + 1) > (void *)(long)frame->data_end)
		return -1;
	if (write_tos_ttl(frame, outer + 1, &t->packet, t->packet.tos, ttl) < 0)
		return -1;
	t->packet.ttl = ttl;
	fill_ethernet(header, f, 4);
	fill_outer_ipv4(outer, l, t, t->packet.length + sizeof(*outer));
	return 0;
}

static __always_inline long add_outer_ipv6(struct xdp_md *frame, const struct lisp_locator *l, struct itr *t,
					   const struct bpf_fib_lookup *f)
{
	__u8 ttl = t->packet.ttl - 1;
	struct outer_ipv6 *outer;
	struct ethhdr *header;

	if (bpf_xdp_adjust_head(frame, -(int)sizeof(*outer)) < 0)
		return -1;
	header = (void *)(long)frame->data;
	outer = (void *)(header + 1);
	if ((void *)(outer + 1) > (void *)(long)frame->data_end)
		return -1;
	if (write_tos_ttl(frame, outer + 1, &t->packet, t->packet.tos, ttl) < 0)
		return -1;
	t->packet.ttl = ttl;
	fill_ethernet(header, f, 6);
	fill_outer_ipv6(outer, l, t, t->packet.length + sizeof(*outer));
	return 0;
}

/* Sends the packet of `t` to its locator by flow, or passes it. */
static __always_inline int send_to_locator(struct xdp_md *frame, struct itr *t)
{
	struct bpf_fib_lookup f = {};
	const struct lisp_locator *l;
	long failed;

	t->hash = flow_hash(frame, &t->packet);
	l = select_locator(t);
	if (!l)
		return drop(frame, LISP_DROP_NO_LOCATOR);
	if (find_outer_route(frame, &f, l, t) != BPF_FIB_LKUP_RET_SUCCESS || !takes_frames(f.ifindex, 0))
		return XDP_PASS;
	failed = trim(frame, &t->packet);
	choose_header(t, l);
	if (!failed)
		failed = l->family == 4 ? add_outer_ipv4(frame, l, t, &f) : add_outer_ipv6(frame, l, t, &f);
	if (failed)
		return drop(frame, LISP_DROP_ENCAPSULATION_FAILED);
	count(l->family == 4 ? LISP_COUNTER_ENCAPSULATED_IPV4 : LISP_COUNTER_ENCAPSULATED_IPV6, t->packet.length);
	count_mapping(t->mapping_index, t->packet.length);
	return bpf_redirect(f.ifindex, 0);
}

/* What lisp_tc.bpf.c does in site_ingress() and itr(), as far as it is done here. */
static __always_inline int encapsulate(struct xdp_md *frame, const struct lisp_interface *site, __be16 ethertype)
{
	struct itr t = { .iid = site->iid, .forwarded = true };
	const struct lisp_mapping *m;

	if (site->flags & LISP_INTERFACE_STACK)
		return XDP_PASS;
	t.roots = find_roots(site->roots);
	if (parse_ip(frame, ETH_HLEN, ethertype, &t.packet) < 0 || t.packet.malformed)
		return XDP_PASS;
	if (!is_routable_unicast(&t.packet) || !comes_from_eid(&t) || is_within_site(&t) || t.packet.ttl <= 1)
		return XDP_PASS;
	if (site->flags & LISP_INTERFACE_UNFINISHED && is_unfinished(frame, &t.packet))
		return XDP_PASS;
	m = find_mapping(t.roots, LISP_ROOT_MAP_CACHE, t.packet.family, &t.packet.destination, &t.mapping_index);
	if (!m || m->flags & LISP_MAPPING_HOLD)
		return XDP_PASS;
	t.mapping_iid = m->iid;
	t.locator_set = m->locator_set;
	if (t.locator_set != LISP_NO_LOCATOR_SET)
		return send_to_locator(frame, &t);
	if (m->action == LISP_ACTION_SEND_MAP_REQUEST || m->action == LISP_ACTION_NATIVELY_FORWARD)
		return XDP_PASS;
	return drop_by_action(frame, m->action);
}

/* The route to the receiver, as forward_to_site() of decap.h looks it up. */
static __always_inline long find_site_route(struct xdp_md *frame, struct bpf_fib_lookup *f, const struct etr *e)
{
	const struct lisp_settings *s = find_settings();
	struct lisp_packet bare = e->inner;

	bare.tos = e->tos;
	f->ifindex = s && s->tap_ifindex ? s->tap_ifindex : frame->ingress_ifindex;
	f->tot_len = bare.length;
	return find_route(frame, f, &bare, 0);
}

/* Cuts the outer headers off and makes the packet one hop older. */
static __always_inline long remove_outer(struct xdp_md *frame, const struct etr *e, const struct bpf_fib_lookup *f)
{
	struct ethhdr *header;

	if (bpf_xdp_adjust_head(frame, e->removed) < 0)
		return -1;
	header = (void *)(long)frame->data;
	if ((void *)(header + 1) > (void *)(long)frame->data_end)
		return -1;
	fill_ethernet(header, f, e->inner.family);
	return write_tos_ttl(frame, header + 1, &e->inner, e->tos, e->ttl - 1);
}

/* Everything about a packet whose outer header is_lisp() has recognised. */
static __always_inline int decapsulate(struct xdp_md *frame, struct etr *e)
{
	__u32 octets = frame_length(frame);
	struct bpf_fib_lookup f = {};
	int reason = judge(frame, e);

	if (!reason && e->core->flags & LISP_INTERFACE_UNFINISHED && is_unfinished(frame, &e->inner))
		return XDP_PASS;
	if (!reason && (e->ttl <= 1 || e->core->flags & LISP_INTERFACE_STACK))
		return XDP_PASS;
	if (!reason && (find_site_route(frame, &f, e) != BPF_FIB_LKUP_RET_SUCCESS || !takes_frames(f.ifindex, LISP_INTERFACE_SITE)))
		return XDP_PASS;
	count_notes(e, octets);
	if (reason)
		return drop(frame, reason);
	if (trim(frame, &e->inner) < 0 || remove_outer(frame, e, &f) < 0)
		return drop(frame, LISP_DROP_DECAPSULATION_FAILED);
	count(e->outer.family == 4 ? LISP_COUNTER_DECAPSULATED_IPV4 : LISP_COUNTER_DECAPSULATED_IPV6, e->inner.length);
	count_mapping(e->mapping_index, e->inner.length);
	return bpf_redirect(f.ifindex, 0);
}

#endif

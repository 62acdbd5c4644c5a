/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Encapsulation and decapsulation of XDP frames (RFC 9300 s.5.1-5.3), as itr.h and etr.h decide. A
 * frame is changed, and anything counted, only when it is certain to leave or to be dropped; until
 * then XDP_PASS gives it to tc as it came.
 */
#ifndef LISP_FRAMES_H
#define LISP_FRAMES_H

#include "scattered.h"
#include "unreachable.h"

/* How many times a next hop is asked for anew before one packet goes by tc, which makes the kernel
 * confirm the neighbour. */
#define CONFIRM_AFTER 100

/* Whether frames can be redirected there. */
static __always_inline bool is_for_frames(struct lisp_next_hop *hop)
{
	const __u8 needed = LISP_NEXT_HOP_RESOLVED | LISP_NEXT_HOP_TAKES_FRAMES;

	if ((hop->flags & needed) != needed)
		return false;
	if (!(hop->flags & LISP_NEXT_HOP_CONFIRM))
		return true;
	if (++hop->asked < CONFIRM_AFTER)
		return true;
	hop->asked = 0;
	hop->expires_ns = 1; /* long over: tc asks, and sees that it was used before */
	return false;
}

/* Takes off what follows the packet, such as the padding of short Ethernet frames. */
static __always_inline long trim(struct xdp_md *frame, const struct lisp_packet *p)
{
	__u32 octets = octets_from(frame, p->offset);

	return octets <= p->length ? 0 : bpf_xdp_adjust_tail(frame, -(int)(octets - p->length));
}

/* Gives the packet behind a link layer header another TOS and TTL. -1 when it is not within the
 * frame, which cannot be. */
static __always_inline long write_head(struct xdp_md *frame, union lisp_head *head, __u8 tos,
				       __u8 ttl)
{
	if ((void *)(head + 1) > frame_end(frame))
		return -1;
	change_head(head, tos, ttl);
	return 0;
}

static __always_inline void write_ethernet(struct ethhdr *h, const struct lisp_next_hop *hop,
					   __u8 family)
{
	__builtin_memcpy(h, hop->macs, sizeof(hop->macs));
	h->h_proto = ethertype_of(family);
}

/* How many octets of a VLAN tag stand before the packet, which the core has no use for. */
static __always_inline __u32 tag_octets(const struct itr *t)
{
	return t->tagged ? sizeof(struct vlan_tag) : 0;
}

/* Puts the outer headers before the packet and makes it one hop older. */
static __always_inline long add_outer_ipv4(struct xdp_md *frame, const struct lisp_locator *l,
					   struct itr *t, const struct lisp_next_hop *hop)
{
	struct outer_ipv4 *outer;
	struct ethhdr *header;

	if (bpf_xdp_adjust_head(frame, (int)tag_octets(t) - (int)sizeof(*outer)) < 0)
		return -1;
	header = frame_data(frame);
	outer = (void *)(header + 1);
	if ((void *)(outer + 1) > frame_end(frame))
		return -1;
	if (write_head(frame, (union lisp_head *)(outer + 1), t->packet.tos, t->packet.ttl) < 0)
		return -1;
	write_ethernet(header, hop, 4);
	fill_outer_ipv4(outer, l, t, t->packet.length + sizeof(*outer));
	return 0;
}

static __always_inline long add_outer_ipv6(struct xdp_md *frame, const struct lisp_locator *l,
					   struct itr *t, const struct lisp_next_hop *hop)
{
	struct outer_ipv6 *outer;
	struct ethhdr *header;

	if (bpf_xdp_adjust_head(frame, (int)tag_octets(t) - (int)sizeof(*outer)) < 0)
		return -1;
	header = frame_data(frame);
	outer = (void *)(header + 1);
	if ((void *)(outer + 1) > frame_end(frame))
		return -1;
	if (write_head(frame, (union lisp_head *)(outer + 1), t->packet.tos, t->packet.ttl) < 0)
		return -1;
	write_ethernet(header, hop, 6);
	fill_outer_ipv6(outer, l, t, t->packet.length + sizeof(*outer));
	return 0;
}

/* Drops a packet, or leaves that to tc where its source has to be told. */
static __always_inline int refuse(struct xdp_md *frame, const struct itr *t, __u32 reason)
{
	return is_answer_due(&t->packet, t->iid) ? XDP_PASS : drop(frame, reason);
}

/* Sends the packet of `t` to its locator by flow, or passes it. What was decided is kept last: each
 * way through that is a way through all that comes behind it to the verifier, and Linux 6.1 has not
 * enough of them. */
static __always_inline int send_to_locator(struct xdp_md *frame, const struct lisp_interface *site,
					   struct itr *t)
{
	const struct lisp_locator *l;
	struct lisp_next_hop *hop;
	__u32 mtu;
	long failed;

	t->hash = flow_hash(frame, &t->packet);
	l = select_locator(t);
	if (!l)
		return refuse(frame, t, LISP_DROP_NO_LOCATOR);
	if (t->listed) {
		failed = judge_rlocs(l);
		if (failed)
			return drop(frame, failed);
	}
	if (find_outer_hop(frame, t, l, &hop, &mtu) != BPF_FIB_LKUP_RET_SUCCESS ||
	    !is_for_frames(hop))
		return XDP_PASS;
	choose_header(t, l);
	t->packet.ttl--;
	failed = trim(frame, &t->packet);
	if (!failed)
		failed = l->family == 4 ? add_outer_ipv4(frame, l, t, hop)
					: add_outer_ipv6(frame, l, t, hop);
	if (failed)
		return drop(frame, LISP_DROP_ENCAPSULATION_FAILED);
	count(l->family == 4 ? LISP_COUNTER_ENCAPSULATED_IPV4 : LISP_COUNTER_ENCAPSULATED_IPV6,
	      t->packet.length);
	count_mapping(t->mapping_index, t->packet.length);
	keep_device(share_encapsulation(frame, t, l, hop));
	keep_interface(keep_encapsulation(frame, t, l, hop), site);
	return bpf_redirect(hop->ifindex, 0);
}

/* What lisp_tc.bpf.c does in site_ingress() and itr(), as far as it is done here. */
static __always_inline int encapsulate(struct xdp_md *frame, const struct lisp_interface *site,
				       __be16 ethertype, bool tagged)
{
	struct itr *t = new_itr();
	const struct lisp_mapping *m;
	int reason;

	if (!t || site->flags & LISP_INTERFACE_STACK)
		return XDP_PASS;
	t->iid = site->iid;
	t->forwarded = true;
	t->tagged = tagged;
	t->roots = site->roots;
	if (parse_ip(frame, ETH_HLEN + tag_octets(t), ethertype, &t->packet) < 0 ||
	    t->packet.malformed)
		return XDP_PASS;
	t->since = begin_decision(t->packet.family, &t->packet.destination);
	if (!is_routable_unicast(&t->packet.destination, t->packet.family) || !comes_from_eid(t) ||
	    is_within_site(t) || t->packet.ttl <= 1)
		return XDP_PASS;
	/* The walk over extension headers may have ended at what cannot be read here. */
	if (t->packet.l4_offset > DIRECT_OFFSET_MAX)
		return XDP_PASS;
	if (site->flags & LISP_INTERFACE_UNFINISHED && is_unfinished(frame, &t->packet))
		return XDP_PASS;
	t->listed = has_lists();
	if (t->listed) {
		reason = judge_eids(t);
		if (reason)
			return drop(frame, reason);
	}
	m = find_mapping(find_roots(t->roots), LISP_ROOT_MAP_CACHE, t->packet.family,
			 &t->packet.destination, &t->mapping_index);
	if (!m || m->flags & LISP_MAPPING_HOLD)
		return XDP_PASS;
	t->mapping_iid = m->iid;
	t->locator_set = m->locator_set;
	if (t->locator_set != LISP_NO_LOCATOR_SET)
		return send_to_locator(frame, site, t);
	if (m->action == LISP_ACTION_SEND_MAP_REQUEST || m->action == LISP_ACTION_NATIVELY_FORWARD)
		return XDP_PASS;
	return refuse(frame, t, reason_of_action(m->action));
}

struct tagged_ethernet {
	struct ethhdr ethernet;
	struct vlan_tag tag;
};

_Static_assert(sizeof(struct tagged_ethernet) == ETH_HLEN + sizeof(struct vlan_tag),
	       "headers are stored as they lie in memory");

/* The same with a VLAN tag in front of the packet. */
static __noinline long remove_outer_tagged(struct xdp_md *frame, const struct etr *e,
					   const struct lisp_next_hop *hop)
{
	struct tagged_ethernet *header;

	if (bpf_xdp_adjust_head(frame, (int)e->removed - (int)sizeof(header->tag)) < 0)
		return -1;
	header = frame_data(frame);
	if ((void *)(header + 1) > frame_end(frame))
		return -1;
	__builtin_memcpy(&header->ethernet, hop->macs, sizeof(hop->macs));
	header->ethernet.h_proto = bpf_htons(ETH_P_8021Q);
	header->tag.tci = bpf_htons(hop->vlan);
	header->tag.ethertype = ethertype_of(e->inner.family);
	return write_head(frame, (union lisp_head *)(header + 1), e->tos, e->ttl - 1);
}

/* Cuts the outer headers off and makes the packet one hop older. */
static __always_inline long remove_outer(struct xdp_md *frame, const struct etr *e,
					 const struct lisp_next_hop *hop)
{
	struct ethhdr *header;

	if (hop->vlan)
		return remove_outer_tagged(frame, e, hop);
	if (bpf_xdp_adjust_head(frame, e->removed) < 0)
		return -1;
	header = frame_data(frame);
	if ((void *)(header + 1) > frame_end(frame))
		return -1;
	write_ethernet(header, hop, e->inner.family);
	return write_head(frame, (union lisp_head *)(header + 1), e->tos, e->ttl - 1);
}

/* The packet, which is to be forwarded, to its receiver, or passed. */
static __always_inline int send_to_site(struct xdp_md *frame, const struct lisp_interface *core,
					struct etr *e)
{
	__u32 octets = frame_length(frame);
	struct lisp_next_hop *hop;

	/* The route is that of the packet as it will be. */
	e->inner.tos = e->tos;
	hop = find_inner_hop(frame, e);
	if (!hop || !is_for_frames(hop))
		return XDP_PASS;
	count_notes(e, octets);
	if (trim(frame, &e->inner) < 0 || remove_outer(frame, e, hop) < 0)
		return drop(frame, LISP_DROP_DECAPSULATION_FAILED);
	count(e->outer.family == 4 ? LISP_COUNTER_DECAPSULATED_IPV4
				   : LISP_COUNTER_DECAPSULATED_IPV6,
	      e->inner.length);
	count_mapping(e->mapping_index, e->inner.length);
	lisp_note_source(&e->outer.source, e->outer.family);
	keep_device(share_decapsulation(frame, e, hop));
	keep_interface(keep_decapsulation(frame, e, hop), core);
	return bpf_redirect(hop->ifindex, 0);
}

/* Everything about a packet whose outer header is_lisp() has recognised. */
static __always_inline int decapsulate(struct xdp_md *frame, const struct lisp_interface *core,
				       struct etr *e)
{
	int reason;

	/* The inner packet begins where it cannot be read here. */
	if (e->outer.l4_offset + sizeof(struct udp_lisp) > DIRECT_OFFSET_MAX)
		return XDP_PASS;
	/* Of a Database every change is one of all decisions: whose destination it is does not
	 * matter. */
	e->since = begin_decision(e->outer.family, &e->outer.destination);
	reason = judge(frame, e);
	if (reason) {
		count_notes(e, frame_length(frame));
		return drop(frame, reason);
	}
	if (e->ttl <= 1 || e->interface_flags & LISP_INTERFACE_STACK)
		return XDP_PASS;
	if (e->interface_flags & LISP_INTERFACE_UNFINISHED && is_unfinished(frame, &e->inner))
		return XDP_PASS;
	return send_to_site(frame, core, e);
}

#endif

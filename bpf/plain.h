/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Plain packets, which the caches are for: TCP or UDP right behind an IP header without options,
 * behind an Ethernet header without tag; and LISP packets of such with no flags but N and I. All
 * others go through all stages, and with LISP_SETTING_SUBFLOWS TCP packets with SYN, FIN or RST.
 */
#ifndef LISP_PLAIN_H
#define LISP_PLAIN_H

#include "apply.h"
#include "checksum_partial.h"
#include "decapsulate.h"

/* What is read here of an IP header and the header behind it. Of IPv4 addresses only the first word
 * counts. */
struct plain_packet {
	__u32 length;  /* as the IP header says */
	__u32 longest; /* of its segments */
	__u8 tos;
	__u8 ttl;
	__u8 protocol;
	__u8 family;
	__be32 ports;
	__be16 checksum;     /* of TCP or UDP */
	__u32 mapping_index; /* at which it is counted */
	union lisp_address source;
	union lisp_address destination;
};

#define L4_OCTETS 18 /* up to the checksum of TCP */

/* As longest_segment(). */
static __always_inline __u32 longest_plain(const hook_frame *frame, const void *at,
					   const struct plain_packet *p)
{
	__u32 l4_length = sizeof(struct udphdr);

	if (!segment_length(frame))
		return p->length;
	if (p->protocol == IPPROTO_TCP)
		l4_length = *((const __u8 *)at + header_octets(p->family) + 12) >> 4 << 2;
	return header_octets(p->family) + l4_length + segment_length(frame);
}

/* Reads the IP header at `at`; false where it is not plain. */
static __always_inline bool read_plain_ip(const void *at, __u8 family, struct plain_packet *p)
{
	const struct ipv6hdr *h6 = at;
	const struct iphdr *h4 = at;

	p->family = family;
	if (family == 4) {
		if (*(const __u8 *)at != 0x45 || h4->frag_off & bpf_htons(IPV4_MF_OR_OFFSET))
			return false;
		p->length = bpf_ntohs(h4->tot_len);
		p->tos = h4->tos;
		p->ttl = h4->ttl;
		p->protocol = h4->protocol;
		p->source.words[0] = h4->saddr;
		p->destination.words[0] = h4->daddr;
		return true;
	}
	p->length = bpf_ntohs(h6->payload_len) + sizeof(*h6);
	p->tos = bpf_ntohs(OCTETS2(at)) >> 4;
	p->ttl = h6->hop_limit;
	p->protocol = h6->nexthdr;
	p->source.pairs[0] = OCTETS8(&h6->saddr);
	p->source.pairs[1] = OCTETS8((const void *)&h6->saddr + 8);
	p->destination.pairs[0] = OCTETS8(&h6->daddr);
	p->destination.pairs[1] = OCTETS8((const void *)&h6->daddr + 8);
	return *(const __u8 *)at >> 4 == 6;
}

/* Whether a packet begins or ends a TCP connection that may be bound to a path: subflow.h. */
static __always_inline bool begins_or_ends(const void *l4, __u8 protocol)
{
	return protocol == IPPROTO_TCP &&
	       *((const __u8 *)l4 + TCP_FLAGS_OFFSET) & TCP_BEGINS_OR_ENDS &&
	       has_setting(LISP_SETTING_SUBFLOWS);
}

/* Reads the packet at `at`, of which L4_OCTETS behind the IP header can be read; false where it is
 * not plain. */
static __always_inline bool read_plain(const hook_frame *frame, const void *at, __u8 family,
				       struct plain_packet *p)
{
	const void *l4 = at + header_octets(family);

	if (!read_plain_ip(at, family, p) ||
	    (p->protocol != IPPROTO_UDP && p->protocol != IPPROTO_TCP))
		return false;
	p->longest = longest_plain(frame, at, p);
	if (begins_or_ends(l4, p->protocol))
		return false;
	p->ports = OCTETS4(l4);
	p->checksum = p->protocol == IPPROTO_TCP ? OCTETS2(l4 + TCP_CHECKSUM_OFFSET)
						 : OCTETS2(l4 + UDP_CHECKSUM_OFFSET);
	return p->ttl > 1 && p->length >= header_octets(family) + sizeof(struct udphdr);
}

static __always_inline __be16 destination_port(const struct plain_packet *p)
{
	return p->ports >> 16;
}

/* Whether a packet that came in by an interface of the core may be LISP to us. */
static __always_inline bool may_be_lisp(const struct plain_packet *p)
{
	return p->protocol == IPPROTO_UDP && (destination_port(p) == bpf_htons(LISP_DATA_PORT) ||
					      has_setting(LISP_SETTING_OTHER_PORTS));
}

/* Octets of the frame from `at` on; a GSO packet has more than the linear part. */
static __always_inline __u32 octets_at(const hook_frame *frame, const void *at)
{
	return frame_length(frame) - (__u32)(at - frame_data(frame));
}

/* As is_checksum_partial(), of a packet whose addresses are summed up. A tunnel shares its
 * flow-cache entry with all other packets between two addresses. */
static __always_inline bool is_plain_partial(const struct plain_packet *p, __u32 sum)
{
	if (p->protocol == IPPROTO_UDP && is_tunnel_port(destination_port(p)))
		return true;
	return p->checksum ==
	       sum_pseudo_header(sum, p->length - header_octets(p->family), p->protocol);
}

/* Reads a plain packet from the core, inner packet included; `tos` and `ttl` of *p are what the
 * inner packet gets (RFC 9300 s.5.3). */
static __always_inline bool read_plain_from_core(const hook_frame *frame, __u8 outer_family,
						 __u8 family, struct plain_packet *p, __u32 *iid)
{
	const void *outer = frame_data(frame) + ETH_HLEN, *end = frame_end(frame);
	const struct udp_lisp *u = outer + header_octets(outer_family);
	const void *at = outer + outer_length(outer_family);
	struct plain_packet o = {};
	__u32 payload, flags;

	if (at + header_octets(family) + L4_OCTETS > end)
		return false;
	flags = u->lisp.flags_nonce;
	payload = bpf_ntohs(u->udp.len) - sizeof(*u);
	if (u->udp.dest != bpf_htons(LISP_DATA_PORT) ||
	    flags & bpf_htonl(~((LISP_FLAG_N | LISP_FLAG_I) << 24 | NONCE_MASK)) ||
	    !read_plain_ip(outer, outer_family, &o) || o.protocol != IPPROTO_UDP)
		return false;
	if (o.length > octets_at(frame, outer) || bpf_ntohs(u->udp.len) < sizeof(*u) ||
	    payload + outer_length(outer_family) > o.length)
		return false;
	if (!read_plain(frame, at, family, p) || !is_own_rloc(outer_family, &o.destination, 0))
		return false;
	/* Where the markings differ, RFC 6040 may have more to say; a GSO packet whose lengths
	 * differ may be several of LISP. */
	if (o.ttl <= 1 || p->length > payload || (o.tos ^ p->tos) & ECN_MASK ||
	    (segment_length(frame) && p->length != payload))
		return false;
	*iid = flags & bpf_htonl(LISP_FLAG_I << 24) ? bpf_ntohl(u->lisp.iid_lsb) >> 8 : 0;
	p->tos = o.tos;
	p->ttl = o.ttl < p->ttl ? o.ttl : p->ttl;
	return true;
}

/* A nonce that asks for no echo. RFC 9300 s.5.1 wants it random, but no receiver looks at it: it is
 * not worth a call. */
static __always_inline __u32 next_nonce(struct lisp_clock *c)
{
	c->nonces = c->nonces * 0x5851F42D4C957F2DULL + 0x14057B7EF767814FULL;
	return c->nonces >> 40;
}

/* What a plain packet has of its own, beside its hash; so many octets of outer headers come off. */
static __always_inline void vary_plain(struct lisp_varying *v, const struct plain_packet *p,
				       __u32 removed, const struct lisp_action_record *a,
				       struct lisp_clock *clock)
{
	v->first = a->varies & LISP_VARIES_NONCE ? next_nonce(clock) : 0;
	v->second = 0;
	v->length = p->length;
	v->removed = removed;
	v->tos = p->tos;
	v->ttl = p->ttl - 1;
	v->family = p->family;
	v->protocol = p->protocol;
	v->l2_length = ETH_HLEN;
	v->at_ingress = true;
}

#endif

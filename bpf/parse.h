/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Reading IP headers out of a frame and hashing flows (RFC 9300 s.5.3, s.12; the hash is defined in
 * abi.h). Values are as the headers say, unchecked. Nothing here changes a packet.
 */
#ifndef LISP_PARSE_H
#define LISP_PARSE_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

#define IPV4_DF 0x4000
#define IPV4_MF_OR_OFFSET 0x3FFF
/* TCP: the octet of flags, and those with which a connection begins or ends: FIN, SYN, RST. */
#define TCP_FLAGS_OFFSET 13
#define TCP_FLAG_SYN 0x02
#define TCP_BEGINS_OR_ENDS 0x07

#define NEXTHDR_HOP 0
#define NEXTHDR_ROUTING 43
#define NEXTHDR_FRAGMENT 44
#define NEXTHDR_ICMPV6 58
#define NEXTHDR_DESTINATION 60

union lisp_address {
	__u8 octets[16];
	__be32 words[4];
	__u64 pairs[2];
};

/* An IP packet within a frame. */
struct lisp_packet {
	__u32 offset;    /* of the IP header in the frame */
	__u32 l4_offset; /* of what `protocol` names */
	__u32 length;    /* as the IP header says, its own octets included */
	__u8 family;     /* 4 or 6 */
	__u8 protocol;
	__u8 tos; /* or traffic class: DSCP and ECN */
	__u8 ttl; /* or hop limit */
	bool fragment;
	bool malformed; /* lengths contradict each other */
	union lisp_address source;
	union lisp_address destination;
};

static __always_inline bool is_ip(__be16 ethertype)
{
	return ethertype == bpf_htons(ETH_P_IP) || ethertype == bpf_htons(ETH_P_IPV6);
}

/* Octets of the frame from `offset` on. */
static __always_inline __u32 octets_from(const hook_frame *frame, __u32 offset)
{
	return frame_length(frame) > offset ? frame_length(frame) - offset : 0;
}

/* Reads octets of the packet, not of the padding behind it; a GSO packet has none, and may be too
 * long for its length field. */
static __always_inline long load_from(hook_frame *frame, const struct lisp_packet *p, __u32 offset,
				      void *to, __u32 length)
{
	__u32 end = segment_length(frame) ? frame_length(frame) : p->offset + p->length;

	if (offset + length > end)
		return -1;
	return read_octets(frame, offset, to, length);
}

static __always_inline int parse_ipv4(hook_frame *frame, struct lisp_packet *p)
{
	struct iphdr h;

	if (read_octets(frame, p->offset, &h, sizeof(h)) < 0)
		return -1;
	p->family = 4;
	p->length = bpf_ntohs(h.tot_len);
	p->l4_offset = p->offset + h.ihl * 4;
	p->protocol = h.protocol;
	p->tos = h.tos;
	p->ttl = h.ttl;
	p->fragment = h.frag_off & bpf_htons(IPV4_MF_OR_OFFSET);
	p->source.words[0] = h.saddr;
	p->destination.words[0] = h.daddr;
	p->malformed = h.ihl < 5 || p->length < (__u32)h.ihl * 4;
	return 0;
}

/* Walks over extension headers as abi.h says under "Flow hash". */
static __always_inline void walk_ipv6_extensions(hook_frame *frame, struct lisp_packet *p)
{
	__u8 head[2];

#pragma clang loop unroll(disable)
	for (int i = 0; i < LISP_EXTENSION_HEADERS_MAX; i++) {
		if (p->protocol == NEXTHDR_FRAGMENT) {
			if (load_from(frame, p, p->l4_offset, head, sizeof(head)) < 0)
				return;
			p->fragment = true;
			p->protocol = head[0];
			p->l4_offset += 8;
			return;
		}
		if (p->protocol != NEXTHDR_HOP && p->protocol != NEXTHDR_ROUTING &&
		    p->protocol != NEXTHDR_DESTINATION)
			return;
		if (load_from(frame, p, p->l4_offset, head, sizeof(head)) < 0)
			return;
		p->protocol = head[0];
		p->l4_offset += (head[1] + 1) * 8;
	}
}

static __always_inline int parse_ipv6(hook_frame *frame, struct lisp_packet *p)
{
	struct ipv6hdr h;

	if (read_octets(frame, p->offset, &h, sizeof(h)) < 0)
		return -1;
	p->family = 6;
	p->length = bpf_ntohs(h.payload_len) + sizeof(h);
	p->l4_offset = p->offset + sizeof(h);
	p->protocol = h.nexthdr;
	p->tos = h.priority << 4 | h.flow_lbl[0] >> 4;
	p->ttl = h.hop_limit;
	__builtin_memcpy(&p->source, &h.saddr, sizeof(p->source));
	__builtin_memcpy(&p->destination, &h.daddr, sizeof(p->destination));
	walk_ipv6_extensions(frame, p);
	return 0;
}

/* Reads the IP header at `offset`, whose version must agree with the EtherType unless that is 0.
 * Returns -1 when there is no whole IPv4 or IPv6 header. A global function: verified once. */
__noinline int parse_ip(hook_frame *frame, __u32 offset, __u32 ethertype, struct lisp_packet *p)
{
	int failed = -1;
	__u8 first;

	if (!p)
		return -1;
	__builtin_memset(p, 0, sizeof(*p));
	p->offset = offset;
	if (read_octets(frame, offset, &first, sizeof(first)) < 0)
		return -1;
	if (first >> 4 == 4 && (!ethertype || ethertype == bpf_htons(ETH_P_IP)))
		failed = parse_ipv4(frame, p);
	else if (first >> 4 == 6 && (!ethertype || ethertype == bpf_htons(ETH_P_IPV6)))
		failed = parse_ipv6(frame, p);
	/* A GSO packet may be longer than its length field, not shorter. */
	if (p->length > octets_from(frame, offset))
		p->malformed = true;
	return failed;
}

static __always_inline bool is_same_address(const __u8 *a, const union lisp_address *b)
{
	return *(const __u64 *)a == b->pairs[0] && *(const __u64 *)(a + 8) == b->pairs[1];
}

/* Whether LISP may carry packets to this address, or from it: unicast, and not link-local. */
static __always_inline bool is_routable_unicast(const union lisp_address *address, __u8 family)
{
	const __u8 *a = address->octets;

	if (family == 4)
		return a[0] < 224 && a[0] != 127 && a[0] != 0 && !(a[0] == 169 && a[1] == 254);
	if (a[0] == 0xFF || (a[0] == 0xFE && (a[1] & 0xC0) == 0x80))
		return false;
	/* :: and ::1 */
	return address->words[0] || address->words[1] || address->words[2] ||
	       bpf_ntohl(address->words[3]) > 1;
}

/* Octets of the packet in the frame, without the padding behind it. */
static __always_inline __u32 octets_of(const hook_frame *frame, const struct lisp_packet *p)
{
	__u32 octets = octets_from(frame, p->offset);

	return segment_length(frame) || octets <= p->length ? octets : p->length;
}

/* Length of the longest packet that reaches the wire: of a GSO packet, its longest segment. */
static __always_inline __u32 longest_segment(hook_frame *frame, const struct lisp_packet *p)
{
	__u32 l4_length = sizeof(struct udphdr);
	__u8 data_offset;

	if (!segment_length(frame))
		return octets_of(frame, p);
	if (p->protocol == IPPROTO_TCP &&
	    read_octets(frame, p->l4_offset + 12, &data_offset, 1) == 0)
		l4_length = (data_offset >> 4) * 4;
	return p->l4_offset - p->offset + l4_length + segment_length(frame);
}

static __always_inline __u32 hash_step(__u32 h, __u32 word)
{
	h ^= word;
	h *= 0x9E3779B1U;
	return h ^ h >> 15;
}

#define HASH_BEGIN 0x4C495350U

static __always_inline __u32 hash_address(__u32 h, const union lisp_address *a, __u8 family)
{
	h = hash_step(h, bpf_ntohl(a->words[0]));
	if (family == 4)
		return h;
	h = hash_step(h, bpf_ntohl(a->words[1]));
	h = hash_step(h, bpf_ntohl(a->words[2]));
	return hash_step(h, bpf_ntohl(a->words[3]));
}

/* The flow hash of abi.h, as far as the addresses go ... */
static __always_inline __u32 hash_addresses(const union lisp_address *source,
					    const union lisp_address *destination, __u8 family)
{
	return hash_address(hash_address(HASH_BEGIN, source, family), destination, family);
}

/* ... and to its end. */
static __always_inline __u32 finish_hash(__u32 h, __be32 ports, __u8 protocol)
{
	h = hash_step(h, bpf_ntohl(ports));
	h = hash_step(h, protocol);
	h ^= h >> 16;
	h *= 0x85EBCA6BU;
	h ^= h >> 13;
	h *= 0xC2B2AE35U;
	return h ^ h >> 16;
}

/* The ports that are part of a packet's flow; 0 where it has none. */
static __always_inline __be32 flow_ports(hook_frame *frame, const struct lisp_packet *p)
{
	bool has_ports = p->protocol == IPPROTO_TCP || p->protocol == IPPROTO_UDP ||
			 p->protocol == IPPROTO_SCTP;
	__be32 ports = 0;

	if (has_ports && !p->fragment &&
	    load_from(frame, p, p->l4_offset, &ports, sizeof(ports)) < 0)
		ports = 0;
	return ports;
}

/* Whether a packet is TCP with SYN. */
static __always_inline bool has_syn(hook_frame *frame, const struct lisp_packet *p)
{
	__u8 flags;

	return p->protocol == IPPROTO_TCP && !p->fragment &&
	       load_from(frame, p, p->l4_offset + TCP_FLAGS_OFFSET, &flags, 1) == 0 &&
	       flags & TCP_FLAG_SYN;
}

static __always_inline __u32 flow_hash(const struct lisp_packet *p, __be32 ports)
{
	return finish_hash(hash_addresses(&p->source, &p->destination, p->family), ports,
			   p->protocol);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The headers that LISP puts before a packet (RFC 9300 s.5, RFC 9305 s.3), and the fields that
 * follow from a flow's hash (RFC 9300 s.12, RFC 6438).
 */
#ifndef LISP_HEADER_H
#define LISP_HEADER_H

#include "parse.h"

#define LISP_FLAG_N 0x80
#define LISP_FLAG_L 0x40
#define LISP_FLAG_E 0x20
#define LISP_FLAG_V 0x10
#define LISP_FLAG_I 0x08
#define LISP_FLAG_R 0x04
#define LISP_FLAG_P LISP_FLAG_R /* RFC 9305 s.3 */
#define LISP_FLAGS_KK 0x03
#define VXLAN_GPE_VERSION 0x30
#define VXLAN_GPE_OAM 0x01

/* RFC 9305 s.3.1. */
#define NEXT_PROTOCOL_IPV4 1
#define NEXT_PROTOCOL_IPV6 2

#define NONCE_MASK 0xFFFFFFU
#define VERSION_MASK 0xFFFU

/* Kept for control messages in data packets (draft-ermagan-lisp-nat-traversal s.4.4). */
#define LISP_CONTROL_IID 0xFFFFFFU

struct lisp_header {
	__be32 flags_nonce;
	__be32 iid_lsb;
};

struct udp_lisp {
	struct udphdr udp;
	struct lisp_header lisp;
};

/* The octets at an address, whatever its alignment. */
#define OCTETS2(at) (*(__u16 *)(at))
#define OCTETS4(at) (*(__u32 *)(at))
#define OCTETS8(at) (*(__u64 *)(at))

static __always_inline __u32 header_octets(__u8 family)
{
	return family == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
}

/* Octets of all outer headers behind Ethernet's. */
static __always_inline __u32 outer_length(__u8 family)
{
	return header_octets(family) + sizeof(struct udp_lisp);
}

static __always_inline __be16 ethertype_of(__u8 family)
{
	return family == 4 ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
}

/* The sum of header words, for checksums. */
typedef __u32 __attribute__((may_alias)) header_word;

static __always_inline __u64 sum_words(const void *at, __u32 octets)
{
	const header_word *words = at;
	__u64 sum = 0;

	for (__u32 i = 0; i < octets / sizeof(*words); i++)
		sum += words[i];
	return sum;
}

/* The bits of a flow's hash above those of its source port tell its bucket. */
#define LISP_BUCKET_SHIFT 14
#define SOURCE_PORT_MASK 0x3FFF

#define SOURCE_PORT_FIRST 0xC000

static __always_inline __u16 source_port_of(__u32 hash)
{
	return SOURCE_PORT_FIRST | (hash & SOURCE_PORT_MASK);
}

/* RFC 6438: the flow label tells flows apart where routers do not look at ports. */
static __always_inline __u32 flow_label_of(__u32 hash) { return hash >> 12; }

/* Of keys of the caches: products are added up, because they do not wait for each other. */
static __always_inline __u64 mix(__u64 a, __u64 b, __u64 c)
{
	return a * 0x9E3779B97F4A7C15ULL + b * 0xC2B2AE3D27D4EB4FULL + c * 0xD6E8FEB86659FD93ULL;
}

static __always_inline __u64 mix_more(__u64 a, __u64 b, __u64 c, __u64 d)
{
	return a * 0xFF51AFD7ED558CCDULL + b * 0xC4CEB9FE1A85EC53ULL + c * 0x87C37B91114253D5ULL +
	       d * 0xA24BAED4963EE407ULL;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The ETR of `loci bench miss` where Map-Requests come alone: it turns an Encapsulated Map-Request
 * (RFC 9301 s.5.2, s.5.8) around as a Map-Reply (s.5.4) for exactly the EID that was asked for, as
 * lab/bench/misses/etr.go does, without waking anybody. What it does not understand, and
 * Map-Requests that left the Map-Server as one, go on to that ETR. It is of the bench, not of the
 * data plane.
 */
#ifndef BENCH_ANSWER_H
#define BENCH_ANSWER_H

#define CONTROL_PORT 4342
#define REPLY_TTL 1440 /* minutes; replyTTL of etr.go */

#define OUTER_LENGTH (ETH_HLEN + 20 + 8)
#define ECM_LENGTH 4
#define UDP_LENGTH 8

struct answer_ipv4 {
	__u8 version_length, tos;
	__be16 length, id, fragment;
	__u8 ttl, protocol;
	__sum16 checksum;
	__be32 source, destination;
};

struct answer_udp {
	__be16 source, destination, length, checksum;
};

/* A message and its first record up to the EID, with the octets on the wire. */
struct answer_template {
	__u8 type, flags, irc, records;
	__u32 nonce[2];
	__be32 ttl;
	__u8 locators, mask_length;
	__be16 action, version, afi;
};

struct answer_locator {
	__u8 priority, weight, multicast_priority, multicast_weight;
	__be16 flags, afi;
	__be32 rloc;
};

struct answer_question {
	struct answer_ipv4 ip;
	struct answer_udp udp;
	__be16 port; /* of the ITR */
	__be32 itr_rloc;
	__u32 nonce[2];
	__u8 mask_length;
	__u32 eid_length;
	__u8 eid[16];
};

static __always_inline __u32 octets_of_afi(__be16 afi)
{
	return afi == bpf_htons(1) ? 4 : afi == bpf_htons(2) ? 16 : 0;
}

/* Reads the Map-Request in a message to UDP port 4342, of one EID-Prefix and two ITR-RLOCs at most,
 * of which the first is IPv4. */
static __always_inline bool read_question(struct __sk_buff *skb, struct answer_question *q)
{
	__u32 at = OUTER_LENGTH + ECM_LENGTH, eid = 0;
	struct {
		__u8 type, flags, irc, records;
		__u32 nonce[2];
		__be16 afi;
	} __attribute__((packed)) request;
	struct {
		__be16 afi;
		__be32 rloc;
	} __attribute__((packed)) itr;
	struct {
		__u8 reserved, mask_length;
		__be16 afi;
	} rest;
	__be16 afi;
	__u8 ecm, inner;

	if (skb->protocol != bpf_htons(ETH_P_IP) || skb->gso_segs > 1 ||
	    bpf_skb_load_bytes(skb, ETH_HLEN, &q->ip, sizeof(q->ip) + sizeof(q->udp)) < 0)
		return false;
	if (q->ip.version_length != 0x45 || q->ip.protocol != IPPROTO_UDP ||
	    q->udp.destination != bpf_htons(CONTROL_PORT))
		return false;
	if (bpf_skb_load_bytes(skb, OUTER_LENGTH, &ecm, 1) < 0 || (ecm & 0xF8) != 0x80 ||
	    bpf_skb_load_bytes(skb, at, &inner, 1) < 0)
		return false;
	at += inner >> 4 == 6 ? 40 : 20;
	if (bpf_skb_load_bytes(skb, at, &q->port, sizeof(q->port)) < 0 ||
	    bpf_skb_load_bytes(skb, at + UDP_LENGTH, &request, sizeof(request)) < 0)
		return false;
	if ((request.type & 0xF3) != 0x10 || (request.irc & 0x1F) > 1 || request.records != 1)
		return false;
	at += UDP_LENGTH + sizeof(request) + octets_of_afi(request.afi);
	if (bpf_skb_load_bytes(skb, at, &itr, sizeof(itr)) < 0 || itr.afi != bpf_htons(1))
		return false;
	at += sizeof(itr);
	if (request.irc & 0x1F) {
		if (bpf_skb_load_bytes(skb, at, &afi, sizeof(afi)) < 0)
			return false;
		at += sizeof(afi) + octets_of_afi(afi);
	}
	if (bpf_skb_load_bytes(skb, at, &rest, sizeof(rest)) < 0)
		return false;
	at += sizeof(rest);
	eid = octets_of_afi(rest.afi);
	if (eid == 4 ? bpf_skb_load_bytes(skb, at, q->eid, 4) < 0
		     : eid != 16 || bpf_skb_load_bytes(skb, at, q->eid, 16) < 0)
		return false;
	q->itr_rloc = itr.rloc;
	__builtin_memcpy(q->nonce, request.nonce, sizeof(q->nonce));
	q->mask_length = rest.mask_length;
	q->eid_length = eid;
	return true;
}

static __always_inline __sum16 checksum_of(const struct answer_ipv4 *ip)
{
	const __u16 *words = (const __u16 *)ip;
	__u32 sum = 0;

#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xFFFF) + (sum >> 16);
	return ~((sum & 0xFFFF) + (sum >> 16));
}

/* Makes the packet the answer, and sends it back where it came from. */
static __always_inline int send_answer(struct __sk_buff *skb, struct answer_question *q)
{
	struct answer_template template = {
		.type = 0x20,
		.records = 1,
		.nonce = {q->nonce[0], q->nonce[1]},
		.ttl = bpf_htonl(REPLY_TTL),
		.locators = 1,
		.mask_length = q->mask_length,
		.action = bpf_htons(0x1000),
		.afi = q->eid_length == 4 ? bpf_htons(1) : bpf_htons(2),
	};
	struct answer_locator locator = {
		.priority = 1,
		.weight = 100,
		.multicast_priority = 255,
		.flags = bpf_htons(5),
		.afi = bpf_htons(1),
		.rloc = q->ip.destination,
	};
	__u32 length = sizeof(template) + q->eid_length + sizeof(locator), at = OUTER_LENGTH;
	struct answer_ipv4 ip = {
		.version_length = 0x45,
		.length = bpf_htons(20 + UDP_LENGTH + length),
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.source = q->ip.destination,
		.destination = q->itr_rloc,
	};
	struct answer_udp udp = {.source = bpf_htons(CONTROL_PORT),
				 .destination = q->port,
				 .length = bpf_htons(UDP_LENGTH + length)};
	__u8 macs[2][ETH_ALEN], swapped[2][ETH_ALEN];

	ip.checksum = checksum_of(&ip);
	if (bpf_skb_load_bytes(skb, 0, macs, sizeof(macs)) < 0 ||
	    bpf_skb_change_tail(skb, OUTER_LENGTH + length, 0) < 0)
		return TC_ACT_SHOT;
	__builtin_memcpy(swapped[0], macs[1], ETH_ALEN);
	__builtin_memcpy(swapped[1], macs[0], ETH_ALEN);
	if (bpf_skb_store_bytes(skb, 0, swapped, sizeof(swapped), 0) < 0 ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0) < 0 ||
	    bpf_skb_store_bytes(skb, ETH_HLEN + sizeof(ip), &udp, sizeof(udp), 0) < 0 ||
	    bpf_skb_store_bytes(skb, at, &template, sizeof(template), 0) < 0)
		return TC_ACT_SHOT;
	at += sizeof(template);
	if (q->eid_length == 4 ? bpf_skb_store_bytes(skb, at, q->eid, 4, 0) < 0
			       : bpf_skb_store_bytes(skb, at, q->eid, 16, 0) < 0)
		return TC_ACT_SHOT;
	if (bpf_skb_store_bytes(skb, at + q->eid_length, &locator, sizeof(locator), 0) < 0)
		return TC_ACT_SHOT;
	return bpf_redirect(skb->ifindex, 0);
}

SEC("tc")
int bench_answer(struct __sk_buff *skb)
{
	struct answer_question q = {};

	return read_question(skb, &q) ? send_answer(skb, &q) : TC_ACT_UNSPEC;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Encapsulation (RFC 9300 s.5.1-5.3, s.7.2; RFC 6040 s.4.1): locator by flow, size check against the path, outer headers.
 * Never fragments, and never sends a packet that its path cannot carry: those go to user space.
 * Obeyed choices: UDP checksum 0 (RFC 6935, 6936), IPv4 DF set, N set with a random nonce, I set unless the Instance-ID
 * is 0.
 */
#ifndef LISP_ENCAP_H
#define LISP_ENCAP_H

#include "miss.h"
#include "route.h"

#define LISP_FLAG_N 0x80
#define LISP_FLAG_V 0x10
#define LISP_FLAG_I 0x08
#define LISP_FLAG_R 0x04
#define LISP_FLAGS_KK 0x03

struct lisp_header {
	__be32 flags_nonce;
	__be32 iid_lsb;
};

struct udp_lisp {
	struct udphdr udp;
	struct lisp_header lisp;
};

struct outer_ipv4 {
	struct iphdr ip;
	struct udp_lisp payload;
};

struct outer_ipv6 {
	struct ipv6hdr ip;
	struct udp_lisp payload;
};

_Static_assert(sizeof(struct outer_ipv4) == 36, "headers are stored as they lie in memory");
_Static_assert(sizeof(struct outer_ipv6) == 56, "headers are stored as they lie in memory");

static __always_inline __u32 outer_length(__u8 family)
{
	return (family == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) + sizeof(struct udp_lisp);
}

static __always_inline const struct lisp_locator *select_locator(__u32 set_index, __u32 hash)
{
	const struct lisp_locator_set *set = bpf_map_lookup_elem(&locator_sets, &set_index);
	__u8 chosen;

	if (!set)
		return NULL;
	chosen = *(const volatile __u8 *)&set->buckets[hash >> 14 & (LISP_BUCKETS - 1)];
	if (chosen >= LISP_LOCATORS_MAX)
		return NULL;
	if (set->locators[chosen].family != 4 && set->locators[chosen].family != 6)
		return NULL;
	return &set->locators[chosen];
}

/* RFC 9300 s.5.3: TTL and DSCP copied; ECN by RFC 6040 s.4.1, normal mode unless the settings say otherwise. */
static __always_inline __u8 outer_tos(__u8 inner)
{
	const struct lisp_settings *s = find_settings();
	__u32 flags = s ? s->flags : 0;

	if (flags & LISP_SETTING_OUTER_NOT_ECT)
		inner &= 0xFC;
	if (flags & LISP_SETTING_OUTER_DSCP_ZERO)
		inner &= 0x03;
	return inner;
}

static __always_inline void fill_udp_lisp(struct udp_lisp *u, const struct lisp_locator *l, const struct itr *t,
					  __u16 length)
{
	__u32 flags = LISP_FLAG_N | (t->mapping_iid ? LISP_FLAG_I : 0);

	u->udp.source = bpf_htons(0xC000 | (t->hash & 0x3FFF));
	u->udp.dest = l->port ? l->port : bpf_htons(LISP_DATA_PORT);
	u->udp.len = bpf_htons(length);
	u->udp.check = 0;
	u->lisp.flags_nonce = bpf_htonl(flags << 24 | (bpf_get_prandom_u32() & 0xFFFFFF));
	u->lisp.iid_lsb = bpf_htonl(t->mapping_iid << 8);
}

static __always_inline long store_outer_ipv4(struct __sk_buff *skb, const struct lisp_locator *l, const struct itr *t,
					     __u16 length)
{
	struct outer_ipv4 o = {
		.ip = { .version = 4, .ihl = 5, .tos = outer_tos(t->packet.tos), .tot_len = bpf_htons(length),
			.frag_off = bpf_htons(IPV4_DF), .ttl = t->packet.ttl, .protocol = IPPROTO_UDP },
	};

	__builtin_memcpy(&o.ip.saddr, l->source, sizeof(o.ip.saddr));
	__builtin_memcpy(&o.ip.daddr, l->rloc, sizeof(o.ip.daddr));
	o.ip.check = header_checksum(&o.ip);
	fill_udp_lisp(&o.payload, l, t, length - sizeof(o.ip));
	return bpf_skb_store_bytes(skb, t->packet.offset, &o, sizeof(o), BPF_F_RECOMPUTE_CSUM);
}

static __always_inline long store_outer_ipv6(struct __sk_buff *skb, const struct lisp_locator *l, const struct itr *t,
					     __u16 length)
{
	struct outer_ipv6 o = {};
	/* RFC 6438: the flow label tells flows apart where routers do not look at ports. */
	__be32 first = bpf_htonl(6U << 28 | (__u32)outer_tos(t->packet.tos) << 20 | t->hash >> 12);

	__builtin_memcpy(&o.ip, &first, sizeof(first));
	o.ip.payload_len = bpf_htons(length - sizeof(o.ip));
	o.ip.nexthdr = IPPROTO_UDP;
	o.ip.hop_limit = t->packet.ttl;
	__builtin_memcpy(&o.ip.saddr, l->source, sizeof(o.ip.saddr));
	__builtin_memcpy(&o.ip.daddr, l->rloc, sizeof(o.ip.daddr));
	fill_udp_lisp(&o.payload, l, t, length - sizeof(o.ip));
	return bpf_skb_store_bytes(skb, t->packet.offset, &o, sizeof(o), BPF_F_RECOMPUTE_CSUM);
}

/* Makes room and writes the outer headers. FIXED_GSO: each segment keeps its size and grows by the headers, which
 * the size check has allowed for. */
static __noinline long add_outer(struct __sk_buff *skb, const struct lisp_locator *l, const struct itr *t)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP;
	__u32 length = octets_from(skb, t->packet.offset) + outer_length(l->family);

	flags |= l->family == 4 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
	if (bpf_skb_adjust_room(skb, outer_length(l->family), BPF_ADJ_ROOM_MAC, flags) < 0)
		return -1;
	/* Only a super-packet can be longer than length fields can tell; its segments get theirs when it is cut. */
	if (length > MAX_IP_LENGTH)
		length = MAX_IP_LENGTH;
	return l->family == 4 ? store_outer_ipv4(skb, l, t, length) : store_outer_ipv6(skb, l, t, length);
}

/* The route of the outer packet. On FRAG_NEEDED f->mtu_result is what the path carries. */
static __noinline long find_outer_route(struct __sk_buff *skb, struct bpf_fib_lookup *f, const struct lisp_locator *l,
					const struct itr *t)
{
	__u32 length = longest_segment(skb, &t->packet) + outer_length(l->family);
	__u32 flags = l->ifindex ? BPF_FIB_LOOKUP_OUTPUT : 0;
	struct lisp_packet outer = { .family = l->family, .protocol = IPPROTO_UDP, .tos = outer_tos(t->packet.tos) };

	__builtin_memcpy(&outer.source, l->source, sizeof(outer.source));
	__builtin_memcpy(&outer.destination, l->rloc, sizeof(outer.destination));
	f->ifindex = l->ifindex ? l->ifindex : LO_IFINDEX;
	f->sport = bpf_htons(0xC000 | (t->hash & 0x3FFF));
	f->dport = bpf_htons(LISP_DATA_PORT);
	f->tot_len = length < MAX_IP_LENGTH ? length : MAX_IP_LENGTH;
	if (l->path_mtu && length > l->path_mtu) {
		f->mtu_result = l->path_mtu;
		return BPF_FIB_LKUP_RET_FRAG_NEEDED;
	}
	return find_route(skb, f, &outer, flags);
}

/* Sends the packet of `t` to its locator by flow. */
static __noinline int encapsulate(struct __sk_buff *skb, struct itr *t)
{
	const struct lisp_locator *l;
	struct bpf_fib_lookup f = {};
	__u8 family, ttl = t->packet.ttl - (t->forwarded ? 1 : 0);
	__u32 octets;
	long answer;

	t->hash = flow_hash(skb, &t->packet);
	l = select_locator(t->locator_set, t->hash);
	if (!l)
		return drop(skb, LISP_DROP_NO_LOCATOR);
	family = l->family;
	/* First of all the padding goes, because lengths are those of the skb from here on. */
	if (trim(skb, &t->packet) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	octets = octets_from(skb, t->packet.offset);
	answer = find_outer_route(skb, &f, l, t);
	if (answer == BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return wait_too_big(skb, t, f.mtu_result - outer_length(family));
	if (answer != BPF_FIB_LKUP_RET_SUCCESS && answer != BPF_FIB_LKUP_RET_NO_NEIGH)
		return drop(skb, LISP_DROP_NO_ROUTE);
	/* A default route into the TAP is for EIDs; for an RLOC it would be a loop. */
	if (is_tap(f.ifindex))
		return drop(skb, LISP_DROP_NO_ROUTE);
	if (set_tos_ttl(skb, &t->packet, t->packet.tos, ttl) < 0 || add_outer(skb, l, t) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	count(family == 4 ? LISP_COUNTER_ENCAPSULATED_IPV4 : LISP_COUNTER_ENCAPSULATED_IPV6, octets);
	count_mapping(t->mapping_index, octets);
	return send(skb, &f, answer, t->l2_length, family);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What an ITR decides about a packet from the site (RFC 9300 s.5.1-5.3, s.7.2; RFC 6040 s.4.1), for
 * both hooks: whose packet it is, locator by flow, route and size check, and the outer headers as
 * octets. Nothing here ever changes a frame. Obeyed choices: UDP checksum 0 (RFC 6935, 6936), IPv4
 * DF set, N set with a random nonce, I set unless the Instance-ID is 0; what else the LISP header
 * may say is trusted.h's.
 */
#ifndef LISP_ITR_H
#define LISP_ITR_H

#include "route.h"
#include "trusted.h"

/* What was in force when a decision began that is to be kept (decisions.h). */
struct decision_time {
	__u32 epoch;
	__u32 generation;
	__u32 place; /* of the generation */
};

/* A packet on its way through the ITR. */
struct itr {
	struct lisp_packet packet;
	__u32 iid;   /* of its source */
	__u32 roots; /* index of those of iid */
	/* interface where it came in, or was about to leave when this host sent it */
	__u32 origin;
	__u32 l2_length; /* of the frame as it is here */
	__u32 hook;      /* LISP_INTERFACE_* of the origin */
	bool forwarded;  /* this host did not send it: its TTL counts */
	bool released;   /* user space has written it back */
	bool listed;     /* lists have to be asked */
	/* it is of a VLAN and still has the tag, beside the frame or within l2_length */
	bool tagged;
	__u32 hash;
	__u32 mapping_index;
	__u32 mapping_iid;
	__u32 locator_set;
	__u8 locator; /* within the set */
	__be16 port;  /* outer UDP destination */
	__u32 first;  /* the LISP header that it gets, in host order */
	__u32 second;
	struct decision_time since; /* for decisions that are kept */
};

/* Whether packets from one own EID-prefix to another are at hand: those are the site's own affair.
 */
static __always_inline bool is_within_site(const struct itr *t)
{
	bool within = is_own_eid(find_roots(t->roots), t->packet.family, &t->packet.destination);

	step(LISP_STEP_WITHIN_SITE, within, 0, 0);
	return within;
}

static __always_inline bool comes_from_eid(const struct itr *t)
{
	bool own = is_own_eid(find_roots(t->roots), t->packet.family, &t->packet.source);

	step(LISP_STEP_SOURCE, own, 0, 0);
	return own;
}

/* Why a negative mapping that does not say otherwise drops its packets. */
static __always_inline __u32 reason_of_action(__u8 action)
{
	switch (action) {
	case LISP_ACTION_DROP:
		return LISP_DROP_ACTION_DROP;
	case LISP_ACTION_DROP_POLICY_DENIED:
		return LISP_DROP_POLICY_DENIED;
	case LISP_ACTION_DROP_AUTHENTICATION_FAILURE:
		return LISP_DROP_AUTHENTICATION_FAILURE;
	}
	return LISP_DROP_NO_ACTION;
}

/* What the lists of EIDs say, before a mapping is asked for. */
static __noinline int judge_eids(const struct itr *t)
{
	struct lisp_trusted *p = find_trusted();

	if (!p)
		return LISP_DROP_NONE;
	p->source_iid = t->iid;
	p->family = t->packet.family;
	__builtin_memcpy(p->source, &t->packet.source, sizeof(p->source));
	__builtin_memcpy(p->destination, &t->packet.destination, sizeof(p->destination));
	return judge_pair(LISP_LIST_INNER_SOURCE);
}

/* What the lists of RLOCs say about the one that the packet would go to. */
static __noinline int judge_rlocs(const struct lisp_locator *l)
{
	struct lisp_trusted *p = find_trusted();

	if (!p)
		return LISP_DROP_NONE;
	p->rloc_family = l->family;
	__builtin_memcpy(p->rloc, l->rloc, sizeof(p->rloc));
	__builtin_memcpy(p->own_rloc, l->source, sizeof(p->own_rloc));
	return judge_pair(LISP_LIST_OUTER_SOURCE);
}

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
	return (family == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) +
	       sizeof(struct udp_lisp);
}

/* The bits of a flow's hash above those of its source port tell its bucket. */
#define LISP_BUCKET_SHIFT 14

static __always_inline const struct lisp_locator *select_locator(struct itr *t)
{
	const struct lisp_locator_set *set = bpf_map_lookup_elem(&locator_sets, &t->locator_set);
	const struct lisp_locator *l;
	__u32 index;
	__u8 chosen;

	if (!set)
		return NULL;
	chosen = *(const volatile __u8 *)&set
			  ->buckets[t->hash >> LISP_BUCKET_SHIFT & (LISP_BUCKETS - 1)];
	step(LISP_STEP_LOCATOR, t->locator_set, chosen, t->hash);
	if (chosen >= LISP_LOCATORS_MAX)
		return NULL;
	t->locator = chosen;
	index = set->first + chosen;
	l = bpf_map_lookup_elem(&locators, &index);
	return l && (l->family == 4 || l->family == 6) ? l : NULL;
}

/* RFC 9300 s.5.3: TTL and DSCP copied; ECN by RFC 6040 s.4.1, normal mode unless the settings say
 * otherwise. */
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

/* The header where the settings ask for more than the plain one, or less. */
static __noinline int choose_trusted(struct itr *t, const struct lisp_locator *l)
{
	struct lisp_trusted *p = find_trusted();

	if (!p)
		return 0;
	p->iid = t->mapping_iid;
	p->source_iid = t->iid;
	p->mapping_index = t->mapping_index;
	p->family = t->packet.family;
	p->rloc_family = l->family;
	__builtin_memcpy(p->source, &t->packet.source, sizeof(p->source));
	__builtin_memcpy(p->rloc, l->rloc, sizeof(p->rloc));
	lisp_compose_header();
	t->first = p->first;
	t->second = p->second;
	return 0;
}

/* RFC 9305 s.3: N, E and V are 0; VXLAN-GPE has a VNI in any case. */
static __noinline int choose_gpe(struct itr *t, __u8 encapsulation)
{
	bool vxlan = encapsulation == LISP_ENCAPSULATION_VXLAN_GPE;
	__u32 flags = LISP_FLAG_P | (vxlan || t->mapping_iid ? LISP_FLAG_I : 0);

	if (vxlan)
		t->port = bpf_htons(LISP_VXLAN_GPE_PORT);
	t->first = flags << 24 | (t->packet.family == 4 ? NEXT_PROTOCOL_IPV4 : NEXT_PROTOCOL_IPV6);
	t->second = t->mapping_iid << 8;
	return 0;
}

/* The LISP header of a packet to a locator. */
static __always_inline void choose_header(struct itr *t, const struct lisp_locator *l)
{
	const struct lisp_settings *s = find_settings();
	__u8 encapsulation = *(const volatile __u8 *)&l->encapsulation;

	t->port = l->port ? l->port : bpf_htons(LISP_DATA_PORT);
	if (encapsulation) {
		choose_gpe(t, encapsulation);
		return;
	}
	t->first = (LISP_FLAG_N | (t->mapping_iid ? LISP_FLAG_I : 0)) << 24 |
		   (bpf_get_prandom_u32() & NONCE_MASK);
	t->second = t->mapping_iid << 8;
	if (s && s->flags & SETTINGS_SENT)
		choose_trusted(t, l);
}

#define FLOW_LABEL_MASK 0xFFFFFU

/* RFC 6438: the flow label tells flows apart where routers do not look at ports. */
static __always_inline __u32 flow_label_of(__u32 hash) { return hash >> 12; }

static __always_inline __u16 source_port_of(__u32 hash) { return 0xC000 | (hash & 0x3FFF); }

static __always_inline void fill_udp_lisp(struct udp_lisp *u, const struct itr *t, __u16 length)
{
	u->udp.source = bpf_htons(source_port_of(t->hash));
	u->udp.dest = t->port;
	u->udp.len = bpf_htons(length);
	u->udp.check = 0;
	u->lisp.flags_nonce = bpf_htonl(t->first);
	u->lisp.iid_lsb = bpf_htonl(t->second);
}

/* The outer headers of an IP packet of `length` octets, outer headers included. */
static __always_inline void fill_outer_ipv4(struct outer_ipv4 *o, const struct lisp_locator *l,
					    const struct itr *t, __u16 length)
{
	word_of_header *words = (word_of_header *)&o->ip;
	__be32 first = bpf_htonl(0x45U << 24 | (__u32)outer_tos(t->packet.tos) << 16 | length);
	__be32 third = bpf_htonl((__u32)t->packet.ttl << 24 | IPPROTO_UDP << 16);
	const __be32 *source = (const __be32 *)l->source, *rloc = (const __be32 *)l->rloc;

	/* Summed up on the way: reading back what was just written in other pieces stalls the
	 * processor. */
	words[0] = first;
	words[1] = bpf_htonl(IPV4_DF);
	words[2] = third |
		   (__u32)checksum_of((__u64)first + bpf_htonl(IPV4_DF) + third + *source + *rloc)
			   << 16;
	words[3] = *source;
	words[4] = *rloc;
	fill_udp_lisp(&o->payload, t, length - sizeof(o->ip));
}

static __always_inline void fill_outer_ipv6(struct outer_ipv6 *o, const struct lisp_locator *l,
					    const struct itr *t, __u16 length)
{
	__be32 first = bpf_htonl(6U << 28 | (__u32)outer_tos(t->packet.tos) << 20 |
				 flow_label_of(t->hash));

	*o = (struct outer_ipv6){};
	__builtin_memcpy(&o->ip, &first, sizeof(first));
	o->ip.payload_len = bpf_htons(length - sizeof(o->ip));
	o->ip.nexthdr = IPPROTO_UDP;
	o->ip.hop_limit = t->packet.ttl;
	__builtin_memcpy(&o->ip.saddr, l->source, sizeof(o->ip.saddr));
	__builtin_memcpy(&o->ip.daddr, l->rloc, sizeof(o->ip.daddr));
	fill_udp_lisp(&o->payload, t, length - sizeof(o->ip));
}

/* The route of the outer packet. On FRAG_NEEDED f->mtu_result is what the path carries. */
static __always_inline long find_outer_route(hook_frame *frame, struct bpf_fib_lookup *f,
					     const struct lisp_locator *l, const struct itr *t)
{
	__u32 length = longest_segment(frame, &t->packet) + outer_length(l->family);
	__u32 flags = l->ifindex ? BPF_FIB_LOOKUP_OUTPUT : 0;
	struct lisp_packet outer = {
		.family = l->family, .protocol = IPPROTO_UDP, .tos = outer_tos(t->packet.tos)};

	__builtin_memcpy(&outer.source, l->source, sizeof(outer.source));
	__builtin_memcpy(&outer.destination, l->rloc, sizeof(outer.destination));
	f->ifindex = l->ifindex ? l->ifindex : LO_IFINDEX;
	f->sport = bpf_htons(source_port_of(t->hash));
	f->dport = bpf_htons(LISP_DATA_PORT);
	f->tot_len = length < MAX_IP_LENGTH ? length : MAX_IP_LENGTH;
	if (l->path_mtu && length > l->path_mtu) {
		f->mtu_result = l->path_mtu;
		step(LISP_STEP_ROUTE, BPF_FIB_LKUP_RET_FRAG_NEEDED, l->ifindex, l->path_mtu);
		return BPF_FIB_LKUP_RET_FRAG_NEEDED;
	}
	return find_route(frame, f, &outer, flags);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Deny and allow lists of inner and outer addresses: which packets RFC 9300 s.5 is applied to at
 * all; and the policies of RTR, PITR and PETR. The longest prefix decides; the default is a prefix
 * as well. Package forward has the same in Go (admit.go). Nothing here reads a packet.
 */
#ifndef LISP_LISTS_H
#define LISP_LISTS_H

#include "fib.h"
#include "settings.h"

static __always_inline struct lisp_trusted *find_trusted(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&trusted, &zero);
}

/* The address that a kind of list is about. Towards the core the peer is the destination. */
static __always_inline const __u8 *listed_address(const struct lisp_trusted *p, __u32 kind)
{
	bool decapsulated = kind & LISP_LIST_DECAPSULATED;

	switch (kind & ~LISP_LIST_DECAPSULATED) {
	case LISP_LIST_INNER_SOURCE:
		return p->source;
	case LISP_LIST_INNER_DESTINATION:
		return p->destination;
	case LISP_LIST_OUTER_SOURCE:
		return decapsulated ? p->rloc : p->own_rloc;
	}
	return decapsulated ? p->own_rloc : p->rloc;
}

/* What the entries of a kind say about an address. */
static __always_inline __u32 look_up_list(const struct lisp_settings *s, __u32 kind, __u32 iid,
					  __u8 family, const void *address)
{
	struct lisp_trusted *p = find_trusted();
	struct lisp_list_key *key;
	const __u32 *entry;

	if (!p || !(s->lists & 1U << (kind & (LISP_LIST_MAX - 1))))
		return LISP_LIST_SILENT;
	key = (struct lisp_list_key *)p->key;
	*key = (struct lisp_list_key){.bits = LISP_LIST_FIXED_BITS + (family == 4 ? 32 : 128),
				      .generation = *(const volatile __u8 *)&s->list_generation,
				      .kind = kind,
				      .family = family,
				      .iid = iid};
	__builtin_memcpy(key->address, address, sizeof(key->address));
	entry = bpf_map_lookup_elem(&lists, key);
	step(LISP_STEP_LIST, kind, entry ? *entry : LISP_LIST_SILENT, 0);
	return entry ? *entry : LISP_LIST_SILENT;
}

/* What the policy of a role says about an EID. A global function: verified once. */
__noinline int lisp_ask_policy(__u32 kind, __u32 iid, const union lisp_address *eid, __u32 family)
{
	const struct lisp_settings *s = find_settings();

	return s && eid ? look_up_list(s, kind, iid, family, eid) : LISP_LIST_SILENT;
}

/* Whether an RTR relays packets to and from an EID: its policy names it, or a router behind a NAT
 * has registered it here. A global function: verified once. */
__noinline int lisp_ask_relay(__u32 roots, __u32 iid, const union lisp_address *eid, __u32 family)
{
	const struct lisp_settings *s = find_settings();
	const struct lisp_mapping *m;
	__u32 index;
	int answer;

	if (!s || !eid)
		return LISP_LIST_SILENT;
	answer = look_up_list(s, LISP_LIST_RTR, iid, family, eid);
	if (answer == LISP_LIST_PERMITS)
		return answer;
	m = find_covering(find_roots(roots), LISP_ROOT_MAP_CACHE, family, eid, &index);
	return m && m->flags & LISP_MAPPING_REGISTERED ? LISP_LIST_PERMITS : answer;
}

/* Why a list of that kind drops the packet that find_trusted() describes, or LISP_DROP_NONE. A
 * global function: verified once. */
__noinline int lisp_judge_list(__u32 kind)
{
	const struct lisp_settings *s = find_settings();
	struct lisp_trusted *p = find_trusted();
	bool outer = kind & LISP_LIST_OUTER_SOURCE;
	__u32 iid;

	if (!s || !p)
		return LISP_DROP_NONE;
	iid = outer ? 0 : kind & LISP_LIST_DECAPSULATED ? p->iid : p->source_iid;
	if (look_up_list(s, kind, iid, outer ? p->rloc_family : p->family,
			 listed_address(p, kind)) != LISP_LIST_DENIES)
		return LISP_DROP_NONE;
	return LISP_DROP_DENIED_SOURCE + (kind & ~LISP_LIST_DECAPSULATED);
}

/* A source and the destination beside it. */
static __always_inline int judge_pair(__u32 source_kind)
{
	int reason = lisp_judge_list(source_kind);

	return reason ? reason : lisp_judge_list(source_kind + 1);
}

#endif

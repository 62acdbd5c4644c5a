/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What data headers say in trusted networks (RFC 9300 s.4.1): Locator-Status-Bits (RFC 9300 s.10),
 * Echo-Nonce (s.10.1), Map-Versions (RFC 9302); and the check of the inner source against the
 * locators of its mapping. All of it is off unless the settings say so. What it finds is told to
 * user space by events. Package forward has the same in Go (trusted.go, echo.go).
 */
#ifndef LISP_NONCE_LSB_VERSION_H
#define LISP_NONCE_LSB_VERSION_H

#include "events.h"
#include "fib.h"
#include "header.h"
#include "lists.h"

/* Settings without which the header is the plain one: nonce, Instance-ID. */
#define SETTINGS_SENT                                                                        \
	(LISP_SETTING_PUBLIC_INTERNET | LISP_SETTING_STATUS_BITS | LISP_SETTING_ECHO_NONCE | \
	 LISP_SETTING_MAP_VERSIONS)
/* Settings by which headers and inner sources from the core are judged. */
#define SETTINGS_JUDGING                                                                  \
	(LISP_SETTING_STATUS_BITS | LISP_SETTING_ECHO_NONCE | LISP_SETTING_MAP_VERSIONS | \
	 LISP_SETTING_GLEAN | LISP_SETTING_CHECK_SOURCE | LISP_SETTING_LISTS)

/* RFC 9302 s.6: whether a is newer than b; neither is Null. */
static __always_inline bool is_newer_version(__u32 a, __u32 b)
{
	return (a > b && a - b <= 2048) || (b > a && b - a > 2048);
}

static __always_inline __u16 version_of(__u32 mapping_index)
{
	const struct lisp_mapping *m = bpf_map_lookup_elem(&mappings, &mapping_index);

	return m ? *(const volatile __u16 *)&m->map_version & VERSION_MASK : 0;
}

static __always_inline const struct lisp_locator_set *set_of(const struct lisp_mapping *m)
{
	return find_locator_set(*(const volatile __u32 *)&m->locator_set);
}

/* ---- what is sent ---- */

static __always_inline struct lisp_peer *find_peer(struct lisp_trusted *p, bool make)
{
	struct lisp_rloc_key *key = (struct lisp_rloc_key *)p->key;

	__builtin_memset(key, 0, sizeof(*key));
	__builtin_memcpy(key->address, p->rloc, sizeof(key->address));
	key->family = p->rloc_family;
	if (make && !bpf_map_lookup_elem(&peers, key)) {
		__builtin_memset(p->value, 0, sizeof(p->value));
		bpf_map_update_elem(&peers, key, p->value, BPF_NOEXIST);
	}
	return bpf_map_lookup_elem(&peers, key);
}

/* Whether the next packet is to bring the echo that is owed. A peer that keeps asking for a nonce
 * that it was sent may receive nothing, which our own request finds out: the two alternate. */
static __always_inline bool owes_echo(const struct lisp_peer *peer, __u64 now, bool due)
{
	if (!peer->owed_ns || now - peer->owed_ns >= LISP_ECHO_OWED_NS)
		return false;
	return !due || peer->owed != peer->returned || peer->flags & LISP_PEER_ASKED_LAST;
}

/* The first word for a locator: an echo that is owed comes before our own request. `nonce` is
 * random. */
static __noinline __u32 echo_word(struct lisp_trusted *p, __u32 nonce)
{
	const struct lisp_mapping *m = bpf_map_lookup_elem(&mappings, &p->mapping_index);
	bool asks = m && m->flags & LISP_MAPPING_ECHO_NONCE;
	struct lisp_peer *peer = find_peer(p, asks);
	__u32 plain = LISP_FLAG_N << 24 | nonce;
	__u64 now = bpf_ktime_get_boot_ns();

	if (!peer)
		return plain;
	asks = asks && (peer->requested_ns || now >= peer->next_ns);
	if (owes_echo(peer, now, asks)) {
		peer->owed_ns = 0;
		peer->returned = peer->owed;
		peer->flags &= ~LISP_PEER_ASKED_LAST;
		count(LISP_COUNTER_ECHO_RETURNED, 0);
		return LISP_FLAG_N << 24 | (peer->owed & NONCE_MASK);
	}
	if (!asks)
		return plain;
	peer->flags |= LISP_PEER_ASKED_LAST;
	if (!peer->requested_ns) {
		peer->requested = nonce;
		peer->requested_ns = now;
		peer->asked_ns = now;
	}
	count(LISP_COUNTER_ECHO_REQUESTED, 0);
	return (LISP_FLAG_N | LISP_FLAG_E) << 24 | (peer->requested & NONCE_MASK);
}

/* The header's first word without I, once its second is settled. */
static __always_inline __u32 nonce_word(struct lisp_trusted *p, __u32 flags, __u32 source_version)
{
	__u32 version = flags & LISP_SETTING_MAP_VERSIONS ? version_of(p->mapping_index) : 0;
	__u32 word = LISP_FLAG_N << 24 | (bpf_get_prandom_u32() & NONCE_MASK);
	__u32 plain = word;

	if (flags & LISP_SETTING_ECHO_NONCE)
		word = echo_word(p, word & NONCE_MASK);
	/* RFC 9302 s.6.1: no versions to a peer without. N excludes V, and an echo comes first. */
	if (version && word == plain)
		word = LISP_FLAG_V << 24 | source_version << 12 | version;
	return word;
}

/* Makes the header of the packet that find_trusted() describes. A global function: verified once.
 */
__noinline int lisp_compose_header(void)
{
	const struct lisp_settings *s = find_settings();
	struct lisp_trusted *p = find_trusted();
	__u32 flags = s ? s->flags : 0, index, source_version = 0;
	const struct lisp_locator_set *set;
	const struct lisp_mapping *own;

	if (!p)
		return 0;
	p->first = p->iid ? LISP_FLAG_I << 24 : 0;
	p->second = p->iid << 8;
	if (flags & LISP_SETTING_PUBLIC_INTERNET)
		return 0;
	own = find_mapping(find_instance(p->source_iid), LISP_ROOT_DATABASE, p->family,
			   (const union lisp_address *)p->source, &index);
	if (own)
		source_version = *(const volatile __u16 *)&own->map_version & VERSION_MASK;
	p->first |= nonce_word(p, flags, source_version);
	if (!own || !(flags & LISP_SETTING_STATUS_BITS) ||
	    bpf_ktime_get_boot_ns() < *(const volatile __u64 *)&own->expires_ns)
		return 0;
	set = set_of(own);
	if (!set)
		return 0;
	p->first |= LISP_FLAG_L << 24;
	p->second |= *(const volatile __u32 *)&set->status_bits & (p->iid ? 0xFF : ~0U);
	return 0;
}

/* ---- what is received ---- */

static __always_inline __u64 hint_interval_ns(void)
{
	const struct lisp_settings *s = find_settings();

	return s ? s->hint_interval_ns : 0;
}

/* Raises an event about the packet. */
static __noinline int raise_hint(struct lisp_trusted *p, __u32 kind, __u32 value, __u32 other)
{
	struct lisp_event *e = new_event(kind, p->iid, p->ifindex, p->family);

	if (!e)
		return 0;
	e->rloc_family = p->rloc_family;
	__builtin_memcpy(e->source, p->source, sizeof(e->source));
	__builtin_memcpy(e->destination, p->destination, sizeof(e->destination));
	__builtin_memcpy(e->rloc, p->rloc, sizeof(e->rloc));
	e->value = value;
	e->other = other;
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	return 0;
}

static __always_inline struct lisp_limit_key *limit_key(struct lisp_trusted *p, __u32 kind,
							__u8 family, const void *address)
{
	struct lisp_limit_key *key = (struct lisp_limit_key *)p->key;

	__builtin_memset(key, 0, sizeof(*key));
	key->kind = kind;
	key->iid = p->iid;
	key->family = family;
	__builtin_memcpy(key->destination, address, sizeof(key->destination));
	return key;
}

/* Raises an event about a version from the packet's RLOC, unless one was raised within the
 * interval. Returns how many were raised since the RLOC was last silent. */
static __noinline __u32 raise_version(struct lisp_trusted *p, __u32 kind)
{
	struct lisp_limit_key *key = limit_key(p, kind, p->rloc_family, p->rloc);
	struct lisp_heard *fresh = (struct lisp_heard *)p->value;
	struct lisp_heard *last = bpf_map_lookup_elem(&heard, key);

	fresh->raised_ns = bpf_ktime_get_boot_ns();
	fresh->value = 0;
	fresh->count = last && fresh->raised_ns - last->raised_ns < LISP_STALE_FORGET_NS
			       ? last->count
			       : 0;
	if (last && fresh->raised_ns - last->raised_ns < hint_interval_ns())
		return fresh->count;
	fresh->count++;
	bpf_map_update_elem(&heard, key, fresh, BPF_ANY);
	raise_hint(p, kind, p->first >> 12 & VERSION_MASK, p->first & VERSION_MASK);
	return fresh->count;
}

/* RFC 9302 s.7.1, s.7.2. `known` is the map-cache's entry for the inner source, NULL for none. */
static __always_inline int judge_versions(struct lisp_trusted *p, const struct lisp_mapping *known)
{
	__u32 destination = p->first & VERSION_MASK, source = p->first >> 12 & VERSION_MASK;
	__u32 own = version_of(p->mapping_index);
	__u32 cached = known ? *(const volatile __u16 *)&known->map_version & VERSION_MASK : 0;

	if (!own || !destination || is_newer_version(destination, own))
		return LISP_DROP_DESTINATION_VERSION;
	if (destination != own) {
		p->notes |= 1U << LISP_COUNTER_VERSION_STALE_DESTINATION;
		if (raise_version(p, LISP_EVENT_DESTINATION_VERSION) > LISP_STALE_EVENTS_MAX)
			return LISP_DROP_STALE_VERSION;
	}
	if (!cached || !source || source == cached)
		return LISP_DROP_NONE;
	if (!is_newer_version(source, cached))
		return LISP_DROP_SOURCE_VERSION;
	p->notes |= 1U << LISP_COUNTER_VERSION_STALE_SOURCE;
	raise_version(p, LISP_EVENT_SOURCE_VERSION);
	return LISP_DROP_NONE;
}

/* RFC 9300 s.10: tells when the bits of the source's mapping have changed, at first from those that
 * the mapping says (R). A change within the interval is told when that is over. */
static __noinline int receive_status_bits(struct lisp_trusted *p, const struct lisp_mapping *known,
					  const struct lisp_locator_set *set)
{
	struct lisp_limit_key *key = limit_key(p, LISP_EVENT_STATUS_BITS, known->family,
					       known->prefix);
	__u32 room = p->first >> 24 & LISP_FLAG_I ? 8 : 32;
	struct lisp_heard *fresh = (struct lisp_heard *)p->value;
	__u32 mask = set->count < room ? (1U << set->count) - 1 : room == 8 ? 0xFF : ~0U;
	struct lisp_heard *last;

	key->prefix_length = known->prefix_length;
	last = bpf_map_lookup_elem(&heard, key);
	fresh->value = p->second & mask;
	if (!(last && last->count == LISP_HEARD_ANEW) &&
	    fresh->value ==
		    ((last ? last->value : *(const volatile __u32 *)&set->status_bits) & mask))
		return 0;
	fresh->count = 0;
	fresh->raised_ns = bpf_ktime_get_boot_ns();
	if (last && fresh->raised_ns - last->raised_ns < hint_interval_ns())
		return 0;
	bpf_map_update_elem(&heard, key, fresh, BPF_ANY);
	count(LISP_COUNTER_STATUS_BITS_CHANGED, 0);
	return raise_hint(p, LISP_EVENT_STATUS_BITS, fresh->value, room);
}

/* RFC 9300 s.10.1. When both sides ask at once, each gives up once and asks again after a time that
 * the nonce makes different. It does not give up twice: the peer may be asking because nothing of
 * ours arrives there. */
static __noinline int receive_nonce(struct lisp_trusted *p)
{
	const struct lisp_settings *s = find_settings();
	__u32 flags = p->first >> 24, nonce = p->first & NONCE_MASK;
	bool asks = flags & LISP_FLAG_N && flags & LISP_FLAG_E;
	struct lisp_peer *peer = find_peer(p, asks);
	__u64 now = bpf_ktime_get_boot_ns();

	if (!peer || !s)
		return 0;
	if (asks) {
		peer->owed = nonce;
		peer->owed_ns = now;
		if (peer->requested_ns && !(peer->flags & LISP_PEER_SUSPENDED)) {
			peer->requested_ns = 0;
			peer->flags |= LISP_PEER_SUSPENDED;
			peer->next_ns = now + s->echo_wait_ns +
					(s->echo_wait_ns >> 8) * (nonce & 0xFF);
		}
	}
	if (!peer->requested_ns)
		return 0;
	if (!asks && flags & LISP_FLAG_N && nonce == peer->requested) {
		peer->requested_ns = 0;
		peer->flags &= ~LISP_PEER_SUSPENDED;
		peer->next_ns = now + s->echo_interval_ns;
		peer->echoed_ns = now;
		count(LISP_COUNTER_ECHO_RECEIVED, 0);
		return 0;
	}
	if (now - peer->requested_ns < s->echo_wait_ns)
		return 0;
	peer->requested_ns = 0;
	peer->flags &= ~LISP_PEER_SUSPENDED;
	peer->missing_ns = now;
	peer->next_ns = now + s->echo_wait_ns;
	count(LISP_COUNTER_ECHO_MISSING, 0);
	return raise_hint(p, LISP_EVENT_ECHO_MISSING, peer->requested,
			  flags & LISP_FLAG_N ? nonce : 0);
}

/* RFC 9300 s.9: by which RLOC an inner source without mapping sends. */
static __noinline int raise_gleaned(struct lisp_trusted *p)
{
	struct lisp_limit_key *key = limit_key(p, LISP_EVENT_GLEANED, p->family, p->source);

	return may_raise(key, hint_interval_ns()) ? raise_hint(p, LISP_EVENT_GLEANED, 0, 0) : 0;
}

/* A strict check needs a mapping that was not asked for yet: a miss like that of an answer to the
 * packet. */
static __noinline int raise_source_miss(struct lisp_trusted *p)
{
	struct lisp_limit_key *key = limit_key(p, LISP_EVENT_MISS, p->family, p->source);

	return raise_miss_event(key, p->ifindex, p->destination, BPF_RB_FORCE_WAKEUP);
}

/* Whether the RLOC that find_trusted() describes is a hop of a locator's path: the last one sends
 * packets, or another one that relays. A global function: verified once. */
__noinline int lisp_is_hop(__u32 locator)
{
	const struct lisp_path *path = bpf_map_lookup_elem(&paths, &locator);
	const struct lisp_trusted *p = find_trusted();

	if (!path || !p)
		return false;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LISP_HOPS_MAX; i++) {
		const struct lisp_hop *hop = &path->hops[i];

		if (i < path->count && hop->family == p->rloc_family &&
		    is_same_address(hop->address, (const union lisp_address *)p->rloc))
			return true;
	}
	return false;
}

/* Whether an RLOC is one of a set's locators, or a hop of one. */
static __noinline bool has_locator(const struct lisp_locator_set *set, const struct lisp_trusted *p)
{
	const union lisp_address *rloc = (const union lisp_address *)p->rloc;

	if (!set)
		return false;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LISP_LOCATORS_MAX; i++) {
		__u32 index = set->first + i;
		const struct lisp_locator *l = bpf_map_lookup_elem(&locators, &index);

		if (!l || i >= set->count)
			return false;
		if (l->family == p->rloc_family && is_same_address(l->rloc, rloc))
			return true;
		if (l->flags & LISP_LOCATOR_PATH && lisp_is_hop(index))
			return true;
	}
	return false;
}

/* What the header of a packet to an EID of ours says of the mappings at both ends; the reason to
 * drop it, or none. */
static __always_inline int judge_site(struct lisp_trusted *p, const struct lisp_mapping *known,
				      const struct lisp_locator_set *set)
{
	int reason;

	if (has_setting(LISP_SETTING_GLEAN) && !known)
		raise_gleaned(p);
	if (has_setting(LISP_SETTING_MAP_VERSIONS) &&
	    (p->first >> 24 & (LISP_FLAG_V | LISP_FLAG_N)) == LISP_FLAG_V) {
		reason = judge_versions(p, known);
		if (reason)
			return reason;
	}
	if (has_setting(LISP_SETTING_STATUS_BITS) && p->first >> 24 & LISP_FLAG_L && set)
		receive_status_bits(p, known, set);
	return LISP_DROP_NONE;
}

/* Judges header and inner source of the packet that find_trusted() describes; the reason to drop
 * it, or none. A global function: verified once. */
__noinline int lisp_judge_received(bool to_site)
{
	struct lisp_trusted *p = find_trusted();
	const struct lisp_locator_set *set;
	const struct lisp_mapping *known;
	int reason;

	if (!p)
		return LISP_DROP_NONE;
	if (has_setting(LISP_SETTING_LISTS)) {
		reason = judge_pair(LISP_LIST_DECAPSULATED | LISP_LIST_OUTER_SOURCE);
		if (!reason)
			reason = judge_pair(LISP_LIST_DECAPSULATED | LISP_LIST_INNER_SOURCE);
		if (reason)
			return reason;
	}
	known = find_mapping(find_instance(p->iid), LISP_ROOT_MAP_CACHE, p->family,
			     (const union lisp_address *)p->source, (__u32 *)p->key);
	set = known ? set_of(known) : NULL;

	if (has_setting(LISP_SETTING_CHECK_SOURCE_STRICT) && !known)
		raise_source_miss(p);
	if (has_setting(LISP_SETTING_CHECK_SOURCE) && !has_locator(set, p) &&
	    (set || has_setting(LISP_SETTING_CHECK_SOURCE_STRICT)))
		return LISP_DROP_SOURCE_RLOC;
	if (has_setting(LISP_SETTING_PUBLIC_INTERNET))
		return LISP_DROP_NONE;
	reason = to_site ? judge_site(p, known, set) : LISP_DROP_NONE;
	if (!reason && has_setting(LISP_SETTING_ECHO_NONCE))
		receive_nonce(p);
	return reason;
}

#endif

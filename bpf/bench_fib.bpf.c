/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Lookups of `loci bench fib`: the data plane's own find_mapping, over the tables of an engine that user space puts in the
 * place of the maps here, and beside it an LPM_TRIE and a HASH. Each run of a program looks up LOOKUPS addresses, the next
 * ones of a list; bench_no_lookup reads the list alone, so that its cost can be taken off. None changes a packet.
 *
 * What is found is summed up: the prefix lengths of what the data plane and the trie found must be the same.
 */

//go:build ignore

#include "hook_tc.h"
#include "fib.h"

char _license[] SEC("license") = "GPL";

const union lisp_abi *const lisp_abi_in_btf = 0;

#define LOOKUPS 64
#define ADDRESSES (1 << 20)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ADDRESSES);
	__type(key, __u32);
	__type(value, union lisp_address);
} bench_addresses SEC(".maps");

struct bench_prefix {
	__u32 length;
	__u8 address[16]; /* of IPv4, four */
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct bench_prefix);
	__type(value, __u32);
} bench_trie SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, union lisp_address);
	__type(value, __u32);
} bench_hash SEC(".maps");

/* A Go mirror is made of what a map mentions. */
struct bench_state {
	__u32 next;   /* address to look up */
	__u32 family; /* of all of them */
	__u64 found;
	__u64 length_sum; /* of the prefixes that were found */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bench_state);
} bench_states SEC(".maps");

static __always_inline struct bench_state *find_state(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&bench_states, &zero);
}

static __always_inline const union lisp_address *next_address(struct bench_state *s)
{
	__u32 index = s->next++ & (ADDRESSES - 1);

	return bpf_map_lookup_elem(&bench_addresses, &index);
}

SEC("tc")
int bench_no_lookup(struct __sk_buff *skb)
{
	struct bench_state *s = find_state();
	const union lisp_address *a;

	if (!s)
		return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LOOKUPS; i++) {
		a = next_address(s);
		if (a)
			s->found += *(const volatile __u32 *)&a->words[0] != 0;
	}
	return TC_ACT_OK;
}

/* The walk alone, as the trie and the hash have nothing but an index either. */
SEC("tc")
int bench_fib(struct __sk_buff *skb)
{
	const struct lisp_roots *of = find_instance(0);
	struct bench_state *s = find_state();
	const union lisp_address *a;
	__u32 slot;

	if (!s)
		return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LOOKUPS; i++) {
		a = next_address(s);
		slot = a ? find_leaf(of, LISP_ROOT_MAP_CACHE, s->family, a) : LISP_SLOT_EMPTY;
		if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_LEAF)
			continue;
		s->found++;
		s->length_sum += slot;
	}
	return TC_ACT_OK;
}

/* With the mapping, as packets need it. */
SEC("tc")
int bench_mapping(struct __sk_buff *skb)
{
	const struct lisp_roots *of = find_instance(0);
	struct bench_state *s = find_state();
	const struct lisp_mapping *m;
	const union lisp_address *a;
	__u32 index;

	if (!s)
		return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LOOKUPS; i++) {
		a = next_address(s);
		m = a ? find_mapping(of, LISP_ROOT_MAP_CACHE, s->family, a, &index) : NULL;
		if (!m)
			continue;
		s->found++;
		s->length_sum += m->prefix_length;
	}
	return TC_ACT_OK;
}

/* And with its counters, which each packet that goes by a mapping pays for. */
SEC("tc")
int bench_counted(struct __sk_buff *skb)
{
	const struct lisp_roots *of = find_instance(0);
	struct bench_state *s = find_state();
	const struct lisp_mapping *m;
	const union lisp_address *a;
	__u32 index;

	if (!s)
		return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LOOKUPS; i++) {
		a = next_address(s);
		m = a ? find_mapping(of, LISP_ROOT_MAP_CACHE, s->family, a, &index) : NULL;
		if (!m)
			continue;
		count_mapping(index, LOOKUPS);
		s->found++;
		s->length_sum += m->prefix_length;
	}
	return TC_ACT_OK;
}

SEC("tc")
int bench_lpm_trie(struct __sk_buff *skb)
{
	struct bench_state *s = find_state();
	const union lisp_address *a;
	struct bench_prefix key;
	const __u32 *length;

	if (!s)
		return TC_ACT_SHOT;
	key.length = s->family == 4 ? 32 : 128;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LOOKUPS; i++) {
		a = next_address(s);
		if (!a)
			continue;
		__builtin_memcpy(key.address, a, sizeof(key.address));
		length = bpf_map_lookup_elem(&bench_trie, &key);
		if (!length)
			continue;
		s->found++;
		s->length_sum += *length;
	}
	return TC_ACT_OK;
}

SEC("tc")
int bench_hash_lookup(struct __sk_buff *skb)
{
	struct bench_state *s = find_state();
	const union lisp_address *a;
	const __u32 *length;

	if (!s)
		return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LOOKUPS; i++) {
		a = next_address(s);
		length = a ? bpf_map_lookup_elem(&bench_hash, a) : NULL;
		if (!length)
			continue;
		s->found++;
		s->length_sum += *length;
	}
	return TC_ACT_OK;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Lookups of `loci bench fib`: the data plane's own find_mapping, over the tables of an engine that
 * user space puts in the place of the maps here, and beside it an LPM_TRIE, a HASH and, as a floor,
 * an array that is read at random. Each run of a program looks up LOOKUPS addresses, the next block
 * of a list; bench_no_lookup reads the block alone, so that its cost can be taken off. None changes
 * a packet.
 *
 * What is found is summed up: the prefix lengths of what the data plane and the trie found must be
 * the same. A processor overlaps as many lookups as fit into the instructions that it looks ahead,
 * so the loop, which is the same for all, has as few of its own as can be: the addresses stand side
 * by side, and sums stay in registers until the end.
 */

//go:build ignore

#include "hook_tc.h"
#include "counters.h"
#include "fib.h"

char _license[] SEC("license") = "GPL";

const union lisp_abi *const lisp_abi_in_btf = 0;

#define LOOKUPS 64
#define BLOCKS (1 << 14)

/* What a run looks up. */
struct bench_block {
	union lisp_address addresses[LOOKUPS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BLOCKS);
	__type(key, __u32);
	__type(value, struct bench_block);
} bench_blocks SEC(".maps");

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

/* The floor: as much memory as the tables that the data plane walks take; each value is 1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} bench_array SEC(".maps");

const volatile __u32 bench_array_entries = 1;

/* A Go mirror is made of what a map mentions. */
struct bench_state {
	__u32 next;   /* block to look up */
	__u32 family; /* of all addresses */
	__u64 found;
	__u64 length_sum; /* of the prefixes that were found */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bench_state);
} bench_states SEC(".maps");

struct bench_run {
	struct bench_state *state;
	const union lisp_address *next, *end;
	__u64 found, length_sum;
};

static __always_inline bool begin(struct bench_run *r)
{
	const struct bench_block *block;
	__u32 at = 0;

	r->state = bpf_map_lookup_elem(&bench_states, &at);
	if (!r->state)
		return false;
	at = r->state->next++ & (BLOCKS - 1);
	block = bpf_map_lookup_elem(&bench_blocks, &at);
	if (!block)
		return false;
	r->next = block->addresses;
	/* or the compiler adds to it before it looks whether it is there */
	asm volatile("" : "+r"(r->next));
	r->end = r->next + LOOKUPS;
	r->found = r->length_sum = 0;
	return true;
}

static __always_inline int end(const struct bench_run *r)
{
	r->state->found += r->found;
	r->state->length_sum += r->length_sum;
	return TC_ACT_OK;
}

SEC("tc")
int bench_no_lookup(struct __sk_buff *skb)
{
	struct bench_run r;

	if (!begin(&r))
		return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (; r.next != r.end; r.next++)
		r.length_sum += *(const volatile __u32 *)&r.next->words[0];
	return end(&r);
}

/* The walk alone, as the trie and the hash have nothing but an index either. */
static __always_inline void find_leaves(struct bench_run *r, const struct lisp_roots *of,
					__u8 family)
{
	const union lisp_address *next = r->next;
	__u64 sum = 0;

#pragma clang loop unroll(disable)
	for (__u32 left = LOOKUPS; left; left--) {
		sum += find_leaf(of, LISP_ROOT_MAP_CACHE, family, next++);
		/* or the compiler makes two registers of each */
		asm volatile("" : "+r"(next), "+r"(left));
	}
	r->length_sum = sum;
	/* A slot that is no leaf is 0, and the indexes of LOOKUPS mappings are less than the tag of
	 * one leaf. */
	r->found = r->length_sum / LISP_SLOT_LEAF;
}

SEC("tc")
int bench_fib(struct __sk_buff *skb)
{
	const struct lisp_roots *of = find_instance(0);
	struct bench_run r;

	if (!of || !begin(&r))
		return TC_ACT_SHOT;
	if (r.state->family == 4)
		find_leaves(&r, of, 4);
	else
		find_leaves(&r, of, 6);
	return end(&r);
}

/* With the mapping, as packets need it. */
SEC("tc")
int bench_mapping(struct __sk_buff *skb)
{
	const struct lisp_roots *of = find_instance(0);
	const struct lisp_mapping *m;
	struct bench_run r;
	__u32 index;

	if (!begin(&r))
		return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (; r.next != r.end; r.next++) {
		m = find_mapping(of, LISP_ROOT_MAP_CACHE, r.state->family, r.next, &index);
		if (!m)
			continue;
		r.found++;
		r.length_sum += m->prefix_length;
	}
	return end(&r);
}

/* And with its counters, which each packet that goes by a mapping pays for. */
SEC("tc")
int bench_counted(struct __sk_buff *skb)
{
	const struct lisp_roots *of = find_instance(0);
	const struct lisp_mapping *m;
	struct bench_run r;
	__u32 index;

	if (!begin(&r))
		return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (; r.next != r.end; r.next++) {
		m = find_mapping(of, LISP_ROOT_MAP_CACHE, r.state->family, r.next, &index);
		if (!m)
			continue;
		count_mapping(index, LOOKUPS, now_ns());
		r.found++;
		r.length_sum += m->prefix_length;
	}
	return end(&r);
}

/* One read for each address of the list, anywhere in the array: none waits for another one, and
 * none is at the place of another one but by chance.
 */
SEC("tc")
int bench_array_read(struct __sk_buff *skb)
{
	const __u32 entries = bench_array_entries;
	struct bench_run r;
	const __u64 *value;
	__u32 at, place;

	if (!begin(&r))
		return TC_ACT_SHOT;
	place = r.state->next * LOOKUPS;
#pragma clang loop unroll(disable)
	for (; r.next != r.end; r.next++) {
		at = (r.next->words[0] + ++place) * 0x9E3779B1;
		at = (at ^ at >> 15) * 0x85EBCA6B;
		at = (__u64)at * entries >> 32;
		value = bpf_map_lookup_elem(&bench_array, &at);
		if (value)
			r.found += *value;
	}
	return end(&r);
}

SEC("tc")
int bench_lpm_trie(struct __sk_buff *skb)
{
	struct bench_prefix key;
	struct bench_run r;
	const __u32 *length;

	if (!begin(&r))
		return TC_ACT_SHOT;
	key.length = r.state->family == 4 ? 32 : 128;
#pragma clang loop unroll(disable)
	for (; r.next != r.end; r.next++) {
		__builtin_memcpy(key.address, r.next, sizeof(key.address));
		length = bpf_map_lookup_elem(&bench_trie, &key);
		if (!length)
			continue;
		r.found++;
		r.length_sum += *length;
	}
	return end(&r);
}

SEC("tc")
int bench_hash_lookup(struct __sk_buff *skb)
{
	struct bench_run r;
	const __u32 *length;

	if (!begin(&r))
		return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (; r.next != r.end; r.next++) {
		length = bpf_map_lookup_elem(&bench_hash, r.next);
		if (!length)
			continue;
		r.found++;
		r.length_sum += *length;
	}
	return end(&r);
}

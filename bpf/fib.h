/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The forwarding table: mappings by the longest prefix that covers an address. abi.h describes its
 * levels, nodes and slots. Nothing here changes a table.
 */
#ifndef LISP_FIB_H
#define LISP_FIB_H

#include "maps.h"
#include "parse.h"
#include "trace.h"

/* The slot at which a walk for an address ends, whose first bit is the highest of `high`. A global
 * function: verified once. */
__noinline __u32 lisp_walk(__u32 index, __u32 slot, __u64 high, __u64 low)
{
	void *table = bpf_map_lookup_elem(&fib, &index);
	const volatile struct lisp_compressed *compare;
	const struct lisp_cell *cell;
	__u32 at, consumed, chosen;

	if (!table)
		return LISP_SLOT_EMPTY;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LISP_WALK_STEPS_MAX; i++) {
		if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_NODE)
			return slot;
		at = slot & LISP_SLOT_CELL_MASK;
		consumed = (slot & ~LISP_SLOT_TAG_MASK) >> LISP_SLOT_STRIDE_SHIFT;
		chosen = consumed ? high >> (64 - consumed & 63) : 0;
		at += chosen / LISP_CELL_SLOTS;
		cell = bpf_map_lookup_elem(table, &at);
		if (!cell)
			return LISP_SLOT_EMPTY;
		if (consumed) {
			slot = *(const volatile __u32 *)&cell->slots[chosen % LISP_CELL_SLOTS];
		} else {
			compare = (const volatile struct lisp_compressed *)cell;
			consumed = compare->length;
			if (high >> (64 - consumed & 63) != compare->value)
				return compare->otherwise;
			slot = compare->match;
		}
		high = high << (consumed & 63) | low >> (64 - consumed & 63);
		low <<= consumed & 63;
	}
	return LISP_SLOT_EMPTY;
}

static __always_inline const struct lisp_roots *find_roots(__u32 index)
{
	return bpf_map_lookup_elem(&roots, &index);
}

/* An index at which there are no roots. */
#define NO_ROOTS 0xFFFFFFFFU

/* The index of the roots of any Instance-ID; NO_ROOTS where it has none. */
static __always_inline __u32 index_of_roots(__u32 iid)
{
	const struct lisp_instance *instance = bpf_map_lookup_elem(&instances, &iid);
	__u32 index;

	if (!instance)
		return NO_ROOTS;
	index = *(const volatile __u32 *)&instance->roots;
	return *(const volatile __u32 *)&instance->iid == iid ? index : NO_ROOTS;
}

static __always_inline const struct lisp_roots *find_instance(__u32 iid)
{
	return find_roots(index_of_roots(iid));
}

/* What the first level that a root names has for the first bits of an address; false where it names
 * none, or one that ends before them. In line and without a branch that waits for what is loaded,
 * so that the processor has many lookups under way at once. */
static __always_inline bool ask_first_level(void *blocks, __u64 root, __u32 bits,
					    const union lisp_address *address, __u32 *slot)
{
	/* volatile: read where they are needed; registers are scarce */
	const volatile __u8 *octets = address->octets;
	__u32 at = root >> LISP_ROOT_FIRST_LEVEL_SHIFT & LISP_ROOT_FIRST_LEVEL_MASK;
	void *to;

	if (!at)
		return false;
	to = bpf_map_lookup_elem(blocks, &at);
	if (!to)
		return false;
	/* the cell, which has four slots */
	at = bpf_ntohl(*(const volatile __u32 *)octets) >> (32 - bits + 2);
	to = bpf_map_lookup_elem(to, &at);
	if (!to)
		return false;
	to += (octets[2] >> (24 - bits) & LISP_CELL_SLOTS - 1) * sizeof(__u32);
	*slot = *(const volatile __u32 *)to;
	return true;
}

/* What a second level answers for an IPv6 address, or LISP_SLOT_WALK. Without a branch as well: the
 * outcome of the comparison is an offset. */
static __always_inline __u32 ask_second_level(__u32 number, const union lisp_address *address)
{
	__u64 bits = __builtin_bswap64(*(const volatile __u64 *)address->pairs), check, unequal;
	__u32 at = bits >> LISP_ENTRY_REST_BITS & (LISP_SECOND_LEVEL6_ENTRIES - 1);
	void *to = bpf_map_lookup_elem(&second_level6, &number);

	if (!to)
		return LISP_SLOT_WALK;
	to = bpf_map_lookup_elem(to, &at);
	if (!to)
		return LISP_SLOT_WALK;
	check = *(const volatile __u64 *)to; /* value and shift */
	unequal = (bits & ((1ULL << LISP_ENTRY_REST_BITS) - 1)) >> (check >> 32 & 31);
	unequal ^= (__u32)check;
	asm volatile("%0 = -%0" : "+r"(unequal));
	unequal >>= 63;
	to += unequal * sizeof(__u32);
	return *(const volatile __u32 *)(to + __builtin_offsetof(struct lisp_entry, match));
}

/* The leaf slot that covers an address below one of the roots, or LISP_SLOT_EMPTY. */
static __always_inline __u32 find_leaf(const struct lisp_roots *of, enum lisp_root_kind kind,
				       __u8 family, const union lisp_address *address)
{
	/* volatile: read anew for the walk; registers are scarce */
	const volatile __u32 *words = address->words;
	__u64 root, high, low = 0;
	__u32 slot, shift = 0;

	if (!of)
		return LISP_SLOT_EMPTY;
	/* 6 has that bit, 4 has not */
	root = *(const volatile __u64 *)&of->roots[kind + (family >> 1 & 1)];
	if (family == 6) {
		if (ask_first_level(&first_level6, root, LISP_FIRST_LEVEL6_BITS, address, &slot)) {
			slot = ask_second_level(slot, address);
			if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_NODE)
				return slot;
		}
		slot = root;
	} else if (ask_first_level(&first_level4, root, LISP_FIRST_LEVEL4_BITS, address, &slot)) {
		if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_NODE)
			return slot;
		shift = LISP_FIRST_LEVEL4_BITS;
	} else {
		slot = root;
	}
	if (!(root & LISP_ROOT_IN_USE))
		return LISP_SLOT_EMPTY;
	high = (__u64)bpf_ntohl(words[0]) << 32 << shift;
	if (family == 6) {
		high |= bpf_ntohl(words[1]);
		low = (__u64)bpf_ntohl(words[2]) << 32 | bpf_ntohl(words[3]);
	}
	return lisp_walk(root >> LISP_ROOT_TABLE_SHIFT & LISP_ROOT_TABLE_MASK, slot, high, low);
}

static __always_inline struct lisp_mapping *find_covering(const struct lisp_roots *of,
							  enum lisp_root_kind kind, __u8 family,
							  const union lisp_address *address,
							  __u32 *index)
{
	__u32 slot = find_leaf(of, kind, family, address), at = slot & LISP_SLOT_INDEX_MASK;
	struct lisp_mapping *mapping;

	if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_LEAF)
		return NULL;
	*index = at;
	mapping = bpf_map_lookup_elem(&mappings, &at);
	if (!mapping || !(mapping->flags & LISP_MAPPING_VALID))
		return NULL;
	return mapping;
}

/* The mapping of the longest prefix that covers the address; NULL for none. */
static __noinline struct lisp_mapping *find_mapping(const struct lisp_roots *of,
						    enum lisp_root_kind kind, __u8 family,
						    const union lisp_address *address, __u32 *index)
{
	struct lisp_mapping *mapping = find_covering(of, kind, family, address, index);

	step(LISP_STEP_MAPPING, kind, mapping != NULL, mapping ? *index : 0);
	return mapping;
}

/* A leaf is enough: only records in use are linked. */
static __always_inline bool is_own_eid(const struct lisp_roots *of, __u8 family,
				       const union lisp_address *address)
{
	return (find_leaf(of, LISP_ROOT_DATABASE, family, address) & LISP_SLOT_TAG_MASK) ==
	       LISP_SLOT_LEAF;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Lookups: mappings by longest match (the walk that abi.h describes), own RLOCs, interfaces,
 * settings; and counting. Nothing here ever changes a table.
 */
#ifndef LISP_LOOKUP_H
#define LISP_LOOKUP_H

#include "maps.h"
#include "parse.h"
#include "trace.h"

/* How many mappings there are; user space sets it before loading. */
volatile const __u32 lisp_mapping_limit = 65536;

/* The slot at which a walk for an address ends, whose first bit is the highest of `high`. A program
 * of its own to the verifier, which so looks at it once. */
__noinline __u32 lisp_walk(__u32 index, __u32 slot, __u64 high, __u64 low)
{
	void *table = bpf_map_lookup_elem(&fib, &index);
	const volatile struct lisp_compare *compare;
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
			compare = (const volatile struct lisp_compare *)cell;
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

/* The roots of any Instance-ID; NULL where it has none. */
static __always_inline const struct lisp_roots *find_instance(__u32 iid)
{
	return find_roots(index_of_roots(iid));
}

/* What the block that a root names has for the first bits of an address; false where it names none,
 * or where its block ends before them. In line, short, and without a branch that waits for what is
 * loaded: so many lookups are under way at once as the processor has room for. */
static __always_inline bool ask_block(void *blocks, __u64 root, __u32 bits,
				      const union lisp_address *address, __u32 *slot)
{
	/* read where they are needed: registers are scarce */
	const volatile __u8 *octets = address->octets;
	__u32 at = root >> LISP_ROOT_BLOCK_SHIFT & LISP_ROOT_BLOCK_MASK;
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

/* What the group with a number answers for an IPv6 address, or LISP_SLOT_WALK. In line and without
 * a branch as well: the outcome of the comparison is an offset. */
static __always_inline __u32 ask_group(__u32 number, const union lisp_address *address)
{
	__u64 bits = __builtin_bswap64(*(const volatile __u64 *)address->pairs), check, unequal;
	__u32 at = bits >> LISP_ELEMENT_REST_BITS & (LISP_ELEMENTS - 1);
	void *to = bpf_map_lookup_elem(&groups, &number);

	if (!to)
		return LISP_SLOT_WALK;
	to = bpf_map_lookup_elem(to, &at);
	if (!to)
		return LISP_SLOT_WALK;
	check = *(const volatile __u64 *)to; /* value and shift */
	unequal = (bits & ((1ULL << LISP_ELEMENT_REST_BITS) - 1)) >> (check >> 32 & 31);
	unequal ^= (__u32)check;
	asm volatile("%0 = -%0" : "+r"(unequal));
	unequal >>= 63;
	to += unequal * sizeof(__u32);
	return *(const volatile __u32 *)(to + __builtin_offsetof(struct lisp_element, match));
}

/* The leaf slot that covers an address below one of the roots, or LISP_SLOT_EMPTY. */
static __always_inline __u32 find_leaf(const struct lisp_roots *of, enum lisp_root_kind kind,
				       __u8 family, const union lisp_address *address)
{
	/* Read anew where the walk goes on, rather than kept in registers that the short way needs.
	 */
	const volatile __u32 *words = address->words;
	__u64 root, high, low = 0;
	__u32 slot, shift = 0;

	if (!of)
		return LISP_SLOT_EMPTY;
	/* 6 has that bit, 4 has not */
	root = *(const volatile __u64 *)&of->roots[kind + (family >> 1 & 1)];
	if (family == 6) {
		if (ask_block(&numbers, root, LISP_GROUP_BITS, address, &slot)) {
			slot = ask_group(slot, address);
			if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_NODE)
				return slot;
		}
		slot = root;
	} else if (ask_block(&wide, root, LISP_WIDE_BITS, address, &slot)) {
		if ((slot & LISP_SLOT_TAG_MASK) != LISP_SLOT_NODE)
			return slot;
		shift = LISP_WIDE_BITS;
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

/* The locator-set and 1 of the mappings that stand beside one; 0: look at its record. */
static __always_inline __u32 find_page(__u32 index)
{
	__u32 page = index / LISP_PAGE_MAPPINGS, at = page / LISP_WORD_PAGES;
	const volatile __u64 *word = bpf_map_lookup_elem(&mapping_pages, &at);

	return word ? *word >> page % LISP_WORD_PAGES * 16 & 0xFFFF : 0;
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

/* The index is copied, because Linux 6.1 takes no argument of a global function as a key. */
static __always_inline const struct lisp_locator_set *find_locator_set(__u32 index)
{
	return bpf_map_lookup_elem(&locator_sets, &index);
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

static __always_inline const struct lisp_settings *find_settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline const struct lisp_generations *find_generations(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&generations, &zero);
}

/* Nearly always it is the first one of its family. */
static __always_inline bool is_own_rloc(__u8 family, const union lisp_address *address)
{
	const struct lisp_settings *s = find_settings();
	struct lisp_rloc_key key = {.family = family};
	const volatile __u64 *first;

	if (s && family == 4 && address->words[0] && address->words[0] == *(const __u32 *)s->rloc4)
		return true;
	if (s && family == 6) {
		/* Volatile, or the compiler adds the offset before it looks whether there are
		 * settings, which Linux 6.1 refuses. */
		first = (const volatile __u64 *)s->rloc6;
		if (first[0] == address->pairs[0] && first[1] == address->pairs[1] &&
		    address->pairs[0])
			return true;
	}
	__builtin_memcpy(key.address, address, sizeof(key.address));
	return bpf_map_lookup_elem(&local_rlocs, &key) != NULL;
}

static __always_inline const struct lisp_interface *find_interface(__u32 ifindex, __u32 flag)
{
	__u32 place = ifindex % LISP_INTERFACE_SLOTS;
	const struct lisp_interface_slot *slot = bpf_map_lookup_elem(&interface_slots, &place);
	const struct lisp_interface *interface;

	if (slot && *(const volatile __u32 *)&slot->ifindex == ifindex)
		interface = &slot->records[*(const volatile __u32 *)&slot->which & 1];
	else
		interface = bpf_map_lookup_elem(&interfaces, &ifindex);
	return interface && interface->flags & flag ? interface : NULL;
}

static __always_inline bool is_tap(__u32 ifindex)
{
	const struct lisp_settings *s = find_settings();

	return s && s->tap_ifindex == ifindex;
}

static __always_inline void count(__u32 index, __u32 octets)
{
	struct lisp_counter *c = bpf_map_lookup_elem(&counters, &index);

	if (!c)
		return;
	c->packets++;
	c->octets += octets;
}

static __always_inline int drop(hook_frame *frame, __u32 reason)
{
	struct lisp_counter *c = bpf_map_lookup_elem(&drops, &reason);

	if (c) {
		c->packets++;
		c->octets += frame_length(frame);
	}
	step(LISP_STEP_DROP, reason, 0, 0);
	sample_drop(frame, reason);
	return HOOK_DROP;
}

/* While most packets miss the flow cache, one of so many is looked up in it all the same, to see
 * whether they still do; a power of two. */
#define SAMPLE_ONE_IN 512
/* Fewer misses in a jiffy are not worth a thought. */
#define MISSED_MIN 64

/* Of lisp_clock.missing. */
#define MOSTLY_MISSING 2
#define MISSING_MAX 8

static __always_inline bool mostly_misses(const struct lisp_clock *c)
{
	return c->missing >= MOSTLY_MISSING;
}

static __always_inline __u64 packets_counted(__u32 index)
{
	const struct lisp_counter *c = bpf_map_lookup_elem(&counters, &index);

	return c ? c->packets : 0;
}

/* Judges by the packets of the last jiffy whether most of them miss the flow cache, twice in a row.
 * A global function: verified once. */
__noinline int lisp_judge_jiffy(void)
{
	__u32 zero = 0;
	struct lisp_clock *c = bpf_map_lookup_elem(&clocks, &zero);
	__u64 forwarded = packets_counted(LISP_COUNTER_ENCAPSULATED_IPV4) +
			  packets_counted(LISP_COUNTER_ENCAPSULATED_IPV6) +
			  packets_counted(LISP_COUNTER_DECAPSULATED_IPV4) +
			  packets_counted(LISP_COUNTER_DECAPSULATED_IPV6);

	if (!c)
		return 0;
	if (c->missed >= MISSED_MIN && c->missed * 2ULL > forwarded - c->forwarded)
		c->missing = c->missing ? MISSING_MAX : 1;
	else if (c->missing)
		c->missing--;
	c->forwarded = forwarded;
	c->missed = 0;
	return 0;
}

/* Where this processor counts what a mapping does. */
static __always_inline __u32 counters_of(__u32 index)
{
	return bpf_get_smp_processor_id() * lisp_mapping_limit + index;
}

static __always_inline struct lisp_mapping_counters *find_counters(__u32 own)
{
	return bpf_map_lookup_elem(&mapping_counters, &own);
}

static __always_inline void count_at(__u32 own, __u32 octets)
{
	struct lisp_mapping_counters *c = find_counters(own);

	if (!c)
		return;
	c->packets++;
	c->octets += octets;
}

/* Says when a mapping was last used, which a packet that is traced does not. */
static __always_inline void mark_mapping(struct lisp_mapping *m, __u32 tick)
{
	if (!lisp_tracing && m && *(volatile __u32 *)&m->last_used != tick)
		*(volatile __u32 *)&m->last_used = tick;
}

static __always_inline void mark_used(__u32 index, __u32 tick)
{
	mark_mapping(bpf_map_lookup_elem(&mappings, &index), tick);
}

/* The processor's clock, whose boot_ns is CLOCK_BOOTTIME, at most a jiffy ago: reading it anew
 * costs as much as a lookup. */
static __always_inline struct lisp_clock *find_clock(void)
{
	__u64 jiffies = bpf_jiffies64();
	__u32 zero = 0;
	struct lisp_clock *c = bpf_map_lookup_elem(&clocks, &zero);

	if (c && c->jiffies != jiffies) {
		c->jiffies = jiffies;
		c->boot_ns = bpf_ktime_get_boot_ns();
		c->nonces ^= (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
		lisp_judge_jiffy();
	}
	return c;
}

/* The clock as this packet has looked at it before: where the stack has no room for the call that a
 * new jiffy makes. */
static __always_inline __u64 last_ns(void)
{
	__u32 zero = 0;
	const struct lisp_clock *c = bpf_map_lookup_elem(&clocks, &zero);

	return c ? c->boot_ns : 0;
}

static __always_inline __u64 now_ns(void)
{
	const struct lisp_clock *c = find_clock();

	return c ? c->boot_ns : 0;
}

/* The time as lisp_mapping.last_used has it, and the jiffy in which a processor read it. One word
 * for all of them is enough: it is written once a jiffy, and reached without a lookup. */
volatile __u32 lisp_tick, lisp_tick_jiffy;

static __always_inline __u32 tick_now(void)
{
	__u32 jiffy = bpf_jiffies64();

	if (lisp_tick_jiffy != jiffy) {
		lisp_tick = bpf_ktime_get_boot_ns() >> LISP_LAST_USED_SHIFT;
		lisp_tick_jiffy = jiffy;
	}
	return lisp_tick;
}

static __always_inline void count_mapping(__u32 index, __u32 octets)
{
	count_at(counters_of(index), octets);
	mark_used(index, tick_now());
}

#endif

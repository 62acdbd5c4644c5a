/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Every map of the programs, by the name under which it is pinned. The sizes are defaults; user
 * space may set others before loading (of mapping_counters it must, see abi.h). Programs write only
 * to counters, when mappings and bindings were last used, limits, heard, peers, sources, backlog,
 * events, and what is for the programs alone (actions, flows, clocks, contexts, trusted).
 */
#ifndef LISP_MAPS_H
#define LISP_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

/* A map with keys of a type; flags are BPF_F_*. */
#define MAP(name, kind, flags, entries, key_type, value_type) \
	struct {                                              \
		__uint(type, BPF_MAP_TYPE_##kind);            \
		__uint(map_flags, flags);                     \
		__uint(max_entries, entries);                 \
		__type(key, key_type);                        \
		__type(value, value_type);                    \
	} name SEC(".maps")

/* An array that user space writes through mmap. */
#define MMAPPED_ARRAY(name, entries, value_type) \
	MAP(name, ARRAY, BPF_F_MMAPABLE, entries, __u32, value_type)

#define PER_PROCESSOR(name, entries, value_type) \
	MAP(name, PERCPU_ARRAY, 0, entries, __u32, value_type)

#define RING_BUFFER(name, octets)                   \
	struct {                                    \
		__uint(type, BPF_MAP_TYPE_RINGBUF); \
		__uint(max_entries, octets);        \
	} name SEC(".maps")

/* An array of arrays of one kind, `inner`, which user space writes through mmap. */
#define ARRAY_OF_ARRAYS(name, entries, inner, flags, inner_entries, value_type) \
	struct inner {                                                          \
		__uint(type, BPF_MAP_TYPE_ARRAY);                               \
		__uint(map_flags, BPF_F_MMAPABLE | flags);                      \
		__uint(max_entries, inner_entries);                             \
		__type(key, __u32);                                             \
		__type(value, value_type);                                      \
	};                                                                      \
	struct {                                                                \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                       \
		__uint(max_entries, entries);                                   \
		__type(key, __u32);                                             \
		__array(values, struct inner);                                  \
	} name SEC(".maps")

/* ---- the forwarding table, and what it leads to ---- */

/* Tables have any number of cells, hence BPF_F_INNER_MAP. Blocks and groups have one size, so that
 * lookups in them need no call. */
ARRAY_OF_ARRAYS(fib, 4096, lisp_table, BPF_F_INNER_MAP, 4, struct lisp_cell);
ARRAY_OF_ARRAYS(first_level4, LISP_ROOT_FIRST_LEVEL_MASK + 1, lisp_first_level4, 0,
		LISP_FIRST_LEVEL4_SLOTS / LISP_CELL_SLOTS, struct lisp_cell);
ARRAY_OF_ARRAYS(first_level6, LISP_ROOT_FIRST_LEVEL_MASK + 1, lisp_first_level6, 0,
		(1U << LISP_FIRST_LEVEL6_BITS) / LISP_CELL_SLOTS, struct lisp_cell);
ARRAY_OF_ARRAYS(second_level6, 1024, lisp_second_level6, 0, LISP_SECOND_LEVEL6_ENTRIES,
		struct lisp_entry);
MMAPPED_ARRAY(roots, 4096, struct lisp_roots);
MAP(instances, HASH, 0, 4096, __u32, struct lisp_instance);
MMAPPED_ARRAY(mappings, 65536, struct lisp_mapping);
MMAPPED_ARRAY(mapping_counters, 65536, struct lisp_mapping_counters);
MMAPPED_ARRAY(mapping_runs, 65536 / LISP_RUN_MAPPINGS / LISP_WORD_RUNS, __u64);
MMAPPED_ARRAY(locator_sets, 8192, struct lisp_locator_set);
MMAPPED_ARRAY(locators, 16384, struct lisp_locator);
MAP(paths, HASH, BPF_F_NO_PREALLOC, 65536, __u32, struct lisp_path);
MAP(bindings, HASH, BPF_F_NO_PREALLOC, LISP_BINDINGS, struct lisp_binding_key, struct lisp_binding);
MAP(bound_pairs, HASH, BPF_F_NO_PREALLOC, LISP_BINDINGS, struct lisp_binding_key, __u32);

/* ---- interfaces and settings ---- */

MAP(interfaces, HASH, 0, 1024, __u32, struct lisp_interface);
MMAPPED_ARRAY(interface_slots, LISP_INTERFACE_SLOTS, struct lisp_interface_slot);
MAP(sites, HASH, 0, 1024, __u32, __u32);
MAP(local_rlocs, HASH, 0, 1024, struct lisp_rloc_key, __u32);
MAP(settings, ARRAY, 0, 1, __u32, struct lisp_settings);
MAP(miss_policies, HASH, 0, 4096, __u32, __u32);
MAP(vlans, HASH, 0, 2048, struct lisp_vlan_key, __u32);
/* two generations of lists and policies */
MAP(lists, LPM_TRIE, BPF_F_NO_PREALLOC, 32768, struct lisp_list_key, __u32);

/* ---- what is counted, and what the programs keep for themselves ---- */

PER_PROCESSOR(drops, LISP_DROP_MAX, struct lisp_counter);
PER_PROCESSOR(counters, LISP_COUNTER_MAX, struct lisp_counter);

/* The kernel's clock is read once a jiffy. */
struct lisp_clock {
	__u64 jiffies;
	__u64 boot_ns;
	__u64 order; /* always 0: adding to it orders what is read before it and after it */
	/* state of the generator of nonces, seeded once a jiffy by the kernel's own */
	__u64 nonces;
	/* Whether most packets miss the flow cache (cached_path.h): */
	__u64 forwarded; /* packets up to this jiffy */
	__u32 missed;    /* those of this jiffy that missed it */
	/* MOSTLY_MISSING or more: they do; sinks with each jiffy in which they did not */
	__u32 missing;
	__u32 packets; /* meanwhile: which are taken for samples */
	__u32 serial;  /* the latest of an action record */
};

PER_PROCESSOR(clocks, 1, struct lisp_clock);
MMAPPED_ARRAY(generations, 1, struct lisp_generations);
MMAPPED_ARRAY(actions, LISP_ACTIONS, struct lisp_action_record);
MMAPPED_ARRAY(flows, LISP_FLOWS, struct lisp_flow);
MAP(bound_answers, ARRAY, 0, LISP_FLOWS, __u32, struct lisp_bound_answer);

#define LISP_DEVICES 256

/* Interfaces that take frames, at ifindex % LISP_DEVICES where no other one is: to send by them the
 * kernel need not search. Before user space gives a place to another interface it ends all action
 * records, which may have the place. */
MAP(devices, DEVMAP, 0, LISP_DEVICES, __u32, __u32);

/* Places of xdp_programs, which user space fills. */
enum {
	LISP_XDP_CORE,
	LISP_XDP_SITE,
	LISP_XDP_SETS,
	LISP_XDP_PROGRAMS
};

/* The programs to which lisp_xdp leaves frames that no cache knows. The kernel empties it when no
 * pin and no process holds it. */
MAP(xdp_programs, PROG_ARRAY, 0, LISP_XDP_PROGRAMS, __u32, __u32);

/* Until when, in jiffies, packets may be at lisp_settings.segmenter_ifindex, which has a queue for
 * each processor. */
PER_PROCESSOR(cutting, 1, __u64);

/* ---- what is told to user space ---- */

MAP(limits, LRU_HASH, 0, 16384, struct lisp_limit_key, __u64);
MAP(heard, LRU_HASH, 0, 16384, struct lisp_limit_key, struct lisp_heard);
MAP(peers, LRU_HASH, 0, 16384, struct lisp_rloc_key, struct lisp_peer);
MAP(sources, LRU_HASH, 0, 16384, struct lisp_rloc_key, __u64);
PER_PROCESSOR(trusted, 1, struct lisp_trusted);
MMAPPED_ARRAY(backlog, 1, struct lisp_backlog);
RING_BUFFER(events, 256 * 1024);
RING_BUFFER(subflows, 256 * 1024);
MAP(subflow_limits, LRU_HASH, 0, 16384, struct lisp_limit_key, __u64);
MAP(subflow_rate, ARRAY, 0, 1, __u32, struct lisp_subflow_rate);
RING_BUFFER(steps, 4096);
MAP(watch, ARRAY, 0, 1, __u32, struct lisp_watch);
RING_BUFFER(samples, 256 * 1024);

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, struct lisp_sample);
} pending_samples SEC(".maps");

#endif

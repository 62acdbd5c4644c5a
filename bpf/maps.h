/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Every map of the programs, by the name under which it is pinned. Sizes given here are what user
 * space finds when it changes nothing; it may set other ones before loading (of mapping_counters it
 * must, see abi.h). No program ever writes to any of them but counters, when mappings were last
 * used, pending counts, limits, heard, peers, sources, unread, events, and what is for the programs
 * alone (outer_hops, inner_hops, decisions, set_fronts, clocks, trusted).
 */
#ifndef LISP_MAPS_H
#define LISP_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

/* A table of the forwarding table: any number of cells, hence BPF_F_INNER_MAP; written through
 * mmap. */
struct lisp_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct lisp_cell);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__array(values, struct lisp_table);
} fib SEC(".maps");

/* The block of a wide root: all have one size, so that lookups in them need no call. */
struct lisp_wide_block {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LISP_WIDE_SLOTS / LISP_CELL_SLOTS);
	__type(key, __u32);
	__type(value, struct lisp_cell);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, LISP_ROOT_BLOCK_MASK + 1);
	__type(key, __u32);
	__array(values, struct lisp_wide_block);
} wide SEC(".maps");

/* The block of an IPv6 root, likewise: numbers of groups. */
struct lisp_number_block {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, (1U << LISP_GROUP_BITS) / LISP_CELL_SLOTS);
	__type(key, __u32);
	__type(value, struct lisp_cell);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, LISP_ROOT_BLOCK_MASK + 1);
	__type(key, __u32);
	__array(values, struct lisp_number_block);
} numbers SEC(".maps");

/* A group of elements of an IPv6 root: all have one size as well. */
struct lisp_group {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LISP_ELEMENTS);
	__type(key, __u32);
	__type(value, struct lisp_element);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__array(values, struct lisp_group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct lisp_roots);
} roots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct lisp_instance);
} instances SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct lisp_mapping);
} mappings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct lisp_mapping_counters);
} mapping_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65536 / LISP_PAGE_MAPPINGS / LISP_WORD_PAGES);
	__type(key, __u32);
	__type(value, __u64);
} mapping_pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lisp_pending);
} pending_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct lisp_locator_set);
} locator_sets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct lisp_locator);
} locators SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct lisp_interface);
} interfaces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LISP_INTERFACE_SLOTS);
	__type(key, __u32);
	__type(value, struct lisp_interface_slot);
} interface_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} sites SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct lisp_rloc_key);
	__type(value, __u32);
} local_rlocs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lisp_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} miss_policies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, struct lisp_vlan_key);
	__type(value, __u32);
} vlans SEC(".maps");

/* Two generations. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct lisp_list_key);
	__type(value, __u32);
} lists SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LISP_DROP_MAX);
	__type(key, __u32);
	__type(value, struct lisp_counter);
} drops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LISP_COUNTER_MAX);
	__type(key, __u32);
	__type(value, struct lisp_counter);
} counters SEC(".maps");

/* Powers of two: a place is a hash's lowest bits. */
#define LISP_OUTER_HOPS 8192
#define LISP_INNER_HOPS 1024

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LISP_OUTER_HOPS);
	__type(key, __u32);
	__type(value, struct lisp_outer_hop);
} outer_hops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LISP_INNER_HOPS);
	__type(key, __u32);
	__type(value, struct lisp_inner_hop);
} inner_hops SEC(".maps");

/* What a processor knows of its time: the kernel's clock is read once a jiffy. */
struct lisp_clock {
	__u64 jiffies;
	__u64 boot_ns;
	__u64 order; /* always 0: adding to it orders what is read before it and after it */
	/* state of the generator of nonces that nobody looks at, seeded once a jiffy by the
	 * kernel's own */
	__u64 nonces;
	/* Whether most packets are between addresses about which nothing is kept (shared.h): */
	__u64 forwarded; /* packets up to this jiffy */
	__u32 strangers; /* those of this jiffy that no decision was about */
	/* SCATTERED or more: they are; sinks with each jiffy in which they were not */
	__u32 scattered;
	__u32 turn;   /* of scattered packets: which are taken for samples */
	__u32 fronts; /* the latest number of a LISP_WAY_FRONT */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lisp_clock);
} clocks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lisp_generations);
} generations SEC(".maps");

/* Of each processor: those of decisions.h and most of shared.h, whose place any other one may take,
 * and behind them fronts. */
#define LISP_FRONTS 4096
#define LISP_PLACES (LISP_DECISIONS + LISP_FRONTS)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LISP_PLACES);
	__type(key, __u32);
	__type(value, struct lisp_decision);
} decisions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LISP_SET_FRONTS);
	__type(key, __u32);
	__type(value, struct lisp_set_front);
} set_fronts SEC(".maps");

#define LISP_DEVICES 256

/* Interfaces that take frames, at ifindex % LISP_DEVICES where no other one is: sending by them the
 * kernel need not search. It takes out what is gone. Before user space gives a place to another
 * interface it ends all decisions, which may have the place. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, LISP_DEVICES);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

/* Places of xdp_programs, which user space fills. */
enum {
	LISP_XDP_CORE,
	LISP_XDP_SITE,
	LISP_XDP_SCATTERED,
	LISP_XDP_PROGRAMS
};

/* The programs to which lisp_xdp leaves frames about which nothing is kept. It is emptied when no
 * pin and no process holds it. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, LISP_XDP_PROGRAMS);
	__type(key, __u32);
	__type(value, __u32);
} xdp_programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct lisp_limit_key);
	__type(value, __u64);
} limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct lisp_limit_key);
	__type(value, struct lisp_heard);
} heard SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct lisp_rloc_key);
	__type(value, struct lisp_peer);
} peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct lisp_rloc_key);
	__type(value, __u64);
} sources SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lisp_trusted);
} trusted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lisp_unread);
} unread SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} steps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lisp_watch);
} watch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, struct lisp_sample);
} room_samples SEC(".maps");

#endif

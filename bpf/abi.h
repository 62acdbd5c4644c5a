/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The one definition of everything the programs in bpf/ share with user space: keys and values of
 * every map, slots of the forwarding table, reasons, the metadata of packets that wait, the flow
 * hash. Its parts are abi_*.h, which it includes, so that abi.h means all of them. Go's mirror is
 * generated (bpf2go -type); nothing here is ever copied by hand. Obeys RFC 9300 s.5 (header), s.12
 * (hash). It holds no code.
 *
 * Byte order: numbers are in host order unless their type is __be16/__be32; addresses are octets in
 * network order, an IPv4 address in the first four octets of its field and the other twelve zero.
 * Families are 4 and 6, not AF_*. Times are CLOCK_BOOTTIME nanoseconds. An Instance-ID (iid) has 24
 * bits; 0 is the default instance.
 *
 * ---- Forwarding table ----
 *
 * `fib` is an array of tables; a table is an ARRAY map of cells (struct lisp_cell, four slots). A
 * root says in which table the walk goes, and with which slot it begins. `roots` has the roots of
 * one Instance-ID side by side, one for each kind and family. Where an Instance-ID's stand is in
 * the record of each interface, so that a packet of the interface's own Instance-ID needs no search
 * for them, and in the HASH `instances` for the others. Several roots may share a table, or each
 * have its own. A slot is 32 bits, a tag of two and:
 *
 *   0
 *     empty: no prefix covers these addresses, the walk ends in a miss
 *   LISP_SLOT_NODE | stride << 25 | cell
 *     a node: the next `stride` bits of the address, 1 to LISP_STRIDE_MAX, choose one of 2^stride
 *     slots, which begin at that cell of the same table
 *   LISP_SLOT_NODE | 0 << 25 | cell
 *     a path-compressed node: that cell is a struct lisp_compressed; if the next `length` bits of
 * the address are `value`, the walk goes on with `match`, else with `otherwise` LISP_SLOT_LEAF |
 * index the walk ends at mappings[index]
 *
 * There is no way back up: a prefix fills all slots that it covers (one of /20 that ends in a node
 * for bits 17 to 24 has 16 of them), and what begins below a slot begins as copies of it. So each
 * slot alone is a complete answer for all addresses that lead to it: user space edits by single
 * aligned 32-bit stores through mmap (tables are BPF_F_MMAPABLE), writing a node
 * whole before the store that links it, and must not reuse its cells, or a mapping, until programs
 * that may still walk there are done (some 100 ms are ample; a program runs for microseconds).
 * `value` and `length` of a linked path-compressed node never change; its `otherwise` is never a
 * node. User space chooses the strides: wide nodes where prefixes are dense, path-compressed ones
 * where they are sparse. To grow or shrink: make another table at a free index of `fib`, copy, then
 * store the roots: each is 64 bits, that one aligned store is its swap. The place of an
 * Instance-ID's roots is not used for another one until programs are done with it.
 *
 * Tables are made from the template in the object (its BTF included: kernels before 6.4 or so
 * compare that), with another max_entries.
 *
 * A root of IPv4 with many prefixes names a first level (DIR-24-8), an inner map of `first_level4`
 * with a slot for each value of the first LISP_FIRST_LEVEL4_BITS of the address, where walks go on.
 * For addresses beyond its slots they go by the slot of the root. A first level is written whole
 * before a root names it, edited as nodes are, and taken away when no root names it and programs
 * are done with it.
 *
 * A root of IPv6 with many prefixes names one of `first_level6`: for each value of the first
 * LISP_FIRST_LEVEL6_BITS the number of a second level, 0 for none. `second_level6` has, for the
 * addresses below, an entry for each value of the next LISP_SECOND_LEVEL6_BITS. It answers what the
 * walk from the root's slot answers, or LISP_SLOT_WALK: take that one. `value` and `shift` are
 * stored as one; after such a store, until programs are done, they stay, so does the slot that no
 * longer counts, and the one that counted for all before changes to LISP_SLOT_WALK alone. Between
 * two comparisons an entry has one that never matches. A second level is put in its place whole;
 * its number rests before it is used again.
 *
 * `mappings`, `locator_sets` and `locators` are BPF_F_MMAPABLE as well. A mapping is written whole
 * at an index no slot refers to, then linked; when it is linked, user space changes nothing of it
 * but `flags`, `locator_set`, `action`, `cookie` and times, by aligned stores, and programs write
 * its `last_used`. Of a locator set that a mapping refers to nothing changes but single octets of
 * its buckets and path MTUs; for anything else make another and store its index.
 *
 * ---- Flow hash (must equal forward.FlowHash) ----
 *
 *   h = 0x4C495350
 *   step(w): h ^= w; h *= 0x9E3779B1; h ^= h >> 15    (32-bit arithmetic)
 *   step for each 32-bit big-endian word of the source address (1 or 4), then of the destination
 *   address, then step(source port << 16 | destination port), then step(protocol)
 *   h ^= h >> 16; h *= 0x85EBCA6B; h ^= h >> 13; h *= 0xC2B2AE35; h ^= h >> 16
 *
 * The ports are 0 unless the protocol is TCP (6), UDP (17) or SCTP (132), the packet is no fragment
 * (IPv4: MF clear and offset 0; IPv6: no Fragment header) and both ports are within the packet. The
 * protocol of IPv6 is the Next Header at which the walk over extension headers stops: Hop-by-Hop
 * (0), Routing (43) and Destination Options (60) are walked over, at most
 * LISP_EXTENSION_HEADERS_MAX of them; a Fragment header (44) ends the walk and gives its own Next
 * Header; a header cut off by the packet's end, or one more than the limit, ends it with the Next
 * Header that announced it. Of the hash:
 *
 *   outer UDP source port  0xC000 | (h & 0x3FFF)
 *   bucket                 (h >> 14) & 127
 *   outer IPv6 flow label  h >> 12
 */
#ifndef LISP_ABI_H
#define LISP_ABI_H

#include <linux/types.h>

#include "abi_actions.h"
#include "abi_counters.h"
#include "abi_events.h"
#include "abi_trace.h"
#include "abi_backlog.h"
#include "abi_paths.h"

/* Grows with every change of this file that an older user space or older pinned maps would misread.
 * A newer user space takes over older maps by the names of their fields
 * (dataplane/kernel/upgrade): a name keeps its meaning, a value of an enumeration as well, and 0
 * in a new field stands for what was before it. Where that cannot be, the converter needs a case of
 * its own. */
#define LISP_ABI_VERSION 42

#define LISP_DATA_PORT 4341

#define LISP_EXTENSION_HEADERS_MAX 6

/* ---- forwarding table ---- */
#define LISP_SLOT_EMPTY 0x00000000U
#define LISP_SLOT_NODE 0x40000000U
#define LISP_SLOT_LEAF 0x80000000U
#define LISP_SLOT_TAG_MASK 0xC0000000U
#define LISP_SLOT_INDEX_MASK 0x3FFFFFFFU

#define LISP_SLOT_STRIDE_SHIFT 25
#define LISP_SLOT_CELL_MASK 0x01FFFFFFU

#define LISP_CELL_SLOTS 4
#define LISP_STRIDE_MAX 24
#define LISP_COMPRESSED_BITS_MAX 32
/* Each step of a walk is for one bit of the address or more. */
#define LISP_WALK_STEPS_MAX 128

struct lisp_cell {
	__u32 slots[LISP_CELL_SLOTS];
};

struct lisp_compressed {
	__u32 value;  /* right-aligned */
	__u32 length; /* in bits, 1 to LISP_COMPRESSED_BITS_MAX */
	__u32 match;
	__u32 otherwise;
};

/* What stands where in lisp_roots; the root of IPv6 follows that of IPv4. */
enum lisp_root_kind {
	LISP_ROOT_MAP_CACHE = 0, /* destination EIDs: what the ITR looks up */
	/* our own EID-prefixes: sources of the ITR, destinations of the ETR */
	LISP_ROOT_DATABASE = 2,
	LISP_ROOT_MAX = 4,
};

/* Tag of a root that is in use; its first level, 0 for none; index into fib; then come 32 bits of
 * slot in that table. */
#define LISP_ROOT_IN_USE 0x8000000000000000ULL
#define LISP_ROOT_FIRST_LEVEL_SHIFT 44
#define LISP_ROOT_FIRST_LEVEL_MASK 0x3FU
#define LISP_ROOT_TABLE_SHIFT 32
#define LISP_ROOT_TABLE_MASK 0xFFFU

/* So many bits of an IPv4 address choose its slot in a first level, if that is one of these: those
 * of unicast, below 224.0.0.0. */
#define LISP_FIRST_LEVEL4_BITS 24
#define LISP_FIRST_LEVEL4_SLOTS (14U << 20)
/* So many bits of an IPv6 address choose its second level, and then its entry there; the rest of
 * its first 64 is compared. */
#define LISP_FIRST_LEVEL6_BITS 20
#define LISP_SECOND_LEVEL6_BITS 16
#define LISP_ENTRY_REST_BITS (64 - LISP_FIRST_LEVEL6_BITS - LISP_SECOND_LEVEL6_BITS)
#define LISP_SECOND_LEVEL6_ENTRIES (1U << LISP_SECOND_LEVEL6_BITS)
#define LISP_SLOT_WALK LISP_SLOT_NODE
struct lisp_entry {
	/* `match` counts if the rest, shifted right, is this; 1 for never, with a shift of
	 * LISP_ENTRY_REST_BITS */
	__u32 value;
	__u32 shift;
	__u32 match; /* a leaf, empty, or LISP_SLOT_WALK */
	__u32 otherwise;
};
/* ARRAY roots (BPF_F_MMAPABLE); 0 where there are no prefixes. */
struct lisp_roots {
	__u64 roots[LISP_ROOT_MAX];
};

/* HASH instances: Instance-ID (__u32) -> this. */
struct lisp_instance {
	/* once more: the kernel may give an element to another key while a program looks at it */
	__u32 iid;
	__u32 roots; /* index into roots */
};

/* ---- mappings ---- */
enum lisp_mapping_flag {
	/* the entry is in use; the programs treat a leaf without it as a miss */
	LISP_MAPPING_VALID = 1 << 0,
	/* packets wait in the TAP while earlier ones of their flow are being written back */
	LISP_MAPPING_HOLD = 1 << 1,
	/* an own EID-prefix (a leaf of a DATABASE root), not a map-cache entry */
	LISP_MAPPING_DATABASE = 1 << 2,
	LISP_MAPPING_STATIC = 1 << 3, /* for user space alone: configured, never expires */
				      /* its ETR echoes nonces (RFC 9301 s.5.4, E) */
	LISP_MAPPING_ECHO_NONCE = 1 << 4,
	/* of the Database: one next hop for all addresses; see lisp_generations.watched_until_ns */
	LISP_MAPPING_SINGLE_NEXT_HOP = 1 << 5,
	/* a router behind a NAT registered it by this RTR, which relays packets to and from it */
	LISP_MAPPING_REGISTERED = 1 << 6,
};

/* RFC 9301 s.5.4, ACT; it counts only where locator_set is LISP_NO_LOCATOR_SET. 6 and 7 are treated
 * as NO_ACTION. */
enum lisp_action {
	LISP_ACTION_NO_ACTION = 0, /* neither encapsulated nor forwarded: dropped */
	LISP_ACTION_NATIVELY_FORWARD = 1,
	LISP_ACTION_SEND_MAP_REQUEST = 2, /* a miss: event and queue */
	LISP_ACTION_DROP = 3,
	LISP_ACTION_DROP_POLICY_DENIED = 4,
	LISP_ACTION_DROP_AUTHENTICATION_FAILURE = 5,
};

#define LISP_NO_LOCATOR_SET 0xFFFFFFFFU

/* Of lisp_mapping.last_used: times are right-shifted by so much, which makes units of 34 ms that
 * last for four years. */
#define LISP_LAST_USED_SHIFT 25

struct lisp_mapping {
	__u32 flags; /* enum lisp_mapping_flag */
	__u32 iid;   /* Instance-ID written into the LISP header */
	__u32 locator_set;
	__u8 action; /* enum lisp_action */
	__u8 family;
	__u8 prefix_length;
	__u8 zero;
	__u8 prefix[16];
	__u64 created_ns;
	/* Of a mapping for user space alone: programs forward by expired ones until they are
	 * removed. Of an entry of the Database: Locator-Status-Bits are not sent before (RFC 9300
	 * s.13.1). */
	__u64 expires_ns;
	__u32 ttl_minutes;
	__u16 map_version;
	__u16 zero2;
	__u32 cookie; /* for user space alone */
	/* When a packet last went by it, in LISP_LAST_USED_SHIFT: the one word here that programs
	 * write, on whatever processor, and only when it changes. 0: never. */
	__u32 last_used;
};

/* ARRAY mapping_counters (BPF_F_MMAPABLE), at processor * lisp_mapping_limit + index of the
 * mapping: packets encapsulated by a map-cache entry, packets decapsulated towards a database
 * entry. Octets are of the inner packet. Only that processor writes there. User space makes room
 * for every possible processor, sets the programs' constant lisp_mapping_limit to how many mappings
 * there are, sums up, and zeroes the counters before it reuses an index. It is no PERCPU_ARRAY,
 * because that one allocates entry by entry: a million of them takes seconds. */
struct lisp_mapping_counters {
	__u64 packets;
	__u64 octets;
};

/* ---- locator sets ---- */
#define LISP_LOCATORS_MAX 32 /* RFC 9301 s.5.4, RFC 9300 s.10: one for each Locator-Status-Bit */
#define LISP_BUCKETS 128
#define LISP_BUCKET_NONE 0xFF

enum lisp_locator_flag {
	LISP_LOCATOR_LOCAL = 1 << 0,     /* RFC 9301 s.5.4: L */
	LISP_LOCATOR_PROBED = 1 << 1,    /* p */
	LISP_LOCATOR_REACHABLE = 1 << 2, /* R */
	/* bound flows may go to it: its priority is not 255 and its state is not down; all others
	 * obey the buckets. This bit of a linked locator may change */
	LISP_LOCATOR_UP = 1 << 3,
	/* a path: the hops are in paths, at the locator's index */
	LISP_LOCATOR_PATH = 1 << 4,
	/* a path of which no own RLOC is a hop before the next one; this bit of a linked locator
	 * may change */
	LISP_LOCATOR_NOT_ON_PATH = 1 << 5,
	/* the next hop is an EID (RFC 8060 s.4.6, L) */
	LISP_LOCATOR_LOOKUP = 1 << 6,
};

/* What stands between UDP and the inner packet. */
enum lisp_encapsulation {
	LISP_ENCAPSULATION_LISP = 0,     /* RFC 9300 s.5 */
	LISP_ENCAPSULATION_LISP_GPE = 1, /* RFC 9305: P and Next Protocol, no nonce */
	/* the same words at port LISP_VXLAN_GPE_PORT, the Instance-ID as VNI */
	LISP_ENCAPSULATION_VXLAN_GPE = 2,
};

#define LISP_VXLAN_GPE_PORT 4790

struct lisp_locator {
	__u8 rloc[16];   /* of a path: the next hop */
	__u8 source[16]; /* own RLOC of the same family */
	__u8 family;
	__u8 priority;
	__u8 weight;
	__u8 multicast_priority;
	__u8 multicast_weight;
	__u8 flags;  /* enum lisp_locator_flag */
	__be16 port; /* 0 stands for 4341 */
	/* enum lisp_encapsulation; this octet of a linked locator may change */
	__u8 encapsulation;
	__u8 number; /* of a path: its place in the set in RFC 9301's order, counted from 1 */
	/* 0: as the route says; else the smaller of both holds for the outer packet */
	__u16 path_mtu;
	__u32 ifindex; /* 0: as the route says; else outer packets leave by this interface */
	/* that outer packets leave from, with a UDP checksum; 0: that of each flow, without */
	__be16 source_port;
	__u8 sent_number; /* 0 where the next hop is the last; else `number` */
	/* which hop of the path this router is, the first of several, counted from 1; 0 where none
	 * before the next one is an own RLOC; this octet of a linked locator may change */
	__u8 place;
	__u32 path; /* the number of its path, by which bound flows find it; 0: none does */
};

/* ARRAY locator_sets (BPF_F_MMAPABLE). Its locators stand side by side in the ARRAY locators
 * (BPF_F_MMAPABLE), from index `first` on. buckets[] holds places among them: the best priority
 * that is up, as often as its weight demands; LISP_BUCKET_NONE everywhere when nothing is usable.
 */
struct lisp_locator_set {
	__u32 count; /* at most LISP_LOCATORS_MAX */
	__u32 first;
	/* RFC 9300 s.10: bit i is R of its locator i; sent where the set is a Database entry's */
	__u32 status_bits;
	__u32 serial; /* another one each time the index means another set, in 16 bits */
	__u8 buckets[LISP_BUCKETS];
};

/* ---- interfaces, own RLOCs, settings ---- */
enum lisp_interface_flag {
	LISP_INTERFACE_SITE = 1 << 0,
	LISP_INTERFACE_CORE = 1 << 1,
	LISP_INTERFACE_TAP = 1 << 2, /* loci0 */
	/* XDP frames can be redirected to it; without it they are lost silently */
	LISP_INTERFACE_TAKES_FRAMES = 1 << 3,
	/* virtual: what arrives may have a checksum that the sender left to its link */
	LISP_INTERFACE_CHECKSUM_PARTIAL = 1 << 4,
	/* a veth into another namespace, with nothing on its way out that must see packets */
	LISP_INTERFACE_PEER = 1 << 8,
	/* the host's IP forwarding sees what comes in by it, and what goes to it as a site */
	LISP_INTERFACE_STACK = 1 << 9,
	/* some of its VLANs are sites, or it is the kernel's device of such a VLAN: see vlans */
	LISP_INTERFACE_TAGGED = 1 << 10,
};

/* HASH interfaces: ifindex (__u32) -> this. A program on an interface that is not here passes
 * everything. A VLAN that is a site has a record of its own, as if it were an interface: its index
 * has LISP_VLAN_INDEX set, which no ifindex has. */
#define LISP_VLAN_INDEX 0x80000000U

struct lisp_interface {
	__u32 flags; /* enum lisp_interface_flag */
	/* of the EIDs behind a site interface; on core and TAP: of this host's own EIDs */
	__u32 iid;
	__u32 l2_length; /* 14 for Ethernet, 0 for a device without link layer header (TUN, PPP) */
	__u8 mac[6];     /* its own address, zero without link layer */
	__u16 vlan;      /* tag of the VLAN; 0: none */
	__u32 roots;     /* index into roots, those of iid */
	__u32 parent;    /* of a VLAN: the interface where its frames come and go */
};

/* HASH vlans: this -> index in interfaces (__u32). Asked for interfaces with LISP_INTERFACE_TAGGED
 * alone. */
struct lisp_vlan_key {
	__u32 ifindex;
	__u32 tag; /* VLAN identifier, or LISP_VLAN_OF_INSTANCE | Instance-ID for the way back */
};

#define LISP_VLAN_OF_INSTANCE 0x80000000U

/* ARRAY interface_slots (BPF_F_MMAPABLE): the same once more, at ifindex % LISP_INTERFACE_SLOTS,
 * because a hash costs as much as two other lookups. A slot that has another ifindex says nothing:
 * the hash does. The record that counts is records[which]; user space fills the other one, then
 * stores `which`, and leaves the old one alone until programs are done with it. */
#define LISP_INTERFACE_SLOTS 256

struct lisp_interface_slot {
	__u32 ifindex; /* 0: none */
	__u32 which;   /* 0 or 1 */
	struct lisp_interface records[2];
};

/* HASH sites: Instance-ID (__u32) -> ifindex (__u32) of its only site interface, 0 where it has
 * several. It is asked with LISP_SETTING_INSTANCES alone: of equal EIDs in several Instance-IDs the
 * route by that interface is the right one. */

/* HASH local_rlocs: key -> __u32 flags (0). Only what is sent to one of these is taken for LISP. */
struct lisp_rloc_key {
	__u8 address[16];
	__u8 family;
	__u8 zero;
	__be16 port; /* of local_rlocs: UDP port; 0 stands for LISP_DATA_PORT */
};

enum lisp_setting_flag {
	/* RFC 6040 s.4.1 compatibility mode: the outer header says Not-ECT */
	LISP_SETTING_OUTER_NOT_ECT = 1 << 0,
	LISP_SETTING_OUTER_DSCP_ZERO = 1 << 1, /* pipe model: outer DSCP 0 ... */
	LISP_SETTING_INNER_DSCP_KEPT = 1 << 2, /* ... and the inner one survives decapsulation */
	/* RFC 9300 s.4.1: N, L, E and V are sent as 0 and what is received of L, E and V has no
	 * effect; wins over what follows */
	LISP_SETTING_PUBLIC_INTERNET = 1 << 3,
	LISP_SETTING_STATUS_BITS = 1 << 4,  /* RFC 9300 s.10 */
	LISP_SETTING_ECHO_NONCE = 1 << 5,   /* RFC 9300 s.10.1 */
	LISP_SETTING_MAP_VERSIONS = 1 << 6, /* RFC 9302 */
	/* the inner source's mapping must have the outer source among its locators ... */
	LISP_SETTING_CHECK_SOURCE = 1 << 7,
	LISP_SETTING_CHECK_SOURCE_STRICT = 1 << 8, /* ... and must be there, with locators */
	LISP_SETTING_GLEAN = 1 << 9,               /* RFC 9300 s.9: LISP_EVENT_GLEANED */
	/* site interfaces of several Instance-IDs: equal EIDs may stand behind them */
	LISP_SETTING_INSTANCES = 1 << 10,
	LISP_SETTING_OTHER_PORTS = 1 << 11, /* some of local_rlocs have a port that is not 0 */
	/* rules or multipath routes of this host look at ports: see outer_hops */
	LISP_SETTING_ROUTES_BY_FLOW = 1 << 12,
	LISP_SETTING_ANY_STACK = 1 << 13, /* some interface has LISP_INTERFACE_STACK */
	LISP_SETTING_LISTS = 1 << 14,     /* there are lists, not only policies of roles */
	/* RFC 9300 s.4: an RLOC may be an EID itself, whose packets get a second layer */
	LISP_SETTING_TWO_LAYERS = 1 << 15,
	/* packets of the site that a negative mapping leaves to the stack get LISP_NATIVE_MARK */
	LISP_SETTING_MARK_NATIVE = 1 << 16,
	/* TCP packets with SYN, FIN or RST go through the stages, which raise struct lisp_subflow
	 */
	LISP_SETTING_SUBFLOWS = 1 << 17,
	/* packets carry the number of their path in place of an Instance-ID of 0 */
	LISP_SETTING_PATHS_NUMBERED = 1 << 18,
	/* an RTR goes by that number, or by the hop before it, which is the outer source */
	LISP_SETTING_PATHS_BY_NUMBER = 1 << 19,
	LISP_SETTING_PATHS_BY_SOURCE = 1 << 20,
};

/* What the stack finds in the mark of a packet that is to be translated (RFC 6832 s.7.1). */
#define LISP_NATIVE_MARK 0x08000000

/* Which address of which packets a deny and allow list is about. */
enum lisp_list_kind {
	LISP_LIST_INNER_SOURCE = 0,
	LISP_LIST_INNER_DESTINATION = 1,
	LISP_LIST_OUTER_SOURCE = 2,
	LISP_LIST_OUTER_DESTINATION = 3,
	/* added to the others: packets from the core, not those towards it */
	LISP_LIST_DECAPSULATED = 4,
	/* Policies of roles beside ITR and ETR. What a policy names is permitted, and where an
	 * Instance-ID has one all other EIDs are denied; without one its router has no such role.
	 */
	LISP_LIST_RTR = 8,  /* inner sources and destinations that packets are relayed for */
	LISP_LIST_PITR = 9, /* destinations that packets of no EID of ours are encapsulated to ...
			     */
	LISP_LIST_PITR_SOURCE = 10, /* ... and their sources */
	LISP_LIST_PETR = 11,        /* inner sources whose packets are forwarded natively */
	/* outer sources that control messages in data packets are taken from; Instance-ID 0 */
	LISP_LIST_CONTROL = 12,
	LISP_LIST_MAX = 16,
};

/* what stands before the address in a lisp_list_key; all of it has to match */
#define LISP_LIST_FIXED_BITS 64

/* LPM_TRIE lists: this -> enum lisp_list_entry, __u32. What no prefix covers is permitted. Lists
 * are asked with LISP_SETTING_LISTS alone, and only entries of settings.list_generation: user space
 * makes another generation beside the one in force, stores its number, and removes the older one
 * when it makes the next. */
struct lisp_list_key {
	__u32 bits; /* LISP_LIST_FIXED_BITS and the prefix length */
	__u8 generation;
	__u8 kind; /* enum lisp_list_kind */
	__u8 family;
	__u8 zero;
	__u32 iid; /* 0 for outer addresses */
	__u8 address[16];
};

enum lisp_list_entry {
	LISP_LIST_PERMITS = 0,
	LISP_LIST_DENIES = 1,
	LISP_LIST_SILENT = 2, /* never stored: no prefix covers the address */
};

/* What happens to a packet that no mapping covers; the event is raised in any case. Instance-IDs
 * with a policy of their own are in the HASH miss_policies (Instance-ID, __u32 -> enum
 * lisp_miss_policy, __u32), all others have that of the settings. */
enum lisp_miss_policy {
	/* it goes to the TAP, where user space lets it wait or hands it to the control plane */
	LISP_MISS_QUEUE = 0,
	LISP_MISS_DROP = 1,
	LISP_MISS_FORWARD_NATIVELY = 2,
};

/* ARRAY settings[1]. User space writes it before it attaches a program. */
struct lisp_settings {
	__u32 abi_version; /* LISP_ABI_VERSION */
	__u32 flags;       /* enum lisp_setting_flag */
	__u32 tap_ifindex; /* loci0; 0: none, packets that would wait are dropped and counted */
	__u8 tap_mac[6];   /* its first octet must not be one of enum lisp_tap_magic */
	__u8 miss_policy;  /* enum lisp_miss_policy */
	__u8 list_generation;
	__u16 lists; /* a bit for each lisp_list_kind that has entries */
	__u8 zero[2];
	/* the shortest time between two events of one kind for one destination */
	__u64 miss_interval_ns;
	/* the same for what headers say: LISP_EVENT_STATUS_BITS and those after it */
	__u64 hint_interval_ns;
	__u64 echo_interval_ns; /* from one Echo-Nonce-request state of a locator to the next */
	__u64 echo_wait_ns;     /* how long the echo may take while packets come from there */
	/* one of local_rlocs of each family, found without a search; zero for none */
	__u8 rloc6[16];
	__u8 rloc4[4];
	/* GSO packets sent there come back in segments; 0: user space cuts them */
	__u32 segmenter_ifindex;
};

/* RFC 9300 s.10.1: an echo is owed no longer than this */
#define LISP_ECHO_OWED_NS 60000000000ULL

/* RFC 9302 s.7.1: after so many events about an old version from an RLOC, about ten
 * Solicit-Map-Requests at one in three seconds, its packets with an old version are dropped, until
 * it has been silent for LISP_STALE_FORGET_NS. */
#define LISP_STALE_EVENTS_MAX 30
#define LISP_STALE_FORGET_NS 60000000000ULL

enum lisp_peer_flag {
	/* gave up its state once since the last echo came or stayed away, because the other one
	 * asked */
	LISP_PEER_SUSPENDED = 1 << 0,
	LISP_PEER_ASKED_LAST = 1 << 1, /* the last packet asked, though an echo was owed */
};

/* LRU_HASH peers: lisp_rloc_key -> this. Echo-Nonce with one remote RLOC (forward.Echo). Times of 0
 * say never. */
struct lisp_peer {
	__u64 owed_ns;      /* when `owed` was asked for; 0: nothing is owed */
	__u64 requested_ns; /* when the Echo-Nonce-request state began; 0: we are not in it */
	__u64 next_ns;      /* not in it again before */
	/* For user space: ... */
	__u64 asked_ns;   /* ... when an echo was last asked for, ... */
	__u64 echoed_ns;  /* ... when one of ours last came back, ... */
	__u64 missing_ns; /* ... and when packets last came in vain */
	__u32 owed;
	__u32 requested;
	__u32 returned; /* the last nonce echoed */
	__u32 flags;    /* enum lisp_peer_flag */
};

/* LRU_HASH sources: lisp_rloc_key -> __u64, the time when packets from that RLOC were last
 * decapsulated, where they were decided about anew. */

/* LRU_HASH heard: lisp_limit_key -> this. What was last said about a prefix or an RLOC. */
struct lisp_heard {
	__u64 raised_ns;
	__u32 value; /* Locator-Status-Bits */
	/* events about old versions since the last silence; status bits: LISP_HEARD_ANEW or 0 */
	__u32 count;
};

/* user space says so when a mapping gets another locator-set: the next status bits are told in any
 * case */
#define LISP_HEARD_ANEW 1

/* PERCPU_ARRAY trusted[1]: what nonce_lsb_version.h works on. The stack of the programs is full
 * without it.
 */
struct lisp_trusted {
	__u32 first;         /* the LISP header in host order: flags, nonce or versions ... */
	__u32 second;        /* ... Instance-ID, status bits */
	__u32 iid;           /* received: of both EIDs; sent: of the header ... */
	__u32 source_iid;    /* ... and of the source */
	__u32 mapping_index; /* sent: of the map-cache's entry; received: of the Database's */
	__u32 ifindex;
	__u32 notes;     /* counters, a bit for each */
	__u8 source[16]; /* of the inner packet */
	__u8 destination[16];
	__u8 rloc[16];     /* the other router's ... */
	__u8 own_rloc[16]; /* ... and ours; for the lists alone */
	__u8 family;
	__u8 rloc_family;
	__u8 zero[2];
	__u8 key[32];   /* a lisp_limit_key, lisp_rloc_key or lisp_list_key */
	__u8 value[64]; /* a lisp_heard or lisp_peer */
};

/* Names every type that no map mentions, so that BTF, hence Go's mirror, has them (see
 * lisp_tc.bpf.c). */
union lisp_abi {
	struct lisp_cell cell;
	struct lisp_compressed compare;
	struct lisp_entry element;
	struct lisp_event event;
	struct lisp_tap_header tap_header;
	enum lisp_root_kind root_kind;
	enum lisp_mapping_flag mapping_flag;
	enum lisp_action action;
	enum lisp_locator_flag locator_flag;
	enum lisp_encapsulation encapsulation;
	enum lisp_interface_flag interface_flag;
	enum lisp_setting_flag setting_flag;
	enum lisp_miss_policy miss_policy;
	enum lisp_drop drop;
	enum lisp_counter_index counter_index;
	enum lisp_event_kind event_kind;
	enum lisp_tap_magic tap_magic;
	enum lisp_tap_reason tap_reason;
	enum lisp_action_flag action_flag;
	enum lisp_varies varies;
	enum lisp_step_kind step_kind;
	enum lisp_what what;
	struct lisp_step step;
	struct lisp_subflow subflow;
	enum lisp_watch_flag watch_flag;
	enum lisp_list_kind list_kind;
	enum lisp_list_entry list_entry;
	enum lisp_peer_flag peer_flag;
};

#endif

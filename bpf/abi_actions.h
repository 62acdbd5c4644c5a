/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The part of abi.h about what the programs keep for themselves: action records, which say what is
 * done to packets, and the flow cache, whose entries point to them (docs/decisions/0021). User
 * space makes room for every possible processor, raises the generations, and looks at neither. It
 * holds no code.
 */
#ifndef LISP_ABI_ACTIONS_H
#define LISP_ABI_ACTIONS_H

#include <linux/types.h>

/* What is done to a packet. The values up to 15 are those of action records, of which a free one
 * has 0; there is room for replication. */
enum lisp_what {
	LISP_DO_ENCAPSULATE = 1,
	LISP_DO_DELIVER = 2, /* decapsulated, to a next hop of the site */
	LISP_DO_RELAY = 3,   /* as ENCAPSULATE, for an RTR: in place of the headers it came with */
	LISP_DO_PROXY = 4,   /* as ENCAPSULATE, for a PITR */
	LISP_DO_PASS = 16,   /* not for LISP: the kernel goes on with it as it came */
	LISP_DO_DROP = 17,   /* for a reason */
	LISP_DO_REFUSE = 18, /* dropped for a reason that its source is told (RFC 1812) */
	LISP_DO_MISS = 19,   /* no mapping: an event, then as the policy says */
	LISP_DO_WAIT = 20,   /* in the TAP's queue, for a reason (enum lisp_tap_reason) */
	LISP_DO_NATIVELY = 21,          /* forwarded natively */
	LISP_DO_LOCAL = 22,             /* decapsulated, to this host's stack */
	LISP_DO_ENCAPSULATE_TWICE = 23, /* the RLOC is an EID itself: a second layer */
	LISP_DO_MISS_RLOC = 24,         /* the same, and no mapping covers the RLOC */
};

/* What bpf_fib_lookup answered is kept for so long: a route or neighbour that changed is followed
 * after that time at the latest. Indexes in a record's key rest longer before user space uses them
 * anew. Entries of the flow cache live longer than those rest: they end by the generations, which
 * user space raises when it removes what they depend on. */
#define LISP_ACTION_NS 50000000ULL

enum lisp_action_flag {
	LISP_ACTION_RESOLVED = 1 << 0, /* the neighbour's address is known */
	LISP_ACTION_PEER = 1 << 1,     /* the interface has LISP_INTERFACE_PEER */
	/* used for long: the kernel shall see to it that the neighbour is still there */
	LISP_ACTION_CONFIRM = 1 << 2,
	LISP_ACTION_TAKES_FRAMES = 1 << 3, /* the interface has LISP_INTERFACE_TAKES_FRAMES */
	/* for each packet more has to be decided than the caches know */
	LISP_ACTION_UNCACHED = 1 << 4,
	/* ENCAPSULATE: packets leave from the locator's source port, with a UDP checksum */
	LISP_ACTION_CHECKSUM = 1 << 5,
};

/* Which fields of a header differ from packet to packet beside lengths, TTL, source port and flow
 * label. */
enum lisp_varies {
	LISP_VARIES_NONCE = 1 << 0,  /* the lowest 24 bits of the LISP header's first word */
	LISP_VARIES_HEADER = 1 << 1, /* the whole LISP header */
};

/* longest that is written before an inner packet: Ethernet, IPv6, UDP, LISP; in whole words */
#define LISP_TEMPLATE_OCTETS 72

/* How many of each a processor has; powers of two. */
#define LISP_ACTIONS 8192
#define LISP_FLOWS 8192

/* `device` of an action whose interface has no place in devices, or of which XDP has not asked. */
#define LISP_DEVICE_NONE 0xFFFFFFFFU
#define LISP_DEVICE_UNKNOWN 0xFFFFFFFEU

/* ARRAY actions (BPF_F_MMAPABLE, so that they begin with a cache line), at processor * LISP_ACTIONS
 * + place. The key is all up to `serial`, and the addresses where `target` is 0. A record counts
 * while `epoch` is that of lisp_generations and its time is not over. */
struct lisp_action_record {
	/* ENCAPSULATE: the locator-set; DELIVER: index of the Database entry and 1 where all its
	 * addresses have a single next hop, else 0 */
	__u32 target;
	/* DELIVER: the interface that packets count as come in by; ENCAPSULATE: LISP_FIRST_LAYER or
	 * 0 */
	__u32 from;
	__u32 iid;
	__u16 port; /* ENCAPSULATE: lowest bits of the flow hash where routes look at ports */
	__u8 tos;   /* that the route was asked for: ENCAPSULATE: of the outer header */
	__u8 locator;
	__u8 what;   /* enum lisp_what */
	__u8 family; /* of the inner packet */
	__u16 zero;
	__u32 serial; /* another one each time the place is given to another key */
	__u64 expires_ns;
	__u32 epoch;
	__u32 ifindex;
	__u32 longest;   /* inner packet that fits, in octets */
	__u32 outer_sum; /* of the outer IPv4 header but for length and TTL; not yet inverted */
	__u32 device;    /* XDP: the place of ifindex in devices */
	__u8 flags;      /* enum lisp_action_flag */
	__u8 varies;     /* enum lisp_varies */
	__u8 outer_family;
	/* XDP: how often the kernel was asked since it was last made to confirm the neighbour */
	__u8 asked;
	__u16 vlan;            /* tag that the frame gets; 0: none */
	__u8 neighbour_family; /* of gateway: AF_* */
	__u8 zero2;
	__u16 port_mask; /* bits of the flow's hash that are in the outer source port */
	__u8 zero4[2];
	/* The headers before the inner packet. What varies is 0 there. */
	__u8 header[LISP_TEMPLATE_OCTETS];
	__u8 gateway[16];
	__u8 source[16]; /* DELIVER with a target of 0: of the inner packet */
	__u8 destination[16];
	/* where the kernel knows the neighbour; of a VLAN not ifindex, but its device */
	__u32 neighbour_ifindex;
	__u8 zero3[4];
};

/* ARRAY flows (BPF_F_MMAPABLE, likewise), at processor * LISP_FLOWS + place: which action packets
 * between two addresses get. Flows between them share it where their ports make no difference;
 * where they do, it says by which bits of the flow's hash, and there is another entry for each
 * value of those, and for each locator that flows are bound to. */
struct lisp_flow {
	__u64 addresses[4]; /* source and destination of the inner packet, as they stand in it */
	__u32 ifindex;      /* where the frame came in */
	__u32 iid;          /* of a LISP header that was there */
	/* LISP_FLOW_COUNTS and bits of the flow's hash, or of its binding; 0: of all flows */
	__u32 flow;
	__u8 tos; /* encapsulated: of the inner packet; decapsulated: what it becomes */
	__u8 family;
	__u8 what; /* DELIVER: it came as LISP; ENCAPSULATE: it came bare; 0: free */
	__u8 hook; /* 0: XDP, 1: tc */
	__u32 epoch;
	__u32 generation; /* of the destination */
	__u32 action;     /* its place among this processor's, and what its serial must be */
	__u32 serial;
	/* the second cache line */
	__u32 mapping_index; /* at which its packets are counted */
	__u32 locator_set;   /* with FLOW_BINDINGS: that of the mapping, ... */
	/* not 0: the action depends on these bits of the flow's hash, nothing else here counts */
	__u32 flow_mask;
	__u32 address_hash; /* the flow's hash so far: both addresses */
	__u32 pseudo_sum;   /* of the pseudo header but for length and protocol */
	__u32 flow_iid;     /* ... and the Instance-ID of the flows */
	__u64 expires_ns;
	__u32 generation_place;
	__u32 notice; /* FLOW_* of flow_cache.h */
	__u8 to[8];   /* XDP: the hardware address of the interface, and two zeros */
	__u8 zero3[16];
};

/* ARRAY bound_answers, at processor * LISP_FLOWS + place: what the map of bindings last answered
 * about a flow, for as long as the flow-cache entry of its addresses counts. */
struct lisp_bound_answer {
	__u64 tag;     /* of flow and entry */
	__u32 asked;   /* when, in LISP_LAST_USED_SHIFT */
	__u32 locator; /* place in its set, or LISP_BUCKET_NONE */
};

/* `from` of an action that is the first of two layers: it has no next hop. */
#define LISP_FIRST_LAYER 1

/* Added to the bits of a hash in lisp_flow.flow; with the other one, the place of the locator that
 * the flow is bound to takes those of the bucket. */
#define LISP_FLOW_COUNTS 0x80000000U
#define LISP_FLOW_BOUND 0x40000000U

/* ARRAY generations[1] (BPF_F_MMAPABLE): numbers that user space raises after it changed something
 * that the caches depend on. What is kept counts for as long as they are what they were before its
 * first lookup. */
#define LISP_GENERATIONS 4096 /* a power of two */

struct lisp_generations {
	/* settings, interfaces, Database, locators, lists; or so many destinations that one by one
	 * is too slow */
	__u32 epoch;
	__u32 bindings; /* how many flows are bound to a path (abi_paths.h) */
	/* LISP_MAPPING_SINGLE_NEXT_HOP counts before: user space follows the routes and clears it
	 * in time
	 */
	__u64 watched_until_ns;
	/* Of destination EIDs, in any Instance-ID, by their first 24 bits (IPv4) or 48 bits (IPv6),
	 * x: at (__u32)(x ^ x >> 32) * 0x9E3779B1 >> 20. */
	__u32 destinations[LISP_GENERATIONS];
};

/* ARRAY mapping_runs (BPF_F_MMAPABLE): of LISP_RUN_MAPPINGS mappings whose indexes stand side by
 * side, 16 bits of a word. 0: look at their records. Else the records of all that a program may
 * hold the index of say the same: they count, none is on hold, their locator_set is those bits less
 * one, and their iid is one and the same; entries of the Database aside. User space takes them back
 * before it changes a record to anything else. */
#define LISP_RUN_MAPPINGS 64
#define LISP_WORD_RUNS 4

#endif

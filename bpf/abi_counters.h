/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The part of abi.h about what is counted: the reasons for which packets are dropped, and the
 * indexes of counters. Go's lists and docs/counters.md have the same; tests compare them.
 */
#ifndef LISP_ABI_COUNTERS_H
#define LISP_ABI_COUNTERS_H

#include <linux/types.h>

struct lisp_counter {
	__u64 packets;
	__u64 octets;
};

/* PERCPU_ARRAY drops. One list for programs, user space, metrics and documentation. A GSO packet
 * counts once. */
enum lisp_drop {
	LISP_DROP_NONE = 0, /* never counted */
	/* towards the core */
	LISP_DROP_NO_ACTION = 1,              /* negative mapping, ACT 0, 6 or 7 */
	LISP_DROP_ACTION_DROP = 2,            /* negative mapping, ACT 3 */
	LISP_DROP_POLICY_DENIED = 3,          /* negative mapping, ACT 4 */
	LISP_DROP_AUTHENTICATION_FAILURE = 4, /* negative mapping, ACT 5 */
	/* no usable locator, or the locator set is not there */
	LISP_DROP_NO_LOCATOR = 5,
	LISP_DROP_NO_ROUTE = 6, /* no route to the RLOC, or it leads into the TAP */
	LISP_DROP_NO_TAP = 7,   /* the packet has to wait and there is no TAP */
	/* the kernel made no room (memory, unknown kind of GSO packet) */
	LISP_DROP_ENCAPSULATION_FAILED = 8,
	/* routed into the TAP though its source is not an own EID */
	LISP_DROP_SOURCE_NOT_EID = 9,
	/* written back by user space, but its mapping is gone */
	LISP_DROP_RELEASED_WITHOUT_MAPPING = 10,
	/* written back with an ifindex that is not in interfaces */
	LISP_DROP_TAP_ORIGIN_UNKNOWN = 11,
	LISP_DROP_TTL_EXPIRED = 12, /* written back with TTL 0 or 1 */
	/* to be forwarded natively, but the main table has no route */
	LISP_DROP_NO_NATIVE_ROUTE = 13,
	LISP_DROP_MISS = 14, /* no mapping, and settings say drop */
	/* routed into the TAP: not IP, multicast, broadcast or link-local */
	LISP_DROP_NOT_FORWARDABLE = 15,
	/* has to wait, and its source has its share of the TAP's queue: see abi_backlog.h */
	LISP_DROP_BACKLOG_SOURCE_LIMIT = 16,
	LISP_DROP_OWN_NEXT_HOP = 17, /* the next hop is an own RLOC */
	/* needs more layers of encapsulation than there may be */
	LISP_DROP_RECURSION_DEPTH = 18,
	LISP_DROP_MAPPING_LOOP = 19, /* the RLOC is an EID whose mapping leads back to it */
	/* from the core */
	/* lengths of the outer headers contradict each other */
	LISP_DROP_OUTER_MALFORMED = 20,
	LISP_DROP_LISP_HEADER_TRUNCATED = 21,
	/* bit 5 of the LISP header set, and what follows is neither IPv4 nor IPv6 (RFC 9305) */
	LISP_DROP_RESERVED_BIT = 22,
	LISP_DROP_KEY_ID = 23, /* KK not 00: encrypted, no keys */
	/* inner packet is neither IPv4 nor IPv6, cut off, of a wrong length, or from no unicast
	 * address */
	LISP_DROP_INNER_MALFORMED = 24,
	/* inner destination is not an own EID of the Instance-ID */
	LISP_DROP_EID_NOT_IN_DATABASE = 25,
	LISP_DROP_ECN = 26, /* RFC 6040 s.4.2: inner Not-ECT, outer CE */
	/* the kernel could not shrink the packet, or cannot change its family */
	LISP_DROP_DECAPSULATION_FAILED = 27,
	/* RFC 9302 s.7.1: newer than ours, or one of the two is Null */
	LISP_DROP_DESTINATION_VERSION = 28,
	/* RFC 9302 s.7.1: older than ours, after many Solicit-Map-Requests */
	LISP_DROP_STALE_VERSION = 29,
	LISP_DROP_SOURCE_VERSION = 30, /* RFC 9302 s.7.2: older than what the map-cache has */
	/* the outer source is no locator of the inner source */
	LISP_DROP_SOURCE_RLOC = 31,
	/* with several Instance-IDs: the routes lead to an interface of another one */
	LISP_DROP_OTHER_INSTANCE = 32,
	/* inner destination is no own EID, and no policy of an RTR or PETR covers the packet */
	LISP_DROP_NOT_IN_POLICY = 33,
	/* to be relayed by a path on which no own RLOC stands before the next hop */
	LISP_DROP_NOT_ON_PATH = 34,
	/* a control message in a data packet (Instance-ID 0xFFFFFF) that is from no RTR of ours */
	LISP_DROP_CONTROL_SOURCE = 35,
	/* counted by user space: one too many in a second, or too long */
	LISP_DROP_CONTROL_LIMIT = 36,
	/* counted by user space, which has its own counters for them */
	LISP_DROP_WAITING_PACKETS_LIMIT = 40,
	LISP_DROP_WAITING_OCTETS_LIMIT = 41,
	LISP_DROP_WAITING_TIME_LIMIT = 42,
	LISP_DROP_TOO_BIG = 43, /* answered with Packet Too Big */
	/* its source takes more of the queue than it leaves free */
	LISP_DROP_WAITING_SOURCE_LIMIT = 45,
	LISP_DROP_HAND_OVER_LIMIT = 44, /* the control plane does not take what it is handed */
	/* both ways: denied by a list, in the order of lisp_list_kind */
	LISP_DROP_DENIED_SOURCE = 48,
	LISP_DROP_DENIED_DESTINATION = 49,
	LISP_DROP_DENIED_OUTER_SOURCE = 50,
	LISP_DROP_DENIED_OUTER_DESTINATION = 51,
	LISP_DROP_MAX = 64,
};

/* PERCPU_ARRAY counters: what is worth counting and is no drop. */
enum lisp_counter_index {
	LISP_COUNTER_ENCAPSULATED_IPV4 = 0, /* by the family of the RLOCs */
	LISP_COUNTER_ENCAPSULATED_IPV6 = 1,
	LISP_COUNTER_DECAPSULATED_IPV4 = 2,
	LISP_COUNTER_DECAPSULATED_IPV6 = 3,
	LISP_COUNTER_WAITING = 4,  /* redirected to the TAP because of a miss or HOLD */
	LISP_COUNTER_TOO_BIG = 5,  /* redirected to the TAP because of their size */
	LISP_COUNTER_RELEASED = 6, /* came back from the TAP */
	/* sent natively on behalf of user space (LISP_TAP_TRANSMIT) */
	LISP_COUNTER_TRANSMITTED = 7,
	LISP_COUNTER_NATIVE = 8, /* map-cache says: natively */
	/* RFC 6040 s.4.2, the combinations marked (!!!), dropped or not */
	LISP_COUNTER_ECN_ALARM = 9,
	LISP_COUNTER_ECN_CURIOUS = 10,       /* ... marked (!) */
	LISP_COUNTER_NONCE_AND_VERSION = 11, /* N and V both set: taken for a nonce */
	LISP_COUNTER_OUTER_FRAGMENT = 12,    /* fragment sent to an own RLOC: left to the stack */
	LISP_COUNTER_EVENT_LOST = 13,        /* the ring buffer was full */
	/* decapsulated and handed to the stack by loci0 (local, TTL, size, other route) */
	LISP_COUNTER_TO_STACK = 14,
	/* no mapping, or one that says send-map-request; whatever the policy */
	LISP_COUNTER_MISS = 15,
	/* frames with two VLAN tags, or a service tag, where VLANs are sites: passed untouched */
	LISP_COUNTER_DOUBLE_TAGGED = 16,
	/* decapsulated and encapsulated again, by the family of the RLOC sent to; these packets are
	 * not among those that are encapsulated or decapsulated */
	LISP_COUNTER_RELAYED_IPV4 = 17,
	LISP_COUNTER_RELAYED_IPV6 = 18,
	LISP_COUNTER_PROXIED = 19,        /* of those that are encapsulated: by a PITR */
	LISP_COUNTER_ECHO_REQUESTED = 20, /* packets sent with E set */
	LISP_COUNTER_ECHO_RETURNED = 21,  /* nonces echoed */
	LISP_COUNTER_ECHO_RECEIVED = 22,  /* own nonces that came back */
	/* Echo-Nonce-request states that ended without it though packets came */
	LISP_COUNTER_ECHO_MISSING = 23,
	LISP_COUNTER_STATUS_BITS_CHANGED = 24, /* events about Locator-Status-Bits */
	/* packets whose destination version is older than ours */
	LISP_COUNTER_VERSION_STALE_DESTINATION = 25,
	/* packets whose source version is newer than the map-cache's */
	LISP_COUNTER_VERSION_STALE_SOURCE = 26,
	LISP_COUNTER_ENCAPSULATED_TWICE = 27, /* packets that left with two layers */
	LISP_COUNTER_DECAPSULATED_TWICE = 28, /* packets of which both layers were for us */
	/* GSO packets cut into segments, because their packets get two layers */
	LISP_COUNTER_SEGMENTED = 29,
	/* packets that begin or end a connection which may be bound, beyond what events are raised
	 * for */
	LISP_COUNTER_SUBFLOWS_LIMITED = 30,
	/* relayed packets of which could not be told which path they are on */
	LISP_COUNTER_PATH_UNIDENTIFIED = 31,
	LISP_COUNTER_MAX = 48,
};

#endif

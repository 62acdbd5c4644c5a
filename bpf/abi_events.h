/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The part of abi.h about what goes to user space: events, how often there are such, and packets at
 * the TAP with what is told of each. It holds no code.
 */
#ifndef LISP_ABI_EVENTS_H
#define LISP_ABI_EVENTS_H

#include <linux/types.h>

/* ---- events (ring buffer `events`) ---- */
enum lisp_event_kind {
	LISP_EVENT_MISS = 1,
	/* What headers of packets from the core say. `source` and `destination` are the inner
	 * packet's, `rloc` its outer source. */
	/* those of the mapping of `source` are `value` now; `other` is how many fit the header */
	LISP_EVENT_STATUS_BITS = 2,
	/* the destination version is older than ours; `value` is the source's, `other` it */
	LISP_EVENT_DESTINATION_VERSION = 3,
	/* the source version, `value`, is newer than the map-cache's; `other` is the destination's
	 */
	LISP_EVENT_SOURCE_VERSION = 4,
	/* packets come from `rloc` without the echo of `value`; the last had `other` */
	LISP_EVENT_ECHO_MISSING = 5,
	/* no mapping covers `source`, which sends by `rloc` */
	LISP_EVENT_GLEANED = 6,
};

struct lisp_event {
	__u32 kind; /* enum lisp_event_kind */
	__u32 iid;
	__u32 ifindex; /* origin of the packet */
	__u8 family;
	__u8 reason;      /* enum lisp_tap_reason */
	__u8 rloc_family; /* 0 with LISP_EVENT_MISS */
	__u8 zero;
	__u8 source[16];
	__u8 destination[16];
	__u8 rloc[16];
	__u32 value;
	__u32 other;
	__u64 time_ns;
};

/* Key of the LRU_HASH `limits`, whose value is the time of the last event or packet of that kind,
 * and of `heard`. */
struct lisp_limit_key {
	__u32 kind;
	__u32 iid;
	__u8 family;
	__u8 prefix_length; /* where `destination` is a mapping's prefix */
	__u8 zero[2];
	__u8 destination[16];
};

/* ---- metadata of packets at the TAP: it takes the place of the Ethernet addresses ----
 *
 * Kernel -> reader: magic is WAITING (whatever has another magic is none of the reader's). The
 * packet is as the hook saw it: TTL not yet decremented, checksum and segmentation state in the
 * virtio header; of one that is relayed the outer headers are off, and its TTL and TOS are merged.
 * `origin` is the ifindex where it came from; loci0's own for what this host sends
 * by loci0. `detail` is, for LISP_TAP_REASON_TOO_BIG, the largest inner packet that would fit, and
 * for LISP_TAP_REASON_UNREACHABLE the reason of the drop (enum lisp_drop).
 *
 * Reader -> kernel, with the virtio header it read:
 *   RELEASED, all else as read
 *     Encapsulate as if it just came from `origin`, HOLD ignored. Natively forwarded if the mapping
 *     says so (a site's packet returns to the ingress of `origin`). Still no mapping: dropped,
 * never back to the TAP for a miss (but for its size, or for the mapping of its RLOC unless it came
 * as RLOC or SEGMENT). A packet that came as TOO_BIG is written back in fragments that fit, or not
 * at all; one that came as SEGMENT in segments. TRANSMIT Look up the route of the packet in the
 * main table and send it, outside of LISP, TTL as it is. For answers that user space makes, such as
 * Packet Too Big: through the stack they would be martians. Not for packets to this host itself.
 *   SEGMENT
 *     From the kernel itself: the segment of a GSO packet that lisp_settings.segmenter_ifindex has
 *     cut. As RELEASED, but it has not waited.
 *   REASSEMBLED
 *     An outer packet that came to `origin` in fragments, whole again: decapsulate it.
 *   anything else
 *     An ordinary frame, up the stack (destination: the address of loci0).
 */
enum lisp_tap_magic {
	LISP_TAP_WAITING = 0x4A,
	LISP_TAP_RELEASED = 0x4E,
	LISP_TAP_TRANSMIT = 0x52,
	LISP_TAP_REASSEMBLED = 0x56,
	LISP_TAP_SEGMENT = 0x5A,
};

enum lisp_tap_reason {
	LISP_TAP_REASON_MISS = 1,
	LISP_TAP_REASON_HOLD = 2,
	LISP_TAP_REASON_TOO_BIG = 3,
	/* dropped and counted already: it only waits for an answer to its source */
	LISP_TAP_REASON_UNREACHABLE = 4,
	/* with two layers: no mapping covers the RLOC of its own mapping, or that one is on hold */
	LISP_TAP_REASON_RLOC = 5,
	/* a GSO packet that gets two layers, to be cut into segments; or one of the same source,
	 * which must not overtake it */
	LISP_TAP_REASON_SEGMENT = 6,
	/* it gets an outer UDP checksum that the programs cannot compute: user space sends it */
	LISP_TAP_REASON_CHECKSUM = 7,
};

/* So often a packet for which Destination Unreachable is due goes to user space: of one source, and
 * of all of an Instance-ID and family. User space has a limit of its own for all ICMP errors
 * together; these are there so that they take no place from packets that wait. */
#define LISP_UNREACHABLE_SOURCE_NS 100000000ULL
#define LISP_UNREACHABLE_NS 2000000ULL

/* kind of a lisp_limit_key: its `destination` is a packet's source, or zero for all of them */
#define LISP_LIMIT_UNREACHABLE 0x100

struct lisp_tap_header {
	__be16 detail;  /* of the reason */
	__u8 iid[3];    /* Instance-ID of the packet's addresses, most significant octet first */
	__u8 what;      /* what it waits for: enum lisp_what, of an action record */
	__u8 magic;     /* enum lisp_tap_magic */
	__u8 reason;    /* enum lisp_tap_reason */
	__u8 origin[4]; /* ifindex, most significant octet first */
	__be16 protocol;
};

#endif

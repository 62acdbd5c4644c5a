/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The context of the packet at hand: what the stages have found out about it. It is in a map,
 * because a chain of calls has 512 octets of stack in all. Each processor has its own: a program
 * runs to its end before another one of the data plane begins there (softirq, or with bottom halves
 * disabled). A map cannot hold pointers.
 */
#ifndef LISP_CONTEXT_H
#define LISP_CONTEXT_H

#include "counters.h"
#include "fib.h"
#include "settings.h"

/* The generations before the first lookup for what a cache is to keep (flow_cache.h). */
struct cache_time {
	__u32 epoch;
	__u32 generation;
	__u32 place; /* of the generation */
};

struct lisp_context {
	struct lisp_packet packet; /* the packet whose addresses are EIDs */
	struct lisp_packet outer;  /* decapsulation: the one around it */

	/* classify: where it came in, or is about to leave when this host sent it */
	__u32 origin;
	__u32 interface_flags;
	__u32 l2_length; /* of the frame as it is here */
	__u32 side;      /* LISP_INTERFACE_SITE, _CORE or _TAP of the origin; 0 from the core */
	bool forwarded;  /* this host did not send it: its TTL counts */
	bool released;   /* user space has written it back, or the segmenter */
	bool segment;    /* of a GSO packet that was cut */
	bool resolved;   /* it has waited for the mapping of its RLOC, too */
	bool second; /* this is about the second layer: `packet` is the first one's header, which
		      * the frame does not have yet */
	/* it has the tag of a VLAN, beside the frame or within l2_length */
	bool tagged;
	bool listed; /* lists have to be asked */
	bool bound;  /* its flow's binding has chosen the locator */
	/* it begins or ends a TCP connection that may be bound: subflow.h */
	bool begins_or_ends;
	__u8 what; /* enum lisp_what: what is done to it if the tables have a way */

	/* decapsulate */
	__u32 removed;    /* octets of outer headers that it still has, of both layers */
	__u32 payload;    /* octets behind the LISP header, as the UDP length says */
	bool lisp_inside; /* the inner packet is LISP for this router as well: a second layer */
	__be16 told;      /* EtherType of the inner packet, by its Next Protocol; 0 without P */
	__u8 path_number; /* that it has in place of an Instance-ID of 0; 0: none */
	/* counters to raise when this program sends or drops the packet, a bit for each: one that
	 * it passes on another program sees anew */
	__u32 notes;

	/* the LISP header, received or to be sent, in host order */
	__u32 header_first;
	__u32 header_second;

	/* look up */
	__u32 iid;   /* of its source, or of the LISP header */
	__u32 roots; /* index of those of iid; NO_ROOTS */
	__u32 mapping_index;
	__u32 mapping_iid;
	__u32 mapping_flags;
	__u32 locator_set;
	/* index and 1 of a negative entry that decides about the packet, or says that its RLOC is
	 * not an EID; 0 for none */
	__u32 negative;
	struct cache_time since;

	/* select */
	__be32 ports;  /* of its flow */
	bool opens;    /* TCP with SYN: no use of its flow, for a host repeats it */
	__u32 hash;    /* of its flow */
	__u32 locator; /* within the set */
	__u32 action;  /* place of the action record */
	__u32 reason;  /* of a drop, a refusal, or why it waits */
	__u32 mtu;     /* largest inner packet that would fit */
};

PER_PROCESSOR(contexts, 1, struct lisp_context);
/* That of the second layer of the packet at hand: layers.h. */
PER_PROCESSOR(second_layers, 1, struct lisp_context);

/* The context, empty but for the interface that the packet came in by; NULL never happens. */
static __always_inline struct lisp_context *new_context(const struct lisp_interface *at)
{
	__u32 zero = 0;
	struct lisp_context *c = bpf_map_lookup_elem(&contexts, &zero);

	if (!c)
		return NULL;
	__builtin_memset(c, 0, sizeof(*c));
	c->interface_flags = at->flags;
	c->iid = at->iid;
	c->roots = at->roots;
	c->what = LISP_DO_ENCAPSULATE;
	return c;
}

/* What is looked up after this is at least as new as these numbers. */
static __always_inline struct cache_time begin_lookup(__u8 family,
						      const union lisp_address *destination)
{
	const struct lisp_generations *g = find_generations();
	__u64 x = bpf_ntohl(destination->words[0]);
	struct cache_time t = {};
	__u32 zero = 0;
	struct lisp_clock *c = bpf_map_lookup_elem(&clocks, &zero);

	if (!g || !c)
		return t;
	x = family == 4 ? x >> 8 : x << 16 | bpf_ntohl(destination->words[1]) >> 16;
	t.place = (__u32)(x ^ x >> 32) * 0x9E3779B1U >> 20;
	t.epoch = *(const volatile __u32 *)&g->epoch;
	t.generation = *(const volatile __u32 *)&g->destinations[t.place];
	/* Its result is used, or it would order nothing. */
	t.epoch += __sync_fetch_and_add(&c->order, 0);
	return t;
}

/* Whether the packet came in, rather than from the stack on its way out. */
static __always_inline bool is_at_ingress(const struct lisp_context *c)
{
	return c->released || (c->side != LISP_INTERFACE_CORE && c->side != LISP_INTERFACE_TAP);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ICMP errors that this host's kernel sends. Their source is often an RLOC; but when the packet
 * they quote was on its way to an own EID, or was to be relayed, its sender has an EID too, and is
 * reached by LISP alone.
 */
#ifndef LISP_ICMP_H
#define LISP_ICMP_H

#include "context.h"
#include "lists.h"

#define ICMP_HEADER_LENGTH 8

static __always_inline bool is_icmp_error(struct __sk_buff *skb, const struct lisp_packet *p)
{
	__u8 type;

	if (p->fragment || load_from(skb, p, p->l4_offset, &type, sizeof(type)) < 0)
		return false;
	if (p->family == 6)
		return p->protocol == NEXTHDR_ICMPV6 && type < 128;
	/* Destination Unreachable, Time Exceeded, Parameter Problem */
	return p->protocol == IPPROTO_ICMP && (type == 3 || type == 11 || type == 12);
}

/* Whether an address of the quoted packet, at that offset, is one that makes the error LISP's: an
 * EID of ours, or one that packets are relayed for. */
static __always_inline bool quotes_eid(struct __sk_buff *skb, const struct lisp_context *c,
				       __u32 offset, bool is_destination)
{
	const struct lisp_packet *p = &c->packet;
	union lisp_address quoted = {};
	long failed;

	if (p->family == 4)
		failed = load_from(skb, p, offset, &quoted, 4);
	else
		failed = load_from(skb, p, offset, &quoted, 16);
	if (failed)
		return false;
	return (is_destination && is_own_eid(find_roots(c->roots), p->family, &quoted)) ||
	       lisp_ask_relay(c->roots, c->iid, &quoted, p->family) == LISP_LIST_PERMITS;
}

/* Whether the packet is an ICMP error about a packet from its receiver to an EID of ours, or about
 * one that was to be relayed. */
static __noinline bool is_error_to_remote_eid(struct __sk_buff *skb, const struct lisp_context *c)
{
	const struct lisp_packet *p = &c->packet;
	__u32 quote = p->l4_offset + ICMP_HEADER_LENGTH;
	__u32 destination = quote + (p->family == 4 ? 16 : 24),
	      end = quote + header_octets(p->family);
	__u8 version, last;

	if (!is_icmp_error(skb, p) || load_from(skb, p, quote, &version, sizeof(version)) < 0 ||
	    version >> 4 != p->family || load_from(skb, p, end - 1, &last, sizeof(last)) < 0)
		return false;
	return quotes_eid(skb, c, destination, true) ||
	       quotes_eid(skb, c, quote + (p->family == 4 ? 12 : 8), false);
}

#endif

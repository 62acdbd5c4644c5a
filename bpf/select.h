/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stage 5: which action a packet gets (RFC 9300 s.5.1-5.3, s.7.2; RFC 6040 s.4.1). Towards the
 * core: a locator by flow, the route to it, the outer headers. Towards the site: the route to the
 * host. UDP checksums are 0 (RFC 6935, 6936) but from a locator's source port, DF is set, N with a
 * random nonce, I unless the Instance-ID is 0; nonce_lsb_version.h has what else a LISP header
 * says.
 */
#ifndef LISP_SELECT_H
#define LISP_SELECT_H

#include "action.h"
#include "admit.h"
#include "bindings.h"
#include "on_path.h"
#include "vlans.h"

/* What not every packet needs: below. */
static __noinline int judge_locator(const struct lisp_context *c, const struct lisp_locator *l);
static __noinline int make_encapsulation(hook_frame *frame, struct lisp_context *c,
					 const struct lisp_locator *l,
					 struct lisp_action_record *a);
static __noinline int make_delivery(hook_frame *frame, struct lisp_context *c, __u32 flags,
				    struct lisp_action_record *a);

/* ---- towards the core ---- */

/* The locator of a set for a flow; LISP_BUCKET_NONE where none is usable. */
static __always_inline __u32 locator_for(const struct lisp_locator_set *set, __u32 hash)
{
	__u32 bucket = hash >> LISP_BUCKET_SHIFT & (LISP_BUCKETS - 1);

	return *(const volatile __u8 *)&set->buckets[bucket];
}

/* The locator that was selected. */
static __always_inline const struct lisp_locator *locator_of(const struct lisp_context *c,
							     const struct lisp_locator_set *set)
{
	__u32 index = set->first + c->locator;
	const struct lisp_locator *l = bpf_map_lookup_elem(&locators, &index);

	return l && (l->family == 4 || l->family == 6) ? l : NULL;
}

static __always_inline const struct lisp_locator *select_locator(struct lisp_context *c)
{
	const struct lisp_locator_set *set = find_locator_set(c->locator_set);

	if (!set)
		return NULL;
	c->locator = is_on_path(c) ? lisp_identify_path(c) : LISP_BUCKET_NONE;
	c->bound = false;
	if (c->locator == LISP_BUCKET_NONE && has_bindings()) {
		c->locator = lisp_select_bound(c);
		c->bound = c->locator != LISP_BUCKET_NONE;
	}
	if (c->locator == LISP_BUCKET_NONE) {
		c->locator = locator_for(set, c->hash);
		step(LISP_STEP_LOCATOR, c->locator_set, c->locator, c->hash);
	}
	return c->locator < LISP_LOCATORS_MAX ? locator_of(c, set) : NULL;
}

/* RFC 9300 s.5.3: TTL and DSCP copied; ECN by RFC 6040 s.4.1, normal mode unless the settings say
 * otherwise. */
static __always_inline __u8 outer_tos(__u8 inner)
{
	const struct lisp_settings *s = find_settings();
	__u32 flags = s ? s->flags : 0;

	if (flags & LISP_SETTING_OUTER_NOT_ECT)
		inner &= 0xFC;
	if (flags & LISP_SETTING_OUTER_DSCP_ZERO)
		inner &= 0x03;
	return inner;
}

/* The bits of the flow hash that are in the key of an encapsulation. */
static __always_inline __u32 port_in_key(__u32 hash)
{
	return has_setting(LISP_SETTING_ROUTES_BY_FLOW) ? hash & SOURCE_PORT_MASK : 0;
}

/* Octets of the longest packet on the wire that is to be encapsulated. */
static __always_inline __u32 longest_of(hook_frame *frame, const struct lisp_context *c)
{
	return c->second ? c->packet.length : longest_segment(frame, &c->packet);
}

/* Stage 5 towards the core, of a packet whose mapping has a locator-set. */
__noinline int lisp_select_encapsulation(hook_frame *frame, struct lisp_context *c)
{
	const struct lisp_locator *l;
	struct lisp_action_record *a;
	struct action_key key;

	if (!c)
		return LISP_DO_PASS;
	if (!c->second) {
		c->ports = flow_ports(frame, &c->packet);
		c->opens = has_bindings() && has_syn(frame, &c->packet);
		c->hash = flow_hash(&c->packet, c->ports);
	}
	c->reason = LISP_DROP_NO_LOCATOR;
	l = select_locator(c);
	if (!l)
		return LISP_DO_REFUSE;
	c->reason = judge_locator(c, l);
	if (c->reason)
		return LISP_DO_DROP;
	key = key_of_encapsulation(c->locator_set, c->locator, c->mapping_iid,
				   outer_tos(c->packet.tos), port_in_key(c->hash),
				   c->what | (__u32)c->packet.family << 8);
	a = take_action(&key, &c->action);
	if (!a)
		return LISP_DO_PASS;
	if (action_counts(a, c->since.epoch, now_ns()) && longest_of(frame, c) <= a->longest)
		step(LISP_STEP_ROUTE, BPF_FIB_LKUP_RET_SUCCESS, a->ifindex, 0);
	else
		return make_encapsulation(frame, c, l, a);
	return LISP_DO_ENCAPSULATE;
}

/* ---- towards the site ---- */

/* The interface by which the packet counts as come in, for its route within the site. Where several
 * Instance-IDs have equal EIDs, the route by the site interface of its own: *flags says so. */
static __always_inline __u32 site_route_from(hook_frame *frame, __u32 iid, __u32 *flags)
{
	const struct lisp_settings *s = find_settings();
	__u32 *site = NULL;

	*flags = 0;
	if (has_setting(LISP_SETTING_INSTANCES))
		site = bpf_map_lookup_elem(&sites, &iid);
	if (site && *site) {
		*flags = BPF_FIB_LOOKUP_OUTPUT;
		return *site;
	}
	return s && s->tap_ifindex ? s->tap_ifindex : incoming_ifindex(frame);
}

/* The target of a delivery: the index of a Database entry and 1 where all addresses of its
 * EID-Prefix have a single next hop; 0 where they do not, where several Instance-IDs may have equal
 * EIDs, or where user space no longer follows the routes. */
static __always_inline __u32 target_of_delivery(__u32 flags, __u32 index)
{
	const struct lisp_generations *g = find_generations();

	if (!(flags & LISP_MAPPING_SINGLE_NEXT_HOP) || has_setting(LISP_SETTING_INSTANCES))
		return 0;
	return g && now_ns() < *(const volatile __u64 *)&g->watched_until_ns ? index + 1 : 0;
}

/* The route to the host, of a packet that has its new TOS: DELIVER, or LOCAL where the stack has
 * to decide: own addresses, too big for the site, routes that lead elsewhere. */
__noinline int lisp_route_delivery(hook_frame *frame, struct lisp_context *c)
{
	struct lisp_action_record *a;
	struct action_key key;
	__u32 flags, from, target;

	if (!c)
		return LISP_DO_PASS;
	from = site_route_from(frame, c->iid, &flags);
	target = target_of_delivery(c->mapping_flags, c->mapping_index);
	key = key_of_delivery(target, from, c->iid, c->packet.family, target ? NULL : &c->packet);
	a = take_action(&key, &c->action);
	if (!a)
		return LISP_DO_PASS;
	if (action_counts(a, c->since.epoch, now_ns()) &&
	    longest_segment(frame, &c->packet) <= a->longest &&
	    !has_setting(LISP_SETTING_ROUTES_BY_FLOW)) {
		step(LISP_STEP_ROUTE, BPF_FIB_LKUP_RET_SUCCESS, a->ifindex, 0);
		return LISP_DO_DELIVER;
	}
	return make_delivery(frame, c, flags, a);
}

/* Stage 5 of a packet from the core that goes no farther by LISP; c->reason says why an earlier
 * stage drops it. An expired TTL is the stack's to answer. */
static __always_inline int select_delivery(hook_frame *frame, struct lisp_context *c)
{
	if (c->reason)
		return LISP_DO_DROP;
	if (c->packet.ttl <= 1)
		return LISP_DO_LOCAL;
	if (c->what != LISP_DO_DELIVER)
		return c->what;
	return c->interface_flags & LISP_INTERFACE_STACK ? LISP_DO_LOCAL
							 : lisp_route_delivery(frame, c);
}

/* ---- what a locator is judged by ---- */

/* Whether a relay is not on the path of a locator: it would send packets round and round. An own
 * next hop is make_encapsulation()'s. */
static __always_inline bool is_off_path(const struct lisp_context *c, const struct lisp_locator *l)
{
	return c->what == LISP_DO_RELAY &&
	       *(const volatile __u8 *)&l->flags & LISP_LOCATOR_NOT_ON_PATH &&
	       !is_own_rloc(l->family, (const union lisp_address *)l->rloc, 0);
}

/* Why a packet must not go to a locator, or LISP_DROP_NONE: its path, and what the lists say. */
static __noinline int judge_locator(const struct lisp_context *c, const struct lisp_locator *l)
{
	struct lisp_trusted *p = find_trusted();

	if (is_off_path(c, l))
		return LISP_DROP_NOT_ON_PATH;
	if (!p || !c->listed)
		return LISP_DROP_NONE;
	describe_rlocs(p, l->family, l->rloc, l->source);
	return judge_pair(LISP_LIST_OUTER_SOURCE);
}

/* ---- the outer headers ---- */

static __always_inline __be16 port_of(const struct lisp_locator *l)
{
	if (l->port)
		return l->port;
	return *(const volatile __u8 *)&l->encapsulation == LISP_ENCAPSULATION_VXLAN_GPE
		       ? bpf_htons(LISP_VXLAN_GPE_PORT)
		       : bpf_htons(LISP_DATA_PORT);
}

static __always_inline __be16 source_port_to(const struct lisp_locator *l, __u32 hash)
{
	return l->source_port ? l->source_port : bpf_htons(source_port_of(hash));
}

/* UDP and LISP, at the octet where they begin. RFC 9305 s.3: with a Next Protocol N, E and V are 0;
 * VXLAN-GPE has a VNI in any case. */
static __always_inline void write_udp_lisp(struct lisp_action_record *a, __u8 *to,
					   const struct lisp_locator *l)
{
	__u8 encapsulation = *(const volatile __u8 *)&l->encapsulation;
	bool vxlan = encapsulation == LISP_ENCAPSULATION_VXLAN_GPE;
	__u32 iid = iid_on_wire(a->iid, l);
	__u32 first = iid || vxlan ? LISP_FLAG_I << 24 : 0, second = iid << 8;

	a->varies = 0;
	a->port_mask = l->source_port ? 0 : SOURCE_PORT_MASK;
	if (l->source_port)
		a->flags |= LISP_ACTION_CHECKSUM;
	if (encapsulation) {
		first |= LISP_FLAG_P << 24 |
			 (a->family == 4 ? NEXT_PROTOCOL_IPV4 : NEXT_PROTOCOL_IPV6);
	} else if (has_setting(SETTINGS_SENT)) {
		a->varies = LISP_VARIES_HEADER;
		first = second = 0;
	} else {
		a->varies = LISP_VARIES_NONCE;
		first |= LISP_FLAG_N << 24;
	}
	OCTETS4(to) = (__u32)port_of(l) << 16 |
		      (l->source_port ? l->source_port : bpf_htons(SOURCE_PORT_FIRST));
	OCTETS4(to + 4) = 0;
	OCTETS4(to + 8) = bpf_htonl(first);
	OCTETS4(to + 12) = bpf_htonl(second);
}

/* The outer headers of all packets to a locator, without what varies. */
static __always_inline void make_template(struct lisp_action_record *a,
					  const struct lisp_locator *l)
{
	__u8 *ip = a->header + ETH_HLEN;
	__u64 sum;

	a->outer_family = l->family;
	OCTETS2(a->header + 12) = ethertype_of(l->family);
	if (l->family == 4) {
		OCTETS4(ip) = bpf_htonl(0x45U << 24 | (__u32)a->tos << 16);
		OCTETS4(ip + 4) = bpf_htonl(IPV4_DF);
		OCTETS4(ip + 8) = bpf_htonl(IPPROTO_UDP << 16);
		__builtin_memcpy(ip + 12, l->source, 4);
		__builtin_memcpy(ip + 16, l->rloc, 4);
		sum = sum_words(ip, sizeof(struct iphdr));
		a->outer_sum = (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
		write_udp_lisp(a, ip + sizeof(struct iphdr), l);
	} else {
		OCTETS4(ip) = bpf_htonl(6U << 28 | (__u32)a->tos << 20);
		OCTETS4(ip + 4) = bpf_htonl(IPPROTO_UDP << 8);
		__builtin_memcpy(ip + 8, l->source, 16);
		__builtin_memcpy(ip + 24, l->rloc, 16);
		write_udp_lisp(a, ip + sizeof(struct ipv6hdr), l);
	}
}

/* The LISP header of one packet, where the settings ask for more than a nonce, or less. */
static __always_inline int compose_header(struct lisp_context *c)
{
	const struct lisp_locator_set *set = find_locator_set(c->locator_set);
	const struct lisp_locator *l = set ? locator_of(c, set) : NULL;
	struct lisp_trusted *p = describe(c);
	__u32 iid = l ? iid_on_wire(c->mapping_iid, l) : c->mapping_iid;

	c->header_first = iid ? LISP_FLAG_I << 24 : 0;
	c->header_second = iid << 8;
	if (!p || !l)
		return 0;
	p->iid = iid;
	describe_rlocs(p, l->family, l->rloc, l->source);
	lisp_compose_header();
	c->header_first = p->first;
	c->header_second = p->second;
	return 0;
}

/* What is in the LISP header of this packet beside the template. The packet is certain to leave,
 * because it may pay an echo that is owed (RFC 9300 s.10.1). */
static __always_inline void vary_header(struct lisp_context *c, const struct lisp_action_record *a)
{
	c->header_first = 0;
	c->header_second = 0;
	if (a->varies & LISP_VARIES_NONCE)
		c->header_first = bpf_get_prandom_u32() & NONCE_MASK;
	if (a->varies & LISP_VARIES_HEADER)
		compose_header(c);
}

/* ---- the route to a locator ---- */

/* The route of the outer packet. On FRAG_NEEDED f->mtu_result is what the path carries. */
static __always_inline long find_outer_route(hook_frame *frame, struct bpf_fib_lookup *f,
					     const struct lisp_locator *l,
					     const struct lisp_context *c, __u8 tos)
{
	__u32 length = longest_of(frame, c) + outer_length(l->family);
	__u32 flags = l->ifindex ? BPF_FIB_LOOKUP_OUTPUT : 0;
	struct lisp_packet outer = {.family = l->family, .protocol = IPPROTO_UDP, .tos = tos};

	__builtin_memcpy(&outer.source, l->source, sizeof(outer.source));
	__builtin_memcpy(&outer.destination, l->rloc, sizeof(outer.destination));
	f->ifindex = l->ifindex ? l->ifindex : LO_IFINDEX;
	f->sport = source_port_to(l, c->hash);
	f->dport = port_of(l);
	f->tot_len = length < MAX_IP_LENGTH ? length : MAX_IP_LENGTH;
	if (l->path_mtu && length > l->path_mtu) {
		f->mtu_result = l->path_mtu;
		step(LISP_STEP_ROUTE, BPF_FIB_LKUP_RET_FRAG_NEEDED, l->ifindex, l->path_mtu);
		return BPF_FIB_LKUP_RET_FRAG_NEEDED;
	}
	return find_route(frame, f, &outer, flags);
}

/* Settings with which each decapsulated packet has to be looked at. */
#define SETTINGS_UNCACHED \
	(SETTINGS_JUDGING | LISP_SETTING_INNER_DSCP_KEPT | LISP_SETTING_ROUTES_BY_FLOW)

/* Makes the record of an encapsulation. The answer is what to do with this packet. */
static __noinline int make_encapsulation(hook_frame *frame, struct lisp_context *c,
					 const struct lisp_locator *l, struct lisp_action_record *a)
{
	struct bpf_fib_lookup f = {};
	bool used = a->expires_ns;
	__u32 headers = outer_length(l->family), carried;
	long answer;

	c->reason = LISP_DROP_OWN_NEXT_HOP;
	if (is_own_rloc(l->family, (const union lisp_address *)l->rloc, 0))
		return LISP_DO_REFUSE;
	answer = find_outer_route(frame, &f, l, c, a->tos);
	carried = f.mtu_result;
	if (answer == BPF_FIB_LKUP_RET_FRAG_NEEDED) {
		c->reason = LISP_TAP_REASON_TOO_BIG;
		c->mtu = carried - headers;
		return LISP_DO_WAIT;
	}
	a->expires_ns = 0;
	c->reason = LISP_DROP_NO_ROUTE;
	if (!is_way_out(&f, answer))
		return LISP_DO_REFUSE;
	set_next_hop(a, &f, answer, f.ifindex, used);
	if (l->path_mtu && l->path_mtu < carried)
		carried = l->path_mtu;
	a->longest = carried > headers ? carried - headers : 0;
	a->epoch = c->since.epoch;
	make_template(a, l);
	if (a->varies & LISP_VARIES_HEADER || c->listed || has_setting(LISP_SETTING_TWO_LAYERS) ||
	    (c->what == LISP_DO_RELAY &&
	     has_setting(SETTINGS_UNCACHED | LISP_SETTING_PATHS_BY_SOURCE)))
		a->flags |= LISP_ACTION_UNCACHED;
	return LISP_DO_ENCAPSULATE;
}

/* ---- the route to a host of the site ---- */

/* Whether EIDs of the packet's Instance-ID are behind an interface. */
static __always_inline bool is_of_instance(const struct lisp_interface *at, __u32 iid)
{
	return !has_setting(LISP_SETTING_INSTANCES) || (at && at->iid == iid);
}

/* The stack knows the EIDs of one Instance-ID alone, that of loci0. */
static __always_inline bool is_for_stack(__u32 iid)
{
	const struct lisp_settings *s = find_settings();

	return s && is_of_instance(find_interface(s->tap_ifindex, LISP_INTERFACE_TAP), iid);
}

/* Makes the record of a delivery; the answer is what to do with this packet. */
static __noinline int make_delivery(hook_frame *frame, struct lisp_context *c, __u32 flags,
				    struct lisp_action_record *a)
{
	struct bpf_fib_lookup f = {.ifindex = a->from};
	__u32 length = longest_segment(frame, &c->packet), ifindex;
	bool used = a->expires_ns;
	const struct lisp_interface *to;
	long answer;

	a->expires_ns = 0;
	f.tot_len = length < MAX_IP_LENGTH ? length : MAX_IP_LENGTH;
	answer = find_route(frame, &f, &c->packet, flags);
	/* the TAP was deleted while no daemon runs */
	if (answer == -NO_SUCH_DEVICE) {
		f.ifindex = incoming_ifindex(frame);
		answer = find_route(frame, &f, &c->packet, flags);
	}
	if (answer != BPF_FIB_LKUP_RET_SUCCESS && answer != BPF_FIB_LKUP_RET_NO_NEIGH)
		return LISP_DO_LOCAL;
	to = find_site(f.ifindex, c->iid);
	if (!to || !is_of_instance(to, c->iid) || to->flags & LISP_INTERFACE_STACK)
		return LISP_DO_LOCAL;
	/* The tag is added here, but towards a neighbour that the VLAN's device has yet to find. */
	ifindex = to->parent && answer == BPF_FIB_LKUP_RET_SUCCESS ? to->parent : f.ifindex;
	set_next_hop(a, &f, answer, ifindex, used);
	OCTETS2(a->header + 12) = ethertype_of(c->packet.family);
	a->longest = f.mtu_result;
	a->epoch = c->since.epoch;
	if (ifindex == to->parent)
		a->vlan = to->vlan;
	if (a->vlan || has_setting(SETTINGS_UNCACHED))
		a->flags |= LISP_ACTION_UNCACHED;
	return LISP_DO_DELIVER;
}

#endif

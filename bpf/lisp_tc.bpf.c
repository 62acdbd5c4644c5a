/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Loci's data plane at the tc hooks (tcx, or clsact with cls_bpf): the five programs, RFC 9300 s.4
 * and s.5. Each decides whether a packet concerns LISP at all and passes it untouched
 * (TC_ACT_UNSPEC: other filters still run) if not, and leads it through the stages: classify.h,
 * decap.h, admit.h, look_up.h, select.h, apply_tc.h; punt.h where it cannot go out at once.
 *
 *   site_ingress  packets from the site's hosts: ITR
 *   core_ingress  packets to own RLOCs, UDP port 4341: ETR
 *   core_egress   what this host itself sends from an EID, or an ICMP error it owes to a remote EID
 *   lisp_egress   the same, where routes lead it into loci0; and packets that other hooks sent
 *                 there to wait
 *   lisp_ingress  packets that user space writes back to loci0
 *
 * What they need of the machine, which user space sets up:
 *   - net.ipv4.conf.IF.forwarding and net.ipv6.conf.IF.forwarding of `lo` (for packets to RLOCs)
 *     and of loci0 (for packets to the site): bpf_fib_lookup answers only where forwarding is on.
 *     Without it for lo, everything towards the core is dropped as LISP_DROP_NO_ROUTE; without it
 *     for loci0, everything from the core takes the stack.
 *   - loci0: a TAP with IFF_VNET_HDR and TUNSETOFFLOAD, IFF_NOARP, up.
 *   - For this host's own EIDs, a table with a default route by loci0, and rules: to own
 *     EID-prefixes the main table, then `iif lo` from them that table, and, after the main table,
 *     that table for all. The last one also makes strict reverse path filters believe packets from
 *     remote EIDs in loci0, and lets the stack answer with Time Exceeded, where the main table has
 *     no default route; where it has one, net.ipv4.conf.loci0.rp_filter must be 2.
 *
 * How tests run them (BPF_PROG_TEST_RUN): the result is a frame as it would leave the interface and
 * TC_ACT_REDIRECT, because nothing is redirected in a test run. The route lookup is the kernel's,
 * of the network namespace the caller is in, so tests enter a namespace of their own that has
 * interfaces (two veth pairs), routes, permanent neighbours and net.ipv{4,6}.conf.*.forwarding = 1,
 * give the interface's index in the context (struct __sk_buff.ifindex and ingress_ifindex) and its
 * address as the frame's destination, which makes pkt_type HOST. Everything in the result is then
 * known beforehand but the 24 bits of the nonce. bpf_test.go does it.
 */

//go:build ignore

#include "hook_tc.h"

#include "apply_tc.h"
#include "icmp.h"
#include "locator_set_cache.h"
#include "look_up.h"
#include "punt.h"

char _license[] SEC("license") = "GPL";

const union lisp_abi *const lisp_abi_in_btf = 0;

#define SKB_PACKET_HOST 0

/* ---- after the stages: what was decided is done ---- */

static __always_inline void vary_from_context(struct lisp_varying *v, const struct lisp_context *c)
{
	*v = (struct lisp_varying){.hash = c->hash,
				   .first = c->header_first,
				   .second = c->header_second,
				   .tos = c->packet.tos,
				   .ttl = c->packet.ttl,
				   .family = c->packet.family,
				   .protocol = c->packet.protocol,
				   .l2_length = c->l2_length,
				   .at_ingress = is_at_ingress(c)};
}

/* What the packet has in octets, padding aside. */
static __always_inline __u32 octets_of(const struct __sk_buff *skb, const struct lisp_packet *p)
{
	__u32 octets = octets_from(skb, p->offset);

	return skb->gso_size || octets <= p->length ? octets : p->length;
}

/* Sends a packet to its locator. */
static __noinline int send_to_core(struct __sk_buff *skb, struct lisp_context *c)
{
	struct lisp_action_record *a = action_at(c->action);
	struct lisp_varying v;
	int verdict;

	if (!a)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	vary_header(c, a);
	lisp_keep_flow(skb, c);
	if (c->tagged && untag(skb, c) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	vary_from_context(&v, c);
	v.length = octets_of(skb, &c->packet);
	if (c->forwarded)
		v.ttl--;
	verdict = lisp_encapsulate(skb, a, &v);
	/* On its way through the TAP it is cut into packets, each a fresh skb. */
	if (verdict == NEEDS_FRESH_SKB)
		return wait_at_tap(skb, c, LISP_TAP_REASON_HOLD, 0);
	if (verdict != TC_ACT_SHOT)
		count_mapping(c->mapping_index, v.length);
	return verdict;
}

/* Stages 4 to 6 of a packet from an EID of ours to somewhere else. */
static __noinline int forward_to_core(struct __sk_buff *skb, struct lisp_context *c)
{
	switch (decide_for_core(skb, c)) {
	case LISP_DO_ENCAPSULATE:
		return send_to_core(skb, c);
	case LISP_DO_WAIT:
		return wait_at_tap(skb, c, c->reason, c->mtu);
	case LISP_DO_MISS:
		return miss(skb, c);
	case LISP_DO_NATIVELY:
		return forward_natively(skb, c);
	case LISP_DO_REFUSE:
		return refuse(skb, c, c->reason);
	}
	return drop(skb, c->reason);
}

/* A bare packet goes on in the stack where it is, on the core interface. */
static __always_inline int leave_to_stack(struct __sk_buff *skb, const struct lisp_varying *v)
{
	struct ethhdr ethernet = {};

	if (v->l2_length && bpf_skb_load_bytes(skb, 0, &ethernet, 2 * ETH_ALEN) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	ethernet.h_proto = ethertype_of(v->family);
	if (write_inner(skb, &ethernet, v, v->l2_length ? ETH_HLEN : 0) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	return TC_ACT_OK;
}

/* By loci0: there, not on a core interface, the reverse path filter lets a packet from a remote EID
 * pass. */
static __noinline int hand_to_stack(struct __sk_buff *skb, const struct lisp_varying *v)
{
	const struct lisp_settings *s = find_settings();
	struct ethhdr ethernet = {.h_proto = ethertype_of(v->family)};
	__u32 tap = present_tap(skb);

	if (!tap && s && s->tap_ifindex)
		return drop(skb, LISP_DROP_NO_TAP);
	count(LISP_COUNTER_TO_STACK, skb->len);
	step(LISP_STEP_STACK, 0, 0, 0);
	if (!tap || !s)
		return leave_to_stack(skb, v);
	__builtin_memcpy(ethernet.h_dest, s->tap_mac, ETH_ALEN);
	if (!v->l2_length && bpf_skb_change_head(skb, ETH_HLEN, 0) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	if (write_inner(skb, &ethernet, v, ETH_HLEN) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	return bpf_redirect(tap, BPF_F_INGRESS);
}

/* Stage 6 of a packet from the core: to the site by route and neighbour, or to this host. */
static __noinline int send_to_site(struct __sk_buff *skb, struct lisp_context *c, int what)
{
	struct lisp_action_record *a = action_at(c->action);
	struct lisp_varying v;

	if (!a)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	vary_from_context(&v, c);
	v.removed = c->removed;
	v.length = c->packet.length;
	v.ttl = c->ttl;
	v.at_ingress = true;
	count_mapping(c->mapping_index, octets_of(skb, &c->packet));
	lisp_note_source(&c->outer.source, c->outer.family);
	if (what == LISP_DO_DELIVER) {
		lisp_keep_flow(skb, c);
		v.ttl--;
		return lisp_deliver(skb, a, &v, c->outer.family);
	}
	if (take_outer_off(skb, &v, c->outer.family) < 0)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	return hand_to_stack(skb, &v);
}

/* Stages 2 to 6 of a packet that is_lisp() has recognised. */
static __noinline int forward_from_core(struct __sk_buff *skb, struct lisp_context *c)
{
	int reason = lisp_judge_from_core(skb, c), what = LISP_DO_LOCAL;

	count_notes(c, skb->len);
	if (reason)
		return drop(skb, reason);
	/* Expired TTL is the stack's to answer. */
	if (c->ttl > 1 && !(c->interface_flags & LISP_INTERFACE_STACK))
		what = lisp_select_delivery(skb, c);
	if (what != LISP_DO_DELIVER && !is_for_stack(c->iid))
		return drop(skb, LISP_DROP_OTHER_INSTANCE);
	return send_to_site(skb, c, what);
}

/* ---- the caches ---- */

/* Each of these is a call of its own, or its variables would take stack from the others. */
static __noinline int encapsulate_by_flow_of(struct __sk_buff *skb, struct lisp_clock *clock)
{
	return skb->protocol == bpf_htons(ETH_P_IP) ? encapsulate_by_flow(skb, clock, 4)
						    : encapsulate_by_flow(skb, clock, 6);
}

static __noinline int encapsulate_by_set_of(struct __sk_buff *skb,
					    const struct lisp_interface *site)
{
	return skb->protocol == bpf_htons(ETH_P_IP) ? encapsulate_by_set(skb, site, 4)
						    : encapsulate_by_set(skb, site, 6);
}

static __always_inline bool is_ip(__be16 ethertype)
{
	return ethertype == bpf_htons(ETH_P_IP) || ethertype == bpf_htons(ETH_P_IPV6);
}

/* By the flow cache, or, while most packets miss it, by that of locator-sets; NOT_CACHED where
 * nothing is known. */
static __always_inline int forward_cached_from_site(struct __sk_buff *skb,
						    const struct lisp_interface *site)
{
	struct lisp_clock *clock = find_clock();

	if (lisp_tracing || !clock || !(site->flags & LISP_INTERFACE_SITE) ||
	    site->l2_length != ETH_HLEN || !is_ip(skb->protocol))
		return NOT_CACHED;
	return goes_by_set(clock) ? encapsulate_by_set_of(skb, site)
				  : encapsulate_by_flow_of(skb, clock);
}

static __always_inline int deliver_cached(struct __sk_buff *skb, const struct lisp_interface *core,
					  struct lisp_clock *clock, __u8 outer_family)
{
	bool by_set = goes_by_set(clock);

	switch (inner_family(skb, outer_family)) {
	case 4:
		return by_set ? deliver_by_entry(skb, core, outer_family, 4)
			      : deliver_by_flow(skb, clock, outer_family, 4);
	case 6:
		return by_set ? deliver_by_entry(skb, core, outer_family, 6)
			      : deliver_by_flow(skb, clock, outer_family, 6);
	}
	return NOT_CACHED;
}

/* The same for a packet from the core. */
static __noinline int forward_cached_from_core(struct __sk_buff *skb,
					       const struct lisp_interface *core)
{
	struct lisp_clock *clock = find_clock();

	if (lisp_tracing || !clock || core->l2_length != ETH_HLEN ||
	    core->flags & LISP_INTERFACE_STACK)
		return NOT_CACHED;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return deliver_cached(skb, core, clock, 4);
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return deliver_cached(skb, core, clock, 6);
	return NOT_CACHED;
}

/* ---- entry points ---- */

/* The tag's VLAN and what follows it; the kernel nearly always keeps the tag beside the frame. -1
 * for no single tag. */
static __always_inline int read_tag(struct __sk_buff *skb, __be16 *ethertype, __u32 *l2_length)
{
	struct vlan_tag tag;

	*ethertype = skb->protocol;
	if (skb->vlan_present)
		return skb->vlan_proto == bpf_htons(ETH_P_8021Q) && !is_vlan(*ethertype)
			       ? skb->vlan_tci & VLAN_ID_MASK
			       : -1;
	if (skb->protocol != bpf_htons(ETH_P_8021Q) ||
	    read_octets(skb, ETH_HLEN, &tag, sizeof(tag)) < 0 || is_vlan(tag.ethertype))
		return -1;
	*ethertype = tag.ethertype;
	*l2_length = ETH_HLEN + sizeof(tag);
	return bpf_ntohs(tag.tci) & VLAN_ID_MASK;
}

/* The site of a frame at an interface whose VLANs are sites, NULL where it is of none. */
static __noinline const struct lisp_interface *find_tagged(struct __sk_buff *skb,
							   const struct lisp_interface *at,
							   struct lisp_context *c,
							   __be16 *ethertype)
{
	struct lisp_vlan_key key = {.ifindex = skb->ifindex};
	const __u32 *index;
	int vlan;

	if (!skb->vlan_present && !is_vlan(skb->protocol))
		return at->flags & LISP_INTERFACE_SITE ? at : NULL;
	vlan = read_tag(skb, ethertype, &c->l2_length);
	if (vlan < 0) {
		count(LISP_COUNTER_DOUBLE_TAGGED, skb->len);
		return NULL;
	}
	key.tag = vlan;
	index = bpf_map_lookup_elem(&vlans, &key);
	if (!index)
		return NULL;
	c->origin = *index;
	c->tagged = true;
	return find_interface(*index, LISP_INTERFACE_SITE);
}

SEC("tc")
int site_ingress(struct __sk_buff *skb)
{
	const struct lisp_interface *site = find_interface(
		skb->ifindex, LISP_INTERFACE_SITE | LISP_INTERFACE_TAGGED);
	__be16 ethertype = skb->protocol;
	int verdict = NOT_CACHED;
	struct lisp_context *c;

	if (!site || skb->pkt_type != SKB_PACKET_HOST)
		return TC_ACT_UNSPEC;
	if (!skb->vlan_present && !(site->flags & LISP_INTERFACE_STACK))
		verdict = forward_cached_from_site(skb, site);
	if (verdict != NOT_CACHED)
		return verdict;
	c = new_context(site);
	if (!c)
		return TC_ACT_UNSPEC;
	c->origin = skb->ifindex;
	c->side = LISP_INTERFACE_SITE;
	c->forwarded = true;
	c->l2_length = site->l2_length;
	if (site->flags & LISP_INTERFACE_TAGGED) {
		site = find_tagged(skb, site, c, &ethertype);
		if (!site)
			return TC_ACT_UNSPEC;
	} else if (skb->vlan_present) {
		return TC_ACT_UNSPEC;
	}
	/* The stack forwards it, to one of the egress programs. */
	if (site->flags & LISP_INTERFACE_STACK)
		return TC_ACT_UNSPEC;
	c->iid = site->iid;
	c->roots = site->roots;
	if (parse_ip(skb, c->l2_length, ethertype, &c->packet) < 0 || c->packet.malformed)
		return TC_ACT_UNSPEC;
	c->since = begin_lookup(c->packet.family, &c->packet.destination);
	return admit_from_site(c) ? forward_to_core(skb, c) : TC_ACT_UNSPEC;
}

SEC("tc")
int core_ingress(struct __sk_buff *skb)
{
	const struct lisp_interface *core = find_interface(skb->ifindex, LISP_INTERFACE_CORE);
	struct lisp_context *c;
	int verdict;

	if (!core || skb->pkt_type != SKB_PACKET_HOST || skb->vlan_present)
		return TC_ACT_UNSPEC;
	verdict = forward_cached_from_core(skb, core);
	if (verdict != NOT_CACHED)
		return verdict;
	c = new_context(core);
	if (!c)
		return TC_ACT_UNSPEC;
	c->l2_length = core->l2_length;
	if (parse_ip(skb, c->l2_length, skb->protocol, &c->outer) < 0 || !is_lisp(skb, &c->outer))
		return TC_ACT_UNSPEC;
	return forward_from_core(skb, c);
}

static __always_inline bool any_stack(void)
{
	const struct lisp_settings *s = find_settings();

	return s && s->flags & LISP_SETTING_ANY_STACK;
}

/* The site interface where a packet came in that IP forwarding has seen since; NULL for all others.
 */
static __always_inline const struct lisp_interface *forwarded_from(struct __sk_buff *skb)
{
	const struct lisp_interface *from;

	if (!skb->ingress_ifindex || !any_stack())
		return NULL;
	from = find_interface(skb->ingress_ifindex, LISP_INTERFACE_STACK);
	return from && from->flags & LISP_INTERFACE_SITE ? from : NULL;
}

/* The interface that a packet at the way out counts as come from. */
static __always_inline __u32 origin_of(const struct __sk_buff *skb,
				       const struct lisp_interface *from)
{
	__u32 origin = skb->ifindex;

	/* Two loads: the verifier refuses one with an offset that depends on `from`. */
	barrier_var(origin);
	return from ? skb->ingress_ifindex : origin;
}

/* Whether what this host sends can be carried. Only a super-packet may be longer than its length
 * field tells. */
static __always_inline bool is_forwardable(const struct __sk_buff *skb, const struct lisp_packet *p)
{
	return (!p->malformed || segment_length(skb)) &&
	       is_routable_unicast(&p->destination, p->family);
}

SEC("tc")
int core_egress(struct __sk_buff *skb)
{
	const struct lisp_interface *from = forwarded_from(skb), *core;
	struct lisp_context *c;

	/* What came in by another interface was judged there. */
	if (skb->ingress_ifindex && !from)
		return TC_ACT_UNSPEC;
	core = find_interface(skb->ifindex, LISP_INTERFACE_CORE);
	if (!core || skb->vlan_present)
		return TC_ACT_UNSPEC;
	c = new_context(from ? from : core);
	if (!c)
		return TC_ACT_UNSPEC;
	c->origin = origin_of(skb, from);
	c->side = LISP_INTERFACE_CORE;
	c->l2_length = core->l2_length;
	if (parse_ip(skb, c->l2_length, skb->protocol, &c->packet) < 0 ||
	    !is_forwardable(skb, &c->packet))
		return TC_ACT_UNSPEC;
	c->since = begin_lookup(c->packet.family, &c->packet.destination);
	/* LISP itself comes from an RLOC: this ends it, no packet is encapsulated twice. */
	if (is_own_rloc(c->packet.family, &c->packet.source)) {
		if (!is_error_to_remote_eid(skb, &c->packet, find_roots(c->roots)))
			return TC_ACT_UNSPEC;
	} else if (!comes_from_eid(c)) {
		return TC_ACT_UNSPEC;
	}
	return is_within_site(c) ? TC_ACT_UNSPEC : forward_to_core(skb, c);
}

#define NO_KIND 0xFFFFFFFFU

/* Magic octet and, in the low half, protocol of a frame at loci0. */
static __noinline __u32 kind_at_tap(struct __sk_buff *skb)
{
	struct lisp_tap_header h;

	if (read_octets(skb, 0, &h, sizeof(h)) < 0)
		return NO_KIND;
	return (__u32)h.magic << 16 | h.protocol;
}

SEC("tc")
int lisp_egress(struct __sk_buff *skb)
{
	__u32 kind = kind_at_tap(skb);
	const struct lisp_interface *tap = find_interface(skb->ifindex, LISP_INTERFACE_TAP), *from;
	struct lisp_context *c;

	if (!tap || kind == NO_KIND)
		return TC_ACT_UNSPEC;
	if (kind >> 16 == LISP_TAP_WAITING)
		return TC_ACT_OK;
	from = forwarded_from(skb);
	c = new_context(from ? from : tap);
	if (!c)
		return TC_ACT_UNSPEC;
	c->origin = origin_of(skb, from);
	c->side = LISP_INTERFACE_TAP;
	c->l2_length = ETH_HLEN;
	if (parse_ip(skb, c->l2_length, (__be16)kind, &c->packet) < 0 ||
	    !is_forwardable(skb, &c->packet))
		return drop(skb, LISP_DROP_NOT_FORWARDABLE);
	c->since = begin_lookup(c->packet.family, &c->packet.destination);
	if (!comes_from_eid(c) && !is_error_to_remote_eid(skb, &c->packet, find_roots(c->roots)))
		return drop(skb, LISP_DROP_SOURCE_NOT_EID);
	return is_within_site(c) ? forward_natively(skb, c) : forward_to_core(skb, c);
}

static __always_inline __u32 origin_at_tap(const struct lisp_tap_header *h)
{
	return (__u32)h->origin[0] << 24 | h->origin[1] << 16 | h->origin[2] << 8 | h->origin[3];
}

/* A packet that waited takes up its way where it left it. */
static __noinline int release(struct __sk_buff *skb, const struct lisp_tap_header *h)
{
	__u32 origin = origin_at_tap(h);
	const struct lisp_interface *from = bpf_map_lookup_elem(&interfaces, &origin);
	struct lisp_context *c = from ? new_context(from) : NULL;

	if (!from || !c)
		return drop(skb, LISP_DROP_TAP_ORIGIN_UNKNOWN);
	c->origin = origin;
	c->l2_length = ETH_HLEN;
	c->released = true;
	c->side = from->flags & LISP_INTERFACE_SITE   ? LISP_INTERFACE_SITE
		  : from->flags & LISP_INTERFACE_CORE ? LISP_INTERFACE_CORE
						      : LISP_INTERFACE_TAP;
	/* IP forwarding has seen it already, and counted its TTL. */
	if (from->flags & LISP_INTERFACE_STACK && c->side == LISP_INTERFACE_SITE)
		c->side = LISP_INTERFACE_TAP;
	c->forwarded = c->side == LISP_INTERFACE_SITE;
	if (parse_ip(skb, c->l2_length, h->protocol, &c->packet) < 0)
		return drop(skb, LISP_DROP_NOT_FORWARDABLE);
	c->since = begin_lookup(c->packet.family, &c->packet.destination);
	if (c->forwarded && c->packet.ttl <= 1)
		return drop(skb, LISP_DROP_TTL_EXPIRED);
	count(LISP_COUNTER_RELEASED, octets_from(skb, c->l2_length));
	return forward_to_core(skb, c);
}

/* A packet that user space made goes out as the routes say. */
static __noinline int transmit(struct __sk_buff *skb, const struct lisp_interface *tap,
			       const struct lisp_tap_header *h)
{
	struct lisp_context *c = new_context(tap);

	if (!c)
		return drop(skb, LISP_DROP_NOT_FORWARDABLE);
	c->l2_length = ETH_HLEN;
	if (parse_ip(skb, c->l2_length, h->protocol, &c->packet) < 0)
		return drop(skb, LISP_DROP_NOT_FORWARDABLE);
	count(LISP_COUNTER_TRANSMITTED, octets_from(skb, c->l2_length));
	return send_by_main_table(skb, c);
}

/* An outer packet that came in fragments takes up its way where they left it. */
static __noinline int take_reassembled(struct __sk_buff *skb, const struct lisp_tap_header *h)
{
	const struct lisp_interface *core = find_interface(origin_at_tap(h), LISP_INTERFACE_CORE);
	struct lisp_context *c = core ? new_context(core) : NULL;

	if (!c)
		return drop(skb, LISP_DROP_TAP_ORIGIN_UNKNOWN);
	c->l2_length = ETH_HLEN;
	if (parse_ip(skb, c->l2_length, h->protocol, &c->outer) < 0 || !is_lisp(skb, &c->outer))
		return drop(skb, LISP_DROP_OUTER_MALFORMED);
	return forward_from_core(skb, c);
}

SEC("tc")
int lisp_ingress(struct __sk_buff *skb)
{
	const struct lisp_interface *tap = find_interface(skb->ifindex, LISP_INTERFACE_TAP);
	struct lisp_tap_header h;

	if (!tap || read_octets(skb, 0, &h, sizeof(h)) < 0)
		return TC_ACT_UNSPEC;
	if (h.magic == LISP_TAP_RELEASED)
		return release(skb, &h);
	if (h.magic == LISP_TAP_TRANSMIT)
		return transmit(skb, tap, &h);
	if (h.magic == LISP_TAP_REASSEMBLED)
		return take_reassembled(skb, &h);
	return TC_ACT_UNSPEC;
}

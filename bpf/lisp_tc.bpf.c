/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Loci's data plane at the tc hooks (tcx, or clsact with cls_bpf): the five programs, RFC 9300 s.4
 * and s.5. A packet that does not concern LISP passes untouched (TC_ACT_UNSPEC: other filters still
 * run). The others go through the stages in the order of stages.h. Here are the entry points, which
 * say what a packet is, and stage 6; punt.h has what happens to packets that cannot go out at once.
 *
 *   site_ingress  packets from the site's hosts: ITR, PITR
 *   core_ingress  packets to own RLOCs, UDP port 4341: ETR, RTR, PETR; others: PITR
 *   core_egress   what this host itself sends from an EID, or an ICMP error it owes to a remote EID
 *   lisp_egress   the same, where routes lead it into loci0; and packets that other hooks sent
 *                 there to wait
 *   lisp_ingress  packets that user space writes back to loci0
 *
 * dataplane/kernel sets up what they need: forwarding on `lo` and loci0, without which
 * bpf_fib_lookup does not answer; loci0, a TAP with IFF_VNET_HDR; and rules by which this host's
 * own EIDs reach remote ones by loci0.
 *
 * Tests run them with BPF_PROG_TEST_RUN in a network namespace of their own (bpf_test.go): the
 * result is a frame as it would leave the interface and TC_ACT_REDIRECT, and all of it but the
 * nonce is known beforehand.
 */

//go:build ignore

#include "hook_tc.h"

#include "apply_tc.h"
#include "cached_path.h"
#include "icmp.h"
#include "punt.h"
#include "stages.h"
#include "subflow.h"

char _license[] SEC("license") = "GPL";

const union lisp_abi *const lisp_abi_in_btf = 0;

#define SKB_PACKET_HOST 0

/* ---- stage 6: the action is applied ---- */

/* What not every packet needs: below. */
static __noinline int send_by_two_layers(struct __sk_buff *skb, struct lisp_context *c);
static __noinline int send_to_stack(struct __sk_buff *skb, struct lisp_context *c);

/* Why a packet that gets an outer UDP checksum has to go through the TAP, or 0. A GSO packet has no
 * single one; what comes after it from the same source must not overtake it. A global function:
 * verified once. */
__noinline int lisp_reason_of_checksum(struct __sk_buff *skb, struct lisp_context *c,
				       const struct lisp_action_record *a)
{
	__u32 octets;

	if (!c || !a)
		return 0;
	if (goes_in_segments(skb, c))
		return LISP_TAP_REASON_SEGMENT;
	if (has_checksum(skb, &c->packet))
		return 0;
	/* user space sends it, and counts nothing of it */
	octets = octets_of(skb, &c->packet);
	count_encapsulated(a->what, a->outer_family, octets);
	count_mapping(c->mapping_index, octets, now_ns());
	count_negative(c, octets);
	return LISP_TAP_REASON_CHECKSUM;
}

/* Stage 6 of a packet to its locator. */
static __noinline int send_to_core(struct __sk_buff *skb, struct lisp_context *c)
{
	struct lisp_action_record *a = action_at(c->action);
	struct lisp_varying v;
	int verdict;

	if (!a)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	if (a->flags & LISP_ACTION_CHECKSUM) {
		verdict = lisp_reason_of_checksum(skb, c, a);
		if (verdict == LISP_TAP_REASON_SEGMENT)
			return send_in_segments(skb, c);
		if (verdict)
			return wait_at_tap(skb, c, verdict, 0);
	}
	vary_header(c, a);
	tell_subflow(skb, c);
	lisp_keep_flow(skb, c);
	if (c->tagged && untag(skb, c) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	vary_from_context(&v, skb, c, c->forwarded);
	verdict = lisp_encapsulate(skb, a, &v);
	/* Cut into segments, each of which is a new skb. */
	if (verdict == NEEDS_FRESH_SKB)
		return send_in_segments(skb, c);
	if (verdict == TC_ACT_REDIRECT) {
		count_mapping(c->mapping_index, v.length, now_ns());
		count_negative(c, v.length);
	}
	return verdict;
}

static __always_inline int apply_towards_core(struct __sk_buff *skb, struct lisp_context *c,
					      int what)
{
	count_notes(c, skb->len);
	if (what == LISP_DO_MISS_RLOC) {
		what = miss_rloc(skb, c);
		if (what == LISP_DO_ENCAPSULATE)
			what = lisp_select_encapsulation(skb, c);
	}
	switch (what) {
	case LISP_DO_ENCAPSULATE:
		return send_to_core(skb, c);
	case LISP_DO_ENCAPSULATE_TWICE:
		return send_by_two_layers(skb, c);
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

/* Stage 6 of a packet to a host of the site. */
static __noinline int send_to_site(struct __sk_buff *skb, struct lisp_context *c)
{
	struct lisp_action_record *a = action_at(c->action);
	struct lisp_varying v;
	int verdict;

	if (!a)
		return drop(skb, LISP_DROP_DECAPSULATION_FAILED);
	vary_from_context(&v, skb, c, 1);
	tell_subflow(skb, c);
	lisp_keep_flow(skb, c);
	verdict = lisp_deliver(skb, a, &v, c->outer.family);
	if (verdict == TC_ACT_SHOT)
		return verdict;
	count_mapping(c->mapping_index, v.length, now_ns());
	lisp_note_decapsulated(&c->outer.source, c->outer.family);
	return verdict;
}

static __always_inline int apply_from_core(struct __sk_buff *skb, struct lisp_context *c, int what)
{
	count_notes(c, skb->len);
	if (what == LISP_DO_DELIVER)
		return send_to_site(skb, c);
	if (what == LISP_DO_DROP)
		return drop(skb, c->reason);
	if (c->what != LISP_DO_DELIVER)
		lisp_note_decapsulated(&c->outer.source, c->outer.family);
	return what == LISP_DO_NATIVELY ? exit_natively(skb, c) : send_to_stack(skb, c);
}

/* ---- nothing is out of reach, and nothing goes elsewhere ---- */

static __always_inline bool can_reach_inner(struct __sk_buff *skb, const struct lisp_packet *outer)
{
	(void)skb;
	(void)outer;
	return true;
}

static __always_inline bool must_go_to_tc(struct __sk_buff *skb, const struct lisp_context *c)
{
	(void)skb;
	(void)c;
	return false;
}

/* ---- stage 6 of a second layer, and of what the stack takes ---- */

/* Stage 6 of a packet to an RLOC that is an EID. The kernel cannot cut a GSO packet into segments
 * behind two layers: user space does, and packets of the same source that come after it wait for
 * that. */
static __noinline int send_by_two_layers(struct __sk_buff *skb, struct lisp_context *c)
{
	struct lisp_context *second = find_second_layer();
	struct lisp_action_record *first = action_at(c->action), *outer;
	struct lisp_varying v;
	__u32 octets;

	if (goes_in_segments(skb, c))
		return send_in_segments(skb, c);
	outer = second ? action_at(second->action) : NULL;
	if (!first || !outer)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	/* that of the outer headers follows from that of the inner ones */
	if ((first->flags | outer->flags) & LISP_ACTION_CHECKSUM &&
	    (!(first->flags & LISP_ACTION_CHECKSUM) || !has_checksum(skb, &c->packet)))
		return wait_at_tap(skb, c, LISP_TAP_REASON_CHECKSUM, 0);
	vary_header(c, first);
	vary_header(second, outer);
	tell_subflow(skb, c);
	if (c->tagged && untag(skb, c) < 0)
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	vary_from_context(&v, skb, c, c->forwarded);
	octets = v.length;
	if (lisp_put_headers(skb, first, &v))
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	vary_second(&v, second, first);
	if (lisp_put_headers(skb, outer, &v))
		return drop(skb, LISP_DROP_ENCAPSULATION_FAILED);
	count_two_layers(c, second, outer, octets);
	v.l2_length = c->l2_length;
	return send(outer, &v);
}

/* Stage 6 of a packet that the stack takes: for this host, or to be answered or routed. */
static __noinline int send_to_stack(struct __sk_buff *skb, struct lisp_context *c)
{
	__u32 octets = octets_of(skb, &c->packet);
	int verdict;

	if (!is_for_stack(c->iid))
		return drop(skb, LISP_DROP_OTHER_INSTANCE);
	if (c->what == LISP_DO_DELIVER && c->packet.ttl > 1)
		tell_subflow(skb, c);
	verdict = end_at_stack(skb, c);
	if (c->what != LISP_DO_DELIVER || verdict == TC_ACT_SHOT)
		return verdict;
	count_mapping(c->mapping_index, octets, now_ns());
	lisp_note_decapsulated(&c->outer.source, c->outer.family);
	return verdict;
}

/* ---- the caches: functions of their own, or their variables would take stack from others ---- */

static __noinline int encapsulate_by_flow(struct __sk_buff *skb, struct lisp_clock *clock)
{
	return skb->protocol == bpf_htons(ETH_P_IP) ? encapsulate_cached(skb, clock, NULL, 4)
						    : encapsulate_cached(skb, clock, NULL, 6);
}

static __noinline int encapsulate_ipv4_by_set(struct __sk_buff *skb, struct lisp_clock *clock,
					      const struct lisp_interface *site)
{
	return site ? encapsulate_cached(skb, clock, site, 4) : NOT_CACHED;
}

static __noinline int encapsulate_ipv6_by_set(struct __sk_buff *skb, struct lisp_clock *clock,
					      const struct lisp_interface *site)
{
	return site ? encapsulate_cached(skb, clock, site, 6) : NOT_CACHED;
}

static __always_inline int forward_cached_from_site(struct __sk_buff *skb,
						    const struct lisp_interface *site)
{
	struct lisp_clock *clock = find_clock();

	if (lisp_tracing || !clock || skb->vlan_present || !is_ip(skb->protocol) ||
	    (site->flags & (LISP_INTERFACE_SITE | LISP_INTERFACE_STACK)) != LISP_INTERFACE_SITE ||
	    site->l2_length != ETH_HLEN)
		return NOT_CACHED;
	if (!goes_by_set(clock))
		return encapsulate_by_flow(skb, clock);
	return skb->protocol == bpf_htons(ETH_P_IP) ? encapsulate_ipv4_by_set(skb, clock, site)
						    : encapsulate_ipv6_by_set(skb, clock, site);
}

/* A global function: verified once, as is what follows it. */
__noinline int lisp_forward_cached_from_core(struct __sk_buff *skb,
					     const struct lisp_interface *core)
{
	struct lisp_clock *clock = find_clock();
	bool is_ipv4 = skb->protocol == bpf_htons(ETH_P_IP);

	if (lisp_tracing || !core || !clock || !is_ip(skb->protocol) ||
	    core->l2_length != ETH_HLEN || core->flags & LISP_INTERFACE_STACK)
		return NOT_CACHED;
	if (goes_by_set(clock))
		return is_ipv4 ? deliver_cached(skb, clock, core, 4)
			       : deliver_cached(skb, clock, core, 6);
	return is_ipv4 ? deliver_cached(skb, clock, NULL, 4) : deliver_cached(skb, clock, NULL, 6);
}

/* ---- entry points ---- */

/* The VLAN of a frame's tag, which the kernel mostly keeps beside the frame, and what follows it;
 * -1 for no single tag. */
static __always_inline int read_tag(struct __sk_buff *skb, __be16 *ethertype, __u32 *l2_length)
{
	struct vlan_tag tag;

	if (skb->vlan_present)
		return skb->vlan_proto == bpf_htons(ETH_P_8021Q) && !is_vlan(*ethertype)
			       ? skb->vlan_tci & VLAN_ID_MASK
			       : -1;
	if (*ethertype != bpf_htons(ETH_P_8021Q) ||
	    read_octets(skb, ETH_HLEN, &tag, sizeof(tag)) < 0 || is_vlan(tag.ethertype))
		return -1;
	*ethertype = tag.ethertype;
	*l2_length = ETH_HLEN + sizeof(tag);
	return bpf_ntohs(tag.tci) & VLAN_ID_MASK;
}

/* The site of a frame at an interface whose VLANs are sites; NULL for none. */
static __noinline const struct lisp_interface *find_tagged(struct __sk_buff *skb,
							   const struct lisp_interface *at,
							   struct lisp_context *c,
							   __be16 *ethertype)
{
	int vlan;

	if (!skb->vlan_present && !is_vlan(skb->protocol))
		return at->flags & LISP_INTERFACE_SITE ? at : NULL;
	vlan = read_tag(skb, ethertype, &c->l2_length);
	if (vlan < 0) {
		count(LISP_COUNTER_DOUBLE_TAGGED, skb->len);
		return NULL;
	}
	c->tagged = true;
	return find_vlan(skb->ifindex, vlan, &c->origin);
}

/* Marks a packet of a site whose packets the stack forwards, where it would go out natively. What
 * else becomes of it is decided at egress. A global function: verified once. */
__noinline int lisp_mark_native(struct __sk_buff *skb, struct lisp_context *c)
{
	if (c && classify(c) && admit_towards_core(c) && look_up_mapping(c) == LISP_DO_NATIVELY)
		skb->mark |= LISP_NATIVE_MARK;
	return TC_ACT_UNSPEC;
}

SEC("tc")
int site_ingress(struct __sk_buff *skb)
{
	const struct lisp_interface *site = find_interface(
		skb->ifindex, LISP_INTERFACE_SITE | LISP_INTERFACE_TAGGED);
	__be16 ethertype = skb->protocol;
	struct lisp_context *c;
	int verdict;

	if (!site || skb->pkt_type != SKB_PACKET_HOST)
		return TC_ACT_UNSPEC;
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
	if (site->flags & LISP_INTERFACE_STACK && !has_setting(LISP_SETTING_MARK_NATIVE))
		return TC_ACT_UNSPEC;
	c->iid = site->iid;
	c->roots = site->roots;
	if (parse_ip(skb, c->l2_length, ethertype, &c->packet) < 0)
		return TC_ACT_UNSPEC;
	return site->flags & LISP_INTERFACE_STACK ? lisp_mark_native(skb, c) : outbound(skb, c);
}

SEC("tc")
int core_ingress(struct __sk_buff *skb)
{
	const struct lisp_interface *core = find_interface(skb->ifindex, LISP_INTERFACE_CORE);
	struct lisp_context *c;
	int verdict;

	if (!core || skb->pkt_type != SKB_PACKET_HOST || skb->vlan_present)
		return TC_ACT_UNSPEC;
	verdict = lisp_forward_cached_from_core(skb, core);
	if (verdict != NOT_CACHED)
		return verdict;
	c = new_context(core);
	if (!c)
		return TC_ACT_UNSPEC;
	c->origin = skb->ifindex;
	c->forwarded = true;
	c->l2_length = core->l2_length;
	if (parse_ip(skb, c->l2_length, skb->protocol, &c->outer) < 0)
		return TC_ACT_UNSPEC;
	if (is_lisp(skb, &c->outer))
		return inbound(skb, c);
	c->packet = c->outer;
	return has_policy(LISP_LIST_PITR) ? outbound(skb, c) : TC_ACT_UNSPEC;
}

/* The site interface where a packet came in that IP forwarding has seen since; NULL for others. */
static __always_inline const struct lisp_interface *forwarded_from(struct __sk_buff *skb)
{
	const struct lisp_interface *from;

	if (!skb->ingress_ifindex || !has_setting(LISP_SETTING_ANY_STACK))
		return NULL;
	from = find_interface(skb->ingress_ifindex, LISP_INTERFACE_STACK);
	return from && from->flags & LISP_INTERFACE_SITE ? from : NULL;
}

/* The context of a packet on its way out by `at`, which counts as come from `from` where that is
 * not NULL; NULL where LISP cannot carry it. */
static __always_inline struct lisp_context *
begin_at_egress(struct __sk_buff *skb, const struct lisp_interface *from,
		const struct lisp_interface *at, __u32 side, __u32 l2_length, __be16 ethertype)
{
	struct lisp_context *c = new_context(from ? from : at);
	__u32 origin = skb->ifindex;

	if (!c)
		return NULL;
	/* Two loads: the verifier refuses one with an offset that depends on `from`. */
	barrier_var(origin);
	c->origin = from ? skb->ingress_ifindex : origin;
	c->side = side;
	c->l2_length = l2_length;
	if (parse_ip(skb, l2_length, ethertype, &c->packet) < 0 ||
	    !is_routable_unicast(&c->packet.destination, c->packet.family))
		return NULL;
	c->since = begin_lookup(c->packet.family, &c->packet.destination);
	/* Only a GSO packet may be longer than its length field. */
	return c->packet.malformed && !segment_length(skb) ? NULL : c;
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
	c = begin_at_egress(skb, from, core, LISP_INTERFACE_CORE, core->l2_length, skb->protocol);
	if (!c)
		return TC_ACT_UNSPEC;
	/* LISP packets come from an RLOC: they are not encapsulated twice. */
	if (is_own_rloc(c->packet.family, &c->packet.source, 0)) {
		if (!is_error_to_remote_eid(skb, c))
			return TC_ACT_UNSPEC;
	} else if (!comes_from_eid(c)) {
		return TC_ACT_UNSPEC;
	}
	return is_within_site(c) ? TC_ACT_UNSPEC : lisp_towards_core(skb, c);
}

SEC("tc")
int lisp_egress(struct __sk_buff *skb)
{
	const struct lisp_interface *tap = find_interface(skb->ifindex, LISP_INTERFACE_TAP);
	struct lisp_tap_header h;
	struct lisp_context *c;

	if (!tap || read_octets(skb, 0, &h, sizeof(h)) < 0)
		return TC_ACT_UNSPEC;
	if (h.magic == LISP_TAP_WAITING)
		return TC_ACT_OK;
	c = begin_at_egress(skb, forwarded_from(skb), tap, LISP_INTERFACE_TAP, ETH_HLEN,
			    h.protocol);
	if (!c)
		return drop(skb, LISP_DROP_NOT_FORWARDABLE);
	if (!comes_from_eid(c) && !is_error_to_remote_eid(skb, c) && !is_proxied(c))
		return drop(skb, LISP_DROP_SOURCE_NOT_EID);
	return is_within_site(c) ? forward_natively(skb, c) : lisp_towards_core(skb, c);
}

static __always_inline __u32 origin_at_tap(const struct lisp_tap_header *h)
{
	return (__u32)h->origin[0] << 24 | h->origin[1] << 16 | h->origin[2] << 8 | h->origin[3];
}

/* A packet that waited goes on to look up. */
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
	c->segment = h->reason == LISP_TAP_REASON_SEGMENT;
	c->resolved = h->reason == LISP_TAP_REASON_RLOC || h->reason == LISP_TAP_REASON_SEGMENT;
	c->side = from->flags & LISP_INTERFACE_SITE   ? LISP_INTERFACE_SITE
		  : from->flags & LISP_INTERFACE_CORE ? LISP_INTERFACE_CORE
						      : LISP_INTERFACE_TAP;
	/* IP forwarding has seen it already, and counted its TTL. */
	if (from->flags & LISP_INTERFACE_STACK && c->side == LISP_INTERFACE_SITE)
		c->side = LISP_INTERFACE_TAP;
	c->forwarded = c->side == LISP_INTERFACE_SITE;
	if (h->what == LISP_DO_RELAY || h->what == LISP_DO_PROXY) {
		c->what = h->what;
		c->forwarded = c->side != LISP_INTERFACE_TAP;
	}
	if (h->what == LISP_DO_RELAY) {
		c->iid = h->iid[0] << 16 | h->iid[1] << 8 | h->iid[2];
		c->roots = index_of_roots(c->iid);
	}
	if (parse_ip(skb, c->l2_length, h->protocol, &c->packet) < 0)
		return drop(skb, LISP_DROP_NOT_FORWARDABLE);
	c->since = begin_lookup(c->packet.family, &c->packet.destination);
	if (h->what == LISP_DO_RELAY && ask_relay(c) != LISP_LIST_PERMITS)
		return drop(skb, LISP_DROP_NOT_IN_POLICY);
	if (c->forwarded && c->packet.ttl <= 1)
		return drop(skb, LISP_DROP_TTL_EXPIRED);
	if (h->magic == LISP_TAP_RELEASED)
		count(LISP_COUNTER_RELEASED, octets_from(skb, c->l2_length));
	return lisp_towards_core(skb, c);
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

/* An outer packet that came in fragments. */
static __noinline int take_reassembled(struct __sk_buff *skb, const struct lisp_tap_header *h)
{
	const struct lisp_interface *core = find_interface(origin_at_tap(h), LISP_INTERFACE_CORE);
	struct lisp_context *c = core ? new_context(core) : NULL;

	if (!c)
		return drop(skb, LISP_DROP_TAP_ORIGIN_UNKNOWN);
	c->origin = origin_at_tap(h);
	c->forwarded = true;
	c->l2_length = ETH_HLEN;
	if (parse_ip(skb, c->l2_length, h->protocol, &c->outer) < 0 || !is_lisp(skb, &c->outer))
		return drop(skb, LISP_DROP_OUTER_MALFORMED);
	return inbound(skb, c);
}

SEC("tc")
int lisp_ingress(struct __sk_buff *skb)
{
	const struct lisp_interface *tap = find_interface(skb->ifindex, LISP_INTERFACE_TAP);
	struct lisp_tap_header h;

	if (!tap || read_octets(skb, 0, &h, sizeof(h)) < 0)
		return TC_ACT_UNSPEC;
	if (h.magic == LISP_TAP_RELEASED || h.magic == LISP_TAP_SEGMENT)
		return release(skb, &h);
	if (h.magic == LISP_TAP_TRANSMIT)
		return transmit(skb, tap, &h);
	if (h.magic == LISP_TAP_REASSEMBLED)
		return take_reassembled(skb, &h);
	return TC_ACT_UNSPEC;
}

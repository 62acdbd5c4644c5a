/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Loci's data plane at the tc hooks (tcx, or clsact with cls_bpf): the five programs, RFC 9300 s.4
 * and s.5. Each decides whether a packet concerns LISP at all and passes it untouched
 * (TC_ACT_UNSPEC: other filters still run) if not; the work is in encap.h, decap.h and miss.h, what
 * they decide in itr.h and etr.h.
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

#include "decap.h"
#include "encap.h"
#include "icmp.h"
#include "miss.h"
#include "scattered_tc.h"

char _license[] SEC("license") = "GPL";

const union lisp_abi *const lisp_abi_in_btf = 0;

#define SKB_PACKET_HOST 0

/* What the map-cache says about a packet from an EID of ours to somewhere else. */
static __noinline int itr(struct __sk_buff *skb, struct itr *t)
{
	const struct lisp_mapping *m;
	int reason;

	t->listed = has_lists();
	if (t->listed) {
		reason = judge_eids(t);
		if (reason)
			return drop(skb, reason);
	}
	m = find_mapping(find_roots(t->roots), LISP_ROOT_MAP_CACHE, t->packet.family,
			 &t->packet.destination, &t->mapping_index);
	if (!m)
		return miss(skb, t);
	t->mapping_iid = m->iid;
	t->locator_set = m->locator_set;
	if (t->locator_set != LISP_NO_LOCATOR_SET) {
		if (m->flags & LISP_MAPPING_HOLD && !t->released)
			return wait_at_tap(skb, t, LISP_TAP_REASON_HOLD, 0);
		return encapsulate(skb, t);
	}
	if (m->action == LISP_ACTION_SEND_MAP_REQUEST)
		return miss(skb, t);
	if (m->action == LISP_ACTION_NATIVELY_FORWARD)
		return forward_natively(skb, t);
	return refuse(skb, t, reason_of_action(m->action));
}

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
							   struct itr *t, __be16 *ethertype)
{
	struct lisp_vlan_key key = {.ifindex = skb->ifindex};
	const __u32 *index;
	int vlan;

	if (!skb->vlan_present && !is_vlan(skb->protocol))
		return at->flags & LISP_INTERFACE_SITE ? at : NULL;
	vlan = read_tag(skb, ethertype, &t->l2_length);
	if (vlan < 0) {
		count(LISP_COUNTER_DOUBLE_TAGGED, skb->len);
		return NULL;
	}
	key.tag = vlan;
	index = bpf_map_lookup_elem(&vlans, &key);
	if (!index)
		return NULL;
	t->origin = *index;
	t->tagged = true;
	return find_interface(*index, LISP_INTERFACE_SITE);
}

/* By a decision about its addresses, or while hardly any would go by one, by what many share;
 * NOT_KEPT where nothing is known. */
static __always_inline int forward_kept(struct __sk_buff *skb, const struct lisp_interface *site)
{
	return goes_scattered() ? scatter_from_site(skb, site) : reuse_for_site(skb, site);
}

SEC("tc")
int site_ingress(struct __sk_buff *skb)
{
	const struct lisp_interface *site = find_interface(
		skb->ifindex, LISP_INTERFACE_SITE | LISP_INTERFACE_TAGGED);
	__be16 ethertype = skb->protocol;
	int verdict = NOT_KEPT;
	struct itr *t;

	if (!site || skb->pkt_type != SKB_PACKET_HOST)
		return TC_ACT_UNSPEC;
	if (!skb->vlan_present && !(site->flags & (LISP_INTERFACE_TAGGED | LISP_INTERFACE_STACK)))
		verdict = forward_kept(skb, site);
	if (verdict != NOT_KEPT)
		return verdict;
	t = new_itr();
	if (!t)
		return TC_ACT_UNSPEC;
	t->origin = skb->ifindex;
	t->hook = LISP_INTERFACE_SITE;
	t->forwarded = true;
	t->l2_length = site->l2_length;
	if (site->flags & LISP_INTERFACE_TAGGED) {
		site = find_tagged(skb, site, t, &ethertype);
		if (!site)
			return TC_ACT_UNSPEC;
	} else if (skb->vlan_present) {
		return TC_ACT_UNSPEC;
	}
	/* The stack forwards it, to one of the egress programs. */
	if (site->flags & LISP_INTERFACE_STACK)
		return TC_ACT_UNSPEC;
	t->iid = site->iid;
	t->roots = site->roots;
	if (parse_ip(skb, t->l2_length, ethertype, &t->packet) < 0 || t->packet.malformed)
		return TC_ACT_UNSPEC;
	t->since = begin_decision(t->packet.family, &t->packet.destination);
	if (!is_routable_unicast(&t->packet.destination, t->packet.family) || !comes_from_eid(t) ||
	    is_within_site(t))
		return TC_ACT_UNSPEC;
	/* The stack answers with Time Exceeded. */
	if (t->packet.ttl <= 1)
		return TC_ACT_UNSPEC;
	return itr(skb, t);
}

SEC("tc")
int core_ingress(struct __sk_buff *skb)
{
	const struct lisp_interface *core = find_interface(skb->ifindex, LISP_INTERFACE_CORE);
	struct etr *e;
	int verdict;

	if (!core || skb->pkt_type != SKB_PACKET_HOST || skb->vlan_present)
		return TC_ACT_UNSPEC;
	verdict = goes_scattered() ? scatter_from_core(skb, core) : reuse_for_core(skb, core);
	if (verdict != NOT_KEPT)
		return verdict;
	e = new_etr(core);
	if (!e)
		return TC_ACT_UNSPEC;
	e->l2_length = core->l2_length;
	if (parse_ip(skb, e->l2_length, skb->protocol, &e->outer) < 0 || !is_lisp(skb, &e->outer))
		return TC_ACT_UNSPEC;
	return decapsulate(skb, e);
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
	struct itr *t;

	/* What came in by another interface was judged there. */
	if (skb->ingress_ifindex && !from)
		return TC_ACT_UNSPEC;
	core = find_interface(skb->ifindex, LISP_INTERFACE_CORE);
	if (!core || skb->vlan_present)
		return TC_ACT_UNSPEC;
	t = new_itr();
	if (!t)
		return TC_ACT_UNSPEC;
	t->origin = origin_of(skb, from);
	t->hook = LISP_INTERFACE_CORE;
	t->iid = from ? from->iid : core->iid;
	t->roots = from ? from->roots : core->roots;
	t->l2_length = core->l2_length;
	if (parse_ip(skb, t->l2_length, skb->protocol, &t->packet) < 0 ||
	    !is_forwardable(skb, &t->packet))
		return TC_ACT_UNSPEC;
	/* LISP itself comes from an RLOC: this ends it, no packet is encapsulated twice. */
	if (is_own_rloc(t->packet.family, &t->packet.source)) {
		if (!is_error_to_remote_eid(skb, &t->packet, find_roots(t->roots)))
			return TC_ACT_UNSPEC;
	} else if (!comes_from_eid(t)) {
		return TC_ACT_UNSPEC;
	}
	if (is_within_site(t))
		return TC_ACT_UNSPEC;
	return itr(skb, t);
}

#define NO_KIND 0xFFFFFFFFU

/* Magic octet and, in the low half, protocol of a frame at loci0. A call of its own, because a
 * chain of calls has little stack left for the header: Linux 6.1 counts each function in steps of
 * 32 octets. */
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
	struct itr *t;

	if (!tap || kind == NO_KIND)
		return TC_ACT_UNSPEC;
	if (kind >> 16 == LISP_TAP_WAITING)
		return TC_ACT_OK;
	from = forwarded_from(skb);
	t = new_itr();
	if (!t)
		return TC_ACT_UNSPEC;
	t->origin = origin_of(skb, from);
	t->hook = LISP_INTERFACE_TAP;
	t->l2_length = ETH_HLEN;
	t->iid = from ? from->iid : tap->iid;
	t->roots = from ? from->roots : tap->roots;
	if (parse_ip(skb, t->l2_length, (__be16)kind, &t->packet) < 0 ||
	    !is_forwardable(skb, &t->packet))
		return drop(skb, LISP_DROP_NOT_FORWARDABLE);
	if (!comes_from_eid(t) && !is_error_to_remote_eid(skb, &t->packet, find_roots(t->roots)))
		return drop(skb, LISP_DROP_SOURCE_NOT_EID);
	if (is_within_site(t))
		return forward_natively(skb, t);
	return itr(skb, t);
}

/* A packet that waited takes up its way where it left it. */
static __noinline int release(struct __sk_buff *skb, const struct lisp_tap_header *h)
{
	__u32 origin = (__u32)h->origin[0] << 24 | h->origin[1] << 16 | h->origin[2] << 8 |
		       h->origin[3];
	const struct lisp_interface *from = bpf_map_lookup_elem(&interfaces, &origin);
	struct itr *t = new_itr();

	if (!from || !t)
		return drop(skb, LISP_DROP_TAP_ORIGIN_UNKNOWN);
	t->origin = origin;
	t->l2_length = ETH_HLEN;
	t->released = true;
	t->iid = from->iid;
	t->roots = from->roots;
	t->hook = from->flags & LISP_INTERFACE_SITE   ? LISP_INTERFACE_SITE
		  : from->flags & LISP_INTERFACE_CORE ? LISP_INTERFACE_CORE
						      : LISP_INTERFACE_TAP;
	/* IP forwarding has seen it already, and counted its TTL. */
	if (from->flags & LISP_INTERFACE_STACK && t->hook == LISP_INTERFACE_SITE)
		t->hook = LISP_INTERFACE_TAP;
	t->forwarded = t->hook == LISP_INTERFACE_SITE;
	if (parse_ip(skb, t->l2_length, h->protocol, &t->packet) < 0)
		return drop(skb, LISP_DROP_NOT_FORWARDABLE);
	if (t->forwarded && t->packet.ttl <= 1)
		return drop(skb, LISP_DROP_TTL_EXPIRED);
	count(LISP_COUNTER_RELEASED, octets_from(skb, t->l2_length));
	return itr(skb, t);
}

/* A packet that user space made goes out as the routes say. */
static __noinline int transmit(struct __sk_buff *skb, const struct lisp_tap_header *h)
{
	struct itr *t = new_itr();

	if (!t)
		return drop(skb, LISP_DROP_NOT_FORWARDABLE);
	t->l2_length = ETH_HLEN;
	if (parse_ip(skb, t->l2_length, h->protocol, &t->packet) < 0)
		return drop(skb, LISP_DROP_NOT_FORWARDABLE);
	count(LISP_COUNTER_TRANSMITTED, octets_from(skb, t->l2_length));
	return send_by_main_table(skb, t);
}

/* An outer packet that came in fragments takes up its way where they left it. */
static __noinline int take_reassembled(struct __sk_buff *skb, const struct lisp_tap_header *h)
{
	__u32 origin = (__u32)h->origin[0] << 24 | h->origin[1] << 16 | h->origin[2] << 8 |
		       h->origin[3];
	const struct lisp_interface *core = find_interface(origin, LISP_INTERFACE_CORE);
	struct etr *e = core ? new_etr(core) : NULL;

	if (!e)
		return drop(skb, LISP_DROP_TAP_ORIGIN_UNKNOWN);
	e->l2_length = ETH_HLEN;
	if (parse_ip(skb, e->l2_length, h->protocol, &e->outer) < 0 || !is_lisp(skb, &e->outer))
		return drop(skb, LISP_DROP_OUTER_MALFORMED);
	return decapsulate(skb, e);
}

SEC("tc")
int lisp_ingress(struct __sk_buff *skb)
{
	struct lisp_tap_header h;

	if (!find_interface(skb->ifindex, LISP_INTERFACE_TAP) ||
	    read_octets(skb, 0, &h, sizeof(h)) < 0)
		return TC_ACT_UNSPEC;
	if (h.magic == LISP_TAP_RELEASED)
		return release(skb, &h);
	if (h.magic == LISP_TAP_TRANSMIT)
		return transmit(skb, &h);
	if (h.magic == LISP_TAP_REASSEMBLED)
		return take_reassembled(skb, &h);
	return TC_ACT_UNSPEC;
}

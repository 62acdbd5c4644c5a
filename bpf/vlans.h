/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * VLANs of an interface as sites of their own (RFC 9300 s.5.5): which site a tag stands for, and
 * which tag packets to an Instance-ID get. One tag of IEEE 802.1Q.
 */
#ifndef LISP_VLANS_H
#define LISP_VLANS_H

#include "settings.h"

#define VLAN_ID_MASK 0x0FFF

struct vlan_tag {
	__be16 tci;
	__be16 ethertype; /* of what follows */
};

static __always_inline bool is_vlan(__be16 ethertype)
{
	return ethertype == bpf_htons(ETH_P_8021Q) || ethertype == bpf_htons(ETH_P_8021AD);
}

/* What stands for a VLAN of an interface, or for an Instance-ID behind its VLANs
 * (LISP_VLAN_OF_INSTANCE), and its index; NULL for nothing. */
static __always_inline const struct lisp_interface *find_vlan(__u32 ifindex, __u32 tag,
							      __u32 *index)
{
	struct lisp_vlan_key key = {.ifindex = ifindex, .tag = tag};
	const __u32 *found = bpf_map_lookup_elem(&vlans, &key);

	if (!found)
		return NULL;
	*index = *found;
	return find_interface(*found, LISP_INTERFACE_SITE);
}

/* The site behind an interface to which a route of the Instance-ID leads; NULL where none is. */
static __always_inline const struct lisp_interface *find_site(__u32 ifindex, __u32 iid)
{
	const struct lisp_interface *to = find_interface(ifindex, LISP_INTERFACE_SITE |
									  LISP_INTERFACE_TAGGED),
				    *tagged;
	__u32 index;

	if (!to || !(to->flags & LISP_INTERFACE_TAGGED))
		return to;
	tagged = find_vlan(ifindex, LISP_VLAN_OF_INSTANCE | iid, &index);
	if (tagged)
		return tagged;
	return to->flags & LISP_INTERFACE_SITE ? to : NULL;
}

#endif

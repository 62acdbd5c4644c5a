/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What user space has configured: settings, interfaces, own RLOCs, locator-sets. Nothing here
 * changes any of it.
 */
#ifndef LISP_SETTINGS_H
#define LISP_SETTINGS_H

#include "maps.h"
#include "parse.h"

static __always_inline const struct lisp_settings *find_settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline const struct lisp_generations *find_generations(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&generations, &zero);
}

/* Whether one of these flags is set. */
static __always_inline bool has_setting(__u32 flags)
{
	const struct lisp_settings *s = find_settings();

	return s && s->flags & flags;
}

/* Whether there are policies of a kind (LISP_LIST_RTR and following), in any Instance-ID. */
static __always_inline bool has_policy(__u32 kind)
{
	const struct lisp_settings *s = find_settings();

	return s && s->lists & 1U << kind;
}

static __always_inline const struct lisp_interface *find_interface(__u32 ifindex, __u32 flag)
{
	__u32 place = ifindex % LISP_INTERFACE_SLOTS;
	const struct lisp_interface_slot *slot = bpf_map_lookup_elem(&interface_slots, &place);
	const struct lisp_interface *interface;

	if (slot && *(const volatile __u32 *)&slot->ifindex == ifindex)
		interface = &slot->records[*(const volatile __u32 *)&slot->which & 1];
	else
		interface = bpf_map_lookup_elem(&interfaces, &ifindex);
	return interface && interface->flags & flag ? interface : NULL;
}

/* A port of 0 stands for LISP_DATA_PORT. Nearly always it is that port of the first RLOC of its
 * family. */
static __always_inline bool is_own_rloc(__u8 family, const union lisp_address *address, __be16 port)
{
	const struct lisp_settings *s = find_settings();
	struct lisp_rloc_key key = {.family = family, .port = port};
	const volatile __u64 *first;

	if (!port && s && family == 4 && address->words[0] &&
	    address->words[0] == *(const __u32 *)s->rloc4)
		return true;
	if (!port && s && family == 6) {
		/* Volatile, or the compiler adds the offset before it looks whether there are
		 * settings, which Linux 6.1 refuses. */
		first = (const volatile __u64 *)s->rloc6;
		if (first[0] == address->pairs[0] && first[1] == address->pairs[1] &&
		    address->pairs[0])
			return true;
	}
	__builtin_memcpy(key.address, address, sizeof(key.address));
	return bpf_map_lookup_elem(&local_rlocs, &key) != NULL;
}

/* The index is copied, because Linux 6.1 takes no argument of a global function as a key. */
static __always_inline const struct lisp_locator_set *find_locator_set(__u32 index)
{
	return bpf_map_lookup_elem(&locator_sets, &index);
}

#endif

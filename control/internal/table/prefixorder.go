// SPDX-License-Identifier: Apache-2.0

package table

// A Prefixes a page at a time: iteration that begins behind an EID-Prefix, and of
// what overlaps with one. A list of a million entries is made in many short calls, each
// of which finds its place again whatever changed in between.

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"loci/lisp"
)

// Overlapping yields what covers within or is covered by it, and comes after a prefix, in the order of
// lisp.Prefix.Compare. Zero for within is everything, zero for after the beginning.
func (t *Prefixes[V]) Overlapping(within, after lisp.Prefix) iter.Seq2[lisp.Prefix, V] {
	if within.IsZero() {
		return t.following(after)
	}
	return func(yield func(lisp.Prefix, V) bool) {
		for _, p := range t.covering(within) {
			v, _ := t.Get(p)
			if (after.IsZero() || p.Compare(after) > 0) && !yield(p, v) {
				return
			}
		}
		rest := t.Subtree(within)
		if !after.IsZero() && within.Compare(after) <= 0 {
			rest = t.following(after)
		}
		for p, v := range rest {
			if !within.Covers(p) || !yield(p, v) {
				return
			}
		}
	}
}

// covering lists what is less specific than a prefix and covers it, the least specific one first.
func (t *Prefixes[V]) covering(p lisp.Prefix) (list []lisp.Prefix) {
	for wider := p; ; list = append(list, wider) {
		shorter, ok := t.parent(wider)
		if !ok {
			slices.Reverse(list)
			return list
		}
		wider = shorter
	}
}

// parent is the next less specific prefix of the table.
func (t *Prefixes[V]) parent(p lisp.Prefix) (wider lisp.Prefix, ok bool) {
	for bits := p.Bits() - 1; bits >= 0; bits-- {
		shorter, err := lisp.PrefixFrom(p.Instance(), p.EID(), bits)
		if err != nil { // a name that is cut inside an octet
			continue
		}
		wider, _, ok = t.Longest(shorter)
		return wider, ok
	}
	return wider, false
}

// following yields what comes after a prefix in the order of lisp.Prefix.Compare; everything for the zero one.
func (t *Prefixes[V]) following(after lisp.Prefix) iter.Seq2[lisp.Prefix, V] {
	if after.IsZero() {
		return t.All()
	}
	return func(yield func(lisp.Prefix, V) bool) {
		for _, instance := range slices.Sorted(maps.Keys(t.Instances)) {
			in := t.Instances[instance]
			switch {
			case instance < after.Instance():
			case instance > after.Instance():
				if !in.each(instance, yield) {
					return
				}
			case !in.eachAfter(after, yield):
				return
			}
		}
	}
}

// eachAfter is each, from a prefix on.
func (t *instanceTable[V]) eachAfter(after lisp.Prefix, yield func(lisp.Prefix, V) bool) bool {
	whole := func(like lisp.EID, trie iter.Seq2[netip.Prefix, V]) bool {
		p := lisp.HostPrefix(after.Instance(), like)
		for key, v := range trie {
			if !yield(prefixOf(p, key), v) {
				return false
			}
		}
		return true
	}
	kind := after.Kind()
	if kind == lisp.EIDName {
		from, found := t.findName(after)
		if found {
			from++
		}
		return t.eachName(from, yield)
	}
	trie, key := t.trie(after)
	if !whole(after.EID(), trieAfter(trie, key)) {
		return false
	}
	return (kind != lisp.EIDIPv4 || whole(lisp.EIDFromAddr(netip.IPv6Unspecified()), t.ip.AllSorted6())) &&
		(kind == lisp.EIDMAC || whole(lisp.EIDFromMAC([6]byte{}), t.mac.AllSorted())) && t.eachName(0, yield)
}

func (t *instanceTable[V]) eachName(from int, yield func(lisp.Prefix, V) bool) bool {
	for _, n := range t.names[from:] {
		if !yield(n.prefix, n.value) {
			return false
		}
	}
	return true
}

// trieAfter yields what comes after a key, of its family: what is within it, then the part of the tree to the right of it, level by level.
func trieAfter[V any](trie *bart.Table[V], after netip.Prefix) iter.Seq2[netip.Prefix, V] {
	return func(yield func(netip.Prefix, V) bool) {
		for key, v := range trie.Subnets(after) {
			if key != after && !yield(key, v) {
				return
			}
		}
		for bits := after.Bits(); bits > 0; bits-- {
			right, ok := rightSibling(after.Addr(), bits)
			if !ok {
				continue
			}
			for key, v := range trie.Subnets(right) {
				if !yield(key, v) {
					return
				}
			}
		}
	}
}

// rightSibling is the prefix of that length beside the one that has the address, if the address is in the left one of both.
func rightSibling(a netip.Addr, bits int) (netip.Prefix, bool) {
	octets := a.AsSlice()
	octet, mask := (bits-1)/8, byte(0x80)>>((bits-1)%8)
	if octets[octet]&mask != 0 {
		return netip.Prefix{}, false
	}
	octets[octet] |= mask
	right, _ := netip.AddrFromSlice(octets)
	return netip.PrefixFrom(right, bits).Masked(), true
}

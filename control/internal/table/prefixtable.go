// SPDX-License-Identifier: Apache-2.0

package table

// Prefixes: EID-Prefixes of all kinds and Instance-IDs with longest match,
// subtrees and sorted iteration (RFC 9301 s.5.5, RFC 9735 s.3 for names). An
// Instance-ID never sees another's prefixes. It knows nothing of mappings.

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"loci/lisp"
)

// Prefixes finds values by EID-Prefix.
type Prefixes[V any] struct {
	Instances map[lisp.InstanceID]*instanceTable[V]
	Size      int
}

// instanceTable holds one Instance-ID. MAC addresses are kept as the first 48 bits
// of IPv6 prefixes; names, which fit no address, in a sorted slice.
type instanceTable[V any] struct {
	ip, mac bart.Table[V]
	names   []namedValue[V]
	Size    int
}

type namedValue[V any] struct {
	prefix lisp.Prefix
	value  V
}

// trie is the table and the key of a prefix that is no name.
func (t *instanceTable[V]) trie(p lisp.Prefix) (*bart.Table[V], netip.Prefix) {
	if mac, ok := p.EID().MAC(); ok {
		var a [16]byte
		copy(a[:], mac[:])
		return &t.mac, netip.PrefixFrom(netip.AddrFrom16(a), p.Bits())
	}
	return &t.ip, p.Netip()
}

// prefixOf turns a trie's key back into a prefix of the same kind as like.
func prefixOf(like lisp.Prefix, key netip.Prefix) lisp.Prefix {
	e := lisp.EIDFromAddr(key.Addr())
	if like.Kind() == lisp.EIDMAC {
		octets := key.Addr().As16()
		e = lisp.EIDFromMAC([6]byte(octets[:6]))
	}
	p, _ := lisp.PrefixFrom(like.Instance(), e, key.Bits()) // keys were made from prefixes
	return p
}

func (t *instanceTable[V]) findName(p lisp.Prefix) (int, bool) {
	return slices.BinarySearchFunc(t.names, p, func(n namedValue[V], p lisp.Prefix) int { return n.prefix.Compare(p) })
}

// Get returns the value of exactly that prefix.
func (t *Prefixes[V]) Get(p lisp.Prefix) (v V, ok bool) {
	in := t.Instances[p.Instance()]
	if in == nil || p.Kind() == lisp.EIDNone {
		return v, false
	}
	if p.Kind() != lisp.EIDName {
		trie, key := in.trie(p)
		return trie.Get(key)
	}
	if i, found := in.findName(p); found {
		return in.names[i].value, true
	}
	return v, false
}

// Insert adds the prefix or replaces its value. The zero EID has no place.
func (t *Prefixes[V]) Insert(p lisp.Prefix, v V) {
	if p.Kind() == lisp.EIDNone {
		return
	}
	in := t.Instances[p.Instance()]
	if in == nil {
		if t.Instances == nil {
			t.Instances = make(map[lisp.InstanceID]*instanceTable[V])
		}
		in = &instanceTable[V]{}
		t.Instances[p.Instance()] = in
	}
	if p.Kind() != lisp.EIDName {
		trie, key := in.trie(p)
		before := trie.Size()
		trie.Insert(key, v)
		in.Size += trie.Size() - before
		t.Size += trie.Size() - before
		return
	}
	i, found := in.findName(p)
	if !found {
		in.Size++
		t.Size++
		in.names = slices.Insert(in.names, i, namedValue[V]{prefix: p})
	}
	in.names[i].value = v
}

// Remove takes the prefix out, if it is there.
func (t *Prefixes[V]) Remove(p lisp.Prefix) {
	if _, known := t.Get(p); !known {
		return
	}
	in := t.Instances[p.Instance()]
	if p.Kind() == lisp.EIDName {
		i, _ := in.findName(p)
		in.names = slices.Delete(in.names, i, i+1)
	} else {
		trie, key := in.trie(p)
		trie.Delete(key)
	}
	in.Size--
	t.Size--
	if in.Size == 0 {
		delete(t.Instances, p.Instance())
	}
}

// Longest returns the most specific prefix that covers p.
func (t *Prefixes[V]) Longest(p lisp.Prefix) (match lisp.Prefix, v V, ok bool) {
	in := t.Instances[p.Instance()]
	if in == nil || p.Kind() == lisp.EIDNone {
		return match, v, false
	}
	if p.Kind() == lisp.EIDName {
		return in.longestName(p)
	}
	trie, key := in.trie(p)
	found, v, ok := trie.LookupPrefixLPM(key)
	if !ok {
		return match, v, false
	}
	return prefixOf(p, found), v, true
}

func (t *instanceTable[V]) longestName(p lisp.Prefix) (match lisp.Prefix, v V, ok bool) {
	for bits := p.Bits(); bits >= 0; bits -= 8 {
		candidate, err := lisp.PrefixFrom(p.Instance(), p.EID(), bits)
		if err != nil {
			return match, v, false
		}
		if i, found := t.findName(candidate); found {
			return candidate, t.names[i].value, true
		}
	}
	return match, v, false
}

// Match is longest for what a Map-Request asks for: an EID-Prefix that nothing
// covers as a whole stands for its first EID.
func (t *Prefixes[V]) Match(asked lisp.Prefix) (match lisp.Prefix, v V, ok bool) {
	if match, v, ok = t.Longest(asked); ok || asked.IsHost() {
		return match, v, ok
	}
	return t.Longest(lisp.HostPrefix(asked.Instance(), asked.EID()))
}

// Lookup is match for whose values know their prefix: half the work for a host.
func (t *Prefixes[V]) Lookup(asked lisp.Prefix) (v V, ok bool) {
	in := t.Instances[asked.Instance()]
	if in != nil && asked.EID().IsIP() && asked.IsHost() {
		return in.ip.Lookup(asked.EID().Addr())
	}
	_, v, ok = t.Match(asked)
	return v, ok
}

// Holds reports whether the table has a prefix within p, except but left out.
func (t *Prefixes[V]) Holds(p, but lisp.Prefix) bool {
	for found := range t.Subtree(p) {
		if found != but {
			return true
		}
	}
	return false
}

// Subtree yields p, if it is there, and everything more specific, in order.
func (t *Prefixes[V]) Subtree(p lisp.Prefix) iter.Seq2[lisp.Prefix, V] {
	return func(yield func(lisp.Prefix, V) bool) {
		in := t.Instances[p.Instance()]
		switch {
		case in == nil || p.Kind() == lisp.EIDNone:
		case p.Kind() == lisp.EIDName:
			in.nameSubtree(p, yield)
		default:
			trie, key := in.trie(p)
			for k, v := range trie.Subnets(key) {
				if !yield(prefixOf(p, k), v) {
					return
				}
			}
		}
	}
}

func (t *instanceTable[V]) nameSubtree(p lisp.Prefix, yield func(lisp.Prefix, V) bool) {
	from, _ := t.findName(p)
	for _, n := range t.names[from:] {
		if !p.Covers(n.prefix) || !yield(n.prefix, n.value) {
			return
		}
	}
}

// Overlaps reports whether any prefix covers p or is covered by it.
func (t *Prefixes[V]) Overlaps(p lisp.Prefix) bool {
	in := t.Instances[p.Instance()]
	switch {
	case in == nil || p.Kind() == lisp.EIDNone:
		return false
	case p.Kind() != lisp.EIDName:
		trie, key := in.trie(p)
		return trie.OverlapsPrefix(key)
	}
	if _, _, covered := in.longestName(p); covered {
		return true
	}
	for range t.Subtree(p) {
		return true
	}
	return false
}

// All yields everything in the order of lisp.Prefix.Compare.
func (t *Prefixes[V]) All() iter.Seq2[lisp.Prefix, V] {
	return func(yield func(lisp.Prefix, V) bool) {
		for _, instance := range slices.Sorted(maps.Keys(t.Instances)) {
			if !t.Instances[instance].each(instance, yield) {
				return
			}
		}
	}
}

func (t *instanceTable[V]) each(instance lisp.InstanceID, yield func(lisp.Prefix, V) bool) bool {
	ip := lisp.HostPrefix(instance, lisp.EIDFromAddr(netip.IPv4Unspecified()))
	for key, v := range t.ip.AllSorted() {
		if !yield(prefixOf(ip, key), v) {
			return false
		}
	}
	mac := lisp.HostPrefix(instance, lisp.EIDFromMAC([6]byte{}))
	for key, v := range t.mac.AllSorted() {
		if !yield(prefixOf(mac, key), v) {
			return false
		}
	}
	for _, n := range t.names {
		if !yield(n.prefix, n.value) {
			return false
		}
	}
	return true
}

// LeastSpecificHole is the shortest prefix that covers p, is at least bits long,
// and for which taken is false; RFC 9301 s.8.4 asks for it in negative replies, so
// that an ITR needs few of them. taken must not become true again as prefixes get
// longer. It is p when even that is taken.
func LeastSpecificHole(p lisp.Prefix, bits int, taken func(lisp.Prefix) bool) lisp.Prefix {
	for ; bits < p.Bits(); bits++ {
		candidate, err := lisp.PrefixFrom(p.Instance(), p.EID(), bits)
		if err != nil { // a name that is cut inside an octet
			continue
		}
		if !taken(candidate) {
			return candidate
		}
	}
	return p
}

// SPDX-License-Identifier: Apache-2.0

// This file has the wide roots of the forwarding table (bpf/abi.h): parts that are indexed by the first bits of an IPv4 address,
// before the trie. They hold prefixes of widePartBits and more, and copies of shorter ones; the trie behind the root's slot
// has the shorter ones alone, for addresses that have no part. It knows neither BPF nor mappings.

package kernel

const (
	widePartBits = 4
	wideSlotBits = 20
	wideBits     = widePartBits + wideSlotBits
	wideParts    = 1 << widePartBits
	widePartSize = 1 << wideSlotBits // slots
)

// A wideRoot is what goes before the slot of a root.
type wideRoot struct {
	block uint32              // under which programs find it; not 0
	parts [wideParts][]uint32 // by the first bits of the address; nil: no prefix of widePartBits or more is there
}

// begin returns where the edit of a prefix begins, and what is left of its key and
// length there. Less than nothing is left of a prefix that ends within a part.
func (r *trieRoot) begin(k trieKey, length int) (at spot, rest trieKey, left int) {
	if r.wide == nil || length < widePartBits {
		return spot{root: r}, k, length
	}
	if length <= wideBits {
		return spot{}, k, -1
	}
	return spot{part: r.wide.parts[k.top(widePartBits)], at: k.top(wideBits) % widePartSize}, k.from(wideBits), length - wideBits
}

// fillWide fills the slots that a prefix of no more than wideBits covers.
func (t *trie) fillWide(w *wideRoot, k trieKey, length int, replace func(slot uint32) (uint32, bool)) {
	first, count := uint32(0), uint32(1)<<(wideBits-length)
	if length > 0 {
		first = k.top(length) << (wideBits - length)
	}
	for count > 0 {
		part := w.parts[first/widePartSize]
		at := first % widePartSize
		n := min(count, widePartSize-at)
		if part != nil {
			t.fillRuns(part[at:at+n], func(i uint32) spot { return spot{part: part, at: at + i} }, replace)
		}
		first, count = first+n, count-n
	}
}

// lookupFrom walks as the BPF programs do, from a root.
func (t *trie) lookupFrom(r *trieRoot, k trieKey) uint32 {
	if r.groups != nil {
		if slot := r.groups.lookup(k); slot != slotWalk {
			return slot
		}
	}
	if r.wide != nil {
		if part := r.wide.parts[k.top(widePartBits)]; part != nil {
			return t.lookup(part[k.top(wideBits)%widePartSize], k.from(wideBits))
		}
	}
	return t.lookup(r.slot, k)
}

// emptyPart is what stands in a part before there is a prefix in it.
func (t *trie) emptyPart(r *trieRoot, part uint32) uint32 {
	return t.lookup(r.slot, trieKey{hi: uint64(part) << (64 - widePartBits)})
}

// SPDX-License-Identifier: Apache-2.0

// This file has the wide roots of the forwarding table (bpf/abi.h): slots that are indexed by the first bits of an IPv4 address,
// before the trie. They hold all prefixes of addresses that have a slot; the trie behind the root's slot has the others, and those
// that cover addresses of both kinds. It knows neither BPF nor mappings.

package kernel

const (
	wideBits  = 24
	wideSlots = 14 << 20 // those of unicast: addresses below 224.0.0.0
)

// A wideRoot is what goes before the slot of a root.
type wideRoot struct {
	block uint32 // under which programs find the slots; not 0
	slots []uint32
}

// span is which slots a prefix of no more than wideBits covers, and whether it covers addresses that have none.
func (w *wideRoot) span(k trieKey, length int) (slots []uint32, beyond bool) {
	first, all := k.top(length)<<(wideBits-length), uint32(len(w.slots))
	end := first + 1<<(wideBits-length)
	return w.slots[min(first, all):min(end, all)], end > all
}

// begin returns where the edit of a prefix begins, and what is left of its key and length there. Less than nothing is left of a
// prefix that covers whole slots of a wide root and nothing else.
func (r *trieRoot) begin(k trieKey, length int) (at spot, rest trieKey, left int) {
	if r.wide == nil {
		return spot{root: r}, k, length
	}
	if length <= wideBits {
		if _, beyond := r.wide.span(k, length); beyond {
			return spot{root: r}, k, length
		}
		return spot{}, k, -1
	}
	if first := k.top(wideBits); first < uint32(len(r.wide.slots)) {
		return spot{wide: r.wide.slots, at: first}, k.from(wideBits), length - wideBits
	}
	return spot{root: r}, k, length
}

// fillWide fills the slots that a prefix covers, if it covers whole ones.
func (t *trie) fillWide(r *trieRoot, k trieKey, length int, replace func(slot uint32) (uint32, bool)) {
	if r.wide == nil || length > wideBits {
		return
	}
	slots, _ := r.wide.span(k, length)
	t.fillRuns(slots, func(i uint32) spot { return spot{wide: slots, at: i} }, replace)
}

// lookupFrom walks as the BPF programs do, from a root.
func (t *trie) lookupFrom(r *trieRoot, k trieKey) uint32 {
	if r.groups != nil {
		if slot := r.groups.lookup(k); slot != slotWalk {
			return slot
		}
	}
	if r.wide != nil {
		if first := k.top(wideBits); first < uint32(len(r.wide.slots)) {
			return t.lookup(r.wide.slots[first], k.from(wideBits))
		}
	}
	return t.lookup(r.slot, k)
}

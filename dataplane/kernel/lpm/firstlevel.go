// SPDX-License-Identifier: Apache-2.0

// This file has the first level of DIR-24-8 (bpf/abi.h): slots that are indexed by the first 24 bits of an IPv4 address, before the
// trie. They hold all prefixes of addresses that have a slot; the trie behind the root's slot has the others, and those
// that cover addresses of both kinds. It knows neither BPF nor mappings.

package lpm

const (
	firstLevelBits4 = 24
	firstLevelSlots = 14 << 20 // those of unicast: addresses below 224.0.0.0
)

// A firstLevel is what goes before the slot of a root.
type firstLevel struct {
	number uint32 // under which programs find the slots; not 0
	slots  []uint32
}

// span is which slots a prefix of no more than firstLevelBits4 covers, and whether it covers addresses that have none.
func (w *firstLevel) span(k trieKey, length int) (slots []uint32, beyond bool) {
	first, all := k.top(length)<<(firstLevelBits4-length), uint32(len(w.slots))
	end := first + 1<<(firstLevelBits4-length)
	return w.slots[min(first, all):min(end, all)], end > all
}

// SPDX-License-Identifier: Apache-2.0

// This file empties maps of what is not wanted any more: mostly those of a few entries that
// user space alone writes, such as interfaces and own RLOCs. Where programs write as well
// (heard), an entry may be missed. The map-cache is not among them.

package store

import (
	"errors"

	"github.com/cilium/ebpf"
)

// Prune deletes the entries of m whose keys are not wanted. V is what they hold.
func Prune[K, V any](m *ebpf.Map, wanted func(K) bool) error {
	return errors.Join(PruneFound[K, V](m, wanted))
}

// PruneFound is prune that tells apart what kept it from finding all entries and what from
// deleting those that it found.
func PruneFound[K, V any](m *ebpf.Map, wanted func(K) bool) (finding, deleting error) {
	var key K
	var value V
	var others []K
	iterator := m.Iterate()
	for iterator.Next(&key, &value) {
		if !wanted(key) {
			others = append(others, key)
		}
	}
	return iterator.Err(), deleteAll(m, others)
}

func deleteAll[K any](m *ebpf.Map, keys []K) error {
	var errs []error
	for _, key := range keys {
		if err := m.Delete(key); !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// In reports whether a map has a key.
func In[K comparable, V any](m map[K]V) func(K) bool {
	return func(key K) bool { _, ok := m[key]; return ok }
}

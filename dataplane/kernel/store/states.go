// SPDX-License-Identifier: Apache-2.0

// This file tells which maps there are, and how large they are.

package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
)

// States describes all maps; the forwarding table in force stands as "fib table".
func (s *Store) States() ([]dataplane.MapState, error) {
	all := make([]dataplane.MapState, 0, len(s.maps)+1)
	add := func(name string, m *ebpf.Map) error {
		info, err := m.Info()
		if err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
		octets, _ := info.Memlock()
		all = append(all, dataplane.MapState{Name: name, Type: m.Type().String(), MaxEntries: m.MaxEntries(), Octets: octets})
		return nil
	}
	var errs []error
	for name, m := range s.maps {
		errs = append(errs, add(name, m))
	}
	if s.FIB != nil && s.FIB.table != nil {
		errs = append(errs, add(abi.MapFib+" table", s.FIB.table.m))
	}
	slices.SortFunc(all, func(a, b dataplane.MapState) int { return cmp.Compare(a.Name, b.Name) })
	return all, errors.Join(errs...)
}

// SPDX-License-Identifier: Apache-2.0

// This file implements tables.PathStore: paths outlive the process in a map that programs read for the source check.

package store

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/tables"
)

var _ tables.PathStore = (*Store)(nil)

// PutPath implements tables.PathStore.
func (s *Store) PutPath(at uint32, path tables.SavedPath) error {
	err := s.maps[abi.MapPaths].Put(at, path)
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("%w: paths of %d locators", dataplane.ErrFull, s.maps[abi.MapPaths].MaxEntries())
	}
	if err != nil {
		return fmt.Errorf("path of locator %d: %w", at, err)
	}
	return nil
}

// Path implements tables.PathStore.
func (s *Store) Path(at uint32) (path tables.SavedPath, err error) {
	if err := s.maps[abi.MapPaths].Lookup(at, &path); err != nil {
		return path, fmt.Errorf("path of locator %d: %w", at, err)
	}
	return path, nil
}

// DeletePath implements tables.PathStore.
func (s *Store) DeletePath(at uint32) error {
	if err := s.maps[abi.MapPaths].Delete(at); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("path of locator %d: %w", at, err)
	}
	return nil
}

// PathIndexes implements tables.PathStore.
func (s *Store) PathIndexes() (indexes []uint32, err error) {
	var at uint32
	var path tables.SavedPath
	iterator := s.maps[abi.MapPaths].Iterate()
	for iterator.Next(&at, &path) {
		indexes = append(indexes, at)
	}
	return indexes, iterator.Err()
}

// SPDX-License-Identifier: Apache-2.0

// This file stores what only user space needs, for the process after this one:
// settings, what is known of locators, and the locators that the programs' records
// have no room for. It never interprets them.

package kernel

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
)

const (
	maxSettingsOctets = 1 << 18
	maxLocatorStates  = 1 << 16
	overflowPlaces    = lisp.MaxLocators - maxInstalled
)

// overflowRecord is what stands aside of a set; Family 0 marks an empty place.
type overflowRecord [overflowPlaces]lisptcLispLocator

// putOverflow implements overflow.
func (s *mapStore) putOverflow(index uint32, locators []lisptcLispLocator) error {
	var record overflowRecord
	copy(record[:], locators)
	if err := s.maps[mapOverflow].Put(index, record); err != nil {
		return fmt.Errorf("storing the locators of set %d: %w", index, err)
	}
	return nil
}

// deleteOverflow implements overflow.
func (s *mapStore) deleteOverflow(index uint32) error {
	if err := s.maps[mapOverflow].Delete(index); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("removing the locators of set %d: %w", index, err)
	}
	return nil
}

// overflowOf returns what putOverflow stored.
func (s *mapStore) overflowOf(index uint32) ([]lisptcLispLocator, error) {
	var record overflowRecord
	err := s.maps[mapOverflow].Lookup(index, &record)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the locators of set %d: %w", index, err)
	}
	count := 0
	for count < len(record) && record[count].Family != 0 {
		count++
	}
	return record[:count], nil
}

// saveSettings stores the settings for the next process.
func (s *mapStore) saveSettings(settings dataplane.Settings) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if len(text) > maxSettingsOctets-4 {
		return fmt.Errorf("settings: %w: %d octets, at most %d", dataplane.ErrInvalid, len(text), maxSettingsOctets-4)
	}
	value := make([]byte, maxSettingsOctets)
	binary.BigEndian.PutUint32(value, uint32(len(text)))
	copy(value[4:], text)
	if err := s.maps[mapSettings].Put(uint32(0), value); err != nil {
		return fmt.Errorf("storing the settings: %w", err)
	}
	return nil
}

// savedSettings returns what saveSettings stored, false when it never did.
func (s *mapStore) savedSettings() (settings dataplane.Settings, ok bool, err error) {
	value, err := s.maps[mapSettings].LookupBytes(uint32(0))
	if err != nil {
		return settings, false, fmt.Errorf("reading the settings: %w", err)
	}
	octets := binary.BigEndian.Uint32(value)
	if octets == 0 {
		return settings, false, nil
	}
	if octets > uint32(len(value)-4) {
		return settings, false, fmt.Errorf("reading the settings: length %d of %d", octets, len(value)-4)
	}
	if err := json.Unmarshal(value[4:4+octets], &settings); err != nil {
		return settings, false, fmt.Errorf("reading the settings: %w", err)
	}
	return settings, true, nil
}

// saveState stores what is known of an RLOC.
func (s *mapStore) saveState(rloc lisp.RLOC, state dataplane.LocatorState) error {
	err := s.maps[mapStates].Put(rlocKey(rloc), uint8(state))
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("RLOC %v: %w: %d locator states", rloc, dataplane.ErrFull, maxLocatorStates)
	}
	if err != nil {
		return fmt.Errorf("RLOC %v: %w", rloc, err)
	}
	return nil
}

// savedStates calls yield for all states stored.
func (s *mapStore) savedStates(yield func(lisp.RLOC, dataplane.LocatorState)) error {
	var key lisptcLispRlocKey
	var state uint8
	iterator := s.maps[mapStates].Iterate()
	for iterator.Next(&key, &state) {
		yield(rlocFromKey(key), dataplane.LocatorState(state))
	}
	return iterator.Err()
}

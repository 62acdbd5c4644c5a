// SPDX-License-Identifier: Apache-2.0

// This file stores what only user space needs, for the process after this one:
// settings, and what is known of locators. It never interprets them.

package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

// SaveSettings stores the settings for the next process.
func (s *Store) SaveSettings(settings dataplane.Settings) error {
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
	if err := s.maps[MapSavedSettings].Put(uint32(0), value); err != nil {
		return fmt.Errorf("storing the settings: %w", err)
	}
	return nil
}

// SavedSettings returns what saveSettings stored, false when it never did.
func (s *Store) SavedSettings() (settings dataplane.Settings, ok bool, err error) {
	value, err := s.maps[MapSavedSettings].LookupBytes(uint32(0))
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

// stateOf is the map that has the state of a path, and the key there.
func (s *Store) stateOf(path lisp.Path) (*ebpf.Map, any) {
	if path.IsPlain() {
		return s.maps[MapSavedStates], stateKey(path.RLOC)
	}
	return s.maps[MapPathStates], tables.SavePath(path)
}

func stateKey(r lisp.RLOC) abi.RLOCKey {
	key := abi.KeyOf(r)
	key.Port = abi.NetworkOrder(r.Port())
	return key
}

// SaveState stores what is known of a locator. One that is up is deleted, like one that was never reported: they come and go for years.
func (s *Store) SaveState(path lisp.Path, state dataplane.LocatorState) error {
	m, key := s.stateOf(path)
	if state == dataplane.LocatorUp {
		return deleteAll(m, []any{key})
	}
	err := m.Put(key, uint8(state))
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("locator %v: %w: %d locator states", path, dataplane.ErrFull, maxLocatorStates)
	}
	if err != nil {
		return fmt.Errorf("locator %v: %w", path, err)
	}
	return nil
}

// SavedStates calls yield for the locators that are not up, and removes others, which earlier versions stored. A
// state of a later version is passed over: the locator is used.
func (s *Store) SavedStates(yield func(lisp.Path, dataplane.LocatorState)) error {
	var key abi.RLOCKey
	var state uint8
	var up []abi.RLOCKey
	iterator := s.maps[MapSavedStates].Iterate()
	for iterator.Next(&key, &state) {
		if dataplane.LocatorState(state) == dataplane.LocatorUp {
			up = append(up, key)
			continue
		}
		if s := dataplane.LocatorState(state); s.IsValid() {
			yield(lisp.PathTo(abi.RLOC(key).WithPort(abi.NetworkOrder(key.Port))), s)
		}
	}
	return errors.Join(iterator.Err(), deleteAll(s.maps[MapSavedStates], up), s.savedPathStates(yield))
}

func (s *Store) savedPathStates(yield func(lisp.Path, dataplane.LocatorState)) error {
	var key tables.SavedPath
	var state uint8
	iterator := s.maps[MapPathStates].Iterate()
	for iterator.Next(&key, &state) {
		path, err := key.Path()
		if err != nil {
			return fmt.Errorf("state of a path: %w", err)
		}
		if s := dataplane.LocatorState(state); s.IsValid() {
			yield(path, s)
		}
	}
	return iterator.Err()
}
